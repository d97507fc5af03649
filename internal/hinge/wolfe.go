package hinge

import "math"

// Wolfe has the constants of the weak Wolfe line search.
type Wolfe struct {
	// C1 is the sufficient-decrease constant, C2 > C1 the curvature constant.
	C1, C2 float64
	// N: the smallest step has length radius/N.
	N float64
}

// Outcome says how a line search ended.
type Outcome uint8

const (
	Found  Outcome = iota // both conditions hold
	Radius                // the step is limited by the radius
	Null                  // no step of at least radius/N decreases f enough
	Capped                // bisection reached its cap; the step decreases f enough
)

// maxBisect bounds the bisection: after 60 halvings the interval is below the
// resolution of float64.
const maxBisect = 60

// Search returns a step t along l with norm·t in [radius/N, radius], or 0 for a
// null step. norm is ‖d‖ in the metric in use, and
//
//	L = {t > 0: φ(t) − φ(0) ≤ −C1 norm² t},  R = {t > 0: φ'(t) ≥ −C2 norm²}.
//
// A nonzero step is in L; it is in R as well unless the outcome is Radius or
// Capped. As φ is convex, L is an interval (0, t_L] and R a half line [t_R, ∞) with
// t_R < t_L.
func (w Wolfe) Search(l *Line, norm, radius float64) (float64, Outcome) {
	if !(norm > 0) {
		return 0, Null
	}
	n2 := norm * norm
	phi0 := l.Value(0)
	inL := func(t float64) bool { return l.Value(t)-phi0 <= -float64(w.C1*n2*t) }
	inR := func(t float64) bool { return l.Slope(t) >= -float64(w.C2*n2) }
	t := radius / norm
	if inL(t) {
		if inR(t) {
			return t, Found
		}
		// A longer step would leave the ball.
		return t, Radius
	}
	for !inL(t) {
		t /= 2
		if t*norm < radius/w.N {
			return 0, Null
		}
	}
	if inR(t) {
		return t, Found
	}
	lo, hi := t, 2*t
	for range maxBisect {
		mid := lo + (hi-lo)/2
		if mid <= lo || mid >= hi {
			break
		}
		switch {
		case !inL(mid):
			hi = mid
		case !inR(mid):
			lo = mid
		default:
			return mid, Found
		}
	}
	return lo, Capped
}

// MinNorm2 returns the weight θ in [0,1] that minimises the norm of θ·x + (1−θ)·y,
// given ⟨x,x⟩, ⟨x,y⟩ and ⟨y,y⟩; 0 if all weights give the same norm.
func MinNorm2(xx, xy, yy float64) float64 {
	den := xx + yy - 2*xy
	if !(den > 0) {
		return 0
	}
	t := (yy - xy) / den
	if math.IsNaN(t) {
		return 0
	}
	return min(max(t, 0), 1)
}
