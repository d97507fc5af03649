package modeltopic

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsvm/streamsvm/algos/model"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
)

// batchSizes adds up what batches have on the wire and what is in them.
type batchSizes struct {
	mu                sync.Mutex
	gzip, other       int
	compressed, plain int
}

// OnFetchBatchRead implements kgo.HookFetchBatchRead.
func (b *batchSizes) OnFetchBatchRead(_ kgo.BrokerMetadata, _ string, _ int32, m kgo.FetchBatchMetrics) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.compressed += m.CompressedBytes
	b.plain += m.UncompressedBytes
	if m.CompressionType == 1 {
		b.gzip++
	} else {
		b.other++
	}
}

// Models travel and lie in the brokers compressed: support vectors with few
// features that are not 0 take a quarter of their bytes or less, in one chunk or
// many, and arrive as they were. What gzip cannot shorten is sent as it is.
func TestModelTopicGzip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	rows, coef := make([]stream.Vec, 3000), make([]float64, 3000)
	for i := range rows {
		var x stream.Vec
		for len(x.Idx) < 12 {
			if k := int32(r.IntN(300)); !slices.Contains(x.Idx, k) {
				x.Idx, x.Val = append(x.Idx, k), append(x.Val, 1)
			}
		}
		slices.Sort(x.Idx)
		rows[i], coef[i] = x, []float64{8, -8, 8 * r.Float64()}[i%3]
	}
	m, err := model.NewExpansion(model.Kernel{Name: "rbf", Gamma: 0.1}, rows, coef, 0)
	if err != nil {
		t.Fatal(err)
	}
	data, err := m.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, record := range map[string]int{"one chunk": 0, "chunks": 50_000} {
		t.Run(name, func(t *testing.T) {
			brokers := kafkatest.Brokers(t)
			topic := kafkatest.Name(t, brokers)
			u := update("m", 1, 1, 0)
			u.Payload, u.Hash = data, xxhash.Sum64(data)
			publish(t, publisher(t, PublisherOptions{Config: config(brokers), Topic: topic, Model: "m", MaxRecordBytes: record}), u)
			sameUpdate(t, next(t, subscriber(t, SubscriberOptions{Config: config(brokers), Topic: topic})), u)

			seen := &batchSizes{}
			c := kafkatest.Client(t, brokers, kgo.ConsumeTopics(topic), kgo.WithHooks(seen))
			for plain := 0; plain < len(data); {
				c.PollFetches(t.Context()).EachRecord(func(r *kgo.Record) { plain += len(r.Value) })
				if err := t.Context().Err(); err != nil {
					t.Fatal(err)
				}
			}
			seen.mu.Lock()
			defer seen.mu.Unlock()
			t.Logf("%d bytes of %d, %d batches with gzip, %d without", seen.compressed, len(data), seen.gzip, seen.other)
			if seen.gzip == 0 || 4*seen.compressed > len(data) {
				t.Errorf("%d bytes of a model of %d in %d batches with gzip, %d without", seen.compressed, len(data), seen.gzip, seen.other)
			}
		})
	}
}
