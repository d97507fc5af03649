package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
)

// TestTrainPublishesDeltas trains twice on one topic, with deltas and without:
// subscribers of both hold the same model, and are told how it came.
func TestTrainPublishesDeltas(t *testing.T) {
	c := newCluster(t)
	// The model changes less than by half in a small wave, however many of them
	// a slow machine takes in one go.
	waves, total := []int{800, 800, 800, 20, 20, 20, 20, 20, 20, 20, 20}, 0
	topic := kafkatest.Topic(t, c.brokers, 1, nil)
	args := func(models, dir string, more ...string) []string {
		return append(append([]string{"train", "--topics", topic, "--model-topic", models, "--checkpoint", dir,
			"--checkpoint-every", "20", "--brokers", strings.Join(c.brokers, ",")}, learn...), more...)
	}
	deltas := func(models string) (n int) {
		for _, r := range kafkatest.ReadAll(t, c.brokers, models) {
			if strings.HasPrefix(string(r.Key), "model/delta/") {
				n++
			}
		}
		return n
	}
	// This topic is not compacted: the broker would do so after ten seconds, and few deltas be left.
	models, fulls, dir := kafkatest.Topic(t, c.brokers, 1, nil), c.name(), t.TempDir()
	// A version after each wave of examples at least, however slow the broker.
	state := filepath.Join(dir, "deltas")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	code, errText := 0, ""
	go func() {
		code, _, errText = streamsvm(ctx, args(models, state)...)
		close(done)
	}()
	for _, each := range waves {
		before := latest(t, state)
		c.run("generate", "moons", "--count", fmt.Sprint(each), "--skip", fmt.Sprint(total), "--topic", topic, "-q")
		total += each
		if !waitCheckpoints(t, state, before+1, done) {
			break
		}
	}
	cancel()
	if <-done; code != 0 {
		t.Fatalf("exit code %d: %s", code, errText)
	}
	must(t, args(models, state, "--until-end")...)
	// In a process of its own: tests that run beside this one read the variable.
	p := process(t, args(fulls, filepath.Join(dir, "fulls"), "--until-end")...)
	p.Env = append(p.Env, "STREAMSVM_TEST_FULL_EVERY=1")
	if err := p.Run(); err != nil {
		t.Fatal(err)
	}
	if deltas(fulls) != 0 || deltas(models) == 0 {
		t.Errorf("%d deltas with fullEvery = 1, %d by default", deltas(fulls), deltas(models))
	}
	one := func(models string) updateLine {
		return decode[updateLine](t, c.run("model", "follow", "--model-topic", models, "--until", "1", "--json"))
	}
	a, b := one(models), one(fulls)
	if a.Hash != b.Hash || a.Bytes != b.Bytes || a.Examples != uint64(total) {
		t.Errorf("with deltas %+v, without %+v", a, b)
	}
	if b.Received.Deltas != 0 || a.Received.Fulls == 0 || a.Received.Deltas == 0 || a.Received.Bytes == 0 {
		t.Errorf("received %+v with deltas, %+v without", a.Received, b.Received)
	}
	text := c.run("model", "follow", "--model-topic", models, "--until", "1")
	if !strings.Contains(text, " full and ") {
		t.Errorf("model follow prints %q", text)
	}
	// Going on publishes a full first, which late joiners find.
	must(t, args(models, state, "--until-end")...)
	// The brokers answer before everybody can read a transaction.
	until(t, "another epoch", func() bool { return one(models).Epoch > a.Epoch })
	if again := one(models); again.Hash != a.Hash || again.Epoch <= a.Epoch || again.Received.Deltas == a.Received.Deltas && again.Received.Fulls == a.Received.Fulls {
		t.Errorf("after another start %+v, before %+v", again, a)
	}
}
