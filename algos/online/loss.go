package online

import (
	"math"

	"github.com/streamsvm/streamsvm/internal/linear"
)

// loss is L(f, y), convex in the prediction f.
type loss uint8

const (
	hinge        loss = iota // max(0, 1 − y f)
	squaredHinge             // max(0, 1 − y f)²
	logistic                 // log(1 + exp(−y f))
	squared                  // (y − f)²/2
	epsilon                  // max(0, |y − f| − ε)
)

// slope returns −∂L/∂f; 0 if there is nothing to learn.
func (k loss) slope(f, y, eps float64) float64 {
	switch k {
	case hinge:
		if float64(y*f) < 1 {
			return y
		}
	case squaredHinge:
		if m := 1 - float64(y*f); m > 0 {
			return 2 * m * y
		}
	case logistic:
		return y * linear.Sigmoid(-float64(y*f))
	case squared:
		return y - f
	default:
		if r := y - f; math.Abs(r) > eps {
			return math.Copysign(1, r)
		}
	}
	return 0
}

// step returns the implicit step s = −∂L/∂f at f + q s. A step of 1 moves the
// prediction by q > 0, and g is the slope at f. However large q is, the step does not
// overshoot the label.
func (k loss) step(f, y, g, eps, q float64) float64 {
	switch k {
	case hinge:
		return y * min(1, max(0, 1-float64(y*f))/q)
	case squaredHinge:
		return y * (2 * max(0, 1-float64(y*f)) / (1 + 2*q))
	case logistic:
		// h(s) = s − σ(−m − q s) increases from h(0) < 0 to h(σ(−m)) > 0: do Newton
		// steps within this bracket, up to a relative error of 1e-4. For small q, the
		// usual case, the first step is known to be accurate enough, because |σ″| is
		// below 0.1.
		m := float64(y * f)
		lo, hi := 0.0, math.Abs(g)
		s := hi / (1 + float64(q*float64(hi*(1-hi))))
		if float64(q*q)*s < 2e-3 {
			return y * s
		}
		for i := range 60 {
			p := linear.Sigmoid(-m - float64(q*s))
			h := s - p
			if math.Abs(h) <= 1e-4*s {
				break
			}
			if h > 0 {
				hi = s
			} else {
				lo = s
			}
			// For large q, Newton steps may oscillate: bisect.
			if s -= h / (1 + float64(q*float64(p*(1-p)))); !(lo <= s && s <= hi) || i%4 == 3 {
				s = (lo + hi) / 2
			}
		}
		return y * s
	case squared:
		return (y - f) / (1 + q)
	default:
		r := y - f
		return math.Copysign(min(1, max(0, math.Abs(r)-eps)/q), r)
	}
}
