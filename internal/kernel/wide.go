package kernel

import (
	"math"

	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// wide sets dst[j-from] = K(point i, point j), without Bias and in float64, for
// from ≤ j < Len; from is a multiple of vec.Width, and dst has room for whole
// panels. It returns the caller's scratch, grown.
func (b *Basis) wide(scratch []float32, dst []float64, i, from int) []float32 {
	if b.rows == nil {
		scratch = grow(scratch, b.panels.Dim())
		b.panels.Row(scratch, i)
		b.Func.Wide(dst, scratch, b.panels, from, b.panels.Len())
		return scratch
	}
	c := b.rows
	dst = dst[:c.len()-from]
	clear(dst)
	x := c.row(i)
	switch b.Func.Kind {
	case vec.Laplacian:
		for j := range dst {
			dst[j] = l1Distance(x, c.row(from+j))
		}
	case vec.RBF:
		c.post.dots(dst, x, from)
		for j, v := range dst {
			dst[j] = max(c.sq[i]+c.sq[from+j]-2*v, 0)
		}
	default:
		c.post.dots(dst, x, from)
	}
	b.Func.ApplyWide(dst)
	return scratch
}

// l1Distance is for sparse vectors.
func l1Distance(x, z stream.Vec) float64 {
	s, k := 0.0, 0
	for i, g := range x.Idx {
		for ; k < len(z.Idx) && z.Idx[k] < g; k++ {
			s += math.Abs(float64(z.Val[k]))
		}
		v := float64(x.Val[i])
		if k < len(z.Idx) && z.Idx[k] == g {
			v -= float64(z.Val[k])
			k++
		}
		s += math.Abs(v)
	}
	for ; k < len(z.Idx); k++ {
		s += math.Abs(float64(z.Val[k]))
	}
	return s
}

// wideError bounds the error of K(p,q) of wide, relative to √(K(p,p)·K(q,q)).
func (b *Basis) wideError() float64 {
	const u = 0x1p-53
	d := float64(b.Dim())
	if b.rows != nil {
		// Of the features, only those that a row has are summed.
		most := 0
		for i := range b.rows.len() {
			most = max(most, len(b.rows.row(i).Val))
		}
		d = float64(2 * most)
	}
	switch {
	case b.Func.Kind == vec.Polynomial:
		// By the Cauchy-Schwarz inequality for (√γ·x, √c), (γ|x||z|+c)^degree is no
		// larger than √(K(x,x)·K(z,z)).
		return float64(float64((d+8)*float64(2*b.Func.Degree)) * u)
	case b.rows == nil:
		return vec.WideError(int(d))
	case b.Func.Kind == vec.RBF:
		// |x|²+|z|²−2⟨x,z⟩ has the error of its terms, however small it is itself.
		largest := 0.0
		for _, v := range b.rows.sq {
			largest = max(largest, v)
		}
		return vec.WideError(int(d)) + float64(float64((d+4)*4*u)*float64(float64(b.Func.Gamma)*largest))
	}
	return vec.WideError(int(d))
}
