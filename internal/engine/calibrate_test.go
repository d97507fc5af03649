package engine

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/calibrate"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/linear"
)

// TestCalibration repeats the map's course from what a hook is told, for
// learners that are asked in blocks, that follow, and that keep pending predictions, with labels
// at once and later.
func TestCalibration(t *testing.T) {
	for _, name := range []string{"sbp", "online", "adaptive"} {
		for _, join := range []bool{false, true} {
			cfg := config(t, name)
			items := rings(900, 4, false)
			if join {
				cfg.Join = Join{Topic: "labels", Window: 100}
				items = apart(items, rand.New(rand.NewPCG(2, 2)), 90, 40)
			}
			e := newEngine(t, cfg)
			o, want := calibrate.NewOnline(), eval.New(false, e.cfg.Window)
			n := 0
			e.scored = func(decision, probability, label float64) {
				n++
				_, odds := e.learner.(algos.Publisher) // decisions are log odds
				if p := e.Predictor(); p != nil && (odds || n >= calibrate.Least) != (p.Probability != nil) {
					t.Fatalf("%s: after %d labels the model is %+v", name, n, p)
				}
				known := o.Known()
				p := o.Learn(decision, label > 0)
				if odds {
					known, p = true, linear.Sigmoid(decision)
				}
				want.Add(decision, label)
				switch {
				case !known && !math.IsNaN(probability), known && p != probability:
					t.Fatalf("%s, label %d: probability %v, want %v", name, n, probability, p)
				case known:
					want.AddProbability(p, label > 0)
				}
			}
			for chunk := range slices.Chunk(items, 37) {
				consume(t, e, chunk)
			}
			finish(t, e)
			if n < 2*calibrate.Least || uint64(n) != e.Prequential().Examples() {
				t.Errorf("%s: %d decisions told, %d scored", name, n, e.Prequential().Examples())
			}
			got, m := e.Predictor().Probability, o.Map()
			if name == "adaptive" {
				m = calibrate.Shifted(0)
			}
			if !slices.Equal(got.LogOdds, m.LogOdds) || !slices.Equal(got.Decisions, m.Decisions) {
				t.Errorf("%s: the model has %+v, want %+v", name, got, m)
			}
			g, w := e.Prequential().Summary(), want.Summary()
			if g.LogLoss != w.LogLoss || g.Window.ECE != w.Window.ECE || name != "online" && !(g.BrierSkill > 0.5) {
				t.Errorf("%s: %+v, want %+v", name, g.Probability, w.Probability)
			}
		}
	}
}

// TestNoCalibration: a regression has no probabilities, in no place.
func TestNoCalibration(t *testing.T) {
	cfg := config(t, "ridge")
	cfg.Task = algos.Regress
	e := newEngine(t, cfg)
	e.scored = func(_, p, _ float64) {
		if !math.IsNaN(p) {
			t.Fatalf("probability %v", p)
		}
	}
	consume(t, e, rings(900, 4, false))
	if s := e.Prequential().Summary(); e.Predictor().Probability != nil || s.Reliability != nil || !math.IsNaN(float64(s.LogLoss)) {
		t.Errorf("%+v, %+v", e.Predictor().Probability, s.Probability)
	}
}
