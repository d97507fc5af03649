package hinge

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// Decisions are those of models that are made of the other folds alone, one
// fold and one weight at a time.
func TestHeldOut(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const n, folds = 120, 3
	f := kernel.Func{Kernel: vec.Kernel{Kind: vec.RBF, Gamma: 1}, Bias: 1}
	xs, fold := make([]*stream.Example, n), make([]int, n)
	for i := range xs {
		x := &stream.Example{Labelled: true, Y: 1, X: stream.Vec{Val: []float32{float32(r.NormFloat64()), float32(r.NormFloat64())}}}
		if x.X.Val[0]*x.X.Val[1] < 0 {
			x.Y = -1
		}
		xs[i], fold[i] = x, i%folds
	}
	cs := []float64{0.1, 1, 10}
	got := HeldOut(kernel.New(f), xs, fold, cs)
	for k, c := range cs {
		for held := range folds {
			b := kernel.New(f)
			var in []int
			for i, x := range xs {
				if fold[i] != held {
					b.Append(x.X)
					in = append(in, i)
				}
			}
			var box Box
			box.Resize(len(in))
			b.Between(box.Gram, len(in), seq(len(in)), 0, len(in))
			for j, i := range in {
				box.A[j], box.G[j] = 0, xs[i].Y
				box.Lo[j], box.Hi[j] = bounds(xs[i].Y, c)
			}
			box.Ascend(100*n, 1e-6)
			for i, x := range xs {
				if fold[i] != held {
					continue
				}
				want := 0.0
				for j, m := range in {
					z := xs[m].X.Val
					d0, d1 := float64(x.X.Val[0]-z[0]), float64(x.X.Val[1]-z[1])
					want += box.A[j] * (math.Exp(-d0*d0-d1*d1) + 1)
				}
				if d := math.Abs(got[k*n+i] - want); !(d < .1*(1+math.Abs(want))) { // conditions hold to heldOutTol
					t.Errorf("c=%g, example %d: %.3f, want %.3f", c, i, got[k*n+i], want)
				}
			}
		}
	}
}
