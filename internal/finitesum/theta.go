package finitesum

import "math"

// Rule is how θ, the minimum of F(θx) + ζ (1−θ)² ‖p‖²/2, is found.
type Rule uint8

const (
	// ByGram: exactly, from the Gram matrix; squared loss, up to MaxGram
	// coordinates. O(d²) a step. Where it cannot be, AtStart stands in.
	ByGram Rule = iota
	// AtStart: exactly, but in the first inner step of an epoch alone, where
	// the margins are known from the full gradient (Convex and ConvexB starts
	// cost a pass for them).
	AtStart
	// ByPass: exactly, by a pass over all rows each time.
	ByPass
	// ByRows: approximately, on up to 1,024 rows spread over the problem.
	// Property 1 holds for their mean loss, not for F.
	ByRows
)

// sampleRows is the most rows that ByRows looks at.
const sampleRows = 1024

// ray is F along the ray through the origin and x.
type ray struct {
	p        *Problem
	z, b     []float64 // margins at x, targets
	two, one float64   // ‖x‖², ‖x‖₁ as far as λ2 weighs it
	zeta, pp float64   // ζ, ‖p‖²
}

// at returns F(θx) + ζ (1−θ)² ‖p‖²/2 and the part of it that has a second
// derivative as slope and curve.
func (r *ray) at(theta float64) (value, slope, curve float64) {
	for i, z := range r.z {
		s := float64(theta * z)
		value += r.p.Loss.value(s, r.b[i])
		slope += float64(z * r.p.Loss.deriv(s, r.b[i]))
		curve += float64(float64(z*z) * r.p.Loss.second(s, r.b[i]))
	}
	n := float64(max(len(r.z), 1))
	pen, two := float64(r.zeta*r.pp), float64(r.p.Ridge*r.two)
	value = value/n + float64(float64(theta*theta)*two)/2 + float64(r.p.Lasso*float64(math.Abs(theta)*r.one)) + float64(float64((1-theta)*(1-theta))*pen)/2
	slope = slope/n + float64(theta*two) - float64((1-theta)*pen)
	curve = curve/n + two + pen
	return value, slope, curve
}

// search returns a θ of smaller value than 1 has: Newton steps with Armijo
// backtracking from 1, or 1 where none is found.
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
		// The kink at 0 ends the piece on which the slope holds.
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

// quadratic returns the minimum for the squared loss, given q = ‖Ax‖²/n and
// h = bᵀAx/n: equations (10) and (11) and their common generalisation.
func (r *ray) quadratic(q, h float64) float64 {
	pen := float64(r.zeta * r.pp)
	den := q + pen + float64(r.p.Ridge*r.two)
	if !(den > 0) || den-den != 0 {
		return 1
	}
	return soft((h+pen)/den, float64(r.p.Lasso*r.one)/den)
}

// theta returns θ for the point x, of which margins are known if they are
// given, and pp = ‖p‖².
func (s *Solver) theta(x, margins []float64, pp float64) float64 {
	p := s.prob
	r := ray{p: p, zeta: s.zeta, pp: pp, z: margins, b: p.b}
	r.two, r.one = p.norms(x)
	switch {
	case s.rule == ByGram:
		q, h := s.gram.forms(x)
		return s.note(r.quadratic(q, h))
	case margins != nil:
	case s.rule == ByRows:
		n := min(p.Len(), sampleRows)
		r.z, r.b = s.room(n), s.roomB[:n]
		for k := range n {
			i := k * p.Len() / n
			r.z[k], r.b[k] = p.dot(x, i), p.b[i]
		}
		s.passes += float64(n) / float64(p.Len())
	default:
		r.z = s.room(p.Len())
		p.Margins(r.z, x)
		s.passes++
	}
	if p.Loss.Kind != Squared {
		return s.note(r.search())
	}
	var q, h float64
	for i, z := range r.z {
		q += float64(z * z)
		h += float64(z * r.b[i])
	}
	n := float64(max(len(r.z), 1))
	return s.note(r.quadratic(q/n, h/n))
}

// note keeps the range of θ for the report.
func (s *Solver) note(theta float64) float64 {
	s.thetaMin, s.thetaMax = min(s.thetaMin, theta), max(s.thetaMax, theta)
	return theta
}

// room returns scratch for n margins, and roomB for as many targets.
func (s *Solver) room(n int) []float64 {
	if len(s.roomZ) < n {
		s.roomZ, s.roomB = make([]float64, n), make([]float64, n)
	}
	return s.roomZ[:n]
}
