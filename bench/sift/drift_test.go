package main

import (
	"math"
	"testing"
)

// TestDrift: on a stream that changes, what is sifted serves as well as all of it,
// and says how well. A worker that forwards nothing of what it is sure of must not
// pass.
func TestDrift(t *testing.T) {
	xs, err := changing("jump", 10000, 1)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]outcome{}
	for _, w := range driftWays()[:4] {
		if w.name == "ignored" {
			continue
		}
		if got[w.name], err = run("adaptive", xs, nil, w, 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	passes := func(name string) bool {
		all, o := got["all"], got[name]
		return o.served > all.served-0.005 && math.Abs(o.weighted-all.weighted) < 0.015
	}
	if !passes("sift") {
		t.Errorf("sifted: %+v, all: %+v", got["sift"], got["all"])
	}
	if passes("hard") {
		t.Errorf("a worker that forwards nothing of what it is sure of passes: %+v", got["hard"])
	}
}
