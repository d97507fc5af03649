package finitesum

import (
	"math"

	"github.com/streamsvm/streamsvm/internal/linear"
)

// Kind names a loss.
type Kind uint8

const (
	Squared  Kind = iota // ½ (z − b)²
	Hinge                // smoothed hinge of the margin bz, b = ±1
	Logistic             // log(1 + exp(−bz)), b = ±1
)

// Loss is a convex function of z = aᵀx and the target b with a bounded second
// derivative.
type Loss struct {
	Kind Kind
	// Width > 0 is the width of the parabola that smooths the hinge: the loss of a
	// margin m is 0 for m ≥ 1, (1−m)²/(2 Width) for m above 1−Width, and the line 1
	// − m − Width/2 below that.
	Width float64
}

// Curvature returns the largest second derivative with respect to z.
func (l Loss) Curvature() float64 {
	switch l.Kind {
	case Hinge:
		return 1 / l.Width
	case Logistic:
		return .25
	}
	return 1
}

func (l Loss) value(z, b float64) float64 {
	switch l.Kind {
	case Hinge:
		m := float64(z * b)
		switch {
		case m >= 1:
			return 0
		case m > 1-l.Width:
			return float64((1-m)*(1-m)) / (2 * l.Width)
		}
		return 1 - m - l.Width/2
	case Logistic:
		m := float64(z * b)
		return max(-m, 0) + log1p(linear.ExpNeg(math.Abs(m)))
	}
	return float64((z-b)*(z-b)) / 2
}

// deriv returns the derivative with respect to z.
func (l Loss) deriv(z, b float64) float64 {
	switch l.Kind {
	case Hinge:
		m := float64(z * b)
		switch {
		case m >= 1:
			return 0
		case m > 1-l.Width:
			return -b * ((1 - m) / l.Width)
		}
		return b * (m - m - 1) // NaN for NaN
	case Logistic:
		return -b * linear.Sigmoid(-float64(z*b))
	}
	return z - b
}

// second returns the second derivative with respect to z.
func (l Loss) second(z, b float64) float64 {
	switch l.Kind {
	case Hinge:
		if m := float64(z * b); m < 1 && m > 1-l.Width {
			return 1 / l.Width
		}
		return 0
	case Logistic:
		e := linear.ExpNeg(math.Abs(float64(z * b)))
		return e / float64((1+e)*(1+e))
	}
	return 1
}

// log1p returns log(1+u) for u in [0,1] within 2 ulp, with the same bits on every
// machine.
func log1p(u float64) float64 {
	base := 0.0
	if u > .4375 {
		base, u = math.Ln2, (u-1)/2
	}
	// log(1+u) = 2 artanh(s), s = u/(2+u), |s| < 0.18
	s := u / (2 + u)
	w := float64(s * s)
	p := 1. / 23
	for k := 21; k >= 1; k -= 2 {
		p = float64(p*w) + 1/float64(k)
	}
	return base + 2*float64(s*p)
}
