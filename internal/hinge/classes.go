package hinge

import (
	"slices"

	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/internal/weight"
	"github.com/streamsvm/streamsvm/stream"
)

// Problems over the same Basis with different labels share kernel values: each
// value is computed once for all of them. The results have the same bits as if each
// problem were solved alone.

// ExtendAll adds the points that were appended to the Basis since the last call to the
// samples. w has the labels by problem, v the weights. The new coefficients are 0, so
// no decision of the expansions changes. The next Refresh determines whether the new
// hinges are active; until then TruncateAll can remove the points again.
func ExtendAll(ps []*Problem, w [][]float64, v weight.List) {
	old := ps[0].Len()
	m := old + len(w[0])
	// One pass over the kernel values between the points with a coefficient and the
	// new ones extends all products.
	var idx []int32
	for i := range old {
		for _, p := range ps {
			if p.Alpha[i] != 0 || p.Alpha0[i] != 0 || p.D[i] != 0 || p.Active[i] {
				idx = append(idx, int32(i))
				break
			}
		}
	}
	for k, p := range ps {
		p.W = append(p.W, w[k]...)
		p.V.Append(old, v, len(w[k]))
		p.mass = p.V.Sum(m)
		for _, v := range p.vectors() {
			*v = extend(*v, m)
		}
		for len(p.Active) < m {
			p.Active = append(p.Active, false)
		}
		p.idx = append(p.idx[:0], idx...)
	}
	if old < m {
		ps[0].Rows.Each(idx, old, m, false, func(r, at int, k []float32) {
			for _, p := range ps {
				p.pushSegment(r, at, k)
			}
		})
	}
}

// AdvanceAll is Advance for all of ps; rests has the points by problem.
func AdvanceAll(ps []*Problem, rests [][]int32) {
	if len(ps) == 1 {
		ps[0].Advance(rests[0])
		return
	}
	b, m := ps[0].Basis, ps[0].Len()
	var idx []int32
	for i := range m {
		for _, p := range ps {
			if p.D[i] != 0 {
				idx = append(idx, int32(i))
				break
			}
		}
	}
	for _, p := range ps {
		p.part = extend(p.part[:0], m)
	}
	xs := make([]stream.Vec, 0, rowsAtOnce)
	for len(idx) > 0 {
		n := min(len(idx), rowsAtOnce)
		xs = xs[:0]
		for _, i := range idx[:n] {
			xs = append(xs, b.Row(int(i)))
		}
		now := idx
		eachBlock(b, xs, func(r, lo, hi int, k []float32) {
			for _, p := range ps {
				if d := p.D[now[r]]; d != 0 {
					vec.AxpyMixed(d, k, p.part[lo:hi])
				}
			}
		})
		ps[0].Rows.Evals += int64(n * m)
		idx = idx[n:]
	}
	for k, p := range ps {
		for _, i := range rests[k] {
			p.S[i] += p.part[i]
		}
		clear(p.D)
	}
}

// TruncateAll removes the points from m on, which must be inactive with coefficient 0,
// from the samples and the Basis.
func TruncateAll(ps []*Problem, m int) {
	for _, p := range ps {
		for _, v := range p.vectors() {
			*v = (*v)[:m]
		}
		p.W, p.Active = p.W[:m], p.Active[:m]
		p.V.Truncate(m)
		p.mass = p.V.Sum(m)
		p.Rows.Truncate(m)
	}
	ps[0].Basis.Truncate(m)
}

// KeepAll reduces the samples to the points idx, in ascending order. The others must be
// inactive with coefficient 0.
func KeepAll(ps []*Problem, idx []int32) {
	basis := ps[0].Basis.Subset(idx)
	for _, p := range ps {
		p.keep(idx)
		p.Basis = basis
		p.Rows.Restart(basis)
	}
}

// Another returns a problem over the points of p, with their weights, all labels −1
// and all coefficients 0.
func (p *Problem) Another() *Problem {
	q := New(p.Basis, 0)
	q.Lambda, q.V, q.mass = p.Lambda, slices.Clone(p.V), p.mass
	for range p.W {
		q.W = append(q.W, -1)
	}
	for _, v := range q.vectors() {
		*v = extend(*v, p.Len())
	}
	q.Active = make([]bool, p.Len())
	return q
}
