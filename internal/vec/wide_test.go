package vec

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

func widePanels(r *rand.Rand, n, dim int) *Panels {
	p, row := NewPanels(dim), make([]float32, dim)
	for range n {
		for j := range row {
			row[j] = float32(r.NormFloat64())
		}
		p.Append(row)
	}
	return p
}

var wideKernels = []Kernel{{Kind: RBF, Gamma: 0.3}, {Kind: RBF, Gamma: 1e6}, {Kind: Linear}, {Kind: Laplacian, Gamma: 0.7},
	{Kind: Polynomial, Gamma: 0.5, Coef0: 1, Degree: 3}}

func TestWideCodesAgree(t *testing.T) {
	const seed = 3
	r := rand.New(rand.NewPCG(seed, 0))
	for _, dim := range []int{0, 1, 3, 22, 100} {
		p := widePanels(r, 150, dim)
		x := make([]float32, dim)
		p.Row(x, 77)
		for _, k := range wideKernels {
			want := make([]float64, 3*Width)
			k.wideOn(generic, want, x, p, 0, 150)
			short := make([]float64, 2*Width)
			k.wideOn(active, short, x, p, 64, 131)
			for j, v := range short[:131-64] {
				if v != want[64+j] {
					t.Fatalf("%v: value %d depends on the range", k, j)
				}
			}
			for _, c := range codes(t) {
				got := make([]float64, 3*Width)
				k.wideOn(c, got, x, p, 0, 150)
				for j := range got[:150] {
					if math.Float64bits(got[j]) != math.Float64bits(want[j]) {
						t.Fatalf("%s %v dim %d column %d: %x, generic %x", c, k, dim, j, got[j], want[j])
					}
				}
			}
		}
	}
}

// wideError bounds the error of a value of Wide for RBF and Laplacian over dim
// features: a sum s is off by less than (dim+4)u·s, u = 2^-53, which moves
// exp(−γs) by less than that part of γs·exp(−γs) ≤ 1/e; the rest is for the
// rounding of γ·log₂e·s, likewise relative, and of the polynomial. It leaves a
// factor of about two.
func wideError(dim int) float64 { return float64(float64(dim+24) * 0x1p-53) }

// TestWideError compares with exp of an exact sum. math.Exp is off by less than
// a unit in the last place.
func TestWideError(t *testing.T) {
	const seed = 4
	r := rand.New(rand.NewPCG(seed, 0))
	for _, dim := range []int{1, 3, 30, 300} {
		p := widePanels(r, 100, dim)
		x, z := make([]float32, dim), make([]float32, dim)
		out := make([]float64, 2*Width)
		for _, k := range []Kernel{{Kind: RBF, Gamma: 1 / float32(dim)}, {Kind: RBF, Gamma: 9}, {Kind: Laplacian, Gamma: 0.5 / float32(dim)}} {
			worst := 0.0
			p.Row(x, 5)
			k.Wide(out, x, p, 0, 100)
			if out[5] != 1 {
				t.Errorf("K(x,x) = %g", out[5])
			}
			for j := range 100 {
				p.Row(z, j)
				sum := new(big.Float).SetPrec(300)
				for i, v := range x {
					d := new(big.Float).SetPrec(300).SetFloat64(float64(v))
					d.Sub(d, big.NewFloat(float64(z[i])))
					if k.Kind == RBF {
						d.Mul(d, d)
					} else {
						d.Abs(d)
					}
					sum.Add(sum, d)
				}
				sum.Mul(sum, big.NewFloat(float64(k.Gamma)))
				// exp(−hi−lo) for the exact exponent
				hi, _ := sum.Float64()
				lo, _ := sum.Sub(sum, big.NewFloat(hi)).Float64()
				want := math.Exp(-hi) * (1 - lo)
				worst = max(worst, math.Abs(out[j]-want))
			}
			if worst > wideError(dim) {
				t.Errorf("%v, %d features: off by %g, bound %g", k, dim, worst, wideError(dim))
			}
		}
	}
}
