package ridge

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/stream"
)

func TestConformance(t *testing.T) {
	for name, o := range map[string]map[string]string{
		"window":    {"keep": "window", "buffer": "90"},
		"no lambda": {"lambda": "0", "bias": "4"},
	} {
		t.Run(name, func(t *testing.T) { algostest.Run(t, Spec, algostest.With(o)) })
	}
}

// The model is the solution of the normal equations of the examples that
// count, to the last digits, however many came and went.
func TestSolution(t *testing.T) {
	const d, n, lambda, bias = 6, 700, .01, 2.25
	for _, window := range []int{0, 60} {
		o := map[string]string{"lambda": strconv.FormatFloat(lambda, 'g', -1, 64), "bias": "2.25"}
		if window > 0 {
			o["keep"], o["buffer"] = "window", strconv.Itoa(window)
		}
		l, err := Spec.New(algos.Env{Seed: 1, Task: algos.Regress}, o)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(3, uint64(window)))
		var xs []*stream.Example
		for i := range n {
			x := &stream.Example{Seq: uint64(i + 1), Labelled: true, Y: 5 + 100*r.NormFloat64()}
			for range d {
				x.X.Val = append(x.X.Val, float32(r.NormFloat64()*math.Pow(10, float64(r.IntN(4)))))
			}
			xs = append(xs, x)
		}
		algostest.Feed(t, l, xs...)
		report, err := l.Finish(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		held := xs
		if window > 0 {
			held = xs[n-window:]
		}
		a, y := mat.NewDense(len(held), d+1, nil), mat.NewVecDense(len(held), nil)
		for i, x := range held {
			for j, v := range x.X.Val {
				a.Set(i, j, float64(v))
			}
			a.Set(i, d, math.Sqrt(bias))
			y.SetVec(i, x.Y)
		}
		var g mat.Dense
		g.Mul(a.T(), a)
		g.Scale(1/float64(len(held)), &g)
		for j := range d + 1 {
			g.Set(j, j, g.At(j, j)+lambda)
		}
		var h, w, res mat.VecDense
		h.MulVec(a.T(), y)
		h.ScaleVec(1/float64(len(held)), &h)
		if err := w.SolveVec(&g, &h); err != nil {
			t.Fatal(err)
		}
		for i, x := range xs {
			want := w.AtVec(d) * math.Sqrt(bias)
			for j, v := range x.X.Val {
				want += float64(v) * w.AtVec(j)
			}
			if f := l.Model().Decision(x.X); math.Abs(f-want) > 1e-9*(1+math.Abs(want)) {
				t.Fatalf("window %d, example %d: f = %g, want %g", window, i, f, want)
			}
		}
		res.MulVec(a, &w)
		res.SubVec(&res, y)
		objective := mat.Dot(&res, &res)/2/float64(len(held)) + lambda/2*mat.Dot(&w, &w)
		if math.Abs(report.Objective-objective) > 1e-9*objective || report.Certificate > 1e-12 || report.Sample != len(held) {
			t.Errorf("window %d: %+v, want the objective %g", window, report, objective)
		}
	}
}
