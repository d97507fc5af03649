package engine

import (
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/delta"
	"github.com/streamsvm/streamsvm/stream"
)

// TestDeltaOfRandomFeatures: after a thousand steps that each draw a block of
// features, the delta of one step is at most a hundredth of the full.
func TestDeltaOfRandomFeatures(t *testing.T) {
	for _, draw := range []string{"fresh"} {
		t.Run(draw, func(t *testing.T) {
			cfg := config(t, "tsgs3vm")
			cfg.Warmup = 50
			cfg.Options = map[string]string{
				"solver": "sgd", "draw": draw, "block": "8", "features": "8000", "window": "2000", "c": "1", "gamma": "1", "rho": "0.1", "serve": "semi",
				"batch-labelled": "4", "batch-unlabelled": "1", "labels": "50",
			}
			e := newEngine(t, cfg)
			items := rings(1400, 3, false)
			for i := range items {
				if i >= 100 {
					items[i].Example.Labelled, items[i].Example.Y = false, 0
				}
			}
			var last *stream.Update
			for _, it := range items {
				consume(t, e, []Item{it})
				settle(t, e)
				if e.Report().Step < 1000 {
					continue
				}
				u, err := new(RunConfig).update(e, 1, time.Time{})
				if err != nil {
					t.Fatal(err)
				}
				if last != nil && u.Step > last.Step {
					patch := delta.Diff(last.Payload, u.Payload)
					t.Logf("step %d: delta of %d bytes in place of a full of %d", u.Step, len(patch), len(u.Payload))
					if u.Step != last.Step+1 || 100*len(patch) > len(u.Payload) {
						t.Errorf("more than a hundredth")
					}
					return
				}
				last = u
			}
			t.Fatalf("%d steps", e.Report().Step)
		})
	}
}
