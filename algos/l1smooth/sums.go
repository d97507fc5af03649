package l1smooth

import (
	"math"

	"github.com/streamsvm/streamsvm/internal/par"
)

// Sums over the examples have two stages: over the blocks of a group in order, then
// over the groups in order. The number of groups follows from the data alone, so
// the bits do not depend on the number of processors.
const (
	// maxGroups bounds the number of groups, and so of useful processors.
	maxGroups = 16
	// maxSquares bounds the number of groups with a Hessian each.
	maxSquares = 4
	// alone is the number of multiplications below which waking another processor
	// costs more than it saves.
	alone = 50000
)

// data has the finite sum: the examples of the buffer in blocks.
type data struct {
	blocks   []block
	n        int     // examples
	mass     float64 // sum of their weights
	positive int     // number of positive examples
	dim      int     // features
	nnz      int     // number of stored values
	bias     float64 // value of the constant feature, coordinate 0 of all vectors

	parts   [maxGroups][]float64  // scratch for sum
	squares [maxSquares][]float64 // scratch for hessian
	at      []int32               // hessian: each coordinate's position in the active set, or −1
}

// recount updates the totals after a change of blocks. dim never decreases.
func (d *data) recount() {
	d.n, d.mass, d.positive, d.nnz = 0, 0, 0, 0
	for i := range d.blocks {
		b := &d.blocks[i]
		d.n += len(b.y)
		d.mass += b.weight.Sum(len(b.y))
		d.positive += b.positive
		d.nnz += max(len(b.idx), len(b.val)) + len(b.y)
		d.dim = max(d.dim, b.dim)
	}
}

// size returns the number of coordinates: the bias and the features.
func (d *data) size() int { return d.dim + 1 }

// span returns the blocks of group g of n.
func (d *data) span(g, n int) (lo, hi int) {
	return g * len(d.blocks) / n, (g + 1) * len(d.blocks) / n
}

// run calls f for each group, on several processors if the work is worth it.
func (d *data) run(groups, work int, f func(g int)) {
	if work >= alone {
		par.Each(groups, f)
		return
	}
	for g := range groups {
		f(g)
	}
}

// totals are numbers that a pass may sum in addition to a vector.
type totals [3]float64

// sum does a pass over the blocks. f adds the part of a block, whose first example is
// number at, to t and to vector, which is as long as out. out is set to the sum of the
// vectors; it may be nil.
func (d *data) sum(out []float64, work int, f func(b *block, at int, vector []float64, t *totals)) (all totals) {
	groups := max(1, min(maxGroups, d.nnz/(4*max(len(out), 1)), len(d.blocks)))
	var each [maxGroups]totals
	d.run(groups, work, func(g int) {
		d.parts[g] = resize(d.parts[g], len(out))
		clear(d.parts[g])
		lo, hi := d.span(g, groups)
		for k := lo; k < hi; k++ {
			f(&d.blocks[k], k*blockRows, d.parts[g], &each[g])
		}
	})
	clear(out)
	for g := range groups {
		for i, v := range each[g] {
			all[i] += v
		}
		for j, v := range d.parts[g] {
			out[j] += v
		}
	}
	return all
}

// smoothSlopes returns the first two derivatives of the paper's smoothed hinge φ_α, given α²:
//
//	φ_α(u)  = (u + √(α²+u²))/2
//	φ_α'(u) = (1 + u/√(α²+u²))/2 = φ_α(u)/√(α²+u²)
//	φ_α''(u) = α²/(2 (α²+u²)^{3/2})
//
// For u < 0 the sum would cancel; there φ_α = α²/(2 (√(α²+u²) − u)).
func smoothSlopes(u, alpha2 float64) (d1, d2 float64) {
	r := math.Sqrt(float64(u*u) + alpha2)
	return phi(u, r, alpha2) / r, alpha2 / (2 * float64(r*float64(r*r)))
}

// rise returns φ_α(u+δ) − φ_α(u) to full relative accuracy, as δ (φ_α(u) +
// φ_α(u+δ)) / (√(α²+u²) + √(α²+(u+δ)²)), in which all terms except δ are positive.
func rise(u, delta, alpha2 float64) float64 {
	v := u + delta
	ru := math.Sqrt(float64(u*u) + alpha2)
	rv := math.Sqrt(float64(v*v) + alpha2)
	return delta * ((phi(u, ru, alpha2) + phi(v, rv, alpha2)) / (ru + rv))
}

// phi returns φ_α(u), given r = √(α²+u²).
func phi(u, r, alpha2 float64) float64 {
	if u < 0 {
		return alpha2 / (2 * (r - u))
	}
	return (u + r) / 2
}

// point has the parts of the objective at one w and α.
type point struct {
	u     []float64 // 1 − y_i ⟨w, x_i⟩
	h     []float64 // w_i φ_α''(u_i)/N
	grad  []float64 // gradient of the smoothed mean loss alone: −1/N Σ w_i φ_α'(u_i) y_i x_i
	hinge float64   // mean of max(0, u_i)
	theta float64   // mean of φ_α'(u_i)
	coef  []float64 // scratch
}

// evaluate fills p for w and α. If margins is set, p.u already belongs to w.
func (d *data) evaluate(p *point, w []float64, alpha float64, margins bool) {
	p.u, p.h, p.coef, p.grad = resize(p.u, d.n), resize(p.h, d.n), resize(p.coef, d.n), resize(p.grad, d.size())
	n, alpha2 := d.mass, float64(alpha*alpha)
	t := d.sum(p.grad, 2*d.nnz, func(b *block, at int, grad []float64, t *totals) {
		u, c, h := p.u[at:at+len(b.y)], p.coef[at:at+len(b.y)], p.h[at:at+len(b.y)]
		if !margins {
			b.dots(u, w, d.bias)
			for i, y := range b.y {
				u[i] = 1 - float64(y*u[i])
			}
		}
		for i, y := range b.y {
			d1, d2 := smoothSlopes(u[i], alpha2)
			w := b.weight.At(i)
			t[0] += float64(w * max(u[i], 0))
			t[1] += float64(w * d1)
			h[i] = float64(w*d2) / n
			c[i] = -float64(w*float64(y*d1)) / n
		}
		b.scatter(grad, c, d.bias)
	})
	p.hinge, p.theta = t[0]/n, t[1]/n
}

// tangent sets p.grad to the derivative of the gradient with respect to α: 1/N Σ
// u_i α/(2 (α²+u_i²)^{3/2}) y_i x_i, given margins in p.u and φ_α″/N in p.h.
func (d *data) tangent(p *point, alpha float64) {
	d.sum(p.grad, d.nnz, func(b *block, at int, grad []float64, _ *totals) {
		c := p.coef[at : at+len(b.y)]
		for i, y := range b.y {
			c[i] = float64(float64(y*p.h[at+i])*p.u[at+i]) / alpha
		}
		b.scatter(grad, c, d.bias)
	})
}

// along sets q[i] = y_i ⟨v, x_i⟩ and returns Σ h_i q_i².
func (d *data) along(q, v, h []float64) float64 {
	return d.sum(nil, d.nnz, func(b *block, at int, _ []float64, t *totals) {
		q, h := q[at:at+len(b.y)], h[at:at+len(b.y)]
		b.dots(q, v, d.bias)
		for i, y := range b.y {
			q[i] = float64(y * q[i])
			t[0] += float64(h[i] * float64(q[i]*q[i]))
		}
	})[0]
}

// rise returns the change of the smoothed mean loss, and the mean hinge, when u
// becomes u − s·q.
func (d *data) rise(u, q []float64, s, alpha float64) (change, mean float64) {
	n, alpha2 := d.mass, float64(alpha*alpha)
	t := d.sum(nil, 8*d.n, func(b *block, at int, _ []float64, t *totals) {
		for i := at; i < at+len(b.y); i++ {
			delta := -float64(s * q[i])
			w := b.weight.At(i - at)
			t[0] += float64(w * rise(u[i], delta, alpha2))
			t[1] += float64(w * max(u[i]+delta, 0))
		}
	})
	return t[0] / n, t[1] / n
}

// slopes returns the first and the second derivative with respect to s of the
// smoothed mean loss at u − s·q.
func (d *data) slopes(u, q []float64, s, alpha float64) (d1, d2 float64) {
	n, alpha2 := d.mass, float64(alpha*alpha)
	t := d.sum(nil, 8*d.n, func(b *block, at int, _ []float64, t *totals) {
		for i := at; i < at+len(b.y); i++ {
			p1, p2 := smoothSlopes(u[i]-float64(s*q[i]), alpha2)
			w := b.weight.At(i - at)
			t[0] -= float64(w * float64(p1*q[i]))
			t[1] += float64(w * float64(p2*float64(q[i]*q[i])))
		}
	})
	return t[0] / n, t[1] / n
}

// times sets out to Σ h_i x_i ⟨x_i, v⟩ over the examples with h_i > least. v and
// out have all coordinates.
func (d *data) times(out, v, h []float64, least float64) {
	v0 := float64(v[0] * d.bias)
	d.sum(out, 2*d.nnz, func(b *block, at int, part []float64, _ *totals) {
		var sum float64
		for i, h := range h[at : at+len(b.y)] {
			if !(h > least) {
				continue
			}
			if c := float64(h * (v0 + b.dot(v, i))); c != 0 {
				sum += c
				b.axpy(part, i, c)
			}
		}
		part[0] += float64(sum * d.bias)
	})
}

// diagonal adds Σ h_i x_ij² to out, over the examples with h_i > least.
func (d *data) diagonal(out, h []float64, least float64) {
	for k := range d.blocks {
		b, at := &d.blocks[k], k*blockRows
		for i, h := range h[at : at+len(b.y)] {
			if !(h > least) {
				continue
			}
			out[0] += float64(h * float64(d.bias*d.bias))
			for j, v := range b.values(i) {
				out[j+1] += float64(h * float64(v*v))
			}
		}
	}
}

// resize returns x with length n and undefined contents.
func resize[T any](x []T, n int) []T {
	if cap(x) < n {
		return make([]T, n)
	}
	return x[:n]
}
