package finitesum

import (
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/internal/linear"
)

// Rule says how to find θ, the minimum of F(θx) + ζ (1−θ)² ‖p‖²/2, without a Gram
// matrix. A Gram matrix gives it exactly in O(d²).
type Rule uint8

const (
	// AtStart finds θ exactly, but only in the first inner step of an epoch, where the
	// margins are known from the full gradient. (A start at y~ takes a pass to compute
	// them.)
	AtStart Rule = iota
	// byPass finds θ exactly, with a pass over all rows each time; for tests.
	byPass
)

// ray is F on the ray from the origin through x.
type ray struct {
	p        *Problem
	z        []float64 // margins at x
	two, one float64   // ‖x‖², and the part of ‖x‖₁ that λ2 weighs
	zeta, pp float64   // ζ, ‖p‖²
}

// at returns F(θx) + ζ (1−θ)² ‖p‖²/2 and, as slope and curve, the derivatives of
// its smooth part.
func (r *ray) at(theta float64) (value, slope, curve float64) {
	for i, z := range r.z {
		s, b, w := float64(theta*z), r.p.b[i], r.p.share(i)
		value += float64(w * r.p.Loss.value(s, b))
		slope += float64(w * float64(z*r.p.Loss.deriv(s, b)))
		curve += float64(w * float64(float64(z*z)*r.p.Loss.second(s, b)))
	}
	n := float64(max(len(r.z), 1))
	pen, two := float64(r.zeta*r.pp), float64(r.p.Ridge*r.two)
	value = value/n + float64(float64(theta*theta)*two)/2 + float64(r.p.Lasso*float64(math.Abs(theta)*r.one)) + float64(float64((1-theta)*(1-theta))*pen)/2
	slope = slope/n + float64(theta*two) - float64((1-theta)*pen)
	curve = curve/n + two + pen
	return value, slope, curve
}

// search returns a θ with a smaller value than at 1, found by Newton steps with
// Armijo backtracking from 1, or 1 if it finds none.
func (r *ray) search() float64 {
	const (
		newton, halvings = 5, 20
		enough           = 1e-4 // Armijo's constant
	)
	theta := 1.0
	value, slope, curve := r.at(theta)
	if value-value != 0 {
		return 1
	}
	for range newton {
		kink := float64(r.p.Lasso * r.one)
		g := slope + math.Copysign(kink, theta)
		if theta == 0 {
			g = soft(slope, kink)
		}
		step := -g / curve
		if !(curve > 0) || step-step != 0 {
			break
		}
		// The slope is valid only up to the kink at 0.
		if theta > 0 && theta+step < 0 || theta < 0 && theta+step > 0 {
			step = -theta
		}
		moved := false
		for range halvings {
			v, s, c := r.at(theta + step)
			if v <= value+float64(enough*float64(step*g)) && v < value {
				theta, value, slope, curve, moved = theta+step, v, s, c, true
				break
			}
			step /= 2
		}
		if !moved {
			break
		}
	}
	return theta
}

// quadratic returns θ for the squared loss, given q = ‖Ax‖²/n and h = bᵀAx/n:
// equations (10) and (11) and their common generalisation.
func (r *ray) quadratic(q, h float64) float64 {
	pen := float64(r.zeta * r.pp)
	den := q + pen + float64(r.p.Ridge*r.two)
	if !(den > 0) || den-den != 0 {
		return 1
	}
	return soft((h+pen)/den, float64(r.p.Lasso*r.one)/den)
}

// decrease is the state of the sufficient-decrease steps of an epoch.
type decrease struct {
	zeta   float64
	places []int   // the remaining steps, ascending
	lo, hi float64 // range of θ so far, including 1
	z      []float64
}

// due reports whether step k is a sufficient-decrease step. It is called once per step.
func (d *decrease) due(k int) bool {
	if len(d.places) == 0 || d.places[0] != k {
		return false
	}
	d.places = d.places[1:]
	return true
}

// prepareDecrease chooses the sufficient-decrease steps among m. l is L.
func (s *Solver) prepareDecrease(l float64, m int) {
	d := &s.decrease
	d.zeta = s.par.Delta * s.eta / max(1-float64(l*s.eta), 0.1)
	d.lo, d.hi = 1, 1
	d.places = s.places(m)
}

// places returns the positions of the decrease steps among m, ascending.
func (s *Solver) places(m int) []int {
	switch {
	case s.par.Decrease == 0:
		return nil
	case s.gram == nil && s.par.Theta == AtStart:
		return []int{0}
	}
	n := min(max(int(s.par.Decrease*float64(m)), 1), m)
	out := make([]int, 0, n)
	// Floyd's algorithm: every subset of size n is equally likely.
	r := s.draws("vr.decrease")
	seen := make(map[int]bool, n)
	for j := m - n; j < m; j++ {
		k := r.IntN(j + 1)
		if seen[k] {
			k = j
		}
		seen[k] = true
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// theta returns θ for the point x. snapshot says that x is the snapshot; pp is ‖p~‖².
func (s *Solver) theta(x []float64, snapshot bool, pp float64) float64 {
	p, d := s.prob, &s.decrease
	r := ray{p: p, zeta: d.zeta, pp: pp}
	r.two, r.one = p.norms(x)
	switch {
	case s.gram != nil:
		return r.quadratic(s.gram.forms(x))
	case snapshot && s.valid >= theMargins:
		r.z = s.margins
	default:
		d.z = linear.Grow(d.z, p.Len())
		r.z = d.z[:p.Len()]
		p.Margins(r.z, x)
		s.passes++
	}
	if p.Loss.Kind != Squared {
		return r.search()
	}
	var q, h float64
	for i, z := range r.z {
		w := p.share(i)
		q += float64(w * float64(z*z))
		h += float64(w * float64(z*p.b[i]))
	}
	n := float64(max(len(r.z), 1))
	return r.quadratic(q/n, h/n)
}

// ThetaRange returns the range of θ in the last epoch, including 1.
func (s *Solver) ThetaRange() (lo, hi float64) { return s.decrease.lo, s.decrease.hi }
