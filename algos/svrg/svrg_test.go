package svrg

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/stream"
)

var specs = []algos.Spec{SD, SAGASD}

// Every combination that takes another path through the code. The defaults are tested
// with the registry.
func TestConformanceOfOptions(t *testing.T) {
	for _, c := range []struct {
		spec    algos.Spec
		options map[string]string
	}{
		{SD, map[string]string{"lambda": "0", "l1": "0.001", "keep": "reservoir", "epochs": "3"}},
		{SD, map[string]string{"lambda": "0", "l1": "0.001"}},
		{SD, map[string]string{"loss": "squared", "theta": "gram", "keep": "balanced"}},
		{SD, map[string]string{"loss": "logistic", "refresh": "0.5", "bias": "4"}},
		{SAGASD, map[string]string{"loss": "squared", "l1": "0.001", "decrease": "1"}},
		{SAGASD, map[string]string{"loss": "logistic", "keep": "reservoir"}},
	} {
		c.options["buffer"] = "200"
		if c.options["loss"] == "logistic" {
			c.spec.Tasks = []algos.Task{algos.Classify}
		}
		t.Run(c.spec.Name, func(t *testing.T) { algostest.Run(t, c.spec, algostest.With(c.options)) })
	}
}

// draw returns examples of a linear function with a bias, of which every
// eighth is ten times as long as the others.
func draw(n, d int, seed uint64) []*stream.Example {
	r := rand.New(rand.NewPCG(seed, 5))
	xs := make([]*stream.Example, n)
	for i := range xs {
		x := &stream.Example{Seq: uint64(i + 1), Labelled: true, Y: 3 + .1*r.NormFloat64()}
		for j := range d {
			v := r.NormFloat64()
			if i%8 == 0 {
				v *= 10
			}
			x.X.Val = append(x.X.Val, float32(v))
			x.Y += float64(j%3-1) * v
		}
		xs[i] = x
	}
	return xs
}

// ridge solves the normal equations of the examples with a constant feature.
func ridge(t *testing.T, xs []*stream.Example, lambda, bias float64) *mat.VecDense {
	t.Helper()
	n, d := len(xs), len(xs[0].X.Val)
	a, y := mat.NewDense(n, d+1, nil), mat.NewVecDense(n, nil)
	for i, x := range xs {
		for j, v := range x.X.Val {
			a.Set(i, j, float64(v))
		}
		a.Set(i, d, math.Sqrt(bias))
		y.SetVec(i, x.Y)
	}
	var g mat.Dense
	g.Mul(a.T(), a)
	g.Scale(1/float64(n), &g)
	for j := range d + 1 {
		g.Set(j, j, g.At(j, j)+lambda)
	}
	var h, w mat.VecDense
	h.MulVec(a.T(), y)
	h.ScaleVec(1/float64(n), &h)
	if err := w.SolveVec(&g, &h); err != nil {
		t.Fatal(err)
	}
	return &w
}

// After a bounded stream every learner holds the minimum over what its sample
// holds, and the certificate says how far from it the objective is.
func TestOptimumOfSample(t *testing.T) {
	const d, n, window, lambda, bias = 7, 900, 250, .05, 2.
	xs := draw(n, d, 3)
	want := ridge(t, xs[n-window:], lambda, bias)
	for _, spec := range specs {
		l, err := spec.New(algos.Env{Seed: 4, Task: algos.Regress}, map[string]string{
			"lambda": strconv.FormatFloat(lambda, 'g', -1, 64), "bias": fmt.Sprint(bias),
			"buffer": strconv.Itoa(window), "final": "2000", "tolerance": "1e-14",
		})
		if err != nil {
			t.Fatal(err)
		}
		algostest.Feed(t, l, xs...)
		r, err := l.Finish(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r.Sample != window || !(r.Certificate <= 1e-14*r.Objective) || r.GradNorm > 1e-6 {
			t.Errorf("%s: %+v", spec.Name, r)
		}
		for _, x := range xs[:50] {
			f := want.AtVec(d) * math.Sqrt(bias)
			for j, v := range x.X.Val {
				f += want.AtVec(j) * float64(v)
			}
			if got := l.Model().Decision(x.X); math.Abs(got-f) > 1e-5 {
				t.Fatalf("%s: f = %g, want %g", spec.Name, got, f)
			}
		}
	}
}

// A sample stays as it is while epochs run on it.
func TestFrozen(t *testing.T) {
	options := map[string]string{"epochs": "3", "refresh": "0.5"}
	a, err := SD.New(algos.Env{Seed: 4, Task: algos.Regress}, options)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := SD.New(algos.Env{Seed: 4, Task: algos.Regress}, options)
	xs := draw(120, 4, 8)
	algostest.Feed(t, a, xs[:60]...)
	algostest.Feed(t, b, xs[:60]...)
	k := 60
	for ; a.Need().Fresh > 0; k++ {
		for _, l := range []algos.Learner{a, b} {
			if _, err := l.Add(xs[k]); err != nil {
				t.Fatal(err)
			}
		}
	}
	steps := a.Need().Steps
	if steps != 4 {
		t.Fatalf("%+v, want one step to take in and three epochs", a.Need())
	}
	held := a.Report().Sample
	for i := range steps {
		if _, err := a.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		if i > 0 && i < steps-1 { // arrivals at a only
			if _, err := a.Add(xs[k+i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	ra, rb := a.Report(), b.Report()
	if ra.Sample == held || ra.Sample != rb.Sample || ra.Objective != rb.Objective {
		t.Errorf("arrivals during the epochs changed %+v to %+v", rb, ra)
	}
}

// A Lasso model has few weights that are not 0, whatever the mean of the
// iterates holds, and they are the ones that matter.
func TestLassoIsSparse(t *testing.T) {
	for _, spec := range specs {
		l, err := spec.New(algos.Env{Seed: 4, Task: algos.Regress}, map[string]string{"l1": "0.5", "final": "200"})
		if err != nil {
			t.Fatal(err)
		}
		algostest.Feed(t, l, draw(600, 30, 2)...)
		// Of 30 weights 10 are 1, 10 are -1 and 10 are 0.
		if n := l.Model().Info().Nonzero; n < 20 || n > 25 {
			t.Errorf("%s: %d weights are not 0 between two refreshes", spec.Name, n)
		}
		if _, err := l.Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := l.Model().Info().Nonzero; n != 20 {
			t.Errorf("%s: %d weights are not 0 at the end", spec.Name, n)
		}
	}
}

func TestRefusals(t *testing.T) {
	if _, err := SD.New(algos.Env{Task: algos.Regress}, map[string]string{"loss": "hinge"}); err == nil {
		t.Error("hinge loss in regression")
	}
	l, err := SD.New(algos.Env{Task: algos.Regress}, map[string]string{"dims": "10"})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []*stream.Example{
		{Labelled: true, Y: math.Inf(1)},
		{Labelled: true, Y: 1e200},
		{Labelled: true, X: stream.Vec{Val: []float32{float32(math.NaN())}}},
		{Labelled: true, X: stream.Vec{Idx: []int32{10}, Val: []float32{1}}},
	} {
		if _, err := l.Add(x); err == nil {
			t.Errorf("%+v accepted", x)
		}
	}
}

// States that no run leads to are refused.
func TestStateRefuses(t *testing.T) {
	options := map[string]string{"buffer": "50", "epochs": "2", "final": "3"}
	for what, change := range map[string]func(*Learner){
		"":                func(*Learner) {},
		"too many due":    func(l *Learner) { l.due = 4 },
		"fewer than none": func(l *Learner) { l.due = -1 },
		"rows out":        func(l *Learner) { l.stale = -1 },
		"a weight more":   func(l *Learner) { l.w = append(l.w, 1) },
		"no number":       func(l *Learner) { l.w[0] = math.NaN() },
	} {
		l, err := SD.New(algos.Env{Task: algos.Regress}, options)
		if err != nil {
			t.Fatal(err)
		}
		algostest.Feed(t, l, draw(60, 4, 3)...)
		change(l.(*Learner))
		other, err := SD.New(algos.Env{Task: algos.Regress}, options)
		if err != nil {
			t.Fatal(err)
		}
		if err := other.UnmarshalBinary(algostest.Bytes(t, l)); (err == nil) != (what == "") {
			t.Errorf("%q: %v", what, err)
		}
	}
}
