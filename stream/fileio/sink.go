package fileio

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// Writer writes examples to a data file. It is used by one goroutine at a
// time.
type Writer struct {
	path string
	enc  codec.Codec
	text bool // one line per example
	f    *os.File
	b    *bufio.Writer
	z    io.WriteCloser // the compressor between b and f; nil if there is none
	buf  []byte
	err  error
}

// Create creates or truncates the data file at path, compressed if path ends in .gz
// or .zst, and writes the codec's header if it has one. "-" is standard output.
func Create(path string, enc codec.Codec) (*Writer, error) {
	w := &Writer{path: path, enc: enc, text: enc.Name() != "msgpack", f: os.Stdout}
	if path != stdin {
		f, err := os.Create(path)
		if err != nil {
			return nil, fmt.Errorf("fileio: %w", err)
		}
		w.f = f
	}
	var out io.Writer = w.f
	switch compression(path) {
	case ".gz":
		w.z = gzip.NewWriter(w.f)
		out = w.z
	case ".zst":
		z, err := zstd.NewWriter(w.f, zstd.WithEncoderConcurrency(1))
		if err != nil {
			w.f.Close()
			return nil, fmt.Errorf("fileio: %s: %w", path, err)
		}
		w.z = z
		out = z
	}
	w.b = bufio.NewWriterSize(out, blockSize)
	if h := enc.Header(); h != nil {
		if err := w.WriteValue(h); err != nil {
			w.Close()
			return nil, err
		}
	}
	return w, nil
}

// Write writes one example. After a failed write to the file every further one
// fails; an example that the codec refuses does no harm.
func (w *Writer) Write(ex *stream.Example) error {
	if w.err != nil {
		return w.err
	}
	b, err := w.enc.Append(w.buf[:0], ex)
	if err != nil {
		return fmt.Errorf("fileio: %s: %w", w.path, err)
	}
	w.buf = b
	return w.write(b)
}

// WriteValue writes an encoded value. A text must be a single, nonblank line.
func (w *Writer) WriteValue(value []byte) error {
	if w.err != nil {
		return w.err
	}
	if w.text {
		value = bytes.TrimSuffix(value, []byte("\n"))
		if len(bytes.TrimSpace(value)) == 0 || bytes.IndexByte(value, '\n') >= 0 {
			return fmt.Errorf("fileio: %s: the value is not one line of text", w.path)
		}
	}
	return w.write(value)
}

func (w *Writer) write(value []byte) error {
	_, err := w.b.Write(value)
	if err == nil && w.text {
		err = w.b.WriteByte('\n')
	}
	if err != nil {
		w.err = fmt.Errorf("fileio: %s: %w", w.path, err)
	}
	return w.err
}

// Flush passes what has been written to the operating system or, if the file is
// compressed, to the compressor.
func (w *Writer) Flush() error {
	if w.err == nil {
		if err := w.b.Flush(); err != nil {
			w.err = fmt.Errorf("fileio: %s: %w", w.path, err)
		}
	}
	return w.err
}

// Close ends the file. The data is complete only if it returns nil. Standard output
// stays open.
func (w *Writer) Close() error {
	if w.f == nil {
		return nil
	}
	err := w.Flush()
	if w.z != nil {
		err = errors.Join(err, w.z.Close())
	}
	if w.f != os.Stdout {
		err = errors.Join(err, w.f.Close())
	}
	w.f = nil
	if w.err == nil {
		w.err = fmt.Errorf("fileio: %s: the writer is closed", w.path)
	}
	return err
}
