package vec

import (
	"fmt"
	"math"
)

// fourier and pairs make kernels of what Cos and CosSin compute.
const (
	fourier KernelKind = 255
	pairs   KernelKind = 254
)

// Cos computes random Fourier features: dst[r*ld+(j-from)] =
// cos(2π(⟨x_r, w_j⟩ + phase[j-from])) for the n rows of Dim features that x
// holds one after the other and for from ≤ j < to. Frequencies and phases are
// in turns, that is, divided by 2π beforehand. The inner product is one of
// Linear's; the cosine of the float32 sum is within 3e-7, and may pass ±1 by
// as much.
func Cos(dst []float32, ld int, x []float32, n int, w *Panels, phase []float32, from, to int) {
	cosOn(active, dst, ld, x, n, w, phase, from, to)
}

func cosOn(c code, dst []float32, ld int, x []float32, n int, w *Panels, phase []float32, from, to int) {
	Kernel{Kind: fourier}.cut(c, dst, ld, x, n, w, phase[:to-from], from, to)
}

// CosSin computes random Fourier features in pairs, two from each inner
// product: dst[r*ld+j] = cos(2π⟨x_r, w_j⟩) and dst[r*ld+m+j] = sin(2π⟨x_r, w_j⟩)
// for the n rows of Dim features that x holds one after the other and the m
// frequencies of w, a multiple of Width of them. Frequencies are in turns;
// errors are those of Cos.
func CosSin(dst []float32, ld int, x []float32, n int, w *Panels) { cosSinOn(active, dst, ld, x, n, w) }

func cosSinOn(c code, dst []float32, ld int, x []float32, n int, w *Panels) {
	m := w.n
	if m%Width != 0 || ld < 2*m || n < 0 {
		panic(fmt.Sprintf("vec: pairs of %d rows, %d frequencies, row distance %d", n, m, ld))
	}
	if n == 0 || m == 0 {
		return
	}
	Kernel{Kind: pairs}.cut(c, dst[:(n-1)*ld+2*m], ld, x, n, w, nil, 0, m)
}

// The coefficients of cos(2πr) in r² − 1/8 for |r| ≤ ½, of least error.
const (
	cosine0 = float32(-0.60569986719231838634)
	cosine1 = float32(-7.070344104724311407)
	cosine2 = float32(38.052759524903187582)
	cosine3 = float32(-59.168735728552078967)
	cosine4 = float32(45.468035677172153441)
	cosine5 = float32(-21.071105627681628647)
	cosine6 = float32(6.5286581628295605739)
)

// cosTurns returns cos(2πt).
func cosTurns(t float32) float32 {
	r := t - float32(math.RoundToEven(float64(t)))
	q := fma(r, r, -0.125)
	y := fma(cosine6, q, cosine5)
	y = fma(y, q, cosine4)
	y = fma(y, q, cosine3)
	y = fma(y, q, cosine2)
	y = fma(y, q, cosine1)
	y = fma(y, q, cosine0)
	if y != y {
		return nan32
	}
	return y
}

// The coefficients of sin(2πr)/r in r² − 1/8 for |r| ≤ ½, for the least error
// of sin(2πr).
const (
	sine0 = float32(2.2505604295401134)
	sine1 = float32(-24.225130063445494)
	sine2 = float32(56.50197885125052)
	sine3 = float32(-57.89478785428984)
	sine4 = float32(33.535855924277655)
	sine5 = float32(-12.271261185324473)
)

// sinTurns returns sin(2πt).
func sinTurns(t float32) float32 {
	r := t - float32(math.RoundToEven(float64(t)))
	q := fma(r, r, -0.125)
	y := fma(sine5, q, sine4)
	y = fma(y, q, sine3)
	y = fma(y, q, sine2)
	y = fma(y, q, sine1)
	y = fma(y, q, sine0)
	y *= r
	if y != y {
		return nan32
	}
	return y
}
