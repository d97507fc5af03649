package vec

import "math"

// fourier is the kernel kind under which Cos is computed.
const fourier KernelKind = 255

// Cos computes random Fourier features: dst[r*ld+(j-from)] = cos(2π(⟨x_r, w_j⟩ +
// phase[j-from])) for the n consecutive rows of Dim features in x and for from ≤ j
// < to. Frequencies and phases are in turns, that is, divided by 2π beforehand. The
// inner product has the bits of Linear. The cosine of the float32 sum is accurate
// to 3e-7, and may exceed ±1 by as much.
func Cos(dst []float32, ld int, x []float32, n int, w *Panels, phase []float32, from, to int) {
	cosOn(active, dst, ld, x, n, w, phase, from, to)
}

func cosOn(c code, dst []float32, ld int, x []float32, n int, w *Panels, phase []float32, from, to int) {
	Kernel{Kind: fourier}.cut(c, dst, ld, x, n, w, phase[:to-from], from, to)
}

// Coefficients of cos(2πr) in r² − 1/8 for |r| ≤ ½, with the smallest error.
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

// Cosines replaces each t of dst by cos(2πt), as Cos does with a sum t.
func Cosines(dst []float32) { cosinesOn(active, dst) }

func cosinesOn(c code, dst []float32) {
	for i := cosinesAsm(c, dst); i < len(dst); i++ {
		dst[i] = cosTurns(dst[i])
	}
}
