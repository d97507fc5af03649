package kafkaio

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/streamsvm/streamsvm/contrib/broker"
	"github.com/streamsvm/streamsvm/internal/testkit/simkit"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestWriteEndsWithItsContext: a write whose records have been sent, but not answered,
// ends when its context does, and with its error.
func TestWriteEndsWithItsContext(t *testing.T) {
	for request, name := range []string{"AddPartitionsToTxn", "Produce", "EndTxn"} {
		t.Run(name, func(t *testing.T) { writeEnds(t, request+1) })
	}
}

// writeEnds leaves the nth request of a write without an answer.
func writeEnds(t *testing.T, n int) {
	synctest.Test(t, func(t *testing.T) {
		network := simkit.NewNetwork(1)
		b, err := broker.Start(broker.Options{Addr: "127.0.0.1:9092", Listen: network.Listen, Dial: network.Host("broker").Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if err := b.Cluster().CreateTopic("x", 1, nil); err != nil {
			t.Fatal(err)
		}
		host := network.Host("writer")
		w, err := NewTransactor(TransactorOptions{Config: Config{Brokers: []string{b.Addr()}, Dial: host.Dial, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}, ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		if err := w.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := w.Write(t.Context(), stream.Record{Topic: "x", Value: []byte("a")}); err != nil {
			t.Fatal(err)
		}
		sent := 0
		host.OnWrite = func([]byte) *simkit.Fault {
			if sent++; sent == n {
				return &simkit.Fault{Part: 1, Stall: time.Hour} // no answer
			}
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		began := time.Now()
		if err := w.Write(ctx, stream.Record{Topic: "x", Value: []byte("b")}); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("it ends after %v", d)
		}
	})
}

// What a write fails with after its context has ended is the context's error, whatever
// the client calls it that it was closed, but not where the brokers have refused.
func TestErrorOfStoppedWrite(t *testing.T) {
	w := &Transactor{}
	live := t.Context()
	stopped, cancel := context.WithCancel(live)
	cancel()
	died := errors.New("the broker connection has died")
	for _, c := range []struct {
		ctx       context.Context
		err, want error
	}{
		{stopped, died, context.Canceled}, {stopped, kgo.ErrClientClosed, context.Canceled}, {stopped, kerr.ProducerFenced, ErrFenced},
		{live, died, died}, {live, kgo.ErrClientClosed, kgo.ErrClientClosed}, {live, kerr.ProducerFenced, ErrFenced},
	} {
		if err := w.failed(c.ctx, c.err); !errors.Is(err, c.want) {
			t.Errorf("%v: %v, want %v", c.err, err, c.want)
		}
	}
}
