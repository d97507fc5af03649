package fileio

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// dataFile reads the records of a data file.
type dataFile struct {
	chunks
	splitter
	f      *file
	path   string
	topic  string
	offset int64
	header bool // the next record is a header
	told   func(path string, header []byte) error
	limit  int
}

func openData(ctx context.Context, path string, o *Options) (*dataFile, error) {
	name, err := o.codec(path)
	if err != nil {
		return nil, err
	}
	sp, err := newSplitter(name)
	if err != nil {
		return nil, fmt.Errorf("fileio: %w", err)
	}
	f, err := openFile(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("fileio: %w", err)
	}
	return &dataFile{
		chunks: chunks{r: f}, splitter: sp, f: f, path: path, topic: topicOf(path),
		header: o.Header && name == "csv", told: o.OnHeader, limit: o.limit,
	}, nil
}

// at implements input.
func (d *dataFile) at() (int64, error) { return d.f.raw.Seek(0, io.SeekCurrent) }

// lend implements input.
func (d *dataFile) lend() { d.lent = true }

func (d *dataFile) Close() error { return d.f.Close() }

// read implements input.
func (d *dataFile) read(ctx context.Context, dst []stream.Record) ([]stream.Record, error) {
	d.f.use(ctx)
	n := len(dst)
	for {
		for len(d.buf) > 0 {
			pos := d.pos
			v, ok, err := d.next()
			if err != nil && len(dst) > n {
				break // found again once the records before it have been delivered
			}
			if err != nil {
				return dst, fmt.Errorf("fileio: %s record %d at byte %d: %w", d.path, d.offset, pos, err)
			}
			if !ok {
				break
			}
			if v == nil {
				continue
			}
			dst = append(dst, stream.Record{})
			r := &dst[len(dst)-1] // in place: a copy would take several times as long
			r.Topic, r.Offset, r.Value = d.topic, d.offset, v
			d.offset++
		}
		if len(dst) > n {
			return dst, nil
		}
		if d.eof {
			return dst, io.EOF
		}
		if err := d.fill(); err != nil {
			if err == ctx.Err() {
				return dst, err
			}
			return dst, fmt.Errorf("fileio: %s record %d, after byte %d: %w", d.path, d.offset, d.pos+int64(len(d.buf)), err)
		}
	}
}

// next takes the next piece of the file if all of it has been read. value is nil if
// the piece is not a record of the stream.
func (d *dataFile) next() (value []byte, ok bool, err error) {
	size, err := d.split(d.buf, d.eof)
	if err != nil {
		return nil, false, err
	}
	if size > d.limit || size == 0 && len(d.buf) > d.limit {
		return nil, false, fmt.Errorf("longer than %d bytes", d.limit)
	}
	if size == 0 {
		return nil, false, nil
	}
	first := d.pos == 0
	b := d.take(size)
	if first {
		b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	}
	value = d.value(b)
	if value != nil && d.header {
		d.header = false
		if d.told != nil {
			err = d.told(d.path, value)
		}
		value = nil
	}
	return slices.Clip(value), true, err
}

// Header returns the first record of the csv file at path, for codec.ParseHeader.
// Standard input cannot be inspected beforehand.
func Header(path string) ([]byte, error) {
	recs, err := Lines(path, 1)
	if err == nil && len(recs) == 0 {
		err = fmt.Errorf("fileio: %s is empty, want a header", path)
	}
	if err != nil {
		return nil, err
	}
	return recs[0], nil
}

// Lines returns the first n records of the csv file at path, or all of a shorter
// one.
func Lines(path string, n int) (lines [][]byte, err error) {
	if path == stdin {
		return nil, fmt.Errorf("fileio: the header of standard input cannot be read beforehand: name its columns")
	}
	if n < 0 {
		return nil, fmt.Errorf("fileio: %d lines of %s, want 0 or more", n, path)
	}
	o := Options{Codec: "csv", limit: codec.MaxValueBytes}
	ctx := context.Background()
	d, err := openData(ctx, path, &o)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var recs []stream.Record
	for len(recs) < n {
		if recs, err = d.read(ctx, recs); err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	for i := range recs[:min(n, len(recs))] {
		lines = append(lines, recs[i].Value)
	}
	return lines, nil
}
