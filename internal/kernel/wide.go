package kernel

import "github.com/streamsvm/streamsvm/internal/vec"

// wide sets dst[j-from] = K(point i, point j), without Bias and in float64, for
// from ≤ j < Len. from is a multiple of vec.Width, and dst has room for whole
// panels. It returns the caller's scratch memory, grown if necessary.
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
	case vec.RBF, vec.Laplacian:
		c.post.dots(dst, x, from, c.l1)
		for j, v := range dst {
			dst[j] = max(c.norm[i]+c.norm[from+j]-2*v, 0)
		}
	default:
		c.post.dots(dst, x, from, false)
	}
	b.Func.ApplyWide(dst)
	return scratch
}
