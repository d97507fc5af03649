package kafkaio

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/broker"
	"github.com/streamsvm/streamsvm/internal/testkit/simkit"
	"github.com/streamsvm/streamsvm/stream"
)

// TestWriteEndsWithItsContext: a write whose records have been sent, but not answered,
// because the broker has gone, ends when its context does.
func TestWriteEndsWithItsContext(t *testing.T) {
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
			if sent++; sent == 2 { // the first one adds the partition to the transaction
				return &simkit.Fault{Part: 1, Dead: true}
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
