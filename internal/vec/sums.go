package vec

import "math"

// DotMixed returns Σ k[i]·a[i] in float64, in an order that depends only on len(k).
func DotMixed(k []float32, a []float64) float64 { return dotMixedOn(active, k, a) }

func dotMixedOn(c code, k []float32, a []float64) float64 {
	var l lanes
	l.add(c, k, a[:len(k)], 0)
	return l.sum()
}

// AxpyMixed sets y[i] += c·k[i]. The product is rounded before it is added.
func AxpyMixed(c float64, k []float32, y []float64) { axpyMixedOn(active, c, k, y) }

func axpyMixedOn(on code, c float64, k []float32, y []float64) {
	y = y[:len(k)]
	for i := axpyMixedAsm(on, c, k, y); i < len(k); i++ {
		v := y[i] + float64(c*float64(k[i]))
		if v != v {
			v = nan64
		}
		y[i] = v
	}
}

// Overlap sets y[i] += min(|v|, |k[i]|) where v and k[i] have the same sign. No value is NaN.
func Overlap(v float32, k []float32, y []float64) { overlapOn(active, v, k, y) }

func overlapOn(on code, v float32, k []float32, y []float64) {
	sign, most := math.Copysign(1, float64(v)), math.Abs(float64(v))
	y = y[:len(k)]
	for i := overlapAsm(on, sign, most, k, y); i < len(k); i++ {
		y[i] += max(min(sign*float64(k[i]), most), 0)
	}
}

// Distances sets dst[i] to x + norms[i] − 2·dots[i], or 0 if that is negative. No value is NaN.
func Distances(dst []float32, x float64, norms, dots []float64) {
	distancesOn(active, dst, x, norms, dots)
}

func distancesOn(on code, dst []float32, x float64, norms, dots []float64) {
	norms, dots = norms[:len(dst)], dots[:len(dst)]
	for i := distancesAsm(on, dst, x, norms, dots); i < len(dst); i++ {
		dst[i] = float32(max(x+norms[i]-2*dots[i], 0))
	}
}

// Dot64 returns Σ a[i]·b[i], in an order that depends only on len(a).
func Dot64(a, b []float64) float64 { return dot64On(active, a, b) }

func dot64On(c code, a, b []float64) float64 {
	b = b[:len(a)]
	var l lanes
	if c != generic {
		l.add64Asm(c, a, b)
		return l.sum()
	}
	for ; len(a) >= len(l); a, b = a[len(l):], b[len(l):] {
		ab, bb := a[:len(l)], b[:len(l)]
		for i := range l {
			l[i] += float64(ab[i] * bb[i])
		}
	}
	for i, v := range a {
		l[i] += float64(v * b[i])
	}
	return l.sum()
}

// Axpy64 sets y[i] += c·x[i]. The product is rounded before it is added.
func Axpy64(c float64, x, y []float64) { axpy64On(active, c, x, y) }

func axpy64On(on code, c float64, x, y []float64) {
	y = y[:len(x)]
	for i := axpy64Asm(on, c, x, y); i < len(x); i++ {
		v := y[i] + float64(c*x[i])
		if v != v {
			v = nan64
		}
		y[i] = v
	}
}

// lanes are the partial sums of a dot product: element i goes to lane
// i mod 32, whatever the width of a vector register.
type lanes [32]float64

// add adds a[i]·(k[i]+offset) for every i, rounding after each operation. All calls
// for one sum except the last must pass a multiple of 32 elements.
func (l *lanes) add(c code, k []float32, a []float64, offset float64) {
	if c != generic {
		l.addAsm(c, k, a, offset)
		return
	}
	for len(k) >= len(l) {
		kb, ab := k[:len(l)], a[:len(l)]
		for i := range l {
			l[i] += float64(float64(float64(kb[i])+offset) * ab[i])
		}
		k, a = k[len(l):], a[len(l):]
	}
	for i, v := range k {
		l[i] += float64(float64(float64(v)+offset) * a[i])
	}
}

// sum adds up the lanes in a fixed tree: it adds halves element by element, and so on.
func (l *lanes) sum() float64 {
	var x [len(l) / 4]float64
	for i := range x {
		x[i] = (l[i] + l[i+16]) + (l[i+8] + l[i+24])
	}
	s := ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]))
	if s != s {
		return nan64
	}
	return s
}
