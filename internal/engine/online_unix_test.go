//go:build unix

package engine

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/internal/testkit/dataset"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/fileio"
)

// rowsOf writes at least n examples of a data set, repeated as needed, to a
// plain libsvm file and to a recording of msgpack values.
func rowsOf(b *testing.B, name string, n int) (text, recording string, rows int) {
	b.Helper()
	src, err := fileio.Open([]string{dataset.Path(b, name)}, fileio.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer src.Close()
	dir := b.TempDir()
	text, recording = filepath.Join(dir, "rows.libsvm"), filepath.Join(dir, "rows"+fileio.RecordingExt)
	from, _ := codec.New("libsvm", codec.Options{})
	to, _ := codec.New("msgpack", codec.Options{})
	var lines, packed [][]byte
	for {
		recs, err := src.Fetch(b.Context(), nil)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			b.Fatal(err)
		}
		for i := range recs {
			var x stream.Example
			if err := from.Decode(recs[i].Value, &x); err != nil {
				b.Fatal(err)
			}
			value, err := to.Append(nil, &x)
			if err != nil {
				b.Fatal(err)
			}
			lines, packed = append(lines, append([]byte(nil), recs[i].Value...)), append(packed, value)
		}
	}
	f, err := os.Create(text)
	if err != nil {
		b.Fatal(err)
	}
	w, err := fileio.CreateRecording(recording)
	if err != nil {
		b.Fatal(err)
	}
	for ; rows < n; rows++ {
		k := rows % len(lines)
		_, err1 := f.Write(append(lines[k], '\n'))
		err2 := w.Write(&stream.Record{Topic: "t", Offset: int64(rows), Time: time.UnixMilli(int64(rows)), Value: packed[k]})
		if err := errors.Join(err1, err2); err != nil {
			b.Fatal(err)
		}
	}
	if err := errors.Join(f.Close(), w.Close(true)); err != nil {
		b.Fatal(err)
	}
	return text, recording, rows
}

// processor returns the processor time that the process has used.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkOnline reads a file, decodes, scores every example and learns from
// it with the online learner: what replay does. On a busy machine the rate for
// each second of processor time says more than that for a second of the clock.
func BenchmarkOnline(b *testing.B) {
	spec, err := registry.Lookup("online")
	if err != nil {
		b.Fatal(err)
	}
	for _, set := range []string{"a9a", "ijcnn1"} {
		text, recording, rows := rowsOf(b, set+".train.libsvm.gz", 400_000)
		for _, c := range []struct{ name, path, codec string }{{"libsvm", text, "libsvm"}, {"recording", recording, "msgpack"}} {
			dec, err := codec.New(c.codec, codec.Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.Run(set+"/"+c.name, func(b *testing.B) {
				b.ReportAllocs()
				began := processor(b)
				for b.Loop() {
					e, err := NewEngine(Config{Spec: spec, Scale: "none"})
					if err != nil {
						b.Fatal(err)
					}
					src, err := fileio.Open([]string{c.path}, fileio.Options{})
					if err != nil {
						b.Fatal(err)
					}
					_, err = Run(b.Context(), e, RunConfig{Source: src, Decoder: dec})
					src.Close()
					if err != nil || e.Counts().Learned != uint64(rows) {
						b.Fatal(err, e.Counts())
					}
				}
				b.ReportMetric(float64(rows)*float64(b.N)/(processor(b)-began).Seconds(), "examples/cpu-s")
				b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "examples/s")
			})
		}
	}
}

// BenchmarkRecording reads recordings of msgpack values, and decodes them for a
// consumer that does nothing.
func BenchmarkRecording(b *testing.B) {
	dec, _ := codec.New("msgpack", codec.Options{})
	_, sparse, rows := rowsOf(b, "a9a.train.libsvm.gz", 400_000)
	dense := filepath.Join(b.TempDir(), "dense"+fileio.RecordingExt)
	w, err := fileio.CreateRecording(dense)
	if err != nil {
		b.Fatal(err)
	}
	for k, it := range randomItems(rows) {
		value, err1 := dec.Append(nil, &it.Example)
		if err := errors.Join(err1, w.Write(&stream.Record{Topic: "t", Offset: int64(k), Time: time.UnixMilli(int64(k)), Value: value})); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(true); err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name, path string
		decode     bool
	}{{"a9a/read", sparse, false}, {"a9a/decode", sparse, true}, {"dense18/read", dense, false}, {"dense18/decode", dense, true}} {
		b.Run(c.name, func(b *testing.B) {
			began := processor(b)
			for b.Loop() {
				src, err := fileio.Open([]string{c.path}, fileio.Options{})
				if err != nil {
					b.Fatal(err)
				}
				n := 0
				if c.decode {
					in := newIngest(src, dec, 4*batchSize, 64<<20, false)
					go in.run(b.Context())
					for batch := range in.queue {
						n += len(batch.items)
						batch.lent = true
						in.recycle(batch)
					}
				} else {
					src.Lend()
					var recs []stream.Record
					for err == nil {
						recs, err = src.Fetch(b.Context(), recs[:0])
						n += len(recs)
					}
				}
				if src.Close(); n != rows {
					b.Fatal(n, err)
				}
			}
			b.ReportMetric(float64(rows)*float64(b.N)/(processor(b)-began).Seconds(), "rows/cpu-s")
		})
	}
}

func randomItems(n int) []Item {
	items, r := make([]Item, n), rand.New(rand.NewPCG(7, 0))
	for i := range items {
		x := make([]float32, 18)
		for j := range x {
			x[j] = float32(r.NormFloat64())
		}
		items[i].Example = stream.Example{X: stream.Vec{Val: x}, Y: float64(2*r.IntN(2) - 1), Labelled: true}
	}
	return items
}
