package hinge

import (
	"slices"

	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/kernel/rows"
	"github.com/streamsvm/streamsvm/stream"
)

const (
	heldOutPairs = 3   // most pairs of coefficients moved, per point
	heldOutTol   = 0.1 // largest violation of a condition that is ignored, in units of the margin
)

// heldOutBytes bounds the kernel rows that are kept.
const heldOutBytes = 8 << 20

// HeldOut cross-validates: it returns decisions at the examples xs by models
// trained on the other folds. Entry k·len(xs)+i is the decision at example i of a
// model that approximately minimises ½‖f‖² + cs[k] Σ_j v_j max(0, 1 − y_j f(x_j)).
// b is empty. cs are ascending: each solution starts from the previous one.
//
// A held-out example stays in the problem with coefficient 0, so that its decision
// is available.
func HeldOut(b *kernel.Basis, xs []*stream.Example, fold []int, cs []float64) []float64 {
	n := len(xs)
	for _, x := range xs {
		b.Append(x.X)
	}
	cache := rows.New(b, heldOutBytes)
	cache.Sync()
	box := Box{Row: cache.Row}
	box.Resize(n)
	out := make([]float64, n*len(cs))
	for f := range 1 + slices.Max(fold) {
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
	}
	return out
}
