// Package lettertest creates dead-letter topics for tests.
package lettertest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/deadletter"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
)

// About returns a dead letter about the record at an offset of partition 1 of the
// topic, sent so many seconds after a fixed time.
func About(topic string, offset int64, reason stream.Reason, value string, limit int) stream.Record {
	rec := stream.Record{Topic: topic, Partition: 1, Offset: offset, Time: time.UnixMilli(1_700_000_000_000 + offset), Key: fmt.Appendf(nil, "k%d", offset),
		Value: []byte(value), Headers: []stream.Header{{Key: "trace", Value: []byte("abc")}}}
	why := &stream.RecordError{Topic: topic, Partition: 1, Offset: offset, Stage: stream.StageDecode, Reason: reason, Field: "x[1]", Err: errors.New("bad\x1b[2J")}
	out := deadletter.New(&rec, why, ".dlq", time.Now(), limit)
	out.Partition = 0
	return out
}

// Topic creates a topic of n records, and a topic with a dead letter about each,
// with increasing values.
func Topic(t testing.TB, brokers []string, n int) (topic, dead string) {
	t.Helper()
	topic = kafkatest.Topic(t, brokers, 2, nil)
	dead = topic + ".dlq"
	kafkatest.Create(t, brokers, dead, 3, nil)
	t.Cleanup(func() { kafkatest.Delete(t, brokers, dead) })
	var letters []stream.Record
	for i := range n {
		l := About(topic, int64(i), stream.Reasons()[i%4], fmt.Sprintf("v%d", i), 1<<20)
		l.Partition, l.Time = int32(i%3), time.UnixMilli(1_750_000_000_000+int64(i))
		letters = append(letters, l)
	}
	kafkatest.Produce(t, brokers, letters...)
	return topic, dead
}

// Came counts the values in the topic: how many are there twice, and how many of n
// are missing.
func Came(t testing.TB, brokers []string, topic string, n int) (twice, missing int) {
	t.Helper()
	seen := map[string]int{}
	for _, r := range kafkatest.ReadAll(t, brokers, topic) {
		seen[string(r.Value)]++
	}
	for i := range n {
		switch k := seen[fmt.Sprintf("v%d", i)]; {
		case k == 0:
			missing++
		case k > 1:
			twice += k - 1
		}
	}
	return twice, missing
}
