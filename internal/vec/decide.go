package vec

import (
	"fmt"
	"sync"
)

const (
	decideRows    = 48   // rows at a time
	decideValues  = 8192 // values in a block: 32 KiB
	decideColumns = 2048 // values of one row
)

// decideScratch is the scratch memory of Decide.
type decideScratch struct {
	k [decideValues]float32
	l [decideRows]lanes
}

var decidePool = sync.Pool{New: func() any { return new(decideScratch) }}

// Decide sets dst[r] = Σ_j coef[j]·(K(x_r, p_j)+offset) for the n consecutive rows
// of Dim features in x; j runs over the first len(coef) rows of p. Kernel values
// are rounded to float32, sums are float64. The bits of dst[r] do not depend on n.
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
