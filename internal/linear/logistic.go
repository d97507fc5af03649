package linear

import "math"

// Sigmoid returns 1/(1 + exp(−x)) with the same bits on every machine.
func Sigmoid(x float64) float64 {
	e := ExpNeg(math.Abs(x))
	// Selecting between integers compiles without a branch.
	above, below := math.Float64bits(1), math.Float64bits(e)
	if x < 0 {
		above = below
	}
	return math.Float64frombits(above) / (1 + e)
}

// Softplus returns log(1 + exp(x)), the logistic loss of the margin −x, with the
// same bits on every machine and a relative error below 1e-14.
func Softplus(x float64) float64 {
	// log u = log c + 2 artanh z with z = (u−c)/(u+c), where c is the nearer of 1 and
	// √2, so that |z| < .172.
	e := ExpNeg(math.Abs(x))
	z, log := e/(2+e), 0.0
	if e > math.Sqrt2-1 {
		z, log = (1+e-math.Sqrt2)/(1+e+math.Sqrt2), math.Ln2/2
	}
	return max(x, 0) + (log + artanh2(z))
}

// Log returns the natural logarithm of a positive normal number, with the same bits
// on every machine and an absolute or relative error below 1e-15.
func Log(x float64) float64 {
	// x = m·2^e with m within a factor of √2 of √½.
	b := math.Float64bits(x)
	m, e := math.Float64frombits(b&(1<<52-1)|1022<<52), int(b>>52)-1022
	return float64((float64(e)-0.5)*math.Ln2) + artanh2((m-math.Sqrt2/2)/(m+math.Sqrt2/2))
}

// artanh2 returns 2 artanh z for |z| < .172.
func artanh2(z float64) float64 {
	z2 := z * z
	z4 := z2 * z2
	// Summing odd and even terms separately takes half the time.
	a := 1 + float64(z4*(1./5+float64(z4*(1./9+float64(z4*(1./13+float64(z4*(1./17))))))))
	b := 1./3 + float64(z4*(1./7+float64(z4*(1./11+float64(z4*(1./15+float64(z4*(1./19))))))))
	return float64(2 * z * (a + float64(z2*b)))
}

// ExpNeg returns exp(−x) for x ≥ 0, with a relative error below 1e-15, and 0 beyond
// 700. math.Exp has machine-specific code, whose bits differ.
func ExpNeg(x float64) float64 {
	if !(x < 700) {
		return 0
	}
	// −x = −n ln 2 + r, |r| ≤ ln 2 / 2.
	n := math.Floor(float64(x*math.Log2E) + 0.5)
	const hi, lo = 6.93147180369123816490e-01, 1.90821492927058770002e-10
	r := float64(n*hi) - x + float64(n*lo)
	// Taylor series up to r¹², summed in pairs, which takes half the time of
	// Horner's scheme.
	r2 := r * r
	r4 := r2 * r2
	a := (1 + r) + float64((0.5+float64(r*(1./6)))*r2)
	b := (1./24 + float64(r*(1./120))) + float64((1./720+float64(r*(1./5040)))*r2)
	c := (1./40320 + float64(r*(1./362880))) + float64((1./3628800+float64(r*(1./39916800)))*r2)
	d := float64(float64(r4*r4) * (c + float64(r4*(1./479001600))))
	p := (a + float64(b*r4)) + d
	return p * math.Float64frombits(uint64(1023-int(n))<<52)
}
