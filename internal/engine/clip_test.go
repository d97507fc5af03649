package engine

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/algos/registry"
)

// TestClipped lets a feature leave the range of the warm-up: what was clipped is
// counted, told once, and part of the state.
func TestClipped(t *testing.T) {
	spec, err := registry.Lookup("online")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cfg := Config{Spec: spec, Seed: 1, Scale: "standard", Warmup: 100, Log: slog.New(slog.NewTextHandler(&log, nil))}
	items := fixedBits(600)
	for i := range items {
		if i >= 300 {
			items[i].Example.X.Val[3] += 50
		}
	}
	whole := newEngine(t, cfg)
	consume(t, whole, items)
	settle(t, whole)
	c := whole.Clipped()
	if c.Values != 300 || c.Examples != 300 || !reflect.DeepEqual(c.Features, []int32{3}) {
		t.Errorf("%+v", c)
	}
	if text := log.String(); strings.Count(text, "clipped") != 1 || !strings.Contains(text, "feature=4 scale=standard least=-6 most=6") {
		t.Errorf("the log says %q", text)
	}

	log.Reset()
	r, e := rand.New(rand.NewPCG(1, 2)), newEngine(t, cfg)
	for i := range items {
		consume(t, e, items[i:i+1])
		if i%50 == 49 {
			e = interrupted(t, e, cfg, r)
		}
	}
	settle(t, e)
	if hashOf(t, e) != hashOf(t, whole) || !reflect.DeepEqual(e.Clipped(), c) {
		t.Errorf("after restarts %+v, without %+v", e.Clipped(), c)
	}
	if n := strings.Count(log.String(), "clipped"); n != 1 {
		t.Errorf("told %d times", n)
	}
}
