package kafkaio

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/twmb/franz-go/pkg/kfake"
)

// Credentials reach the broker, wrong ones are refused, and neither log nor
// error tells them. They are sent as they are: SASLprep would leave out the soft
// hyphen and make IX of the numeral, which Apache Kafka does not.
func TestAuthentication(t *testing.T) {
	c := kafkatest.Fake(t, kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "user", "right-secret\u00ad\u2168"), kfake.SeedTopics(1, "t"))
	var log bytes.Buffer
	login := func(password string) Config {
		return Config{Brokers: c.ListenAddrs(), SASL: ScramSHA256("user", password), Log: slog.New(slog.NewTextHandler(&log, nil))}
	}
	p := produce(t, ProducerOptions{Config: login("right-secret\u00ad\u2168")})
	want := rec("t", 0, 1, "x")
	if err := p.Produce(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := open(t, SourceOptions{Config: login("right-secret\u00ad\u2168"), Topics: []string{"t"}, UntilEnd: true})
	sameOrder(t, take(t, s, -1), []stream.Record{want})
	_, err := NewSource(t.Context(), SourceOptions{Config: login("wrong-secret"), Topics: []string{"t"}, MaxDown: 100 * time.Millisecond})
	if err == nil {
		t.Fatal("a wrong password is good enough")
	}
	if text := log.String() + err.Error(); strings.Contains(text, "-secret") {
		t.Errorf("a password is told: %s", text)
	}
}
