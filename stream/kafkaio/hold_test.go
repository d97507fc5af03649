package kafkaio

import (
	"io"
	"os"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	"github.com/streamsvm/streamsvm/contrib/broker"
	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/internal/testkit/simkit"
	"github.com/streamsvm/streamsvm/stream"
)

// Once a panic ends the process, a Session commits nothing more. A panic that ends
// the process needs one of its own.
func TestSessionHolds(t *testing.T) {
	const child, held = "STREAMSVM_TEST_HOLDS", 7
	if os.Getenv(child) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSessionHolds$")
		cmd.Env, cmd.Dir = append(os.Environ(), child+"=1"), t.TempDir()
		if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != held {
			t.Errorf("exit code %d\n%s", cmd.ProcessState.ExitCode(), out)
		}
		return
	}
	synctest.Test(t, func(t *testing.T) {
		network := simkit.NewNetwork(1)
		b, err := broker.Start(broker.Options{Addr: "127.0.0.1:9092", Listen: network.Listen, Dial: network.Host("broker").Dial})
		if err != nil {
			t.Fatal(err)
		}
		for _, topic := range []string{"in", "out"} {
			if err := b.Cluster().CreateTopic(topic, 1, nil); err != nil {
				t.Fatal(err)
			}
		}
		cfg := config([]string{b.Addr()})
		cfg.Dial = network.Host("member").Dial
		p, err := NewProducer(t.Context(), ProducerOptions{Config: cfg})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Produce(t.Context(), stream.Record{Topic: "in", Value: []byte("1")}); err != nil {
			t.Fatal(err)
		}
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		s, err := NewSession(t.Context(), SessionOptions{Config: cfg, Topics: []string{"in"}, Group: "g"})
		if err != nil {
			t.Fatal(err)
		}
		if recs, err := s.Fetch(t.Context(), nil); err != nil || len(recs) != 1 {
			t.Fatal(recs, err)
		}
		ending := make(chan struct{})
		crash.Install("test", io.Discard, func() {
			close(ending)
			select {}
		})
		crash.Go(func() { panic("a defect") })
		<-ending
		go func() {
			ok, err := s.Commit(t.Context(), stream.Record{Topic: "out", Value: []byte("2")})
			t.Log("Commit returns", ok, err)
			os.Exit(1)
		}()
		time.Sleep(time.Minute) // of virtual time
		os.Exit(held)
	})
}
