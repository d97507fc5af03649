package l1smooth

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/internal/vec"
)

// Sums over the examples are made in two stages: over the blocks of a group in
// order, then over the groups in order. The number of groups follows from the
// data alone, so the bits do not depend on the number of workers.
const (
	// maxGroups is the most groups, and so the most workers of use.
	maxGroups = 16
	// maxSquares is the most groups that have a Hessian each.
	maxSquares = 4
	// alone is the number of multiplications below which starting workers
	// costs more than it saves.
	alone = 50000
)

// data is the finite sum: the examples of the buffer in blocks.
type data struct {
	blocks  []block
	n       int     // examples
	dim     int     // features
	nnz     int     // stored values
	bias    float64 // value of the constant feature, coordinate 0 of all vectors
	workers int     // 0: as many as GOMAXPROCS
}

// recount brings the totals up to date after a change of blocks. dim never
// falls.
func (d *data) recount() {
	d.n, d.nnz = 0, 0
	for i := range d.blocks {
		b := &d.blocks[i]
		d.n += len(b.y)
		d.nnz += max(len(b.idx), len(b.val)) + len(b.y)
		d.dim = max(d.dim, b.dim())
	}
}

// size returns the number of coordinates: the bias and the features.
func (d *data) size() int { return d.dim + 1 }

// groups returns the number of groups for sums of the given length.
func (d *data) groups(length, most int) int {
	return max(1, min(most, d.nnz/(4*length), len(d.blocks)))
}

// span returns the blocks of group g of n.
func (d *data) span(g, n int) (lo, hi int) {
	return g * len(d.blocks) / n, (g + 1) * len(d.blocks) / n
}

// run calls f for each group, on several workers if the work pays for it.
func (d *data) run(groups, work int, f func(g int)) {
	workers := d.workers
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	workers = min(workers, groups)
	if workers == 1 || work < alone {
		for g := range groups {
			f(g)
		}
		return
	}
	var next atomic.Int32
	var wait sync.WaitGroup
	for range workers {
		wait.Go(func() {
			for g := next.Add(1) - 1; int(g) < groups; g = next.Add(1) - 1 {
				f(int(g))
			}
		})
	}
	wait.Wait()
}

// A partial is the share of a group in the sums of evaluate.
type partial struct {
	phi, hinge, theta float64
	grad              []float64
}

// point holds what is known of the objective at one w and α.
type point struct {
	u     []float64 // 1 − y_i ⟨w, x_i⟩
	h     []float64 // φ_α''(u_i)/N
	grad  []float64 // of the smoothed mean loss alone: −1/N Σ φ_α'(u_i) y_i x_i
	phi   float64   // mean of φ_α(u_i)
	hinge float64   // mean of max(0, u_i)
	theta float64   // mean of φ_α'(u_i)

	parts []partial
	coef  []float64
}

// evaluate fills p for w and α. With margins set, p.u is that of w already.
func (d *data) evaluate(p *point, w []float64, alpha float64, margins bool) {
	p.u, p.h, p.coef = resize(p.u, d.n), resize(p.h, d.n), resize(p.coef, d.n)
	p.grad = resize(p.grad, d.size())
	groups := d.groups(d.size(), maxGroups)
	for len(p.parts) < groups {
		p.parts = append(p.parts, partial{})
	}
	n, alpha2 := float64(d.n), float64(alpha*alpha)
	d.run(groups, 2*d.nnz, func(g int) {
		part := &p.parts[g]
		part.phi, part.hinge, part.theta = 0, 0, 0
		part.grad = resize(part.grad, d.size())
		clear(part.grad)
		lo, hi := d.span(g, groups)
		for k := lo; k < hi; k++ {
			b, at := &d.blocks[k], k*blockRows
			u, c, h := p.u[at:at+len(b.y)], p.coef[at:at+len(b.y)], p.h[at:at+len(b.y)]
			if !margins {
				b.dots(u, w, d.bias)
				for i, y := range b.y {
					u[i] = 1 - float64(y*u[i])
				}
			}
			for i, y := range b.y {
				phi, d1, d2 := smooth(u[i], alpha2)
				part.phi += phi
				part.hinge += hinge(u[i])
				part.theta += d1
				h[i] = d2 / n
				c[i] = -float64(y*d1) / n
			}
			b.scatter(part.grad, c, d.bias)
		}
	})
	p.phi, p.hinge, p.theta = 0, 0, 0
	clear(p.grad)
	for g := range groups {
		part := &p.parts[g]
		p.phi += part.phi
		p.hinge += part.hinge
		p.theta += part.theta
		for j, v := range part.grad {
			p.grad[j] += v
		}
	}
	p.phi, p.hinge, p.theta = p.phi/n, p.hinge/n, p.theta/n
}

// tangent sets p.grad to the derivative of the gradient by α: 1/N Σ u_i
// α/(2 (α²+u_i²)^{3/2}) y_i x_i, for margins in p.u and φ_α” in p.h.
func (d *data) tangent(p *point, alpha float64) {
	groups := d.groups(d.size(), maxGroups)
	d.run(groups, d.nnz, func(g int) {
		part := &p.parts[g]
		clear(part.grad)
		lo, hi := d.span(g, groups)
		for k := lo; k < hi; k++ {
			b, at := &d.blocks[k], k*blockRows
			c := p.coef[at : at+len(b.y)]
			for i, y := range b.y {
				c[i] = float64(float64(y*p.h[at+i])*p.u[at+i]) / alpha
			}
			b.scatter(part.grad, c, d.bias)
		}
	})
	clear(p.grad)
	for g := range groups {
		for j, v := range p.parts[g].grad {
			p.grad[j] += v
		}
	}
}

// along sets q[i] = y_i ⟨v, x_i⟩ and returns Σ h_i q_i².
func (d *data) along(q, v, h []float64) float64 {
	groups := d.groups(1, maxGroups)
	var sums [maxGroups]float64
	d.run(groups, d.nnz, func(g int) {
		lo, hi := d.span(g, groups)
		for k := lo; k < hi; k++ {
			b, at := &d.blocks[k], k*blockRows
			q, h := q[at:at+len(b.y)], h[at:at+len(b.y)]
			b.dots(q, v, d.bias)
			for i, y := range b.y {
				q[i] = float64(y * q[i])
				sums[g] += float64(h[i] * float64(q[i]*q[i]))
			}
		}
	})
	return total(sums[:groups])
}

// rise returns the change of the smoothed mean loss, and the mean hinge, as u
// becomes u − s·q.
func (d *data) rise(u, q []float64, s, alpha float64) (change, mean float64) {
	groups := d.groups(1, maxGroups)
	var sums, hinges [maxGroups]float64
	alpha2 := float64(alpha * alpha)
	d.run(groups, 8*d.n, func(g int) {
		lo, hi := d.span(g, groups)
		for i := lo * blockRows; i < min(hi*blockRows, d.n); i++ {
			delta := -float64(s * q[i])
			sums[g] += rise(u[i], delta, alpha2)
			hinges[g] += hinge(u[i] + delta)
		}
	})
	return total(sums[:groups]) / float64(d.n), total(hinges[:groups]) / float64(d.n)
}

// slopes returns the first and the second derivative by s of the smoothed
// mean loss at u − s·q.
func (d *data) slopes(u, q []float64, s, alpha float64) (d1, d2 float64) {
	groups := d.groups(1, maxGroups)
	var first, second [maxGroups]float64
	alpha2 := float64(alpha * alpha)
	d.run(groups, 8*d.n, func(g int) {
		lo, hi := d.span(g, groups)
		for i := lo * blockRows; i < min(hi*blockRows, d.n); i++ {
			_, p1, p2 := smooth(u[i]-float64(s*q[i]), alpha2)
			first[g] -= float64(p1 * q[i])
			second[g] += float64(p2 * float64(q[i]*q[i]))
		}
	})
	return total(first[:groups]) / float64(d.n), total(second[:groups]) / float64(d.n)
}

func total(xs []float64) float64 {
	var s float64
	for _, x := range xs {
		s += x
	}
	return s
}

// places says where each coordinate stands in the active set, −1 for not at
// all.
type places struct {
	at     []int32
	active []int32 // ascending
}

func (p *places) set(active []int32, size int) {
	for _, j := range p.active {
		p.at[j] = -1
	}
	for len(p.at) < size {
		p.at = append(p.at, -1)
	}
	p.active = append(p.active[:0], active...)
	for k, j := range active {
		p.at[j] = int32(k)
	}
}

// hessian sets H = Σ h_i x_i x_i^T over the active coordinates; rows with h_i ≤
// least are left out.
func (d *data) hessian(H linear.Lower, p *places, h []float64, least float64, scratch *[][]float64) {
	n := len(p.active)
	work := 0
	for k := range d.blocks {
		work += d.blocks[k].pairs
	}
	groups := max(1, min(maxSquares, work/(4*len(H)+1), len(d.blocks)))
	for len(*scratch) < groups {
		*scratch = append(*scratch, nil)
	}
	d.run(groups, work, func(g int) {
		part := H
		if g > 0 {
			(*scratch)[g] = resize((*scratch)[g], len(H))
			part = (*scratch)[g]
		}
		clear(part)
		lo, hi := d.span(g, groups)
		pos, val := make([]int32, 0, n), make([]float64, 0, n)
		var cols []float64
		for k := lo; k < hi; k++ {
			b, at := &d.blocks[k], k*blockRows
			h := h[at : at+len(b.y)]
			if b.width > 0 {
				cols = resize(cols, n*blockRows)
				b.outerDense(part, p, h, least, d.bias, cols)
			} else {
				b.outer(part, p, h, least, d.bias, pos, val)
			}
		}
	})
	for g := 1; g < groups; g++ {
		vec.Axpy64(1, (*scratch)[g][:len(H)], H)
	}
}

// outer adds h_i x_i x_i^T for the rows of a sparse block. pos and val have
// room for a row.
func (b *block) outer(H linear.Lower, p *places, h []float64, least, bias float64, pos []int32, val []float64) {
	at := p.at[1:]
	from := int32(0)
	for i, to := range b.end {
		idx := b.idx[from:to]
		if h[i] > least {
			pos = pos[:0]
			if p.at[0] >= 0 {
				pos = append(pos, p.at[0])
			}
			if b.val == nil && (len(pos) == 0 || bias == 1) {
				for _, j := range idx {
					if k := at[j]; k >= 0 {
						pos = append(pos, k)
					}
				}
				for a, r := range pos {
					row := H.Row(int(r))
					for _, c := range pos[:a+1] {
						row[c] += h[i]
					}
				}
				from = to
				continue
			}
			val = val[:0]
			if len(pos) > 0 {
				val = append(val, bias)
			}
			for k, j := range idx {
				if r := at[j]; r >= 0 {
					pos = append(pos, r)
					v := 1.0
					if b.val != nil {
						v = float64(b.val[int(from)+k])
					}
					val = append(val, v)
				}
			}
			for a, r := range pos {
				row, hv := H.Row(int(r)), float64(h[i]*val[a])
				for k, c := range pos[:a+1] {
					row[c] += float64(hv * val[k])
				}
			}
		}
		from = to
	}
}

// outerDense is outer for a dense block: the rows that count become columns of
// an |active|-by-m matrix, whose rows are multiplied with each other.
func (b *block) outerDense(H linear.Lower, p *places, h []float64, least, bias float64, cols []float64) {
	m := 0
	for i := range b.y {
		if h[i] > least {
			m++
		}
	}
	if m == 0 {
		return
	}
	for k, j := range p.active {
		col := cols[k*blockRows:][:0]
		for i := range b.y {
			if !(h[i] > least) {
				continue
			}
			v := bias
			if j > 0 {
				v = 0
				if int(j) <= b.width {
					v = float64(b.val[i*b.width+int(j)-1])
				}
			}
			col = append(col, v)
		}
	}
	weighted := make([]float64, 0, blockRows)
	for a := range p.active {
		ca := cols[a*blockRows:][:m]
		weighted = weighted[:0]
		k := 0
		for i := range b.y {
			if h[i] > least {
				weighted = append(weighted, float64(h[i]*ca[k]))
				k++
			}
		}
		row := H.Row(a)
		for c := range a + 1 {
			row[c] += vec.Dot64(weighted, cols[c*blockRows:][:m])
		}
	}
}

// times adds Σ h_i x_i ⟨x_i, v⟩ to out, over rows with h_i > least. v and out
// have all coordinates.
func (d *data) times(out, v, h []float64, least float64, parts *[][]float64) {
	groups := d.groups(d.size(), maxGroups)
	for len(*parts) < groups {
		*parts = append(*parts, nil)
	}
	d.run(groups, 2*d.nnz, func(g int) {
		part := resize((*parts)[g], d.size())
		(*parts)[g] = part
		clear(part)
		v0 := float64(v[0] * d.bias)
		lo, hi := d.span(g, groups)
		for k := lo; k < hi; k++ {
			b, at := &d.blocks[k], k*blockRows
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
		}
	})
	for g := range groups {
		for j, x := range (*parts)[g] {
			out[j] += x
		}
	}
}

// diagonal adds Σ h_i x_ij² to out, over rows with h_i > least.
func (d *data) diagonal(out, h []float64, least float64) {
	for k := range d.blocks {
		b, at := &d.blocks[k], k*blockRows
		for i, h := range h[at : at+len(b.y)] {
			if !(h > least) {
				continue
			}
			out[0] += float64(h * float64(d.bias*d.bias))
			if b.width > 0 {
				for j, v := range b.val[i*b.width : (i+1)*b.width] {
					out[j+1] += float64(h * float64(float64(v)*float64(v)))
				}
				continue
			}
			for t := b.start(i); t < b.end[i]; t++ {
				v := 1.0
				if b.val != nil {
					v = float64(b.val[t])
				}
				out[b.idx[t]+1] += float64(h * float64(v*v))
			}
		}
	}
}

// resize returns x with length n; what it holds is undefined.
func resize(x []float64, n int) []float64 {
	if cap(x) < n {
		return make([]float64, n)
	}
	return x[:n]
}
