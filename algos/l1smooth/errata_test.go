package l1smooth

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/stream"
)

// TestDescent is T4 and T5: f_α never rises, and along every direction d^T g
// is the true one-sided derivative and negative, in all modes.
func TestDescent(t *testing.T) {
	for _, o := range []map[string]string{
		{"search": "exact"}, {"search": "halve"}, {"search": "halve", "kkt": "faithful", "beta": "0.1"},
		{"mu": "0"}, {"direct": "0"},
	} {
		o["alpha_min"] = "1e-6"
		if o["mu"] == "" {
			o["mu"] = "0.01"
		}
		o["lambda"] = "0.001"
		for seed := range uint64(4) {
			steps := 0
			l, p := ready(t, random(rand.New(rand.NewPCG(seed, 20)), 150, 30, 0.6, 0.2), o)
			for l.solving {
				w := slices.Clone(l.s.w)
				before := l.s.steps
				l.iterate()
				if l.s.steps == before {
					if !slices.Equal(w, l.s.w) {
						t.Fatalf("%v, seed %d: w changed without a step", o, seed)
					}
					continue
				}
				steps++
				alpha := l.s.alphas[min(l.s.k, len(l.s.alphas)-1)]
				if a, b := p.value(w, alpha), p.value(l.s.w, alpha); b > a+1e-14 {
					t.Fatalf("%v, seed %d: f rises from %.17g to %.17g", o, seed, a, b)
				}
				slope := p.slope(w, l.s.d, alpha)
				if !(l.s.slope < 0) || math.Abs(slope-l.s.slope) > 1e-9*math.Abs(slope)+1e-13 {
					t.Fatalf("%v, seed %d: slope %g, but the derivative is %g", o, seed, l.s.slope, slope)
				}
			}
			if steps < 5 {
				t.Errorf("%v, seed %d: %d steps", o, seed, steps)
			}
		}
	}
}

// TestE9: without the l1 term signs may change, and nothing is clipped.
func TestE9(t *testing.T) {
	l, p := ready(t, random(rand.New(rand.NewPCG(1, 24)), 300, 12, 0.3, 0), map[string]string{"lambda": "0.01", "mu": "0", "alpha_min": "1e-7"})
	for j := range l.s.w { // as far from the solution as can be
		l.s.w[j] = -3
	}
	for l.solving {
		l.iterate()
		if n := l.s.support(); l.s.steps > 0 && n != l.s.size() {
			t.Fatalf("%d of %d weights", n, l.s.size())
		}
	}
	if l.s.gap > 1e-3 {
		t.Errorf("gap %g", l.s.gap)
	}
	other, _ := ready(t, random(rand.New(rand.NewPCG(1, 24)), 300, 12, 0.3, 0), map[string]string{"lambda": "0.01", "mu": "0", "alpha_min": "1e-7"})
	for other.solving {
		other.iterate()
	}
	if a, b := p.value(l.s.w, 0), p.value(other.s.w, 0); math.Abs(a-b) > 1e-6 {
		t.Errorf("f = %g from there, %g from 0", a, b)
	}
}

// TestMidgame is T11: between α = 10/N and 0.1 a level takes few steps.
func TestMidgame(t *testing.T) {
	for seed := range uint64(3) {
		const n = 3000
		l, _ := ready(t, random(rand.New(rand.NewPCG(seed, 25)), n, 20, 0.2, 0), map[string]string{
			"lambda": "0.001", "mu": "0.001", "beta": "0.5", "kkt": "faithful", "search": "halve",
		})
		levels, steps := map[int]bool{}, 0
		for l.solving {
			k, before := l.s.k, l.s.steps
			l.iterate()
			if a := l.s.alphas[k]; a > 10.0/n && a < 0.1 {
				levels[k] = true
				steps += int(l.s.steps - before)
			}
		}
		if mean := float64(steps) / float64(len(levels)); mean > 3 || len(levels) < 4 {
			t.Errorf("seed %d: %.1f steps a level on %d levels", seed, mean, len(levels))
		}
	}
}

// TestForms: one problem has one solution, however it is stored and solved.
func TestForms(t *testing.T) {
	for _, mu := range []string{"0", "0.003"} {
		xs := random(rand.New(rand.NewPCG(4, 26)), 900, 25, 0.3, 0.3)
		first := math.NaN()
		for i, c := range []map[string]string{
			{}, {"direct": "0"}, {"direct": "5"}, {"search": "halve"}, {"search": "halve", "kkt": "faithful"}, {"beta": "0.5"},
		} {
			for _, list := range [][]int{{0}, {1}} {
				c["lambda"], c["mu"], c["eta"], c["alpha_min"] = "0.002", mu, "1e-6", "1e-7"
				data := xs
				if list[0] == 1 {
					data = sparse(xs)
				}
				l, p := ready(t, data, c)
				for l.solving {
					l.iterate()
				}
				f := p.value(l.s.w, 0)
				if math.IsNaN(first) {
					first = f
				}
				if math.Abs(f-first) > 1e-7 {
					t.Errorf("mu %s, case %d: f = %.12g, before %.12g", mu, i, f, first)
				}
			}
		}
	}
}

// TestWarmStart: on a stream every solution begins at the smoothing that the
// former buffer supports, takes few iterations, and is as good as one from
// nothing, whatever the policy of the buffer.
func TestWarmStart(t *testing.T) {
	xs := random(rand.New(rand.NewPCG(5, 27)), 3000, 15, 0.2, 0.1)
	for _, keep := range []string{"window", "reservoir", "balanced", "growing"} {
		o := map[string]string{"keep": keep, "buffer": "1000", "every": "250", "lambda": "0.003", "mu": "0.002", "alpha_min": "1e-3"}
		made, err := Spec.New(algos.Env{Seed: 3}, o)
		if err != nil {
			t.Fatal(err)
		}
		l := made.(*Learner)
		later, solved := 0, uint64(0)
		for _, x := range xs {
			if _, err := l.Add(x); err != nil {
				t.Fatal(err)
			}
			if l.solved > 0 && l.Need().Fresh == 0 {
				want := l.supported()
				if _, err := l.Step(t.Context()); err != nil {
					t.Fatal(err)
				}
				if l.s.k != want && l.s.k != want+1 || want == 0 {
					t.Fatalf("%s: the solution began at level %d, but the last one supports %d", keep, l.s.k, want)
				}
			}
			if err := algos.StepDue(t.Context(), l, nil); err != nil {
				t.Fatal(err)
			}
			if l.solved == solved {
				continue
			}
			if solved = l.solved; solved > 1 {
				later += l.iters
			}
			if k := l.supported(); l.s.k != k+1 {
				t.Fatalf("%s: solved to level %d, but %d is supported", keep, l.s.k-1, k)
			}
		}
		if _, err := l.Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
		held := make([]float64, 0)
		var list = xs[:0:0]
		for _, x := range l.Sample() {
			list = append(list, x)
			held = append(held, float64(x.Seq))
		}
		if len(held) != 1000 {
			t.Fatalf("%s: %d examples held", keep, len(held))
		}
		if keep == "window" && slices.Min(held) != 2001 || keep == "growing" && slices.Max(held) != 1000 {
			t.Errorf("%s: examples %g to %g", keep, slices.Min(held), slices.Max(held))
		}
		cold, p := ready(t, list, map[string]string{"lambda": "0.003", "mu": "0.002", "alpha_min": "1e-6", "eta": "1e-4"})
		for cold.solving {
			cold.iterate()
		}
		again, _ := ready(t, list, map[string]string{"lambda": "0.003", "mu": "0.002"})
		again.full = false
		for again.solving {
			again.iterate()
		}
		if mean := float64(later) / float64(solved-1); solved < 4 || mean >= float64(again.iters) {
			t.Errorf("%s: %.1f iterations a solution, %d from nothing", keep, mean, again.iters)
		}
		best, f := p.value(cold.s.w, 0), p.value(l.s.w, 0)
		last := l.s.alphas[l.s.levels-1]
		if f > best+10*last || f < best-1e-5 {
			t.Errorf("%s: f = %g on the stream, %g from nothing", keep, f, best)
		}
		if math.Abs(f-l.Report().Objective) > 1e-12 {
			t.Errorf("%s: f = %g, reported %g", keep, f, l.Report().Objective)
		}
		if mu := l.Report().Gauges[3]; mu.Name != "mu" || strconv.FormatFloat(mu.Value, 'g', -1, 64) != "0.002" {
			t.Errorf("%s: %+v", keep, mu)
		}
	}
}

// TestTwoExamples: an example of each class makes a problem, one example none.
func TestTwoExamples(t *testing.T) {
	l, err := Spec.New(algos.Env{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, y := range []float64{1, -1} {
		x := &stream.Example{Seq: uint64(i + 1), Labelled: true, Y: y, X: stream.Vec{Val: []float32{float32(y), .5}}}
		if _, err := algos.Feed(t.Context(), l, x); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
		a, b := l.Model().Decision(stream.Vec{Val: []float32{1, .5}}), l.Model().Decision(stream.Vec{Val: []float32{-1, .5}})
		if separated := a > 0 && b < 0; separated != (i == 1) || i == 0 && (a != 0 || b != 0) {
			t.Errorf("after %d examples: decisions %g and %g", i+1, a, b)
		}
	}
}

// TestOneClass: a window of one class only leaves the weights as they are.
func TestOneClass(t *testing.T) {
	xs := random(rand.New(rand.NewPCG(6, 28)), 400, 5, 0, 0)
	made, err := Spec.New(algos.Env{}, map[string]string{"buffer": "100", "every": "10"})
	if err != nil {
		t.Fatal(err)
	}
	l := made.(*Learner)
	if _, err := algos.Feed(t.Context(), l, xs[:200]...); err != nil {
		t.Fatal(err)
	}
	for _, x := range xs[200:] {
		x.Y = 1
	}
	if _, err := algos.Feed(t.Context(), l, xs[200:310]...); err != nil {
		t.Fatal(err)
	}
	w := slices.Clone(l.s.w)
	if _, err := algos.Feed(t.Context(), l, xs[310:]...); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(w, l.s.w) || l.s.support() == 0 {
		t.Errorf("weights %v became %v", w, l.s.w)
	}
}
