package vec

import "math"

// Coefficients of 2^r on [−½, ½], with the smallest relative error for their
// degree. The first is rounded to 1, so that K(x, x) = 1.
const (
	exp2c0 = 1
	exp2c1 = float32(0.69314720671061968993)
	exp2c2 = float32(0.24022651213595688779)
	exp2c3 = float32(0.055503272142096243824)
	exp2c4 = float32(0.0096180256029138634644)
	exp2c5 = float32(0.0013400432165274756002)
	exp2c6 = float32(0.00015469731987598932992)
)

// expScale turns a sum s into 2^((hi+lo)·s), or 0 if s > limit.
type expScale struct{ hi, lo, limit float32 }

// newExpScale splits −γ·log₂e into two float32, so that the argument of 2^x has no
// significant rounding error. Results below 2^-125.99 are 0: subnormals are a
// hundred times slower on some CPUs.
func newExpScale(gamma float32) expScale {
	if !(gamma >= 0) {
		return expScale{nan32, nan32, nan32}
	}
	c := min(float64(float64(gamma)*math.Log2E), math.MaxFloat32)
	hi := float32(c)
	lo := float32(c - float64(hi))
	return expScale{-hi, -lo, float32(min(125.99/c, math.MaxFloat32))}
}

// of returns 2^((hi+lo)·s). It does the operations of the assembly, emulating each in
// the cheapest way that gives the same bits. It rounds a sum with a known binade by
// adding 2^29 times the lower end of the binade, which leaves float64 exactly the bits
// of a float32.
func (e expScale) of(s float32) float32 {
	hi := float64(e.hi)
	a := float64(s) * hi
	if !(s <= e.limit) {
		if a != a {
			return nan32
		}
		return 0
	}
	t := a + 0x1.8p52
	n := t - 0x1.8p52
	p := float64(s) * float64(e.lo)
	r := float64(roundSum(p, float64(float32(a-n)))) // a−n is exact
	u := uint32(math.Float64bits(t)) << 23
	const m5, m4, m3, m1 = 0x1p19, 0x1p22, 0x1p24, 0x1p28
	y := (r*float64(exp2c6) + (float64(exp2c5) + m5)) - m5
	y = (r*y + (float64(exp2c4) + m4)) - m4
	y = (r*y + (float64(exp2c3) + m3)) - m3
	y = float64(roundSum(r*y, float64(exp2c2)))
	y = (r*y + (float64(exp2c1) + m1)) - m1
	return math.Float32frombits(math.Float32bits(roundSum(r*y, exp2c0)) + u)
}
