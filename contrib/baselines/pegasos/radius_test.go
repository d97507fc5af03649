package pegasos

import (
	"fmt"
	"math"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/stream"
)

// With a radius the iterates are those of projected stochastic gradient
// descent, written out with all coefficients and norms computed afresh.
func TestRadius(t *testing.T) {
	rbf := func(x, z []float32) float64 {
		var d float64
		for i := range x {
			d += float64(x[i]-z[i]) * float64(x[i]-z[i])
		}
		return math.Exp(-2 * d)
	}
	dot := func(x, z []float32) float64 {
		var s float64
		for i := range x {
			s += float64(x[i]) * float64(z[i])
		}
		return s
	}
	var xs []*stream.Example
	for _, x := range algostest.Moons(400, algos.Classify, 3) {
		if x.Labelled {
			xs = append(xs, x)
		}
	}
	xs = xs[:150]
	for _, tt := range []struct {
		options map[string]string
		k       func(x, z []float32) float64
	}{
		{map[string]string{"gamma": "2"}, rbf},
		{map[string]string{"kernel": "linear"}, dot},
	} {
		q := make([][]float64, len(xs))
		for i, x := range xs {
			for _, z := range xs {
				q[i] = append(q[i], tt.k(x.X.Val, z.X.Val))
			}
		}
		for _, radius := range []float64{.5, 5, 1000} {
			for _, average := range []string{"none", "uniform", "linear"} {
				o := map[string]string{"radius": fmt.Sprint(radius), "average": average, "bias": "0"}
				for k, v := range tt.options {
					o[k] = v
				}
				l, err := Spec.New(algos.Env{Seed: 1}, o)
				if err != nil {
					t.Fatal(err)
				}
				algostest.Feed(t, l, xs...)

				alpha, sum := make([]float64, len(xs)), make([]float64, len(xs))
				var weight, diag float64
				for i, x := range xs {
					var f float64
					for j, a := range alpha {
						f += a * q[j][i]
					}
					diag = max(diag, q[i][i])
					if x.Y*f < 1 {
						alpha[i] += x.Y * radius / math.Sqrt(diag*float64(i+1))
					}
					var norm2 float64
					for j, a := range alpha {
						for m, b := range alpha {
							norm2 += a * b * q[j][m]
						}
					}
					if norm := math.Sqrt(norm2); norm > radius {
						for j := range alpha {
							alpha[j] *= radius / norm
						}
					}
					w := map[string]float64{"none": 1, "uniform": 1, "linear": float64(i + 1)}[average]
					if average == "none" {
						clear(sum)
						weight = 0
					}
					for j, a := range alpha {
						sum[j] += w * a
					}
					weight += w
				}
				for i, x := range xs {
					var want float64
					for j, a := range sum {
						want += a / weight * q[j][i]
					}
					if got := l.Model().Decision(x.X); math.Abs(got-want) > 1e-4*(1+math.Abs(want)) {
						t.Fatalf("%v: f is %g, want %g", o, got, want)
					}
				}
			}
		}
	}
}
