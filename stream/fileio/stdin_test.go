package fileio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// pipe makes standard input a pipe for the test.
func pipe(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	old := os.Stdin
	os.Stdin = r
	t.Cleanup(func() {
		os.Stdin = old
		w.Close()
		r.Close()
	})
	return w
}

func TestStdin(t *testing.T) {
	w := pipe(t)
	src := open(t, Options{Codec: "libsvm"}, "-")
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := w.WriteString("1 1:1\n1 2"); err != nil {
		t.Fatal(err)
	}
	recs, err := src.Fetch(ctx, nil)
	if err != nil || len(recs) != 1 || recs[0].Topic != "stdin" || string(recs[0].Value) != "1 1:1" {
		t.Fatalf("%+v, %v", recs, err)
	}
	// The rest of the line does not come: Fetch waits, and ends with ctx.
	done := make(chan error)
	go func() {
		_, err := src.Fetch(ctx, nil)
		done <- err
	}()
	cancel()
	if err := <-done; err != context.Canceled {
		t.Fatal(err)
	}
	// Nothing is lost by it.
	if _, err := w.WriteString(":1\n1 3:1"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	recs = drain(t, src)
	if len(recs) != 2 || string(recs[0].Value) != "1 2:1" || recs[0].Offset != 1 || string(recs[1].Value) != "1 3:1" {
		t.Fatalf("%+v", recs)
	}
}

func TestStdinCompressed(t *testing.T) {
	for _, suffix := range []string{".gz", ".zst", ""} {
		w := pipe(t)
		var b bytes.Buffer
		switch suffix {
		case ".gz":
			z := gzip.NewWriter(&b)
			fmt.Fprint(z, "1 1:1\n")
			z.Close()
		case ".zst":
			z, err := zstd.NewWriter(&b)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(z, "1 1:1\n")
			z.Close()
		default:
			b.WriteString("1 1:1\n")
		}
		if _, err := w.Write(b.Bytes()); err != nil {
			t.Fatal(err)
		}
		w.Close()
		recs := drain(t, open(t, Options{Codec: "libsvm"}, "-"))
		if len(recs) != 1 || string(recs[0].Value) != "1 1:1" || recs[0].Topic != "stdin" {
			t.Errorf("%q: %+v", suffix, recs)
		}
	}
}

// TestStdinLimit checks that no further record is waited for.
func TestStdinLimit(t *testing.T) {
	w := pipe(t)
	src := open(t, Options{Codec: "libsvm", Limit: 1}, "-")
	if _, err := w.WriteString("1 1:1\n"); err != nil {
		t.Fatal(err)
	}
	if recs := drain(t, src); len(recs) != 1 {
		t.Errorf("%+v", recs)
	}
}

func TestStdinOpenCancelled(t *testing.T) {
	pipe(t)
	src := open(t, Options{Codec: "libsvm"}, "-")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := src.Fetch(ctx, nil)
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
