package l1smooth

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// brute is the minimiser of j by trying every kink and the minimiser of every
// segment.
func brute(w, d []float64, a, b, mu float64) float64 {
	j := func(s float64) float64 {
		v := a*s*s + b*s
		for k := range w {
			v += mu * math.Abs(w[k]+s*d[k])
		}
		return v
	}
	kinks := []float64{0}
	for k := range w {
		if d[k] != 0 && -w[k]/d[k] > 0 {
			kinks = append(kinks, -w[k]/d[k])
		}
	}
	slices.Sort(kinks)
	best := 0.0
	for i, from := range kinks {
		to := math.Inf(1)
		mid := from + 1
		if i+1 < len(kinks) {
			to = kinks[i+1]
			mid = from + (to-from)/2
		}
		slope := b
		for k := range w {
			if v := w[k] + mid*d[k]; v > 0 {
				slope += mu * d[k]
			} else {
				slope -= mu * d[k]
			}
		}
		for _, s := range []float64{from, min(max(-slope/(2*a), from), to)} {
			if j(s) < j(best) {
				best = s
			}
		}
	}
	return best
}

// draw draws a line search. With ties, kinks coincide.
func draw(r *rand.Rand, ties bool) (w, d []float64, a, b, mu float64) {
	m := 1 + r.IntN(12)
	for range m {
		v, e := r.NormFloat64(), r.NormFloat64()
		if r.IntN(4) == 0 {
			v = 0
		}
		if r.IntN(6) == 0 {
			e = 0
		}
		if ties {
			v, e = float64(r.IntN(5)-2), float64(r.IntN(5)-2)
		}
		w, d = append(w, v), append(d, e)
	}
	return w, d, math.Exp(r.NormFloat64()), 4 * r.NormFloat64(), math.Exp(r.NormFloat64())
}

// TestLineSearch is T3.
func TestLineSearch(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for i := range 6000 {
		ties := i >= 3000
		w, d, a, b, mu := draw(r, ties)
		var buf []crossing
		s, hits, ok := minimise(w, d, a, b, mu, &buf)
		want := brute(w, d, a, b, mu)
		close := func(s float64) bool { return math.Abs(s-want) <= 1e-9*(1+want) }
		if !ok || !close(s) {
			t.Fatalf("case %d: s = %g, want %g\nw = %v\nd = %v\na = %g, b = %g, mu = %g", i, s, want, w, d, a, b, mu)
		}
		// 0 is between the one-sided derivatives, and the hits are the weights
		// that are 0 at s.
		left, right, norm := 2*a*s+b, 2*a*s+b, 0.0
		hit := map[int32]bool{}
		for _, j := range hits {
			hit[j] = true
		}
		for k := range w {
			norm += math.Abs(d[k])
			v := w[k] + s*d[k]
			switch {
			case hit[int32(k)] || w[k] == 0 && s == 0:
				if math.Abs(v) > 1e-12 {
					t.Fatalf("case %d: weight %d is %g at its hit", i, k, v)
				}
				left -= mu * math.Abs(d[k])
				right += mu * math.Abs(d[k])
			case v > 0:
				left, right = left+mu*d[k], right+mu*d[k]
			case v < 0:
				left, right = left-mu*d[k], right-mu*d[k]
			default:
				if d[k] != 0 {
					t.Fatalf("case %d: weight %d is 0 at s and not a hit", i, k)
				}
			}
		}
		if right < -1e-9 || s > 0 && left > 1e-9 {
			t.Fatalf("case %d: derivatives %g and %g at s = %g", i, left, right, s)
		}
		if most := (math.Abs(b) + mu*norm) / (2 * a); s < 0 || s > most*(1+1e-12) {
			t.Fatalf("case %d: s = %g is not in [0, %g]", i, s, most)
		}
		if s0, _, _ := minimise(w, d, a, -1, 0, &buf); s0 != 1/(2*a) {
			t.Fatalf("case %d: s = %g without l1, want %g", i, s0, 1/(2*a))
		}
	}
	// E4: without a crossing the last segment has no end.
	var buf []crossing
	if s, _, ok := minimise([]float64{1}, []float64{1}, 0.5, -3, 1, &buf); !ok || s != 2 {
		t.Errorf("s = %g past the last kink, want 2", s)
	}
	if _, _, ok := minimise([]float64{1}, []float64{1}, 0, -3, 1, &buf); ok {
		t.Error("a function without a minimum has one")
	}
}

// TestMinimum: where the search along the true function stops, its derivative
// is small, or changes sign at the weights that become 0 there.
func TestMinimum(t *testing.T) {
	forms(t, func(t *testing.T, l *Learner, p *problem) {
		r := rand.New(rand.NewPCG(9, 1))
		s, m := &l.s, l.s.size()
		const alpha = 0.05
		kinks, inside := 0, 0
		for range 300 {
			p.mu = []float64{0, .005, .1, 1}[r.IntN(4)]
			s.mu = p.mu
			w, d := make([]float64, m), make([]float64, m)
			for j := range w {
				w[j] = r.NormFloat64() * float64(r.IntN(4)) / 3
			}
			for j, g := range p.gradient(w, alpha) {
				d[j] = -g + .05*r.NormFloat64()
			}
			slope := p.slope(w, d, alpha)
			if slope >= 0 {
				continue
			}
			s.set, s.ws, s.ds = s.set[:0], append(s.ws[:0], w...), append(s.ds[:0], d...)
			for j := range m {
				s.set = append(s.set, int32(j))
			}
			s.q = resize(s.q, s.n)
			s.evaluate(&s.pt, w, alpha, false)
			s.along(s.q, d, s.pt.h)
			most := math.Pow(10, 3*r.Float64())
			step, hits := s.minimum(alpha, slope, most)
			at := func(step float64, hits []int32) (left, right float64) {
				x, back := make([]float64, m), make([]float64, m)
				for j := range x {
					x[j], back[j] = w[j]+step*d[j], -d[j]
				}
				for _, j := range hits {
					if math.Abs(x[j]) > 1e-12*(1+math.Abs(w[j])) {
						t.Fatalf("weight %d is %g where it is to be 0", j, x[j])
					}
					x[j] = 0
				}
				return -p.slope(x, back, alpha), p.slope(x, d, alpha)
			}
			if step <= 0 || step > most {
				t.Fatalf("step %g is not in (0, %g]", step, most)
			}
			left, right := at(step, hits)
			switch _, end := at(most, nil); {
			case len(hits) > 0:
				kinks++
				if left > 1e-9 || right < -1e-9 {
					t.Fatalf("derivatives %g and %g at a kink", left, right)
				}
			case end < 0: // the minimum is farther than that
			default:
				inside++
				if !(math.Abs(right) <= curvature*math.Abs(slope)*(1+1e-9)) {
					t.Fatalf("derivative %g at step %g of %g, %g at the start", right, step, most, slope)
				}
			}
		}
		if kinks < 30 || inside < 60 {
			t.Errorf("%d kinks, %d minima between them", kinks, inside)
		}
	})
}
