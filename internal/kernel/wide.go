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
