package vec

import "math"

// The NaNs that stand for every NaN in a result.
var (
	nan32 = math.Float32frombits(0x7fc00000)
	nan64 = math.Float64frombits(0x7ff8000000000001)
)

const (
	tieMask  = 1<<29 - 1 // the bits of a float64 that a float32 does not have
	tie      = 1 << 28   // halfway between two normal float32
	minExp32 = -126
)

// fma returns a·b+c, rounded once to float32.
func fma(a, b, c float32) float32 {
	return roundSum(float64(a)*float64(b), float64(c))
}

// roundSum returns p+c, rounded once to float32, for p a product of two
// float32 (exact in float64) and c a float32. The float64 sum is rounded, so
// that rounding it again could go wrong where it looks like a tie of float32
// without being one, and among subnormals, whose ties are elsewhere.
func roundSum(p, c float64) float32 {
	sum := p + c
	if u := math.Float64bits(sum); u&tieMask == tie || u<<1 < (1023+minExp32)<<53 {
		return roundSumSlow(p, c)
	}
	return float32(sum)
}

// roundSumSlow rounds the sum to odd before it rounds it to float32: with 53
// bits between, that is as good as rounding once (Boldo and Melquiond,
// "Emulation of FMA and correctly rounded sums: proved algorithms using
// rounding to odd", IEEE Trans. Computers 2008).
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
