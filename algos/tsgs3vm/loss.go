package tsgs3vm

import (
	"math"

	"github.com/streamsvm/streamsvm/internal/vec"
)

// loss is the loss on unlabelled points, which keeps the decision boundary away
// from them.
type loss struct {
	name    string
	printed bool // derivatives as in the paper's table, for demonstration
}

// shift is the paper's s of the ramp, which is flat for |r| < −s.
const shift = -0.3

// value returns u(r).
func (u loss) value(r float64) float64 {
	a := math.Abs(r)
	switch u.name {
	case "shg":
		return max(0, 1-a)
	case "sshg":
		h := max(0, 1-a)
		return float64(h*h) / 2
	case "ramp":
		return ramp(r, shift) + ramp(-r, shift)
	default:
		return bump(r)
	}
}

// ramp returns H_1(r) − H_s(r), H_s(r) = max(0, s − r).
func ramp(r, s float64) float64 { return max(0, 1-r) - max(0, s-r) }

// bump returns exp(−5r²), rounded to float32, with equal bits everywhere.
func bump(r float64) float64 {
	x := [1]float32{float32(r * r)}
	vec.Kernel{Kind: vec.RBF, Gamma: 5}.Apply(x[:])
	return float64(x[0])
}

// slope returns u'(r). At 0 it is 0, an element of Clarke's subdifferential: the
// first step, from f = 0, favours no class.
func (u loss) slope(r float64) float64 {
	a := math.Abs(r)
	if u.name == "da" {
		return -10 * r * bump(r)
	}
	if u.printed {
		return u.printedSlope(r, a)
	}
	if a >= 1 || r == 0 {
		return 0
	}
	switch u.name {
	case "sshg":
		return math.Copysign(1-a, -r)
	case "ramp":
		if a <= -shift {
			return 0
		}
	}
	return -math.Copysign(1, r)
}

// printedSlope is the paper's table, which lacks the sign of r and whose ramp has
// one side.
func (u loss) printedSlope(r, a float64) float64 {
	switch {
	case u.name == "ramp" && r >= shift && r < 1:
		return -1
	case u.name == "ramp" || a >= 1:
		return 0
	case u.name == "sshg":
		return a - 1
	}
	return -1
}

// slopeBound is the largest |u'|.
func (u loss) slopeBound() float64 {
	if u.name == "da" {
		return 1.9181 // √(10/e)
	}
	return 1
}

// huber is half the width of the quadratic part of the Huber hinge.
const huber = 0.5

// hingeValue returns l(r, y): the hinge loss, or the Huber hinge loss, which is
// smooth.
func hingeValue(smooth bool, r, y float64) float64 {
	z := 1 - float64(y*r)
	if !smooth {
		return max(0, z)
	}
	switch {
	case z <= -huber:
		return 0
	case z >= huber:
		return z
	}
	return float64((z+huber)*(z+huber)) / (4 * huber)
}

// hingeSlope returns ∂l/∂r.
func hingeSlope(smooth bool, r, y float64) float64 {
	z := 1 - float64(y*r)
	if !smooth {
		if z > 0 {
			return -y
		}
		return 0
	}
	return -y * min(max((z+huber)/(2*huber), 0), 1)
}
