package l1smooth

import (
	"iter"

	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/internal/weight"
	"github.com/streamsvm/streamsvm/stream"
)

// blockRows is the number of examples in a block: few enough that a block stays in
// a core's cache between the two halves of a pass.
const blockRows = 256

// denseShare is the share of nonzero values from which a block is stored dense: from
// there, vector code over zeros is faster than indices.
const denseShare = 0.4

// A block has the examples of consecutive slots in packed form. The form depends only
// on the examples.
type block struct {
	y        []float64 // +1 or −1
	weight   weight.List
	positive int       // number of +1
	dim      int       // features up to the last nonzero one
	width    int       // > 0: dense, row i is val[i·width:][:width]
	end      []int32   // otherwise row i ends at end[i] in idx and val
	idx      []int32   // strictly increasing in a row
	val      []float32 // nil if sparse and every value is 1
	pairs    int       // Σ nnz², the work of a Hessian over all rows
	square   float64   // Σ ‖x_i‖²
}

// pack packs the examples of consecutive slots.
func pack(xs []*stream.Example) block {
	n := len(xs)
	b := block{y: make([]float64, n), weight: weight.Of(xs)}
	nnz, unit := 0, true
	for i, e := range xs {
		b.y[i] = e.Y
		if e.Y > 0 {
			b.positive++
		}
		row := 0
		for j, v := range linear.Nonzeros(e.X) {
			row++
			b.square += float64(float64(v) * float64(v))
			unit = unit && v == 1
			b.dim = max(b.dim, j+1)
		}
		nnz += row
		b.pairs += row * row
	}
	if dim := b.dim; float64(nnz) >= denseShare*float64(n)*float64(dim) && dim > 0 {
		b.width = dim
		b.val = make([]float32, n*dim)
		for i, e := range xs {
			row := b.val[i*dim : (i+1)*dim]
			for j, v := range linear.Nonzeros(e.X) {
				row[j] = v
			}
		}
		b.pairs = n * dim * dim
		return b
	}
	b.end = make([]int32, 0, n)
	b.idx = make([]int32, 0, nnz)
	if !unit {
		b.val = make([]float32, 0, nnz)
	}
	for _, e := range xs {
		for j, v := range linear.Nonzeros(e.X) {
			b.idx = append(b.idx, int32(j))
			if !unit {
				b.val = append(b.val, v)
			}
		}
		b.end = append(b.end, int32(len(b.idx)))
	}
	return b
}

// row returns a row of a sparse block; val is nil if all values are 1.
func (b *block) row(i int) (idx []int32, val []float32) {
	from, to := int32(0), b.end[i]
	if i > 0 {
		from = b.end[i-1]
	}
	if b.val != nil {
		val = b.val[from:to]
	}
	return b.idx[from:to], val
}

// values yields the features of row i, with zeros if the block is dense.
func (b *block) values(i int) iter.Seq2[int, float64] {
	return func(yield func(int, float64) bool) {
		if b.width > 0 {
			for j, v := range b.val[i*b.width : (i+1)*b.width] {
				if !yield(j, float64(v)) {
					return
				}
			}
			return
		}
		idx, val := b.row(i)
		for k, j := range idx {
			v := 1.0
			if val != nil {
				v = float64(val[k])
			}
			if !yield(int(j), v) {
				return
			}
		}
	}
}

// dots sets s[i] = ⟨w, (bias, x_i)⟩. The order of summation depends only on the
// form of the block.
func (b *block) dots(s, w []float64, bias float64) {
	w0 := float64(w[0] * bias)
	w = w[1:]
	for i := range b.y {
		if b.width > 0 {
			s[i] = w0 + vec.DotMixed(b.val[i*b.width:(i+1)*b.width], w[:b.width])
			continue
		}
		idx, val := b.row(i)
		s0, s1 := w0, 0.0
		if val == nil {
			for len(idx) >= 4 {
				s0 += w[idx[0]] + w[idx[1]]
				s1 += w[idx[2]] + w[idx[3]]
				idx = idx[4:]
			}
			for _, j := range idx {
				s0 += w[j]
			}
		} else {
			for len(idx) >= 4 && len(val) >= 4 {
				s0 += float64(w[idx[0]]*float64(val[0])) + float64(w[idx[1]]*float64(val[1]))
				s1 += float64(w[idx[2]]*float64(val[2])) + float64(w[idx[3]]*float64(val[3]))
				idx, val = idx[4:], val[4:]
			}
			for k, j := range idx {
				s0 += float64(w[j] * float64(val[k]))
			}
		}
		s[i] = s0 + s1
	}
}

// scatter adds Σ_i c[i]·(bias, x_i) to g.
func (b *block) scatter(g, c []float64, bias float64) {
	var sum float64
	for i := range b.y {
		sum += c[i]
	}
	g[0] += float64(sum * bias)
	for i := range b.y {
		if c[i] != 0 {
			b.axpy(g, i, c[i])
		}
	}
}

// axpy adds c·x_i to g[1:].
func (b *block) axpy(g []float64, i int, c float64) {
	g = g[1:]
	if b.width > 0 {
		vec.AxpyMixed(c, b.val[i*b.width:(i+1)*b.width], g[:b.width])
		return
	}
	idx, val := b.row(i)
	if val == nil {
		for _, j := range idx {
			g[j] += c
		}
		return
	}
	for k, v := range val {
		g[idx[k]] += float64(c * float64(v))
	}
}

// dot returns ⟨w[1:], x_i⟩.
func (b *block) dot(w []float64, i int) float64 {
	w = w[1:]
	if b.width > 0 {
		return vec.DotMixed(b.val[i*b.width:(i+1)*b.width], w[:b.width])
	}
	idx, val := b.row(i)
	var s float64
	if val == nil {
		for _, j := range idx {
			s += w[j]
		}
		return s
	}
	for k, v := range val {
		s += float64(w[idx[k]] * float64(v))
	}
	return s
}
