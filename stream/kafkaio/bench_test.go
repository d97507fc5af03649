package kafkaio

import (
	"bytes"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
)

// load writes n records of size bytes, with increasing timestamps, to the four
// partitions in turn.
func load(b *testing.B, p *Producer, topic string, n, size int) {
	value := bytes.Repeat([]byte("x"), size)
	recs := make([]stream.Record, 1000)
	for i := 0; i < n; i += len(recs) {
		for j := range recs {
			recs[j] = stream.Record{Topic: topic, Partition: int32(j % 4), Time: time.UnixMilli(1_700_000_000_000 + int64(i+j)), Value: value}
		}
		if err := p.Produce(b.Context(), recs...); err != nil {
			b.Fatal(err)
		}
	}
	if err := p.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSource reads four partitions over loopback; the broker shares the
// processors.
func BenchmarkSource(b *testing.B) {
	for _, size := range []int{100, 1000} {
		n := 100_000_000 / size
		brokers := kafkatest.Brokers(b)
		topic := kafkatest.Topic(b, brokers, 4, nil)
		load(b, produce(b, ProducerOptions{Config: config(brokers), Partition: Explicit}), topic, n, size)
		for _, merge := range []Merge{MergeArrival, MergeOrdered} {
			b.Run(fmt.Sprintf("bytes=%d/%s", size, merge), func(b *testing.B) {
				b.ReportAllocs()
				var buf []stream.Record
				for b.Loop() {
					s, err := NewSource(b.Context(), SourceOptions{Config: config(brokers), Topics: []string{topic}, Merge: merge, UntilEnd: true})
					if err != nil {
						b.Fatal(err)
					}
					got := 0
					for err == nil {
						buf, err = s.Fetch(b.Context(), buf[:0])
						got += len(buf)
					}
					s.Close()
					if err != io.EOF || got != n {
						b.Fatalf("%d records, %v", got, err)
					}
				}
				b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
			})
		}
	}
}

// BenchmarkProducer writes to four partitions over loopback.
func BenchmarkProducer(b *testing.B) {
	for _, size := range []int{100, 1000} {
		b.Run(fmt.Sprint("bytes=", size), func(b *testing.B) {
			n := 20_000_000 / size
			brokers := kafkatest.Brokers(b)
			topic := kafkatest.Topic(b, brokers, 4, nil)
			p := produce(b, ProducerOptions{Config: config(brokers), Partition: Explicit})
			b.ReportAllocs()
			for b.Loop() {
				load(b, p, topic, n, size)
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
