package hinge

import (
	"github.com/streamsvm/streamsvm/internal/vec"
)

// Newton takes semismooth Newton steps on f with a smoothed hinge. In place of
// max(0,u), u_i = 1 − w_i s_i, it takes
//
//	φ_i(u) = max_{0≤θ≤1} θu − ε/2 (θ − τ_i)²,  attained at θ_i = clip(τ_i + u/ε, 0, 1),
//
// which is smooth, and piecewise linear and quadratic: where θ_i is 0 or 1 the
// coefficient that follows from it is exactly 0 or w_i/(λm), and only the points
// between, the set A, take part in a linear system,
//
//	(Q_AA + ελm I) δ_A = ελm (α*_A − α_A) − Q_AN δ_N,   α*_i = w_i θ_i/(λm).
//
// With τ = 0 this is plain smoothing. With τ set to the last θ it is a step of
// the proximal method of multipliers on the dual, which converges to the optimum
// of the hinge itself for any ε, so the system need not become ill-conditioned.
type Newton struct {
	Eps float64   // ε > 0
	Tau []float64 // τ, one for each point, in [0,1]

	delta, p    []float64
	alpha, s    []float64
	set, off    []int32
	gram        []float32
	x, r, d, qd []float64
}

const (
	maxSet = 3000  // points in a system: 36 MB of kernel values
	maxCG  = 500   // conjugate gradient iterations a step
	cgTol  = 1e-10 // relative residual at which they stop
)

// Polish takes at most steps proximal steps from the dual feasible α and
// returns how many it took. It keeps the best point, which is dual feasible.
func (n *Newton) Polish(p *Problem, steps int) (taken int) {
	best, ok := p.Gap()
	if !ok {
		return 0
	}
	c := p.box()
	n.resize(p.Len())
	for i, w := range p.W {
		n.Tau[i] = clip01(w * p.Alpha[i] / c)
	}
	if n.Eps == 0 {
		n.Eps = 1e-2
	}
	copy(p.Alpha0, p.Alpha)
	copy(p.S0, p.S)
	for taken < steps {
		taken++
		t, _ := n.Step(p)
		if t == 0 {
			break
		}
		if t == 1 {
			n.Proximal(p)
		}
		n.alpha, n.s = append(n.alpha[:0], p.Alpha...), append(n.s[:0], p.S...)
		n.Clip(p)
		if gap, ok := p.Gap(); ok && gap < best {
			best = gap
			p.Mark()
		}
		copy(p.Alpha, n.alpha)
		copy(p.S, n.s)
	}
	p.Revert()
	return taken
}

// box returns 1/(λm), the largest modulus of a dual feasible coefficient.
func (p *Problem) box() float64 { return 1 / (p.Lambda * p.Count()) }

func clip01(x float64) float64 { return min(max(x, 0), 1) }

// Step takes one step from α and reports its length, as a fraction of the full
// step, or 0 where none is possible, and the size of A.
func (n *Newton) Step(p *Problem) (t float64, set int) {
	m := p.Len()
	c := p.box()
	n.resize(m)
	n.set, n.off = n.set[:0], n.off[:0]
	for i, w := range p.W {
		th := clip01(n.Tau[i] + (1-float64(w*p.S[i]))/n.Eps)
		n.delta[i] = float64(float64(w*c)*th) - p.Alpha[i]
		switch {
		case th > 0 && th < 1:
			n.set = append(n.set, int32(i))
		case n.delta[i] != 0:
			n.off = append(n.off, int32(i))
		}
	}
	if len(n.set) > maxSet {
		return 0, len(n.set)
	}
	clear(n.p)
	p.Rows.Each(n.off, 0, m, true, func(r, at int, k []float32) {
		vec.AxpyMixed(n.delta[n.off[r]], k, n.p[at:at+len(k)])
	})
	if len(n.set) > 0 {
		n.solve(p, n.Eps/c)
		p.Rows.Each(n.set, 0, m, true, func(r, at int, k []float32) {
			vec.AxpyMixed(n.x[r], k, n.p[at:at+len(k)])
		})
		for r, i := range n.set {
			n.delta[i] = n.x[r]
		}
	}
	t = n.search(p)
	if t > 0 {
		for i := range p.Alpha {
			p.S[i] += float64(t * n.p[i])
			p.Alpha[i] += float64(t * n.delta[i])
		}
	}
	return t, len(n.set)
}

func (n *Newton) resize(m int) {
	n.delta, n.p = extend(n.delta, m)[:m], extend(n.p, m)[:m]
	n.Tau = extend(n.Tau, m)
}

// solve sets x to the solution of (Q_AA + ridge·I) x = ridge·δ_A − p_A, by
// conjugate gradients.
func (n *Newton) solve(p *Problem, ridge float64) {
	a := len(n.set)
	if cap(n.gram) < a*a {
		n.gram = make([]float32, a*a)
	}
	n.gram = n.gram[:a*a]
	for _, v := range []*[]float64{&n.x, &n.r, &n.d, &n.qd} {
		*v = extend(*v, a)[:a]
	}
	p.Rows.Each(n.set, 0, p.Len(), true, func(r, at int, k []float32) {
		row := n.gram[r*a : (r+1)*a]
		lo := search32(n.set, int32(at))
		for q := lo; q < a; q++ {
			j := int(n.set[q]) - at
			if j >= len(k) {
				break
			}
			row[q] = k[j]
		}
	})
	var rr float64
	for r, i := range n.set {
		n.x[r] = 0
		n.r[r] = float64(ridge*n.delta[i]) - n.p[i]
		n.d[r] = n.r[r]
		rr += float64(n.r[r] * n.r[r])
	}
	stop := cgTol * cgTol * rr
	for it := 0; it < maxCG && rr > stop; it++ {
		var dq float64
		for r := range n.set {
			n.qd[r] = vec.DotMixed(n.gram[r*a:(r+1)*a], n.d) + float64(ridge*n.d[r])
			dq += float64(n.d[r] * n.qd[r])
		}
		if !(dq > 0) {
			break
		}
		step := rr / dq
		old := rr
		rr = 0
		for r := range n.set {
			n.x[r] += float64(step * n.d[r])
			n.r[r] -= float64(step * n.qd[r])
			rr += float64(n.r[r] * n.r[r])
		}
		beta := rr / old
		for r := range n.set {
			n.d[r] = n.r[r] + float64(beta*n.d[r])
		}
	}
}

// search32 returns the first position in the sorted s with s[pos] ≥ v.
func search32(s []int32, v int32) int {
	lo, hi := 0, len(s)
	for lo < hi {
		mid := (lo + hi) / 2
		if s[mid] < v {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// search minimises the smoothed objective along δ over 0 ≤ t ≤ 1, to a
// hundredth of its initial slope.
func (n *Newton) search(p *Problem) float64 {
	var b, d float64
	for i, a := range p.Alpha {
		b += float64(a * n.p[i])
		d += float64(n.delta[i] * n.p[i])
	}
	count := p.Count()
	slope := func(t float64) float64 {
		var g float64
		for i, w := range p.W {
			th := n.Tau[i] + (1-float64(w*(p.S[i]+float64(t*n.p[i]))))/n.Eps
			if th > 0 {
				g += float64(min(th, 1) * w * n.p[i])
			}
		}
		return float64(p.Lambda*(b+float64(t*d))) - g/count
	}
	s0 := slope(0)
	if !(s0 < 0) {
		return 0
	}
	s1 := slope(1)
	if s1 <= -s0/100 {
		return 1
	}
	lo, hi, sl, sh := 0.0, 1.0, s0, s1
	for it := range 40 {
		mid := lo + (hi-lo)*(-sl)/(sh-sl)
		if it%3 == 2 {
			mid = lo + (hi-lo)/2
		}
		s := slope(mid)
		switch {
		case s > -s0/100:
			hi, sh = mid, s
		case s < s0/100:
			lo, sl = mid, s
		default:
			return mid
		}
	}
	return lo
}

// Proximal sets τ to the present θ.
func (n *Newton) Proximal(p *Problem) {
	n.resize(p.Len())
	for i, w := range p.W {
		n.Tau[i] = clip01(n.Tau[i] + (1-float64(w*p.S[i]))/n.Eps)
	}
}

// Clip moves α to the closest dual feasible point, 0 ≤ w_i α_i ≤ 1/(λm), and
// returns the number of coefficients that changed.
func (n *Newton) Clip(p *Problem) int {
	c := p.box()
	n.resize(p.Len())
	n.off = n.off[:0]
	for i, w := range p.W {
		if a := w * min(max(w*p.Alpha[i], 0), c); a != p.Alpha[i] {
			n.delta[i] = a - p.Alpha[i]
			p.Alpha[i] = a
			n.off = append(n.off, int32(i))
		}
	}
	p.Rows.Each(n.off, 0, p.Len(), true, func(r, at int, k []float32) {
		vec.AxpyMixed(n.delta[n.off[r]], k, p.S[at:at+len(k)])
	})
	return len(n.off)
}

// Gap returns f(α) minus the dual objective at α, which bounds f(α) minus its
// minimum, and whether α is dual feasible, without which there is no such bound.
func (p *Problem) Gap() (float64, bool) {
	c := p.box() * (1 + 1e-12)
	var v float64
	for i, a := range p.Alpha {
		if x := p.W[i] * a; x < 0 || x > c {
			return 0, false
		}
		v += float64(a * (p.S[i] - p.W[i]))
	}
	return float64(p.Lambda*v) + Loss(p.W, p.S)/p.Count(), true
}
