package engine

import (
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
)

// TestStartPositionsSurvive: a partition that has delivered nothing yet keeps
// its start position in every checkpoint, and the state does not depend on it.
func TestStartPositionsSurvive(t *testing.T) {
	recs := records(600, 5, false)
	start := stream.Offsets{{Topic: "t", ID: 0}: 0, {Topic: "t", ID: 1}: 0, {Topic: "t", ID: 2}: 77}
	store := openStore(t, t.TempDir())
	cfg := RunConfig{Decoder: plain{}, Store: store, Start: start}
	e := newEngine(t, config(t, "sbp"))
	if err := SaveFirst(t.Context(), e, cfg); err != nil {
		t.Fatal(err)
	}
	snap, err := store.Load()
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(snap.Header.Offsets, start) || snap.Header.Examples != 0 {
		t.Fatalf("the first checkpoint has %d examples and offsets %v, want 0 and %v", snap.Header.Examples, snap.Header.Offsets, start)
	}

	e = newEngine(t, config(t, "sbp"))
	restore(t, e, snap)
	cfg.Source, cfg.Start = &memory{recs: recs, r: rand.New(rand.NewPCG(1, 2))}, snap.Header.Offsets
	if _, err := Run(t.Context(), e, cfg); err != nil {
		t.Fatal(err)
	}
	if snap, err = store.Load(); err != nil {
		t.Fatal(err)
	}
	want := stream.Offsets{{Topic: "t", ID: 0}: 300, {Topic: "t", ID: 1}: 300, {Topic: "t", ID: 2}: 77}
	if !maps.Equal(snap.Header.Offsets, want) {
		t.Errorf("the last checkpoint has offsets %v, want %v", snap.Header.Offsets, want)
	}

	plainRun := newEngine(t, config(t, "sbp"))
	if _, err := Run(t.Context(), plainRun, RunConfig{Decoder: plain{}, Source: &memory{recs: recs, r: rand.New(rand.NewPCG(3, 4))}}); err != nil {
		t.Fatal(err)
	}
	if got, want := hashOf(t, e), hashOf(t, plainRun); got != want {
		t.Errorf("state %016x, without start positions %016x", got, want)
	}
}
