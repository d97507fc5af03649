package tsgs3vm

import "math"

// symmetric returns max(0, 1−|f|), the loss on unlabelled points, which keeps the
// decision boundary away from them.
func symmetric(f float64) float64 { return max(0, 1-math.Abs(f)) }

// symmetricSlope returns the derivative of symmetric. At 0 it is 0, an element of
// Clarke's subdifferential: the first step, from f = 0, favours no class.
func symmetricSlope(f float64) float64 {
	if math.Abs(f) >= 1 || f == 0 {
		return 0
	}
	return -math.Copysign(1, f)
}

// hinge returns the loss on points with the label y.
func hinge(f, y float64) float64 { return max(0, 1-float64(y*f)) }

// hingeSlope returns ∂hinge/∂f.
func hingeSlope(f, y float64) float64 {
	if 1-float64(y*f) > 0 {
		return -y
	}
	return 0
}
