//go:build unix

package engine

import (
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/internal/testkit/dataset"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/fileio"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
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

// BenchmarkOnlineKafka takes records of 30 dense features from a broker, four
// partitions, over loopback, to the update of the online learner. The broker
// shares the processors unless STREAMSVM_TEST_BROKERS names another.
func BenchmarkOnlineKafka(b *testing.B) {
	const n, dim = 1_000_000, 30
	spec, err := registry.Lookup("online")
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"msgpack", "json"} {
		c, err := codec.New(name, codec.Options{})
		if err != nil {
			b.Fatal(err)
		}
		r := rand.New(rand.NewPCG(7, 0))
		values := make([][]byte, 5000)
		for i := range values {
			x := stream.Example{Y: 1, Labelled: true}
			for range dim {
				// Four decimals, as sensors have them.
				x.X.Val = append(x.X.Val, float32(math.Round(r.NormFloat64()*1e4)/1e4))
			}
			if x.X.Val[0]+x.X.Val[1] < float32(r.NormFloat64()) {
				x.Y = -1
			}
			if values[i], err = c.Append(nil, &x); err != nil {
				b.Fatal(err)
			}
		}
		brokers := kafkatest.Brokers(b)
		topic := kafkatest.Topic(b, brokers, 4, nil)
		cfg := kafkaio.Config{Brokers: brokers}
		p, err := kafkaio.NewProducer(b.Context(), kafkaio.ProducerOptions{Config: cfg, Partition: kafkaio.Explicit})
		if err != nil {
			b.Fatal(err)
		}
		recs := make([]stream.Record, len(values))
		for i := 0; i < n; i += len(recs) {
			for j := range recs {
				recs[j] = stream.Record{Topic: topic, Partition: int32(j % 4), Time: time.UnixMilli(1_700_000_000_000 + int64(i+j)), Value: values[j]}
			}
			if err := p.Produce(b.Context(), recs...); err != nil {
				b.Fatal(err)
			}
		}
		if err := errors.Join(p.Flush(b.Context()), p.Close()); err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			began := processor(b)
			for b.Loop() {
				e, err := NewEngine(Config{Spec: spec, Scale: "none"})
				if err != nil {
					b.Fatal(err)
				}
				src, err := kafkaio.NewSource(b.Context(), kafkaio.SourceOptions{Config: cfg, Topics: []string{topic}, UntilEnd: true})
				if err != nil {
					b.Fatal(err)
				}
				_, err = Run(b.Context(), e, RunConfig{Source: src, Decoder: c})
				src.Close()
				if err != nil || e.Counts().Learned != n {
					b.Fatal(err, e.Counts())
				}
			}
			b.ReportMetric(float64(len(values[0])), "bytes/record")
			b.ReportMetric(float64(n)*float64(b.N)/(processor(b)-began).Seconds(), "examples/cpu-s")
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "examples/s")
		})
	}
}
