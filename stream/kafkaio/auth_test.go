package kafkaio

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/sasl/scram"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/twmb/franz-go/pkg/kfake"
)

// Credentials reach the broker, wrong ones are refused, and neither log nor
// error tells them.
func TestAuthentication(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "user", "right-secret"), kfake.SeedTopics(1, "t"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var log bytes.Buffer
	login := func(password string) Config {
		m, err := scram.Mechanism(scram.SHA256, "user", password)
		if err != nil {
			t.Fatal(err)
		}
		return Config{Brokers: c.ListenAddrs(), SASL: m, Log: slog.New(slog.NewTextHandler(&log, nil))}
	}
	p := produce(t, ProducerOptions{Config: login("right-secret")})
	want := rec("t", 0, 1, "x")
	if err := p.Produce(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := open(t, SourceOptions{Config: login("right-secret"), Topics: []string{"t"}, UntilEnd: true})
	sameOrder(t, take(t, s, -1), []stream.Record{want})
	_, err = NewSource(t.Context(), SourceOptions{Config: login("wrong-secret"), Topics: []string{"t"}, MaxDown: 100 * time.Millisecond})
	if err == nil {
		t.Fatal("a wrong password is good enough")
	}
	if text := log.String() + err.Error(); strings.Contains(text, "-secret") {
		t.Errorf("a password is told: %s", text)
	}
}
