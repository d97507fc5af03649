package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
)

// TestSmallStream: of a stream that ends before its warm-up does, the last
// third is scored, each example before it is learned from; where a run was
// interrupted makes no difference.
func TestSmallStream(t *testing.T) {
	const n, scored = 569, 189
	for _, name := range []string{"scs", "sbp", "tsgs3vm"} {
		cfg := config(t, name)
		cfg.Warmup, cfg.Scale, cfg.Tune = 0, "standard", false
		run := func(items []Item, cuts int) *Engine {
			e := newEngine(t, cfg)
			r := rand.New(rand.NewPCG(1, uint64(cuts)))
			for len(items) > 0 {
				k := len(items)
				if cuts > 0 {
					k = min(k, 1+r.IntN(2*n/cuts))
				}
				consume(t, e, items[:k])
				items = items[k:]
				snap := snapshot(t, e)
				e = newEngine(t, cfg)
				restore(t, e, snap)
			}
			err := e.Finish(t.Context())
			if one := (*stream.OneLabelError)(nil); errors.As(err, &one) != (e.OneLabel() != nil) || err != nil && one == nil {
				t.Fatal(err)
			}
			return e
		}
		whole := run(rings(n, 3, false), 0)
		all, _ := whole.Prequential().Accuracy()
		if k := whole.Prequential().Examples(); k != scored || all < .8 || whole.Counts().Learned+whole.Counts().SampledOut != n {
			t.Errorf("%s: %d examples scored, accuracy %.3f, %+v", name, k, all, whole.Counts())
		}
		if got, want := hashOf(t, run(rings(n, 3, false), 7)), hashOf(t, whole); got != want {
			t.Errorf("%s: state %016x after interruptions, %016x without", name, got, want)
		}
		// A label counts only once its example has been scored.
		flipped := rings(n, 3, false)
		flipped[n-1].Example.Y *= -1
		other, _ := run(flipped, 0).Prequential().Accuracy()
		if diff := (all - other) * scored; diff < -1.001 || diff > 1.001 {
			t.Errorf("%s: the label of the last example changes %.2f scores", name, diff)
		}
		for k := range 4 { // of hardly any examples, too
			run(rings(k, 3, false), 0)
		}
	}
}

// TestStartInterrupted: a call that is interrupted as the warm-up ends can be made
// again, and leaves no trace.
func TestStartInterrupted(t *testing.T) {
	for _, name := range []string{"adaptive", "sbp", "scs"} {
		cfg := config(t, name)
		cfg.Warmup = 600
		items := fixedBits(900)
		_, want := consumed(t, cfg, slices.Clone(items), len(items), false)
		e := newEngine(t, cfg)
		if _, err := e.Consume(t.Context(), slices.Clone(items[:600])); err != nil || e.Started() {
			t.Fatal(err, e.Started())
		}
		ended, end := context.WithCancel(t.Context())
		end()
		n, err := e.Consume(ended, slices.Clone(items[600:]))
		if err != nil && !errors.Is(err, context.Canceled) { // nil: no step has been due since
			t.Fatal(err)
		}
		consume(t, e, slices.Clone(items[600+n:]))
		settle(t, e)
		if got := fmt.Sprint(hashOf(t, e)); got != want {
			t.Errorf("%s: the state is %s, uninterrupted %s; %+v", name, got, want, e.Counts())
		}
	}
}
