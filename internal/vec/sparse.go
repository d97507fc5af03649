package vec

import (
	"fmt"
	"math"
)

// Sparse is a batch of rows given by their nonzeros, for products with panels that
// skip the zeros.
//
// Skipping a zero changes no bit of a cosine as long as the other factor is finite: a
// zero would add ±0, which can at most change the sign of a sum that is itself ±0, and
// this does not affect the cosine.
type Sparse struct {
	dim      int     // one more than the largest index
	place    []int32 // index in the result, by row
	count    []int32 // number of nonzeros, by row
	features []feature
}

// Reset empties s and keeps its memory.
func (s *Sparse) Reset() {
	s.dim, s.place, s.count, s.features = 0, s.place[:0], s.count[:0], s.features[:0]
}

// Append adds a row with the given place in the result. Its features are val[k] at
// idx[k], strictly increasing, or at k if idx is nil.
func (s *Sparse) Append(place int, idx []int32, val []float32) {
	from := len(s.features)
	for k, v := range val {
		if v == 0 {
			continue
		}
		j := int32(k)
		if idx != nil {
			j = idx[k]
		}
		s.features = append(s.features, feature{j * 4 * Width, v})
	}
	n := len(s.features)
	if n > from {
		// Offsets in panels are multiples of 4·Width below 2³¹.
		last := s.features[n-1].at
		if idx != nil && (idx[0] < 0 || int(idx[len(val)-1]) >= math.MaxInt32/(4*Width)) {
			panic(fmt.Sprintf("vec: features %d to %d of a sparse row", idx[0], idx[len(val)-1]))
		}
		s.dim = max(s.dim, int(last)/(4*Width)+1)
	}
	s.place, s.count = append(s.place, int32(place)), append(s.count, int32(n-from))
}

// CosSparse is Cos, bit for bit, for the rows of s at their places in dst. w has
// finite numbers and at least as many features as the rows.
func CosSparse(dst []float32, ld int, s *Sparse, w *Panels, phase []float32, from, to int) {
	cosSparseOn(active, dst, ld, s, w, phase, from, to)
}

func cosSparseOn(c code, dst []float32, ld int, s *Sparse, w *Panels, phase []float32, from, to int) {
	if from < 0 || to > w.n || from > to || ld < to-from || s.dim > w.dim {
		panic(fmt.Sprintf("vec: sparse rows of %d features, %d in the panels, columns %d to %d of %d, row distance %d",
			s.dim, w.dim, from, to, w.n, ld))
	}
	phase = phase[:to-from]
	if c == generic {
		s.cosGeneric(dst, ld, w, phase, from, to)
		return
	}
	s.cosAsm(c, dst, ld, w, phase, from, to)
}

func (s *Sparse) cosGeneric(dst []float32, ld int, w *Panels, phase []float32, from, to int) {
	for j := from; j < to; {
		c := j % Width
		n := min(Width-c, to-j)
		panel, rest := w.data[j/Width*Width*w.dim:][:Width*w.dim], s.features
		for r, m := range s.count {
			out := dst[int(s.place[r])*ld+j-from:][:n]
			nonzeroSums(out, rest[:m], panel, c)
			for i, v := range out {
				out[i] = cosTurns(v + phase[j-from+i])
			}
			rest = rest[m:]
		}
		j += n
	}
}

// nonzeroSums sets out[i] to the product with column c+i of the panel.
func nonzeroSums(out []float32, x []feature, panel []float32, c int) {
	i := 0
	for ; i+4 <= len(out); i += 4 {
		nonzeros4((*[4]float32)(out[i:]), x, panel[min(c+i, len(panel)):])
	}
	for ; i < len(out); i++ {
		var s float32
		for _, f := range x {
			s = fma(f.val, panel[int(f.at/4)+c+i], s)
		}
		out[i] = s
	}
}

// nonzeros4 is products4 over nonzeros.
func nonzeros4(out *[4]float32, x []feature, z []float32) {
	if fused {
		nonzeros4Fused(out, x, z)
		return
	}
	var a, b, c, d float32
	for _, f := range x {
		w, t := (*[4]float32)(z[f.at/4:]), float64(f.val)
		p0, p1, p2, p3 := t*float64(w[0]), t*float64(w[1]), t*float64(w[2]), t*float64(w[3])
		s0, s1, s2, s3 := p0+float64(a), p1+float64(b), p2+float64(c), p3+float64(d)
		if unsure(s0) || unsure(s1) || unsure(s2) || unsure(s3) {
			a, b, c, d = roundSum(p0, float64(a)), roundSum(p1, float64(b)), roundSum(p2, float64(c)), roundSum(p3, float64(d))
			continue
		}
		a, b, c, d = float32(s0), float32(s1), float32(s2), float32(s3)
	}
	out[0], out[1], out[2], out[3] = a, b, c, d
}
