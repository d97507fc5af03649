package finitesum

import (
	"errors"
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/vec"
)

// MaxGram is the largest number of coordinates of which a Gram matrix is kept.
const MaxGram = 1000

// Gram holds Σ a_i a_iᵀ and Σ b_i a_i over a changing set of rows, from which
// come the quadratic terms of the squared loss and the minimum of a ridge
// problem. Memory: d²/2 numbers; a row costs nnz²/2.
type Gram struct {
	low []float64 // lower triangle, row by row: entry (i,j), j ≤ i, at i(i+1)/2+j
	h   []float64
	n   int
	row []float64
	idx []int32
}

// Dim returns the number of coordinates.
func (g *Gram) Dim() int { return len(g.h) }

// Len returns the number of rows in the sums.
func (g *Gram) Len() int { return g.n }

func (g *Gram) widen(dim int) {
	if d := len(g.h); dim > d {
		g.h = append(g.h, make([]float64, dim-d)...)
		g.low = append(g.low, make([]float64, dim*(dim+1)/2-d*(d+1)/2)...)
	}
}

// Add adds row i of p, Remove takes it out. Rounding errors of rows removed
// stay behind: Rebuild drops them.
func (g *Gram) Add(p *Problem, i int) { g.update(p, i, 1) }

// Remove takes row i of p out.
func (g *Gram) Remove(p *Problem, i int) { g.update(p, i, -1) }

// Rebuild sums all rows of p anew.
func (g *Gram) Rebuild(p *Problem) {
	g.low, g.h, g.n = g.low[:0], g.h[:0], 0
	g.widen(p.Dim())
	for i := range p.rows {
		g.Add(p, i)
	}
}

func (g *Gram) update(p *Problem, i int, sign float64) {
	g.widen(p.Dim())
	if len(g.row) < p.Dim() {
		g.row = make([]float64, p.Dim())
	}
	// The row as numbers in float64, at its nonzero coordinates.
	a, r := g.row, &p.rows[i]
	g.idx = g.idx[:0]
	if p.Bias != 0 {
		a[0] = p.Bias
		g.idx = append(g.idx, 0)
	}
	for k, v := range r.Val {
		j := int32(k + p.first())
		if r.Idx != nil {
			j = r.Idx[k] + int32(p.first())
		}
		if v != 0 {
			a[j] = float64(v)
			g.idx = append(g.idx, j)
		}
	}
	full := len(g.idx) > p.Dim()/2
	for k, j := range g.idx {
		c := sign * a[j]
		line := g.low[int(j)*(int(j)+1)/2:]
		if full {
			vec.Axpy64(c, a[:j+1], line[:j+1])
		} else {
			for _, l := range g.idx[:k+1] {
				line[l] += float64(c * a[l])
			}
		}
		g.h[j] += float64(c * p.b[i])
	}
	for _, j := range g.idx {
		a[j] = 0
	}
	g.n += int(sign)
}

// line returns row i of the lower triangle, without the diagonal.
func (g *Gram) line(i int) []float64 { return g.low[i*(i+1)/2:][:i] }

func (g *Gram) diag(i int) float64 { return g.low[i*(i+1)/2+i] }

// forms returns xᵀGx and hᵀx, both divided by the number of rows.
func (g *Gram) forms(x []float64) (q, h float64) {
	d := min(len(g.h), len(x))
	for i, v := range x[:d] {
		if v == 0 {
			continue
		}
		q += float64(v * (2*vec.Dot64(g.line(i), x[:i]) + float64(g.diag(i)*v)))
		h += float64(g.h[i] * v)
	}
	n := float64(max(g.n, 1))
	return q / n, h / n
}

var errSingular = errors.New("the ridge problem has no finite solution")

// Ridge returns the minimum of 1/(2n) Σ (a_iᵀx − b_i)² + λ1/2 ‖x‖², by
// Cholesky factorisation: O(d³/6). Coordinates that the others explain to
// within rounding, which can occur only where λ1 is 0 or tiny, are left out,
// that is 0.
func (g *Gram) Ridge(lambda1 float64) ([]float64, error) {
	d, n := len(g.h), float64(max(g.n, 1))
	c := Gram{low: make([]float64, len(g.low))}
	x := make([]float64, d)
	const tiny = 1e-13 // of the diagonal before elimination
	for i := range d {
		from, to := g.line(i), c.line(i)
		for j := range to {
			if p := c.diag(j); p > 0 {
				to[j] = (from[j]/n - vec.Dot64(to[:j], c.line(j))) / p
			}
		}
		full := g.diag(i)/n + lambda1
		if rest := full - vec.Dot64(to, to); rest > tiny*full {
			c.low[i*(i+1)/2+i] = math.Sqrt(rest)
			x[i] = (g.h[i]/n - vec.Dot64(to, x[:i])) / c.diag(i)
		}
	}
	for i := d - 1; i >= 0; i-- {
		p := c.diag(i)
		if p == 0 {
			x[i] = 0
			continue
		}
		x[i] /= p
		if x[i]-x[i] != 0 {
			return nil, errSingular
		}
		vec.Axpy64(-x[i], c.line(i), x[:i])
	}
	return x, nil
}

// At returns xᵀGx/n, hᵀx/n, and the norm of the gradient of the ridge problem
// at x.
func (g *Gram) At(x []float64, lambda1 float64) (q, h, norm float64) {
	n := float64(max(g.n, 1))
	r := make([]float64, len(g.h))
	for i, v := range x[:len(g.h)] {
		r[i] += vec.Dot64(g.line(i), x[:i]) + float64(g.diag(i)*v)
		vec.Axpy64(v, g.line(i), r[:i])
	}
	for i, v := range x[:len(g.h)] {
		e := (r[i]-g.h[i])/n + float64(lambda1*v)
		norm += float64(e * e)
	}
	q, h = g.forms(x)
	return q, h, math.Sqrt(norm)
}

// Fields describes the state.
func (g *Gram) Fields(f *state.Fields) {
	f.Float64s("low", &g.low)
	f.Float64s("h", &g.h)
	f.Int("n", &g.n)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	if d := len(g.h); len(g.low) != d*(d+1)/2 || g.n < 0 {
		f.Fail("low", fmt.Errorf("%d sums for %d coordinates, %d rows", len(g.low), d, g.n))
		return
	}
	for _, s := range [][]float64{g.low, g.h} {
		for _, v := range s {
			if v-v != 0 {
				f.Fail("low", fmt.Errorf("a sum is %g", v))
				return
			}
		}
	}
}
