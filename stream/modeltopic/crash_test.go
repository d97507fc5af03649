package modeltopic

import (
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestPublisherAfterCrash: a writer that is killed in a transaction leaves it
// open. Its successor undoes it at once, and neither it nor a subscriber waits
// until the brokers give it up, which takes a minute.
func TestPublisherAfterCrash(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Topic(t, brokers, 1, map[string]string{"cleanup.policy": "compact"})
	o := PublisherOptions{Config: config(brokers), Topic: topic, Model: "m", MaxRecordBytes: 900 << 10}
	claim := func(p *Publisher, epoch uint64) {
		t.Helper()
		if err := p.Claim(t.Context(), "owner", epoch); err != nil {
			t.Fatal(err)
		}
	}
	p := publisher(t, o)
	claim(p, 1)
	publish(t, p, update("m", 1, 1, 100))

	k, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.TransactionalID(TransactionalID(topic, "m")), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	if err := k.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	value := chunks(t, o, update("m", 1, 2, 100))[0]
	if err := k.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: value.Key, Value: value.Value}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	k.Close()

	start := time.Now()
	p = publisher(t, o)
	if c, version := p.Last(); c.Epoch != 1 || version != 1 {
		t.Errorf("the topic holds version %d of %+v", version, c)
	}
	claim(p, 2)
	s := subscriber(t, SubscriberOptions{Config: kafkaio.Config{Brokers: brokers, Log: quiet}, Topic: topic, Model: "m"})
	if u := next(t, s); u.Version != 1 {
		t.Errorf("version %d, want 1", u.Version)
	}
	want := update("m", 2, 2, 100)
	publish(t, p, want)
	sameUpdate(t, next(t, s), want)
	if d := time.Since(start); d > 30*time.Second {
		t.Errorf("the successor and its subscriber have taken %v", d)
	}
}
