package synth

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// draw is the random generator of one example. It returns the same on every
// machine: it uses only operations that IEEE 754 defines to the bit, prevents fused
// multiply-adds, and avoids both package math's functions and NormFloat64, whose
// last bits depend on the processor.
type draw struct{ pcg rand.PCG }

// seed starts the generator of example i of the stream base. The number is
// scrambled (finalizer of SplitMix64: Steele, Lea, Flood, "Fast splittable
// pseudorandom number generators", OOPSLA 2014), because nearby states of PCG start
// with similar sequences.
func (d *draw) seed(base, i uint64) {
	z := i + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	d.pcg.Seed(base, z)
}

// uniform returns a multiple of 2⁻⁵³ from [0, 1).
func (d *draw) uniform() float64 { return float64(d.pcg.Uint64()>>11) * 0x1p-53 }

// intn returns a number from 0 to n-1.
func (d *draw) intn(n int) int {
	hi, _ := bits.Mul64(d.pcg.Uint64(), uint64(n))
	return int(hi)
}

// normal returns a standard normal number (Box, Muller, "A note on the generation
// of random normal deviates", 1958).
func (d *draw) normal() float64 {
	u := 1 - d.uniform() // (0, 1]
	_, c := sinCos(d.uniform())
	return float64(math.Sqrt(-2*logarithm(u)) * c)
}

// logarithm returns ln x for 0 < x ≤ 1 to about 15 digits.
func logarithm(x float64) float64 {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m *= 2
		e--
	}
	// ln m = 2 artanh((m−1)/(m+1)), |(m−1)/(m+1)| ≤ 0.172, whose 23rd power is
	// below 2⁻⁵³.
	t := (m - 1) / (m + 1)
	t2 := t * t
	sum := 0.0
	for k := 21; k >= 1; k -= 2 {
		sum = float64(sum*t2) + 1/float64(k)
	}
	return float64(2*float64(t*sum)) + float64(float64(e)*math.Ln2)
}

// sinCos returns the sine and cosine of u turns, that is of 2πu, to about 15
// digits.
func sinCos(u float64) (sin, cos float64) {
	u -= math.Floor(u)
	quarter := math.Floor(float64(u*4) + 0.5)
	a := float64((u - quarter/4) * (2 * math.Pi)) // |a| ≤ π/4
	s, c := series(a)
	switch int(quarter) & 3 {
	case 1:
		return c, -s
	case 2:
		return -s, -c
	case 3:
		return -c, s
	}
	return s, c
}

// series returns the sine and cosine of a, |a| ≤ π/4, by Taylor's series; the
// first term left out is below 2⁻⁵³.
func series(a float64) (sin, cos float64) {
	a2 := a * a
	s, c := 1.0, 1.0
	for k := 18; k >= 2; k -= 2 {
		s = 1 - float64(float64(s*a2)/float64(k*(k+1)))
		c = 1 - float64(float64(c*a2)/float64(k*(k-1)))
	}
	return float64(a * s), c
}
