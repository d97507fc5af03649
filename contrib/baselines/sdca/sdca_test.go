package sdca

import (
	"fmt"
	"math"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/internal/testkit/oracle"
	"github.com/streamsvm/streamsvm/stream"
)

func TestConformance(t *testing.T) {
	for _, o := range []map[string]string{{"buffer": "60", "gamma": "2", "lambda": "0.01"}, {"kernel": "poly", "visits": "0", "buffer": "100", "every": "1"}} {
		t.Run(fmt.Sprint(o), func(t *testing.T) { algostest.Run(t, Spec, algostest.With(o), algostest.Accuracy(.8)) })
	}
}

func k(x, z *stream.Example) float64 {
	var d float64
	for j, v := range x.X.Val {
		e := float64(v) - float64(z.X.Val[j])
		d += e * e
	}
	return math.Exp(-2 * d)
}

// After many visits the objective is that of an independent solver on the
// examples in the window, within the duality gap, which closes.
func TestOptimum(t *testing.T) {
	for _, size := range []int{1000, 90} {
		l, err := Spec.New(algos.Env{Seed: 2}, map[string]string{
			"gamma": "2", "bias": "0", "c": "2", "buffer": fmt.Sprint(size), "final": "300",
		})
		if err != nil {
			t.Fatal(err)
		}
		var xs []*stream.Example
		for _, x := range algostest.Moons(250, algos.Classify, 4) {
			if x.Labelled {
				xs = append(xs, x)
			}
			algostest.Feed(t, l, x)
		}
		r, err := l.Finish(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		xs = xs[max(0, len(xs)-size):]
		q, y := make([][]float64, len(xs)), make([]float64, len(xs))
		for i, x := range xs {
			y[i] = x.Y
			for _, z := range xs {
				q[i] = append(q[i], k(x, z))
			}
		}
		want := oracle.Solve(q, y, 1/(2*float64(len(xs))), 1e-9, 20000).Objective
		if d := r.Objective - want; d < -1e-6 || d > r.Certificate+1e-6 || r.Certificate > 1e-3*want {
			t.Errorf("window %d: objective %g, the optimum is %g, certificate %g", size, r.Objective, want, r.Certificate)
		}
	}
}
