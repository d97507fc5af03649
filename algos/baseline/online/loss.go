package online

import "math"

// loss is L(f, y), convex in the prediction f.
type loss uint8

const (
	hinge        loss = iota // max(0, 1 − y f)
	squaredHinge             // max(0, 1 − y f)²
	logistic                 // log(1 + exp(−y f))
	squared                  // (y − f)²/2
	epsilon                  // max(0, |y − f| − ε)
)

// slope returns −∂L/∂f; 0 where there is nothing to learn.
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
		return y * sigmoid(-float64(y*f))
	case squared:
		return y - f
	default:
		if r := y - f; math.Abs(r) > eps {
			return math.Copysign(1, r)
		}
	}
	return 0
}

// step returns s = −∂L/∂f at f + q s: the implicit step, where q > 0 is by how
// much a step of 1 moves the prediction. However large q is, the step does not
// go beyond the label.
func (k loss) step(f, y, eps, q float64) float64 {
	switch k {
	case hinge:
		return y * min(1, max(0, 1-float64(y*f))/q)
	case squaredHinge:
		return y * (2 * max(0, 1-float64(y*f)) / (1 + 2*q))
	case logistic:
		// h(s) = s − σ(−m − q s) increases from h(0) < 0 to h(σ(−m)) > 0:
		// Newton's steps within that bracket, up to a relative error of 1e-4.
		// σ″ is below 0.1: where q is small, as it is when steps are, the first
		// one is known to be near enough.
		m := float64(y * f)
		lo, hi := 0.0, sigmoid(-m)
		s := hi / (1 + float64(q*float64(hi*(1-hi))))
		if float64(q*q)*s < 2e-3 {
			return y * s
		}
		for i := range 60 {
			p := sigmoid(-m - float64(q*s))
			h := s - p
			if math.Abs(h) <= 1e-4*s {
				break
			}
			if h > 0 {
				hi = s
			} else {
				lo = s
			}
			// Where q is large, Newton's steps may go back and forth.
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

// sigmoid returns 1/(1 + exp(−x)) with the same bits on every machine.
func sigmoid(x float64) float64 {
	e := expNeg(math.Abs(x))
	if x < 0 {
		return e / (1 + e)
	}
	return 1 / (1 + e)
}

// expNeg returns exp(−x) for x ≥ 0, with a relative error below 1e-15 and 0
// beyond 700. It is written out because the library's has code of its own for
// some machines.
func expNeg(x float64) float64 {
	if !(x < 700) {
		return 0
	}
	// −x = −n ln 2 + r, |r| ≤ ln 2 / 2.
	n := math.Floor(float64(x*math.Log2E) + 0.5)
	const hi, lo = 6.93147180369123816490e-01, 1.90821492927058770002e-10
	r := float64(n*hi) - x + float64(n*lo)
	// Taylor's series up to r¹², summed in pairs: half the time of one sum from
	// the end.
	r2 := r * r
	r4 := r2 * r2
	a := (1 + r) + float64((0.5+float64(r*(1./6)))*r2)
	b := (1./24 + float64(r*(1./120))) + float64((1./720+float64(r*(1./5040)))*r2)
	c := (1./40320 + float64(r*(1./362880))) + float64((1./3628800+float64(r*(1./39916800)))*r2)
	d := float64(float64(r4*r4) * (c + float64(r4*(1./479001600))))
	p := (a + float64(b*r4)) + d
	return p * math.Float64frombits(uint64(1023-int(n))<<52)
}
