package wolfe_test

import (
	"math"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/contrib/baselines/wolfe"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/internal/testkit/oracle"
	"github.com/streamsvm/streamsvm/stream"
)

// blobs returns n points of two overlapping classes.
func blobs(seed uint64, n int) []*stream.Example {
	r := rng.New(seed, "wolfe.test")
	var all []*stream.Example
	for i := range n {
		y := float64(2*r.IntN(2) - 1)
		all = append(all, &stream.Example{Seq: uint64(i + 1), Y: y, Labelled: true,
			X: stream.Vec{Val: []float32{float32(.6*y + r.NormFloat64()), float32(r.NormFloat64())}}})
	}
	return all
}

func TestReachesTheDualOptimum(t *testing.T) {
	data := blobs(3, 200)
	q := make([][]float64, len(data))
	w := make([]float64, len(data))
	for i, x := range data {
		w[i] = x.Y
		for _, z := range data {
			a, b := float64(x.X.Val[0]-z.X.Val[0]), float64(x.X.Val[1]-z.X.Val[1])
			q[i] = append(q[i], math.Exp(-(a*a+b*b))+1)
		}
	}
	for _, c := range []struct {
		lambda, tol string
		l, within   float64
		geometry    string
	}{
		{"1", "1e-9", 1, 1e-6, "rkhs"},
		{"0.1", "1e-9", .1, 1e-4, "rkhs"},
		{"1", "1e-9", 1, 1e-3, "alpha"},
	} {
		l, err := wolfe.Spec.New(algos.Env{}, map[string]string{"lambda": c.lambda, "gamma": "1", "iterations": "3000", "eps": "1e-7", "acc_tol": "1e-7", "geometry": c.geometry})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range data {
			if _, err := l.Add(x); err != nil {
				t.Fatal(err)
			}
		}
		r, err := l.Finish(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		best := oracle.Solve(q, w, c.l, 1e-10, 20000)
		gap := r.Objective - best.Objective
		t.Logf("%+v: %d iterations, f = %.9g, optimum %.9g", c, r.Step, r.Objective, best.Objective)
		if gap > c.within*best.Objective || gap < -1e-6 {
			t.Errorf("%+v: objective %g, optimum %g", c, r.Objective, best.Objective)
		}
		if bound := r.Certificate; bound < gap-1e-6 {
			t.Errorf("%+v: certificate %g below the gap %g", c, bound, gap)
		}
	}
}
