package l1smooth

import "math"

// smooth returns the smoothed hinge of the paper and its first two
// derivatives, with α² given:
//
//	φ_α(u)  = (u + √(α²+u²))/2
//	φ_α'(u) = (1 + u/√(α²+u²))/2 = φ_α(u)/√(α²+u²)
//	φ_α''(u) = α²/(2 (α²+u²)^{3/2})
//
// For u < 0 the sum would cancel; there φ_α = α²/(2 (√(α²+u²) − u)).
func smooth(u, alpha2 float64) (p, d1, d2 float64) {
	r := math.Sqrt(float64(u*u) + alpha2)
	p = phi(u, r, alpha2)
	return p, p / r, alpha2 / (2 * float64(r*float64(r*r)))
}

// rise returns φ_α(u+δ) − φ_α(u) to full relative accuracy, as
// δ (φ_α(u) + φ_α(u+δ)) / (√(α²+u²) + √(α²+(u+δ)²)), in which all terms but δ
// are positive.
func rise(u, delta, alpha2 float64) float64 {
	v := u + delta
	ru := math.Sqrt(float64(u*u) + alpha2)
	rv := math.Sqrt(float64(v*v) + alpha2)
	return delta * ((phi(u, ru, alpha2) + phi(v, rv, alpha2)) / (ru + rv))
}

// phi returns φ_α(u) where r = √(α²+u²).
func phi(u, r, alpha2 float64) float64 {
	if u < 0 {
		return alpha2 / (2 * (r - u))
	}
	return (u + r) / 2
}

// hinge returns max(0, u).
func hinge(u float64) float64 { return max(u, 0) }
