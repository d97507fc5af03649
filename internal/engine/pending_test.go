package engine

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/internal/eval"
)

// TestPendingPredictions: with labels that come late, the measures are those of what the
// model said when each example came. The reference settles the engine before
// every record, and asks the model of then itself.
func TestPendingPredictions(t *testing.T) {
	for _, name := range []string{"sbp", "scs", "online", "adaptive"} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, name)
			cfg.Join = Join{Topic: "labels", Window: 100}
			if name == "online" {
				cfg.Scale = "running"
			}
			const n = 900
			mixed := apart(rings(n, 4, false), rand.New(rand.NewPCG(2, 2)), 90, 40)
			ref, e := newEngine(t, cfg), newEngine(t, cfg)
			said, y := map[string]float64{}, map[string]float64{}
			for i := range mixed {
				it := mixed[i]
				settle(t, ref)
				if ref.isLabel(&it) {
					y[it.Key] = it.Example.Y
				} else {
					if p := ref.Predictor(); ref.Started() && p != nil {
						said[it.Key] = ref.learner.Model().Decision(p.Transform.Apply(it.Example.X))
					} else {
						said[it.Key] = math.NaN()
					}
				}
				consume(t, ref, []Item{it})
			}
			for left := mixed; len(left) > 0; {
				k := min(len(left), 37)
				consume(t, e, left[:k])
				left = left[k:]
			}
			for _, e := range []*Engine{ref, e} {
				finish(t, e)
			}
			if a, b := hashOf(t, ref), hashOf(t, e); a != b {
				t.Errorf("state %x, settled before every record %x", b, a)
			}
			// Before learning begins nothing is predicted: leave those out, and look at
			// the window of the last examples alone.
			want := eval.New(false, 500)
			order, _ := learned(mixed, cfg.Join.Window)
			for _, i := range order[n-500:] {
				key := fmt.Sprintf("k%d", i)
				want.Add(said[key], y[key])
			}
			e2 := cfg
			e2.Window = 500
			got := newEngine(t, e2)
			consume(t, got, slices.Clone(mixed))
			finish(t, got)
			if g, w := show(got.Prequential()), show(want); g != w {
				t.Errorf("the last 500: %s, want %s", g, w)
			}
		})
	}
}

// show returns the windowed measures, but for rounding.
func show(p *eval.Prequential) string {
	m := p.Summary().Window.Measures
	return fmt.Sprintf("accuracy %.12g, AUC %.12g, hinge %.12g", float64(m.Accuracy), float64(m.AUC), float64(m.Hinge))
}

// TestDelay: labels that are delayed are labels that come so many examples later
// on a topic of their own.
func TestDelay(t *testing.T) {
	for _, name := range []string{"sbp", "adaptive"} {
		t.Run(name, func(t *testing.T) {
			const n, delay = 800, 60
			items := rings(n, 4, false)
			var mixed []Item
			for i, it := range items {
				it.Key = fmt.Sprint(i)
				it.Example.Labelled, it.Example.Y = false, 0
				mixed = append(mixed, it)
				if k := i - delay; k >= 0 {
					mixed = append(mixed, labelItem(fmt.Sprint(k), items[k].Example.Y, int64(k)))
				}
			}
			for k := n - delay; k < n; k++ {
				mixed = append(mixed, labelItem(fmt.Sprint(k), items[k].Example.Y, int64(k)))
			}
			cfg := config(t, name)
			joined := cfg
			joined.Join = Join{Topic: "labels", Window: delay}
			delayed := cfg
			delayed.Delay = delay
			a, b, plain := newEngine(t, joined), newEngine(t, delayed), newEngine(t, cfg)
			r := rand.New(rand.NewPCG(1, 8))
			consume(t, a, mixed)
			if _, err := plain.Consume(t.Context(), slices.Clone(items)); err != nil {
				t.Fatal(err)
			}
			for left := slices.Clone(items); len(left) > 0; {
				k := min(len(left), 1+r.IntN(100))
				consume(t, b, left[:k])
				left = left[k:]
				b = interrupted(t, b, delayed, r)
				if c := b.Counts(); c.Learned+c.SampledOut+c.Pending != c.Consumed {
					t.Fatalf("the fates do not add up: %+v", c)
				}
			}
			for _, e := range []*Engine{a, b, plain} {
				finish(t, e)
			}
			l, m, counts, measures := parts(t, a)
			l2, m2, counts2, measures2 := parts(t, b)
			if !bytes.Equal(l, l2) || !bytes.Equal(m, m2) || !bytes.Equal(counts, counts2) || !bytes.Equal(measures, measures2) {
				t.Errorf("equal are learner %v, model %v, counts %v, measures %v", bytes.Equal(l, l2), bytes.Equal(m, m2), bytes.Equal(counts, counts2), bytes.Equal(measures, measures2))
			}
			l, _, _, measures = parts(t, plain)
			if bytes.Equal(measures, measures2) || bytes.Equal(l, l2) != (name == "sbp") {
				t.Errorf("without delay: learner equal %v, measures %v", bytes.Equal(l, l2), bytes.Equal(measures, measures2))
			}
			if b.Join() != nil {
				t.Errorf("a delay is shown as a join: %+v", b.Join())
			}
			other := delayed
			other.Delay++
			snap := snapshot(t, b)
			for _, c := range []Config{cfg, other, joined} {
				if err := newEngine(t, c).Restore(snap); err == nil {
					t.Errorf("a state with delay %d goes on with delay %d and %v", delay, c.Delay, c.Join)
				}
			}
		})
	}
	for _, c := range []Config{{Delay: -1}, {Delay: MaxJoinWindow + 1}, {Delay: 1, Join: Join{Topic: "labels", Window: 5}}} {
		cfg := config(t, "sbp")
		cfg.Delay, cfg.Join = c.Delay, c.Join
		if _, err := NewEngine(cfg); err == nil {
			t.Errorf("delay %d with %v was accepted", c.Delay, c.Join)
		}
	}
}

// TestStateBeforePendingPredictions: in a state that was written before there was such a
// thing, the examples that wait have not been predicted. They are scored when their
// labels come, and all those behind them when they come.
func TestStateBeforePendingPredictions(t *testing.T) {
	cfg := config(t, "sbp")
	cfg.Join = Join{Topic: "labels", Window: 50}
	mixed := apart(rings(1000, 4, false), rand.New(rand.NewPCG(2, 3)), 40, 0)
	e := newEngine(t, cfg)
	consume(t, e, slices.Clone(mixed[:1000]))
	settle(t, e)
	waits := 0
	for w := range e.join.all() {
		if !w.pred.known() {
			t.Fatalf("example %d that waits has not been predicted", waits)
		}
		w.pred = noPrediction
		waits++
	}
	snap := snapshot(t, e)
	if own, _ := snap.Section(sectionEngine); waits == 0 || bytes.Contains(own, []byte("told")) {
		t.Fatalf("of %d examples that wait the state still says something", waits)
	}
	old := newEngine(t, cfg)
	restore(t, old, snap)
	for _, e := range []*Engine{e, old} {
		consume(t, e, slices.Clone(mixed[1000:]))
		finish(t, e)
	}
	if a, b := hashOf(t, e), hashOf(t, old); a != b || old.Prequential().Examples() != 1000-200 {
		t.Errorf("state %x with %d examples scored, want %x with 800", b, old.Prequential().Examples(), a)
	}
}
