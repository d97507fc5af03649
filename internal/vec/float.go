package vec

import "math"

// The canonical NaNs: every NaN in a result is one of these.
var (
	nan32 = math.Float32frombits(0x7fc00000)
	nan64 = math.Float64frombits(0x7ff8000000000001)
)

// fma returns a·b+c, rounded once to float32.
func fma(a, b, c float32) float32 { return roundSum(float64(a)*float64(b), float64(c)) }

// roundSum returns p+c, rounded once to float32. p is a product of two float32
// (exact in float64) and c a float32.
func roundSum(p, c float64) float32 {
	if sum := p + c; !unsure(sum) {
		return float32(sum)
	}
	return roundSumSlow(p, c)
}

// unsure reports whether rounding a float64 sum to float32 may differ from rounding the
// exact sum: if the sum looks like a tie and may not be one, or is subnormal, where the
// ties are in other places.
func unsure(sum float64) bool {
	u := math.Float64bits(sum)
	return u<<35 == 1<<63 || u<<1 < (1023-126)<<53
}

// roundSumSlow rounds the sum to odd before rounding it to float32. With 53 bits in
// between, that is equivalent to rounding once (Boldo and Melquiond, "Emulation of
// FMA and correctly rounded sums: proved algorithms using rounding to odd", IEEE
// Trans. Computers 2008).
func roundSumSlow(p, c float64) float32 {
	sum := p + c
	b := sum - p
	rest := (p - (sum - b)) + (c - b)
	if rest != 0 && !math.IsNaN(rest) {
		if u := math.Float64bits(sum); u&1 == 0 {
			if (rest > 0) == (sum > 0) {
				u++
			} else {
				u--
			}
			sum = math.Float64frombits(u)
		}
	}
	return float32(sum)
}
