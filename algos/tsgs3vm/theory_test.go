package tsgs3vm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats/scalar"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/rffmodel"
	"github.com/streamsvm/streamsvm/stream"
)

// rig drives the paper's steps one by one on a small population.
type rig struct {
	*Learner
	sgd   *sgd
	l, u  []*stream.Example
	r     *rand.Rand
	gamma float64
}

// newRig returns a learner that holds labels and has made no step. Options
// come in pairs.
func newRig(t testing.TB, seed uint64, labels, unlabelled int, options ...string) *rig {
	t.Helper()
	o := map[string]string{
		"solver": "sgd", "draw": "fresh", "gamma": "1", "lambda": "0.5", "rho": "0.5", "bias": "0", "tuning": "0",
		"block": "8", "batch-labelled": "1000", "batch-unlabelled": "4", "labels": "1000",
	}
	for i := 0; i < len(options); i += 2 {
		o[options[i]] = options[i+1]
	}
	l, err := Spec.New(algos.Env{Seed: seed}, o)
	if err != nil {
		t.Fatal(err)
	}
	g := &rig{Learner: l.(*Learner), r: rand.New(rand.NewPCG(seed, 77)), gamma: 1}
	g.sgd, _ = g.solver.(*sgd)
	draw := func(n int) (out []*stream.Example) {
		for i := range n {
			y := float64(1 - 2*(i%2))
			x := &stream.Example{Seq: uint64(i + 1), Labelled: true, Y: y}
			x.X.Val = []float32{float32(y + .7*g.r.NormFloat64()), float32(g.r.NormFloat64()), float32(g.r.NormFloat64())}
			out = append(out, x)
		}
		return out
	}
	g.l, g.u = draw(labels), draw(unlabelled)
	return g
}

// admit puts the labels into the pool.
func (g *rig) admit() *rig {
	g.labelled = uint64(len(g.l))
	for _, x := range g.l {
		if _, err := g.Add(x); err != nil {
			panic(err)
		}
	}
	g.sgd.admit(g.Learner, g.Take())
	return g
}

// batch draws b unlabelled points and returns their positions.
func (g *rig) batch(b int) (at []int, xs []stream.Vec) {
	for range b {
		i := g.r.IntN(len(g.u))
		at, xs = append(at, i), append(xs, g.u[i].X)
	}
	return at, xs
}

func (g *rig) iterate(b int) (at []int) {
	at, xs := g.batch(b)
	g.sgd.iterate(g.Learner, xs)
	return at
}

func (g *rig) f(x stream.Vec) float64 { return g.sgd.view(g.Learner).Decision(x) }

// rbf is the oracle's kernel.
func rbf(gamma float64, x, z stream.Vec) float64 {
	s := 0.0
	for i, v := range x.Val {
		s += math.Pow(float64(v)-float64(z.Val[i]), 2)
	}
	return math.Exp(-gamma * s)
}

// P-1, P-2, P-14: coefficients unroll, their weights sum to 1 − Π(1−γ), stay
// bounded; the decisions kept for labels are those of the model.
func TestUnrolling(t *testing.T) {
	for _, o := range [][]string{
		{"step", "0.2"}, {"rate", "decay", "step", "1"}, {"rate", "decay", "step", "3"},
		{"step", "0.9", "bias", "0.5"},
	} {
		g := newRig(t, 3, 20, 100, o...).admit()
		m := g.opt.Block
		var first [][]float64
		var gammas []float64
		big := 2 * (2 + 1.)
		for step := range 80 {
			g.iterate(4)
			gammas = append(gammas, g.sgd.gamma)
			if o[0] == "step" { // a window would drop blocks
				g.sgd.opt.Window = 1000
			}
			block := make([]float64, m)
			for j := range block {
				block[j] = g.sgd.scale * g.sgd.coef[step*m+j]
			}
			first = append(first, block)
		}
		keep, sum := 1.0, 0.0
		for i, gamma := range slices.Backward(gammas) {
			a := gamma * keep // |a_t^i|
			sum += a
			l1 := 0.0
			for j := range m {
				got, want := g.sgd.scale*g.sgd.coef[i*m+j], first[i][j]*keep
				if !scalar.EqualWithinAbsOrRel(got, want, 1e-300, 1e-11) {
					t.Fatalf("%v: coefficient %d of block %d is %g, want %g", o, j, i, got, want)
				}
				l1 += math.Abs(got) * math.Sqrt(float64(m)/2)
			}
			if bound := math.Sqrt(2*float64(m)) * 3 * a; l1 > bound*(1+1e-9)+1e-30 {
				t.Errorf("%v: block %d has l1 norm %g, bound %g", o, i, l1, bound)
			}
			keep *= 1 - gamma
		}
		if !scalar.EqualWithinAbs(sum, 1-keep, 1e-12) {
			t.Errorf("%v: weights sum to %g, want %g", o, sum, 1-keep)
		}
		for i, x := range append(g.l, g.u...) {
			f := g.f(x.X)
			if math.Abs(f) > big*(1+g.opt.Bias) {
				t.Errorf("%v: |f| = %g, bound %g", o, f, big)
			}
			if i < len(g.l) && !scalar.EqualWithinAbsOrRel(g.sgd.f[i], f, 1e-10, 1e-10) {
				t.Errorf("%v: label %d: f = %g kept, %g now", o, i, g.sgd.f[i], f)
			}
		}
	}
}

// twin is h, the iterate with the exact kernel and the features' derivatives:
// coefficients on labelled points, then on unlabelled ones.
type twin struct {
	z    []stream.Vec
	c    []float64
	gram [][]float64
}

func newTwin(g *rig) *twin {
	w := &twin{}
	for _, x := range append(append([]*stream.Example(nil), g.l...), g.u...) {
		w.z = append(w.z, x.X)
	}
	w.c = make([]float64, len(w.z))
	for _, x := range w.z {
		var row []float64
		for _, z := range w.z {
			row = append(row, rbf(1, x, z))
		}
		w.gram = append(w.gram, row)
	}
	return w
}

func (w *twin) follow(g *rig, at []int) {
	for i := range w.c {
		w.c[i] *= 1 - g.sgd.gamma
	}
	for i, v := range g.sgd.slope {
		w.c[i] += v
	}
	for k, i := range at {
		w.c[len(g.l)+i] += g.sgd.unlab[k]
	}
}

func (w *twin) times(c []float64) []float64 {
	out := make([]float64, len(c))
	for i, row := range w.gram {
		for j, k := range row {
			out[i] += k * c[j]
		}
	}
	return out
}

func dot(a, b []float64) (s float64) {
	for i := range a {
		s += a[i] * b[i]
	}
	return s
}

// gradNorm returns ‖∇R(h)‖² on the finite population, and ‖h‖².
func (w *twin) gradNorm(g *rig, c, cstar float64) (grad, norm float64) {
	h := w.times(w.c)
	v := append([]float64(nil), w.c...)
	for i, x := range g.l {
		v[i] += c / float64(len(g.l)) * hingeSlope(h[i], x.Y)
	}
	for i := range g.u {
		k := len(g.l) + i
		v[k] += cstar / float64(len(g.u)) * symmetricSlope(h[k])
	}
	return dot(v, w.times(v)), dot(w.c, h)
}

// P-3, P-6, P-7: the twin stays bounded, and the mean squared distance from it
// below M²γ/((2−γ)m), which is far below the paper's bound.
func TestTwin(t *testing.T) {
	const runs, steps = 60, 64
	gamma := 0.5 / math.Pow(steps, .75)
	for _, m := range []int{1, 8} {
		worst, big := make([]float64, 12), 3.0
		for seed := range uint64(runs) {
			g := newRig(t, 1, 12, 60, "step", fmt.Sprint(gamma), "block", fmt.Sprint(m), "window", "1000")
			g.seed = seed // the same population, other features and draws
			g.r = rand.New(rand.NewPCG(seed, 5))
			if err := g.setGamma(1); err != nil {
				t.Fatal(err)
			}
			g.admit()
			w := newTwin(g)
			for range steps {
				w.follow(g, g.iterate(1))
			}
			h := w.times(w.c)
			grad, norm := w.gradNorm(g, 2, 1)
			if norm > big*big || grad > 4*big*big {
				t.Errorf("seed %d: ‖h‖² = %g, ‖∇R(h)‖² = %g, M = %g", seed, norm, grad, big)
			}
			for i := range worst {
				worst[i] += math.Pow(g.f(g.u[i].X)-h[12+i], 2) / runs
			}
		}
		sharp := big * big * gamma / (2 - gamma) / float64(m)
		printed := big * big * math.Pow(1+math.Sqrt2, 2) * (steps - 1) * gamma * gamma
		for i, e := range worst {
			// A mean of squares of about normal errors is within 60 % of its
			// expectation: 3 √(2/runs).
			if e > 1.6*sharp || e > printed {
				t.Errorf("m = %d, point %d: mean squared distance %g, bounds %g and %g", m, i, e, sharp, printed)
			}
		}
	}
}

// P-10: with all labels flipped everything is negated, to the bit.
func TestNegation(t *testing.T) {
	run := func(flip float64, o ...string) ([]float64, *rig) {
		g := newRig(t, 11, 16, 80, o...)
		for _, x := range g.l {
			x.Y *= flip
		}
		for i, x := range g.u {
			x.Labelled, x.Y = false, 0
			g.u[i].Seq = uint64(100 + i)
		}
		if _, err := algos.Feed(t.Context(), g.Learner, append(g.l, g.u...)...); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
		return g.Model().(*rffmodel.Model).Coef, g
	}
	for _, solver := range []string{"sgd", "dual"} {
		o := []string{"solver", solver, "features", "64", "serve", "semi", "rho", "1", "step", "0.3", "bias", "0.5"}
		a, ga := run(1, o...)
		b, gb := run(-1, o...)
		off := 0.0
		for i := range a {
			off = max(off, math.Abs(a[i]+b[i]))
		}
		fa, fb := ga.Model().Decision(ga.u[0].X), gb.Model().Decision(gb.u[0].X)
		if off != 0 || fa != -fb || fa == 0 {
			t.Errorf("%s: coefficients differ by %g, f by %g", solver, off, fa+fb)
		}
	}
}

// P-11: derivatives are those of the losses, and that of an even loss is odd.
func TestDerivatives(t *testing.T) {
	const h = 1e-4
	for f := -2.0; f < 2; f += .0137 {
		if min(math.Abs(f), math.Abs(math.Abs(f)-1)) < 2*h {
			continue
		}
		if want := (symmetric(f+h) - symmetric(f-h)) / (2 * h); math.Abs(symmetricSlope(f)-want) > 1e-9 || symmetricSlope(-f) != -symmetricSlope(f) {
			t.Errorf("unlabelled: slope %g at %g, difference quotient %g", symmetricSlope(f), f, want)
		}
		for _, y := range []float64{1, -1} {
			if want := (hinge(f+h, y) - hinge(f-h, y)) / (2 * h); math.Abs(hingeSlope(f, y)-want) > 1e-9 {
				t.Errorf("label %g: slope %g at %g, difference quotient %g", y, hingeSlope(f, y), f, want)
			}
		}
	}
	if symmetricSlope(0) != 0 {
		t.Errorf("slope at 0: %g", symmetricSlope(0))
	}
}

// P-13: the model's decisions are those of the next step; seeds matter.
func TestDecisionsAreNextSteps(t *testing.T) {
	g := newRig(t, 4, 10, 50).admit()
	other := newRig(t, 5, 10, 50).admit()
	for range 5 {
		g.iterate(3)
		other.iterate(3)
	}
	at, xs := g.batch(3)
	var want []float64
	for _, i := range at {
		want = append(want, symmetricSlope(g.f(g.u[i].X)))
	}
	g.sgd.iterate(g.Learner, xs)
	for k, s := range want {
		if got := g.sgd.unlab[k]; got != -g.sgd.gamma*1*(s/3) {
			t.Errorf("step used %g, the model says %g", got, s)
		}
	}
	if g.sgd.coef[0] == other.sgd.coef[0] {
		t.Error("two seeds give the same coefficients")
	}
}

// P-15: the newest W blocks are within the bound of all, and a run that drops
// the others keeps its labels' decisions right.
func TestTruncation(t *testing.T) {
	g := newRig(t, 6, 15, 60, "step", "0.1", "window", "10000").admit()
	for range 150 {
		g.iterate(4)
	}
	m := g.opt.Block
	for _, w := range []int{10, 20, 40} {
		last := *g.sgd
		last.coef = append([]float64(nil), g.sgd.coef...)
		clear(last.coef[:len(last.coef)-w*m])
		bound := 2 * 3 * math.Pow(.9, float64(w))
		for _, x := range g.u {
			if d := math.Abs(last.view(g.Learner).Decision(x.X) - g.f(x.X)); d > bound {
				t.Errorf("W = %d: f changes by %g, bound %g", w, d, bound)
			}
		}
		cut := newRig(t, 6, 15, 60, "step", "0.1", "window", fmt.Sprint(w)).admit()
		for range 150 {
			cut.iterate(4)
		}
		if len(cut.sgd.coef) != w*m {
			t.Errorf("%d coefficients, want %d", len(cut.sgd.coef), w*m)
		}
		for i, x := range cut.l {
			if f := cut.f(x.X); !scalar.EqualWithinAbsOrRel(cut.sgd.f[i], f, 1e-10, 1e-10) {
				t.Errorf("W = %d: f = %g kept, %g now", w, cut.sgd.f[i], f)
			}
		}
		for _, q := range cut.Report().Gauges {
			if q.Name == "truncation_bound" && !scalar.EqualWithinRel(q.Value, bound, 1e-9) {
				t.Errorf("W = %d: bound %g is reported, want %g", w, q.Value, bound)
			}
		}
	}
}

// P-16: a step adds m coefficients; without a cache nothing is kept.
func TestGrowth(t *testing.T) {
	g := newRig(t, 7, 15, 60, "cache", "0", "window", "10000").admit()
	for step := range 20 {
		g.iterate(4)
		if len(g.sgd.coef) != (step+1)*g.opt.Block || g.feats.Bytes() != 0 {
			t.Fatalf("step %d: %d coefficients, %d bytes of features", step, len(g.sgd.coef), g.feats.Bytes())
		}
	}
}

// P-17: the order within a minibatch changes rounding only.
func TestOrder(t *testing.T) {
	a, b := newRig(t, 9, 15, 60).admit(), newRig(t, 9, 15, 60)
	for i, j := 0, len(b.l)-1; i < j; i, j = i+1, j-1 {
		b.l[i], b.l[j] = b.l[j], b.l[i]
	}
	b.admit()
	for range 30 {
		_, xs := a.batch(6)
		a.sgd.iterate(a.Learner, xs)
		for i := range 3 {
			xs[i], xs[5-i] = xs[5-i], xs[i]
		}
		b.sgd.iterate(b.Learner, xs)
	}
	for i := range a.sgd.coef {
		if !scalar.EqualWithinAbsOrRel(a.sgd.coef[i], b.sgd.coef[i], 1e-9, 1e-9) {
			t.Fatalf("coefficient %d: %g and %g", i, a.sgd.coef[i], b.sgd.coef[i])
		}
	}
}
