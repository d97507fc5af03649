package fileio

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/streamsvm/streamsvm/stream/codec"
)

// blockSize is the number of bytes read at a time; records are slices of such
// blocks.
const blockSize = 64 << 10

// chunks reads a file into blocks that are never overwritten once records refer to
// them, unless they are lent.
type chunks struct {
	r     io.Reader
	buf   []byte // read but not taken yet; its spare capacity is unused
	pos   int64  // position of buf[0] in the decompressed file
	eof   bool
	err   error  // to be returned once the data before it has been taken
	lent  bool   // records are no longer in use when fill is called
	block []byte // the block of buf, if lent
}

// fill reads more, or finds the end of the file.
func (c *chunks) fill() error {
	if cap(c.buf)-len(c.buf) < blockSize/16 {
		// What is left over from a block moves to the next one. A record longer
		// than a block doubles the size each time, so that a byte is copied at most
		// twice on average.
		buf := c.block[:0]
		if n := max(blockSize, 2*len(c.buf)); cap(buf) < n || cap(buf) > 4*n {
			buf = make([]byte, 0, n)
		}
		if c.buf = append(buf, c.buf...); c.lent {
			c.block = c.buf
		}
	}
	for range 100 {
		if c.err != nil {
			return c.err
		}
		n, err := c.r.Read(c.buf[len(c.buf):cap(c.buf)])
		c.buf = c.buf[:len(c.buf)+n]
		if err == io.EOF {
			c.eof = true
			return nil
		}
		if n > 0 {
			c.err = err
			return nil
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// take removes n bytes and returns them.
func (c *chunks) take(n int) []byte {
	b := c.buf[:n:n]
	c.buf = c.buf[n:]
	c.pos += int64(n)
	return b
}

// A splitter finds the end of the first record in data. It returns 0 if data is
// incomplete: the next call gets the same data with more after it. At the end of
// the file eof is set, and no more will come.
type splitter interface {
	split(data []byte, eof bool) (n int, err error)
	// value returns the record's value, nil if what was split off is not a record.
	value(b []byte) []byte
}

// newSplitter returns the splitter for files of the named codec.
func newSplitter(name string) (splitter, error) {
	switch name {
	case "libsvm":
		return &lines{comment: '#'}, nil
	case "json":
		return &lines{}, nil
	case "csv":
		return &lines{quotes: true}, nil
	case "msgpack":
		return &objects{}, nil
	}
	return nil, fmt.Errorf("codec %q is unknown", name)
}

// lines splits text into lines. Blank lines are not records.
type lines struct {
	comment byte // lines that start with it are not records either
	quotes  bool // a line end between double quotes does not count
	seen    int  // how much of data has been scanned
	odd     bool // the scanned bytes have an odd number of quotes
}

func (l *lines) split(data []byte, eof bool) (int, error) {
	for {
		k := bytes.IndexByte(data[l.seen:], '\n')
		end := l.seen + k + 1
		if k < 0 {
			end = len(data)
		}
		if l.quotes && bytes.Count(data[l.seen:end], []byte{'"'})%2 == 1 {
			l.odd = !l.odd
		}
		l.seen = end
		if k < 0 && !eof {
			return 0, nil
		}
		if l.odd && k >= 0 {
			continue
		}
		l.seen, l.odd = 0, false
		return end, nil
	}
}

func (l *lines) value(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] == '\n' {
		b = b[:n-1]
	}
	if n := len(b); n > 0 && b[n-1] == '\r' {
		b = b[:n-1]
	}
	if len(b) > 0 && b[0] > ' ' && b[0] != l.comment {
		return b
	}
	t := bytes.TrimLeft(b, " \t\r")
	if len(t) == 0 || l.comment != 0 && t[0] == l.comment {
		return nil
	}
	return b
}

// objects splits concatenated MessagePack values.
type objects struct{ s codec.MsgpackSplitter }

func (o *objects) split(data []byte, eof bool) (int, error) {
	n, err := o.s.Next(data)
	if errors.Is(err, io.ErrUnexpectedEOF) && !eof {
		return 0, nil
	}
	return n, err
}

func (o *objects) value(b []byte) []byte { return b }
