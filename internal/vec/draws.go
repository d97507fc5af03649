package vec

import "math"

// Random numbers are counter-based: element i of the stream of a seed can be computed
// without the elements before it, so that frequencies of random features can be
// redrawn instead of stored. A block of 32 elements comes from 16 outputs of
// splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
// generators", OOPSLA 2014), whose state is a counter.
const (
	drawBlock = 32
	weyl      = 0x9e3779b97f4a7c15

	// Seeds are mixed before use, differently for each distribution.
	normalSalt = 0x6e6f726d616c7300
	cauchySalt = 0x6361756368797300
)

func mix64(z uint64) uint64 {
	z ^= z >> 30
	z *= 0xbf58476d1ce4e5b9
	z ^= z >> 27
	z *= 0x94d049bb133111eb
	return z ^ z>>31
}

// Normals sets dst[i] to element from+i of the standard normal stream named by seed
// (Box and Muller). Magnitudes are at most 6.7.
func Normals(dst []float32, seed, from uint64) { normalsOn(active, dst, seed, from) }

func normalsOn(c code, dst []float32, seed, from uint64) {
	drawBlocks(c, normal, dst, mix64(seed^normalSalt), from)
}

// Cauchys sets dst[i] to element from+i of the standard Cauchy stream named by seed.
func Cauchys(dst []float32, seed, from uint64) { cauchysOn(active, dst, seed, from) }

func cauchysOn(c code, dst []float32, seed, from uint64) {
	drawBlocks(c, cauchy, dst, mix64(seed^cauchySalt), from)
}

type distribution uint8

const (
	normal distribution = iota
	cauchy
)

// drawBlocks splits dst into blocks; incomplete ones go through a buffer.
func drawBlocks(c code, d distribution, dst []float32, seed, from uint64) {
	var buf [drawBlock]float32
	for len(dst) > 0 {
		state := seed + from/drawBlock*16*weyl
		skip := int(from % drawBlock)
		n := len(dst) / drawBlock * drawBlock
		if skip == 0 && n > 0 {
			fill(c, d, dst[:n], state)
		} else {
			fill(c, d, buf[:], state)
			n = copy(dst, buf[skip:])
		}
		dst, from = dst[n:], from+uint64(n)
	}
}

func fill(c code, d distribution, dst []float32, state uint64) {
	switch {
	case c != generic:
		fillAsm(c, d, dst, state)
	case d == normal:
		normalsGeneric(dst, state)
	default:
		cauchysGeneric(dst, state)
	}
}

// normalsGeneric is the Go version of the assembly's normals: words 0 to 7 of a block
// give 16 radii, words 8 to 15 give 16 angles.
func normalsGeneric(dst []float32, state uint64) {
	for ; len(dst) > 0; dst = dst[drawBlock:] {
		for i := range 16 {
			k := uint64(i / 2)
			u := uint32(mix64(state+(k+1)*weyl) >> (i % 2 * 32))
			a := uint32(mix64(state+(k+9)*weyl) >> (i % 2 * 32))
			r := radius(u)
			t := float32(int32(a)) * 0x1p-32
			dst[i] = r * cosTurns(t)
			dst[i+16] = r * cosTurns(t-0.25)
		}
		w := uint64(weyl)
		state += 16 * w
	}
}

// Coefficients of log₂(1+f)/f on [√½−1, √2−1], lowest first.
var log2p = [...]float32{
	1.4426950994238996184, -0.72134782696004651203, 0.48088158014768977999, -0.36063868965450029958,
	0.28930119663712777767, -0.24156284430261279472, 0.19416798666653256765, -0.16615386017066446911,
	0.23347082320607659423, -0.21985638947832397694,
}

// radius returns √(−2·ln u) for the uniform u on (0, 1] made from w.
func radius(w uint32) float32 {
	u := math.Float32bits(fma(float32(int32(w>>1)), 0x1p-31, 0x1p-32))
	e := (int32(u) - int32(math.Float32bits(math.Sqrt2/2))) >> 23
	f := math.Float32frombits(u-uint32(e)<<23) - 1
	y := polynomial(log2p[:], f)
	y = fma(y, f, float32(e))
	y *= -2 * math.Ln2
	if !(y > 0) {
		y = 0
	}
	return float32(math.Sqrt(float64(y)))
}

// Coefficients of sin(πu)/u and of cos(πu) in u² for |u| ≤ ½.
var (
	sinPi = [...]float32{3.141592640077203, -5.167710076668316, 2.5500773865289372, -0.5982904112836939, 0.07765591227685842}
	cosPi = [...]float32{1, -4.934802136928948, 4.058709154763225, -1.335211949391492, 0.23493706859914693, -0.024395932103982776}
)

func cauchysGeneric(dst []float32, state uint64) {
	for ; len(dst) > 0; dst = dst[drawBlock:] {
		for i := range drawBlock {
			w := uint32(mix64(state+uint64(i/2+1)*weyl) >> (i % 2 * 32))
			u := fma(float32(int32(w)), 0x1p-32, 0x1p-33)
			q := float32(u * u)
			dst[i] = polynomial(cosPi[:], q) / float32(polynomial(sinPi[:], q)*u)
		}
		w := uint64(weyl)
		state += 16 * w
	}
}

func polynomial(c []float32, x float32) float32 {
	y := c[len(c)-1]
	for i := len(c) - 2; i >= 0; i-- {
		y = fma(y, x, c[i])
	}
	return y
}
