package fileio

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/streamsvm/streamsvm/internal/crash"
)

// maxWindow bounds the window size that a zstd stream can require; `zstd --long`
// uses this much.
const maxWindow = 128 << 20

// compression returns the suffix that says how the file called name is compressed,
// "" if it is not.
func compression(name string) string {
	switch lower := strings.ToLower(name); {
	case strings.HasSuffix(lower, ".gz"):
		return ".gz"
	case strings.HasSuffix(lower, ".zst"):
		return ".zst"
	}
	return ""
}

// file is an open file, or standard input, decompressed.
type file struct {
	io.Reader
	raw  *os.File
	wait *waiter // nil for a regular file
	zst  *zstd.Decoder
}

// openFile opens the file at path, "-" being standard input. It decompresses the
// file according to its suffix or, without one, according to its first bytes.
func openFile(ctx context.Context, path string) (*file, error) {
	f := &file{raw: os.Stdin}
	if path != stdin {
		raw, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		f.raw = raw
	}
	f.Reader = f.raw
	info, err := f.raw.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s: is a directory", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	if !info.Mode().IsRegular() {
		f.wait = &waiter{r: f.raw, ctx: ctx, done: make(chan result, 1)}
		f.Reader = f.wait
	}
	how := compression(path)
	if path == stdin {
		b := bufio.NewReaderSize(f.Reader, blockSize)
		f.Reader = b
		if how, err = sniff(b); err != nil {
			f.Close()
			return nil, err
		}
	}
	switch how {
	case ".gz":
		f.Reader, err = gzip.NewReader(f.Reader)
	case ".zst":
		// Decode on the calling goroutine only.
		f.zst, err = zstd.NewReader(f.Reader, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		f.Reader = f.zst
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w: its name says that it is compressed: rename it if it is not", path, err)
	}
	return f, nil
}

// sniff detects how the contents of b are compressed. No text and no MessagePack
// map starts with these bytes.
func sniff(b *bufio.Reader) (string, error) {
	for n := 1; n <= 4; n++ {
		head, err := b.Peek(n)
		if err == io.EOF {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		switch {
		case bytes.Equal(head, []byte{0x1f, 0x8b}):
			return ".gz", nil
		case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
			return ".zst", nil
		// Look no further than necessary: the second byte may be long in coming.
		case n == 1 && head[0] != 0x1f && head[0] != 0x28:
			return "", nil
		}
	}
	return "", nil
}

// use makes blocking reads end with ctx.
func (f *file) use(ctx context.Context) {
	if f.wait != nil {
		f.wait.ctx = ctx
	}
}

// Close closes the file, but leaves standard input open.
func (f *file) Close() error {
	if f.zst != nil {
		f.zst.Close()
	}
	if f.raw == os.Stdin {
		return nil
	}
	return f.raw.Close()
}

// waiter reads from a pipe or a terminal, where a read may block forever, on its
// own goroutine, so that the caller can stop waiting. Nothing is lost by that: the
// next Read takes what arrived in between.
type waiter struct {
	r       io.Reader
	ctx     context.Context
	done    chan result
	reading bool
	buf     []byte // belongs to the goroutine while reading is true
	rest    []byte
	err     error
}

type result struct {
	n   int
	err error
}

func (w *waiter) Read(p []byte) (int, error) {
	if len(w.rest) == 0 && w.err == nil {
		if !w.reading {
			if w.buf == nil {
				w.buf = make([]byte, blockSize)
			}
			w.reading = true
			crash.Go(func() {
				n, err := w.r.Read(w.buf)
				w.done <- result{n, err}
			})
		}
		select {
		case r := <-w.done:
			w.reading = false
			w.rest, w.err = w.buf[:r.n], r.err
		case <-w.ctx.Done():
			return 0, w.ctx.Err()
		}
	}
	if len(w.rest) == 0 {
		return 0, w.err
	}
	n := copy(p, w.rest)
	w.rest = w.rest[n:]
	return n, nil
}
