package hinge

import (
	"math"

	"github.com/streamsvm/streamsvm/internal/weight"
)

// Line is f along α + t·d:
//
//	φ(t) = λ/2 (A + 2tB + t²D) + 1/m Σ v_i max(0, 1 − w_i (s_i + t p_i))
//
// with A = α's, B = α'p, D = d'p. Evaluating it needs no kernel values.
type Line struct {
	Lambda  float64
	A, B, D float64
	Count   float64 // m
	W, S, P []float64
	V       weight.List
}

// Line returns f along the direction d. It shares slices with the problem.
func (p *Problem) Line() Line {
	l := Line{Lambda: p.Lambda, Count: p.Count(), W: p.W, S: p.S, P: p.P, V: p.V}
	for i, a := range p.Alpha {
		l.A += float64(a * p.S[i])
		l.B += float64(a * p.P[i])
		l.D += float64(p.D[i] * p.P[i])
	}
	return l
}

// Value returns φ(t).
func (l *Line) Value(t float64) float64 {
	var h float64
	for i, s := range l.S {
		h += float64(l.V.At(i) * max(0, 1-float64(l.W[i]*(s+float64(t*l.P[i])))))
	}
	return float64(l.Lambda/2*(l.A+float64(2*t*l.B)+float64(t*t*l.D))) + h/l.Count
}

// Slope returns φ'(t); points exactly at the kink count as inactive.
func (l *Line) Slope(t float64) float64 {
	var g float64
	for i, s := range l.S {
		if float64(l.W[i]*(s+float64(t*l.P[i]))) < 1 {
			g += float64(l.V.At(i) * float64(l.W[i]*l.P[i]))
		}
	}
	return float64(l.Lambda*(l.B+float64(t*l.D))) - g/l.Count
}

// Exact minimises φ over t ≥ 0, exactly up to rounding. φ is piecewise quadratic:
// the slope starts negative and rises linearly, with a jump of v_i |p_i|/m at each
// breakpoint t_i = (1−w_i s_i)/(w_i p_i) > 0. So the minimum is found by selection
// among the breakpoints, in expected time O(m) and without tuning constants.
// scratch is reused and returned.
func (l *Line) Exact(scratch []Break) (float64, []Break) {
	m := l.Count
	slope := float64(l.Lambda * l.B)
	var sum float64
	for i, s := range l.S {
		v := float64(l.W[i] * l.P[i])
		r := 1 - float64(l.W[i]*s)
		if r > 0 || r == 0 && v < 0 {
			sum += float64(l.V.At(i) * v)
		}
	}
	slope -= sum / m
	curve := float64(l.Lambda * l.D)
	if !(slope < 0) || !(curve > 0) {
		return 0, scratch
	}
	// Without jumps the slope would be 0 at far. Jumps can only bring the minimum
	// closer.
	far := -slope / curve
	bs := scratch[:0]
	for i, s := range l.S {
		v := float64(l.W[i] * l.P[i])
		r := 1 - float64(l.W[i]*s)
		if r > 0 && v > 0 || r < 0 && v < 0 {
			if t := r / v; t < far {
				bs = append(bs, Break{t, float64(l.V.At(i)*math.Abs(v)) / m})
			}
		}
	}
	scratch = bs
	// slope is the slope at t=0 plus the jumps of the breakpoints dropped on the
	// left. The minimum is at hi or before.
	hi := far
	for len(bs) > 0 {
		pivot := median(bs[0].T, bs[len(bs)/2].T, bs[len(bs)-1].T)
		below, equal := partition(bs, pivot)
		var jump, at float64
		for _, b := range bs[:below] {
			jump += b.Jump
		}
		left := slope + jump + float64(curve*pivot) // φ'(pivot−)
		if left >= 0 {
			bs, hi = bs[:below], pivot
			continue
		}
		for _, b := range bs[below:equal] {
			at += b.Jump
		}
		if left+at >= 0 {
			return pivot, scratch
		}
		slope += jump + at
		bs = bs[equal:]
	}
	return min(-slope/curve, hi), scratch
}

// Break is a breakpoint of φ' and its jump there.
type Break struct{ T, Jump float64 }

func median(a, b, c float64) float64 {
	return max(min(a, b), min(max(a, b), c))
}

// partition partitions bs into breakpoints below, at and above pivot, and returns
// the two boundaries.
func partition(bs []Break, pivot float64) (below, equal int) {
	i, j, k := 0, 0, len(bs)
	for j < k {
		switch t := bs[j].T; {
		case t < pivot:
			bs[i], bs[j] = bs[j], bs[i]
			i++
			j++
		case t > pivot:
			k--
			bs[j], bs[k] = bs[k], bs[j]
		default:
			j++
		}
	}
	return i, k
}
