package kafkaio

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A group keeps positions and notes, of the partitions committed alone, as
// another client sees them.
func TestGroup(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	a, b := kafkatest.Topic(t, brokers, 2, nil), kafkatest.Topic(t, brokers, 1, nil)
	ps, err := Partitions(t.Context(), config(brokers), []string{a, b}, 0, time.Minute)
	if err != nil || len(ps) != 3 {
		t.Fatal(ps, err)
	}
	name := kafkatest.Name(t, brokers)
	g, err := OpenGroup(config(brokers), name, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if got, err := g.Committed(t.Context(), ps); err != nil || len(got) != 0 {
		t.Fatalf("a group that nobody has used: %v, %v", got, err)
	}
	a1, b0 := stream.Partition{Topic: a, ID: 1}, stream.Partition{Topic: b}
	for _, o := range []stream.Offsets{{a1: 3, b0: 0}, {a1: 4}} {
		if err := g.Commit(t.Context(), o, "note"); err != nil {
			t.Fatal(err)
		}
	}
	want := map[stream.Partition]Position{a1: {4, "note"}, b0: {0, "note"}}
	if got, err := g.Committed(t.Context(), ps); err != nil || !maps.Equal(got, want) {
		t.Fatalf("got %v, %v, want %v", got, err, want)
	}
	if got := kafkatest.Committed(t, brokers, name, a); !maps.Equal(got, stream.Offsets{a1: 4}) {
		t.Errorf("another client sees %v", got)
	}
	if got, err := g.Committed(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("of no partition: %v, %v", got, err)
	}
	if _, err := OpenGroup(config(brokers), "", 0); err == nil {
		t.Error("a group without a name was accepted")
	}
}

// A group with members belongs to them: that is said at once.
func TestGroupWithMembers(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic, name := kafkatest.Topic(t, brokers, 1, nil), kafkatest.Name(t, brokers)
	kafkatest.Produce(t, brokers, stream.Record{Topic: topic, Value: []byte("x")})
	c := kafkatest.Client(t, brokers, kgo.ConsumerGroup(name), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err := c.PollFetches(t.Context()).Err0(); err != nil {
		t.Fatal(err)
	}
	g, err := OpenGroup(config(brokers), name, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if err := g.Commit(t.Context(), stream.Offsets{{Topic: topic}: 1}, ""); err == nil {
		t.Error("committed past the members of the group")
	} else {
		t.Log(err)
	}
}

func TestPartitionsOfNoTopic(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	var unknown *UnknownTopicError
	if ps, err := Partitions(t.Context(), config(brokers), []string{kafkatest.Topic(t, brokers, 1, nil), "no-such-topic"}, 0, time.Minute); !errors.As(err, &unknown) || unknown.Topic != "no-such-topic" {
		t.Errorf("%v, %v", ps, err)
	}
}
