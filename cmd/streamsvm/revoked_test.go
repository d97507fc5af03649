package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/deadletter"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
)

// TestSecureRevoked: a permission to read that is taken away in mid-run ends the
// run with a message that names the topic; given back, training goes on and
// arrives where it would have arrived. (To the publisher a topic that may no
// longer be seen can look like one that is not there at the moment, for which it
// waits.)
func TestSecureRevoked(t *testing.T) {
	eachCluster(t, func(t *testing.T, s *kafkatest.Secure) {
		for _, what := range []string{"examples"} {
			t.Run(what, func(t *testing.T) {
				base := fmt.Sprintf("revoked-%d", time.Now().UnixNano())
				topic, models := base+"-examples", base+"-models"
				login := []string{"--brokers", s.Listeners["SASL"], "--sasl-mechanism", "scram-sha-256", "--sasl-username", "trainer", "--sasl-password-file", s.PasswordFile}
				state := filepath.Join(t.TempDir(), "state")
				settings := append([]string{"--topics", topic, "--model-topic", models, "--checkpoint", state, "--checkpoint-every", "100", "--checkpoint-interval", "100ms",
					"--learner", "sbp", "--tune=off", "--warmup", "50", "-q"}, login...)
				s.CreateTopic("SASL", topic)
				grants := must(t, append([]string{"config", "acls", "--"}, settings...)...)
				s.Allow("SASL", grants)
				s.Allow("SASL", must(t, append([]string{"config", "acls", "predict", "--", "--predictions-topic", topic}, login...)...))
				generate := func(n, skip int) {
					must(t, append([]string{"generate", "moons", "--count", fmt.Sprint(n), "--skip", fmt.Sprint(skip), "--topic", topic, "-q"}, login...)...)
				}
				generate(400, 0)

				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var code int
				var errText string
				done := make(chan struct{})
				go func() {
					defer close(done)
					code, _, errText = streamsvm(ctx, append([]string{"train"}, settings...)...)
				}()
				if !waitCheckpoints(t, state, 2, done) {
					t.Fatalf("it ends: exit code %d, %s", code, errText)
				}
				var gone string
				for line := range strings.Lines(grants) {
					if strings.Contains(line, base+"-"+what) {
						gone = line
					}
				}
				s.Revoke("SASL", gone)
				generate(400, 400)
				select {
				case <-done:
				case <-time.After(30 * time.Second):
					t.Fatal("it goes on")
				}
				if code != int(cli.Unavailable) || !strings.Contains(errText, base+"-"+what) || !strings.Contains(errText, "not authorized") {
					t.Errorf("exit code %d, %s", code, errText)
				}

				s.Allow("SASL", gone)
				must(t, append([]string{"train", "--until-end"}, settings...)...)
				undisturbed := filepath.Join(t.TempDir(), "undisturbed")
				must(t, append([]string{"train", "--until-end", "--topics", topic, "--checkpoint", undisturbed, "--learner", "sbp", "--tune=off", "--warmup", "50", "-q"}, login...)...)
				got, want := newest(t, state), newest(t, undisturbed)
				if m := got.Meta; m["learned"] != "800" || m["consumed"] != "800" || got.StateHash != want.StateHash {
					t.Errorf("fates are %v, state %s, undisturbed %s", m, got.StateHash, want.StateHash)
				}
			})
		}
	})
}

// TestLettersOfALimitedTopic: a letter that its topic would refuse is shortened,
// says so, and still tells which record it is about.
func TestLettersOfALimitedTopic(t *testing.T) {
	c := newCluster(t)
	topic := c.name()
	kafkatest.Create(t, c.brokers, topic, 1, nil)
	kafkatest.Create(t, c.brokers, topic+".dlq", 1, map[string]string{"max.message.bytes": "1500"})
	long := append([]byte("+1 oops"), bytes.Repeat([]byte("x"), 50_000)...)
	kafkatest.Produce(t, c.brokers,
		stream.Record{Topic: topic, Value: []byte("+1 1:1")},
		stream.Record{Topic: topic, Value: long, Key: []byte("k")},
		stream.Record{Topic: topic, Value: []byte("short")},
		stream.Record{Topic: topic, Value: []byte("-1 1:-1")})
	state := filepath.Join(t.TempDir(), "state")
	c.run(append([]string{"train", "--topics", topic, "--codec", "libsvm", "--labels", "pm1", "--until-end", "--dlq", "--tolerance", "data", "--checkpoint", state}, learn...)...)
	if m := newest(t, state).Meta; m["learned"] != "2" || m["dead"] != "2" {
		t.Errorf("fates are %v", m)
	}
	letters := kafkatest.ReadAll(t, c.brokers, topic+".dlq")
	if len(letters) != 2 {
		t.Fatalf("%d letters, want 2", len(letters))
	}
	for i, r := range letters {
		l, err := deadletter.Parse(&r)
		if err != nil {
			t.Fatal(err)
		}
		if l.Truncated != (i == 0) || l.Offset != int64(1+i) || l.Topic != topic || !bytes.HasPrefix([]byte([]string{string(long), "short"}[i]), r.Value) || len(r.Value) == 0 {
			t.Errorf("letter %d: %+v with %d bytes", i, l, len(r.Value))
		}
	}
}
