package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// TestKillBetweenVersionAndAlias: a trainer that is killed when it has published
// a version and is about to promote one promotes it after its restart, and the
// alias never stands for what the topic does not hold.
func TestKillBetweenVersionAndAlias(t *testing.T) {
	t.Setenv("STREAMSVM_TEST_FULL_EVERY", "1")
	c := &cluster{t, kafkatest.Brokers(t)} // not in parallel: of the variable
	topic, dir := kafkatest.Topic(t, c.brokers, 1, nil), t.TempDir()
	c.run("generate", "moons", "--count", "4000", "--topic", topic, "-q")
	cfg := kafkaio.Config{Brokers: c.brokers}
	args := func(models string) []string {
		return append([]string{"train", "--brokers", strings.Join(c.brokers, ","), "--topics", topic, "--until-end", "--checkpoint", filepath.Join(dir, models),
			"--checkpoint-every", "300", "--model-topic", models, "--log-level", "error", "--promote", "champion",
			"--gate", "error <= champion + 0.05; examples >= 500"}, learn...)
	}
	// look returns the versions and, as @VERSION, the promotions in their order, and
	// how many examples each of the versions promoted has learned from: which versions
	// there are depends on time, which model is promoted does not.
	look := func(models string) (list []string, promoted []uint64) {
		t.Helper()
		held, err := modeltopic.Read(t.Context(), modeltopic.ReadOptions{Config: cfg, Topic: models})
		if err != nil {
			t.Fatal(err)
		}
		type place struct {
			at   int64
			text string
		}
		var places []place
		versions := map[uint64]bool{}
		for _, m := range held.Models {
			for _, u := range m.Updates {
				switch m.Name {
				case "model":
					if !versions[u.Version] { // a trainer publishes its last one again
						places = append(places, place{u.First, fmt.Sprint(u.Version)})
					}
					versions[u.Version] = true
				case "model@champion":
					places = append(places, place{u.First, fmt.Sprintf("@%d", u.Version)})
					promoted = append(promoted, u.Examples)
				}
			}
		}
		slices.SortFunc(places, func(a, b place) int { return int(a.at - b.at) })
		for _, p := range places {
			if v, ok := strings.CutPrefix(p.text, "@"); ok && !slices.Contains(list, v) {
				t.Errorf("the alias stands for version %s, which has not come: %v", v, places)
			}
			list = append(list, p.text)
		}
		slices.Sort(promoted)
		return list, promoted
	}

	plain := kafkatest.Topic(t, c.brokers, 1, nil) // all versions stay
	must(t, args(plain)...)
	want, promotions := look(plain)
	// The versions after which a promotion comes.
	var at []uint64
	for i, text := range want[1:] {
		if text[0] == '@' && want[i][0] != '@' {
			var v uint64
			_, _ = fmt.Sscan(want[i], &v)
			at = append(at, v)
		}
	}
	if len(at) < 2 {
		t.Fatalf("fewer than two promotions: %v", want)
	}
	at = at[:2]

	models := kafkatest.Topic(t, c.brokers, 1, nil)
	between := 0
	for k, version := range at {
		p := process(t, args(models)...)
		sub, err := modeltopic.NewSubscriber(t.Context(), modeltopic.SubscriberOptions{Config: cfg, Topic: models, Model: "model", TopicWait: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		for {
			u, err := sub.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if u.Version >= version {
				break
			}
		}
		_ = p.Process.Kill()
		_ = p.Wait() // reports the kill
		sub.Close()
		if _, promoted := look(models); len(promoted) <= k {
			between++
		}
	}
	must(t, args(models)...)
	if got, promoted := look(models); !slices.Equal(promoted, promotions) {
		t.Errorf("promoted after %v examples, without kills %v: %v, %v", promoted, promotions, got, want)
	}
	hash := func(models string) string {
		return decode[updateLine](t, c.run("model", "follow", "--model-topic", models, "--model-name", "model@champion", "--until", "1", "--json")).Hash
	}
	if a, b := hash(plain), hash(models); a != b {
		t.Errorf("the champion is %s, without kills %s", b, a)
	}
	t.Logf("%d of %d kills came between a version and its promotion; %v", between, len(at), want)
}
