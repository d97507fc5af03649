package finitesum

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/internal/vec"
)

// MaxGram is the largest number of coordinates for which a Gram matrix is kept.
const MaxGram = 1000

// Gram maintains Σ w_i a_i a_iᵀ and Σ w_i b_i a_i over a changing set of rows. They
// give the quadratic terms of the squared loss and the minimum of a ridge problem.
// Memory: d²/2 numbers; adding or removing a row costs nnz²/2.
type Gram struct {
	low  linear.Lower
	h    []float64
	n    int
	over float64   // Σ (w_i − 1)
	row  []float64 // scratch: a row in float64, all 0 between calls
	idx  []int32   // its nonzero coordinates
}

// Dim returns the number of coordinates.
func (g *Gram) Dim() int { return len(g.h) }

// Len returns the number of rows in the sums.
func (g *Gram) Len() int { return g.n }

func (g *Gram) widen(dim int) {
	if dim > len(g.h) {
		g.h, g.low = linear.Grow(g.h, dim), linear.Grow(g.low, linear.Triangle(dim))
	}
}

// Add adds row i of p.
func (g *Gram) Add(p *Problem, i int) { g.update(p, i, 1) }

// Remove removes row i of p. Rounding errors of removed rows accumulate; Rebuild
// drops them.
func (g *Gram) Remove(p *Problem, i int) { g.update(p, i, -1) }

// Rebuild computes the sums anew from all rows of p.
func (g *Gram) Rebuild(p *Problem) {
	g.low, g.h, g.n, g.over = g.low[:0], g.h[:0], 0, 0
	g.widen(p.Dim())
	for i := range p.rows {
		g.Add(p, i)
	}
}

func (g *Gram) update(p *Problem, i int, sign float64) {
	g.widen(p.Dim())
	w := p.weights.At(i)
	g.over += float64(sign * (w - 1))
	g.n += int(sign)
	sign *= w
	g.row, g.idx = linear.Grow(g.row, p.Dim()), g.idx[:0]
	a := g.row
	if p.Bias != 0 {
		a[0] = p.Bias
		g.idx = append(g.idx, 0)
	}
	for j, v := range linear.Nonzeros(p.rows[i]) {
		a[j+p.first()] = float64(v)
		g.idx = append(g.idx, int32(j+p.first()))
	}
	full := len(g.idx) > p.Dim()/2
	for k, j := range g.idx {
		c := sign * a[j]
		line := g.low.Row(int(j))
		if full {
			vec.Axpy64(c, a[:j+1], line)
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
}

// mass returns the weight of the rows, or 1 without rows.
func (g *Gram) mass() float64 {
	if g.n == 0 {
		return 1
	}
	return float64(g.n) + g.over
}

// Mass returns the weight of the rows.
func (g *Gram) Mass() float64 { return float64(g.n) + g.over }

// forms returns xᵀGx and hᵀx, both divided by the weight of the rows.
func (g *Gram) forms(x []float64) (q, h float64) {
	d := min(len(g.h), len(x))
	for i, v := range x[:d] {
		if v == 0 {
			continue
		}
		line := g.low.Row(i)
		q += float64(v * (2*vec.Dot64(line[:i], x[:i]) + float64(line[i]*v)))
		h += float64(g.h[i] * v)
	}
	n := g.mass()
	return q / n, h / n
}

var errSingular = errors.New("the ridge problem has no finite solution")

// Ridge returns the minimum of 1/(2n) Σ (a_iᵀx − b_i)² + λ1/2 ‖x‖², by Cholesky
// factorisation: O(d³/6). Coordinates that are linear combinations of others up to
// rounding, which requires that λ1 is 0 or tiny, are set to 0.
func (g *Gram) Ridge(lambda1 float64) ([]float64, error) {
	const tiny = 1e-13
	d, n := len(g.h), g.mass()
	c, x := slices.Clone(g.low), slices.Clone(g.h)
	for i := range c {
		c[i] /= n
	}
	for i := range x {
		x[i] /= n
	}
	c.Shift(d, lambda1)
	c.Cholesky(d, tiny, true)
	c.Solve(x)
	if linear.Finite(x) != nil {
		return nil, errSingular
	}
	return x, nil
}

// At returns xᵀGx/n, hᵀx/n, and the norm of the gradient of the ridge problem at x.
func (g *Gram) At(x []float64, lambda1 float64) (q, h, norm float64) {
	n := g.mass()
	r := make([]float64, len(g.h))
	for i, v := range x[:len(g.h)] {
		line := g.low.Row(i)
		r[i] += vec.Dot64(line[:i], x[:i]) + float64(line[i]*v)
		vec.Axpy64(v, line[:i], r[:i])
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
	f.Float64s("low", (*[]float64)(&g.low))
	f.Float64s("h", &g.h)
	f.Int("n", &g.n)
	if f.Decoding() {
		g.over = 0
	}
	if f.Next("example_weights") || !f.Decoding() && g.over != 0 {
		f.Float64("example_weights", &g.over)
	}
	if !f.Decoding() || f.Err() != nil {
		return
	}
	if d := len(g.h); len(g.low) != linear.Triangle(d) || g.n < 0 || !(g.mass() > 0) {
		f.Fail("low", fmt.Errorf("%d sums for %d coordinates, %d rows", len(g.low), d, g.n))
	}
	f.Fail("low", linear.Finite(g.low, g.h))
}
