package hinge

import (
	"slices"

	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/par"
	"github.com/streamsvm/streamsvm/stream"
)

const (
	heldOutPairs = 3   // pairs of coefficients that move, at most, per point
	heldOutTol   = 0.1 // violation of a condition, in units of the margin, that is as good as none
)

// HeldOut returns decisions at the examples xs, by models that have learned
// from those of other folds only: entry k·len(xs)+i is that at example i of a
// model that minimises ½‖f‖² + cs[k] Σ_j v_j max(0, 1 − y_j f(x_j)), about.
// b is empty. cs are ascending: each solution is where the next one starts.
//
// All share the kernel values, of which there are len(xs)². An example that is held
// out stays in the problem with a coefficient of 0, so that its decision is at
// hand.
func HeldOut(b *kernel.Basis, xs []*stream.Example, fold []int, cs []float64) []float64 {
	n := len(xs)
	all := make([]int32, n)
	for i, x := range xs {
		b.Append(x.X)
		all[i] = int32(i)
	}
	gram := make([]float32, n*n)
	b.Between(gram, n, all, 0, n)
	out := make([]float64, n*len(cs))
	par.Each(1+slices.Max(fold), func(f int) {
		box := Box{Gram: gram}
		box.Resize(n)
		for i, x := range xs {
			box.A[i], box.G[i] = 0, x.Y
		}
		for k, c := range cs {
			for i, x := range xs {
				box.Lo[i], box.Hi[i] = 0, 0
				if fold[i] != f {
					box.Lo[i], box.Hi[i] = bounds(x.Y, c*x.Importance())
				}
			}
			box.Ascend(heldOutPairs*n, heldOutTol)
			for i, x := range xs {
				if fold[i] == f {
					out[k*n+i] = x.Y - box.G[i]
				}
			}
		}
	})
	return out
}
