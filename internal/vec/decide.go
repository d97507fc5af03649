package vec

import (
	"fmt"
	"sync"
)

const (
	decideRows    = 48   // at a time
	decideValues  = 8192 // of a block: 32 KiB
	decideColumns = 2048 // of one row
)

// decideScratch is what Decide needs besides its arguments.
type decideScratch struct {
	k [decideValues]float32
	l [decideRows]lanes
}

var decidePool = sync.Pool{New: func() any { return new(decideScratch) }}

// Decide sets dst[r] = Σ_j coef[j]·(K(x_r, p_j)+offset) for the n rows of Dim
// features that x holds one after the other; j runs over the first len(coef)
// rows of p. The kernel value is rounded to float32, the sums are float64. The
// bits of dst[r] do not depend on n.
func (k Kernel) Decide(dst []float64, x []float32, n int, p *Panels, coef []float64, offset float64) {
	k.decideOn(active, dst, x, n, p, coef, offset)
}

func (k Kernel) decideOn(c code, dst []float64, x []float32, n int, p *Panels, coef []float64, offset float64) {
	if len(coef) > p.n {
		panic(fmt.Sprintf("vec: %d coefficients for %d rows", len(coef), p.n))
	}
	dst = dst[:n]
	s := decidePool.Get().(*decideScratch)
	defer decidePool.Put(s)
	for r := 0; r < n; r += decideRows {
		rows := min(decideRows, n-r)
		columns := min(decideValues/rows, decideColumns) / Width * Width
		clear(s.l[:rows])
		for j := 0; j < len(coef); j += columns {
			to := min(j+columns, len(coef))
			k.blockOn(c, s.k[:], columns, x[r*p.dim:], rows, p, j, to)
			for i := range rows {
				s.l[i].add(c, s.k[i*columns:][:to-j], coef[j:to], offset)
			}
		}
		for i := range rows {
			dst[r+i] = s.l[i].sum()
		}
	}
}
