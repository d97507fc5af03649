package kernel

import (
	"sync"

	"github.com/streamsvm/streamsvm/internal/par"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// decideRows and decideCols bound the block of kernel values in memory: 256 KiB,
// which stays in the second-level cache.
const (
	decideRows = 64
	decideCols = 1024
)

type decideScratch struct{ block, x []float32 }

var decidePool = sync.Pool{New: func() any { return new(decideScratch) }}

// Decide sets dst[i] = Σ_j coef[j]·(K(point j, xs[i]) + Bias) + offset; coef has an
// element for each point. The bits of dst[i] do not depend on the other vectors. It
// is safe for concurrent use.
func (b *Basis) Decide(dst []float64, xs []stream.Vec, coef []float64, offset float64) {
	if work := b.Work(len(xs) * b.Len()); par.Pays(work) {
		par.Split(len(xs), decideUnit, work, func(from, to int) { b.decideSome(dst[from:to], xs[from:to], coef, offset) })
		return
	}
	b.decideSome(dst, xs, coef, offset)
}

// Parallel pieces are multiples of decideUnit vectors. That many pass over the
// points nearly as fast as a full block.
const decideUnit = 8

func (b *Basis) decideSome(dst []float64, xs []stream.Vec, coef []float64, offset float64) {
	w := decidePool.Get().(*decideScratch)
	defer decidePool.Put(w)
	for len(xs) > 0 {
		// Take consecutive vectors whose kernel values are computed by the same code.
		packed := b.usesPanels(xs[0])
		n := 1
		for n < min(len(xs), decideRows) && b.usesPanels(xs[n]) == packed {
			n++
		}
		if packed {
			b.decidePanels(w, dst[:n], xs[:n], coef)
		} else {
			b.decide(w, dst[:n], xs[:n], coef)
		}
		if offset != 0 {
			for i := range dst[:n] {
				dst[i] += offset
			}
		}
		dst, xs = dst[n:], xs[n:]
	}
}

// usesPanels reports whether kernel values of x are computed from packed panels.
func (b *Basis) usesPanels(x stream.Vec) bool { return b.rows == nil && x.Dim() <= b.panels.Dim() }

// decidePanels is Decide for vectors that fit the dense layout.
func (b *Basis) decidePanels(w *decideScratch, dst []float64, xs []stream.Vec, coef []float64) {
	d := b.panels.Dim()
	w.x = grow(w.x, len(xs)*d)
	for r, x := range xs {
		x.Dense(w.x[r*d : (r+1)*d])
	}
	b.Func.Decide(dst, w.x, len(xs), b.panels, coef, float64(b.Func.Bias))
}

// decide is Decide for the sparse layout, and for vectors with features that no
// point has. The sum over a row is split at the same columns whatever the number of
// rows, so that a decision does not depend on the vectors beside it.
func (b *Basis) decide(w *decideScratch, dst []float64, xs []stream.Vec, coef []float64) {
	clear(dst)
	w.block = grow(w.block, len(xs)*decideCols)
	n := b.Len()
	for from := 0; from < n; from += decideCols {
		to := min(n, from+decideCols)
		w.x = b.Values(w.x, w.block, to-from, xs, from, to)
		for r := range xs {
			dst[r] += vec.DotMixed(w.block[r*(to-from):(r+1)*(to-from)], coef[from:to])
		}
	}
}
