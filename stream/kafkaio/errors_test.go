package kafkaio

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Partition 0 is one like the others; a topic has the number -1.
func TestUnknownTopicSays(t *testing.T) {
	for partition, want := range map[int32]string{
		-1: "kafka: topic t does not exist", 0: "kafka: topic t has no partition 0", 7: "kafka: topic t has no partition 7",
	} {
		if got := (&UnknownTopicError{Topic: "t", Partition: partition}).Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A broker that fails to say where a topic begins or ends is asked again: else
// the topic would be taken for an empty one.
func TestOffsetsAreAskedForAgain(t *testing.T) {
	for failing := range 3 {
		c := kafkatest.Fake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
		want := fill(t, c.ListenAddrs(), "t", 1, 20)
		asked := 0
		c.ControlKey(int16(kmsg.ListOffsets), func(kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			asked++
			return nil, errors.New("the connection is cut"), asked == failing
		})
		s := open(t, SourceOptions{Config: config(c.ListenAddrs()), Topics: []string{"t"}, UntilEnd: true})
		same(t, take(t, s, -1), want)
		if asked < failing {
			t.Errorf("%d requests, want %d", asked, failing)
		}
		s.Close()
	}
}

// Options that are wrong are an error of every call that takes some.
func TestWrongOptions(t *testing.T) {
	ctx, cfg := t.Context(), Config{} // no brokers
	for call, do := range map[string]func(context.Context) error{
		"NewSource": func(ctx context.Context) error {
			_, err := NewSource(ctx, SourceOptions{Config: cfg, Topics: []string{"t"}})
			return err
		},
		"Partitions": func(ctx context.Context) error { _, err := Partitions(ctx, cfg, []string{"t"}, 0, 0); return err },
		"Bounds":     func(ctx context.Context) error { _, _, err := Bounds(ctx, cfg, nil, time.Nanosecond); return err },
		"TopicIDs":   func(ctx context.Context) error { _, err := TopicIDs(ctx, cfg, []string{"t"}, 0); return err },
		"CreateTopic": func(ctx context.Context) error {
			_, err := CreateTopic(ctx, cfg, TopicSpec{Name: "t", Partitions: 1})
			return err
		},
	} {
		if err := do(ctx); err == nil {
			t.Errorf("%s without a broker gives no error", call)
		}
	}
}

// What is not given has a default that does not spin.
func TestDefaults(t *testing.T) {
	var o SourceOptions
	o.setDefaults()
	if min(o.Lateness, o.MaxWait, o.Discover) <= 0 || o.FetchMaxBytes <= 0 || o.MaxBuffered <= 0 || o.Start == "" || o.OutOfRange == "" || o.Merge == "" {
		t.Errorf("%+v", o)
	}
}

// A reader over its quota waits for as long as it is told to, and takes nothing
// for a trouble.
func TestSourceThrottled(t *testing.T) {
	c := kafkatest.Fake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	kafkatest.Produce(t, c.ListenAddrs(), rec("t", 0, 1, "x"))
	const told = 300 * time.Millisecond
	var log bytes.Buffer
	c.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		resp.ThrottleMillis = int32(told.Milliseconds())
		return resp, nil, true // this once
	})
	start := time.Now()
	cfg := Config{Brokers: c.ListenAddrs(), Log: slog.New(slog.NewTextHandler(&log, nil))}
	s := open(t, SourceOptions{Config: cfg, Topics: []string{"t"}, UntilEnd: true})
	if got := take(t, s, -1); len(got) != 1 || time.Since(start) < told {
		t.Errorf("%d records after %v", len(got), time.Since(start))
	}
	s.Close()
	if log.Len() > 0 {
		t.Errorf("it says %s", log.String())
	}
}
