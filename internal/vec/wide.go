package vec

import (
	"fmt"
	"math"
)

// Wide sets dst[j-from] = K(x, p_j) for one row x of Dim features and from ≤ j < to.
// Everything is in float64: the differences, products and sums of the features, in
// order, and the function that turns a sum into a kernel value. This function adds an
// error of a few units in the last place to the effect of the sum's rounding. from is
// a multiple of Width, and dst has room for whole panels; its contents from column to
// on are undefined. Features must be finite.
//
// It takes a few times as long as Block. It is for differences below the resolution
// of float32: norms of differences of nearly equal expansions.
func (k Kernel) Wide(dst []float64, x []float32, p *Panels, from, to int) {
	k.wideOn(active, dst, x, p, from, to)
}

func (k Kernel) wideOn(c code, dst []float64, x []float32, p *Panels, from, to int) {
	if from < 0 || to > p.n || from > to || from%Width != 0 || k.Kind > Laplacian || k.Degree < 0 {
		panic(fmt.Sprintf("vec: wide kernel %d of degree %d, columns %d to %d of %d", k.Kind, k.Degree, from, to, p.n))
	}
	panels := (to - from + Width - 1) / Width
	dst, x = dst[:panels*Width], x[:p.dim]
	if p.dim == 0 {
		clear(dst)
	}
	for q := 0; q < panels && p.dim > 0; q++ {
		z, out := p.data[(from/Width+q)*Width*p.dim:][:Width*p.dim], dst[q*Width:][:Width]
		if c == generic {
			k.wideSums(out, x, z)
		} else {
			k.wideAsm(c, out, x, z)
		}
	}
	k.applyWideOn(c, dst)
}

// ApplyWide is Apply in float64, like Wide.
func (k Kernel) ApplyWide(s []float64) { k.applyWideOn(active, s) }

func (k Kernel) applyWideOn(c code, s []float64) {
	switch k.Kind {
	case RBF, Laplacian:
		scale := -float64(float64(k.Gamma) * math.Log2E)
		for i := wideExpAsm(c, s, scale); i < len(s); i++ {
			s[i] = wideExp2(float64(scale * s[i]))
		}
	case Polynomial:
		for i, v := range s {
			x, y := float64(float64(k.Gamma)*v)+float64(k.Coef0), 1.0
			for n := k.Degree; n > 0; n >>= 1 {
				if n&1 != 0 {
					y = float64(y * x)
				}
				x = float64(x * x)
			}
			s[i] = y
		}
	}
}

func wideExp2(t float64) float64 {
	t = max(t, -1000)
	n := t + 0x1.8p52
	r := t - (n - 0x1.8p52)
	y := exp2c[0]
	for _, c := range exp2c[1:] {
		y = float64(y*r) + c
	}
	y = float64(y*r) + 1
	return math.Float64frombits(math.Float64bits(y) + math.Float64bits(n)<<52)
}

func (k Kernel) wideSums(out []float64, x, z []float32) {
	clear(out)
	for f, v := range x {
		col, xv := z[f*Width:][:len(out)], float64(v)
		switch k.Kind {
		case RBF:
			for j, w := range col {
				t := xv - float64(w)
				out[j] += float64(t * t)
			}
		case Laplacian:
			for j, w := range col {
				out[j] += math.Abs(xv - float64(w))
			}
		default:
			for j, w := range col {
				out[j] += float64(xv * float64(w))
			}
		}
	}
}
