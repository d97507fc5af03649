//go:build unix

package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/twmb/franz-go/pkg/kgo"
)

// benchValues returns n different values of about size bytes.
func benchValues(tb testing.TB, c codec.Codec, n, size int) [][]byte {
	tb.Helper()
	r := rand.New(rand.NewPCG(7, 0))
	values := make([][]byte, n)
	for i := range values {
		ex := stream.Example{Y: float64(2*r.IntN(2) - 1), Labelled: true}
		for j := int32(0); ; j += 1 + int32(r.IntN(4)) {
			// Six decimals, as in most files.
			ex.X.Val = append(ex.X.Val, float32(math.Round(r.NormFloat64()*1e6)/1e6))
			if c.Name() == "libsvm" {
				ex.X.Idx = append(ex.X.Idx, j)
			}
			value, err := c.Append(nil, &ex)
			if err != nil {
				tb.Fatal(err)
			}
			if values[i] = value; len(value) > size-5 {
				break
			}
		}
	}
	return values
}

// BenchmarkIngest takes records of 100 bytes from a broker, four partitions,
// over loopback, decodes them and hands them over through the queue. The
// broker shares the processors unless STREAMSVM_TEST_BROKERS names another. The
// bounds are franz-go taking the same records, which are neither decoded nor kept,
// and as many bytes through a connection over loopback.
func BenchmarkIngest(b *testing.B) {
	const n, size = 1_000_000, 100
	for _, name := range []string{"libsvm", "json", "msgpack"} {
		c, err := codec.New(name, codec.Options{})
		if err != nil {
			b.Fatal(err)
		}
		brokers := kafkatest.Brokers(b)
		topic := kafkatest.Topic(b, brokers, 4, nil)
		cfg := kafkaio.Config{Brokers: brokers}
		p, err := kafkaio.NewProducer(b.Context(), kafkaio.ProducerOptions{Config: cfg, Partition: kafkaio.Explicit})
		if err != nil {
			b.Fatal(err)
		}
		values := benchValues(b, c, 5000, size)
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
		mean := len(bytes.Join(values, nil)) / len(values)
		run := func(what string, f func(b *testing.B)) {
			b.Run(fmt.Sprintf("%s/bytes=%d/%s", name, mean, what), func(b *testing.B) {
				b.ReportAllocs()
				start := processor(b)
				for b.Loop() {
					f(b)
				}
				b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "records/s")
				b.ReportMetric(n*float64(b.N)/(processor(b)-start).Seconds(), "records/cpu-s")
			})
		}
		run("queue", func(b *testing.B) {
			src, err := kafkaio.NewSource(b.Context(), kafkaio.SourceOptions{Config: cfg, Topics: []string{topic}, UntilEnd: true})
			if err != nil {
				b.Fatal(err)
			}
			in := newIngest(src, c, 65536, 64<<20, false)
			go in.run(b.Context())
			got := 0
			for batch := range in.queue {
				for i := range batch.items {
					if batch.items[i].Err != nil {
						b.Fatal(batch.items[i].Err)
					}
				}
				got += len(batch.items)
				in.recycle(batch)
			}
			src.Close()
			if in.err != io.EOF || got != n {
				b.Fatalf("%d records, %v", got, in.err)
			}
		})
		run("franz-go", func(b *testing.B) { takeBare(b, brokers, topic, n) })
		run("loopback", func(b *testing.B) { takeBytes(b, n*mean) })
	}
}

// takeBare reads n records of a topic with four partitions.
func takeBare(b *testing.B, brokers []string, topic string, n int) {
	from := map[int32]kgo.Offset{}
	for p := range int32(4) {
		from[p] = kgo.NewOffset().AtStart()
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	if err != nil {
		b.Fatal(err)
	}
	defer cl.Close()
	for got := 0; got < n; {
		f := cl.PollFetches(b.Context())
		if err := f.Err(); err != nil {
			b.Fatal(err)
		}
		got += f.NumRecords()
	}
}

// takeBytes sends n bytes through a connection over loopback.
func takeBytes(b *testing.B, n int) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		buf := make([]byte, 1<<20)
		for left := n; left > 0; left -= len(buf) {
			if _, err := c.Write(buf[:min(left, len(buf))]); err != nil {
				return
			}
		}
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	buf, got := make([]byte, 1<<20), 0
	for {
		k, err := c.Read(buf)
		if got += k; err == io.EOF {
			break
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	if got != n {
		b.Fatalf("%d bytes of %d", got, n)
	}
}
