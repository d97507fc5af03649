package deadletter

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/streamsvm/streamsvm/contrib/broker"
	"github.com/streamsvm/streamsvm/contrib/statetopic"
	"github.com/streamsvm/streamsvm/internal/testkit/simkit"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// An outage during which a dead letter waits ends nothing, also where the checkpoints
// that the job belongs to are on the brokers that do not answer.
func TestOutage(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		network := simkit.NewNetwork(1)
		start := func() *broker.Broker {
			b, err := broker.Start(broker.Options{Addr: "127.0.0.1:9092", DataDir: dir, Listen: network.Listen, Dial: network.Host("broker").Dial})
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		b := start()
		if err := b.Cluster().CreateTopic("in", 1, nil); err != nil {
			t.Fatal(err)
		}
		log := slog.New(slog.DiscardHandler)
		cfg := kafkaio.Config{Brokers: []string{b.Addr()}, Dial: network.Host("trainer").Dial, Log: log}
		state, err := statetopic.Open(t.Context(), statetopic.Options{Config: cfg, Topic: "state", Name: "m"})
		if err != nil {
			t.Fatal(err)
		}
		defer state.Close()
		if _, err := state.Claim(t.Context()); err != nil {
			t.Fatal(err)
		}
		q, err := Open(t.Context(), Options{Config: cfg, Topics: []string{"in"}, Suffix: ".dlq", Log: log, ID: state.ID(), Lease: state.Check})
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		b.Close()
		r := &stream.Record{Topic: "in", Value: []byte("bad")}
		if err := q.Send(t.Context(), r, stream.At(r, &stream.FieldError{Stage: stream.StageDecode, Reason: stream.ReasonSyntax, Err: errors.New("bad")})); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute) // of virtual time
		b = start()
		defer b.Close()
		if err := q.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		n := 0
		_, _, err = kafkaio.ReadAll(t.Context(), kafkaio.SourceOptions{Config: cfg, Topics: []string{"in.dlq"}}, func(*stream.Record) { n++ })
		if err != nil || n != 1 {
			t.Errorf("%d dead letters, %v", n, err)
		}
	})
}
