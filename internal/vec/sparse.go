package vec

import (
	"fmt"
	"math"
	"slices"
)

// Sparse is a batch of rows given by their nonzeros, in the forms in which products
// with panels skip the zeros. Each row has a place in the result.
//
// Skipping a zero changes no bit of a sum as long as the other factor is finite: it
// would add ±0, which can at most change the sign of a sum that is itself ±0, and
// that does not affect the cosine.
type Sparse struct {
	dim      int     // one more than the largest index
	place    []int32 // index in the result, by row
	count    []int32 // number of nonzeros, by row
	features []feature

	runs []rowRun
	// If paired is set, the nonzeros are also stored in pairs of neighbouring
	// features, run by run.
	paired bool
	heads  []pairHead
	cells  []pairCell
	at     []int32 // scratch memory
}

// A rowRun is a number of rows that pass over the panels together.
type rowRun struct{ first, rows, heads, cells int }

// A pairHead is two neighbouring features of a panel, at a byte offset from its
// beginning, with the number of rows in which at least one of them is nonzero.
type pairHead struct{ at, rows int32 }

// A pairCell has a row's values of a pair; sum is the byte offset of the row's sums.
type pairCell struct {
	sum int32
	x   [2]float32
}

const (
	// sparseRows is the number of rows whose sums with a panel, 16 KiB, stay in the
	// first-level cache.
	sparseRows = 64
	// Processing rows one by one reads the panels repeatedly but keeps the sums in
	// registers. Pairs are faster if panels are larger than the first-level cache,
	// the average pair has this many rows, and most pairs have two nonzeros when
	// they have one: 4/3 on average.
	pairDim  = 256
	pairRows = 3
)

// Reset empties s and keeps its memory.
func (s *Sparse) Reset() {
	s.dim, s.place, s.count, s.features = 0, s.place[:0], s.count[:0], s.features[:0]
	s.split(1)
}

// Append adds a row with the given place in the result. Its features are val[k] at
// idx[k], strictly increasing, or at k if idx is nil. Pack must be called before
// the rows are used.
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

// Pack ends a series of Append calls.
func (s *Sparse) Pack() {
	if s.dim > pairDim && len(s.count) >= pairRows {
		s.packPairs()
		if cells := len(s.cells); cells >= pairRows*len(s.heads) && 3*len(s.features) >= 4*cells {
			return
		}
	}
	s.packRows()
}

// packRows prepares the rows for products one by one.
func (s *Sparse) packRows() {
	s.paired = false
	s.split(sparseRows / 2) // two panels at a time
}

// packPairs prepares rows with two features or more for products by pairs.
func (s *Sparse) packPairs() {
	s.paired = true
	s.split(sparseRows)
	features := s.features
	for i := range s.runs {
		features = s.pair(i, features)
	}
}

// split makes runs of at most limit rows.
func (s *Sparse) split(limit int) {
	n := len(s.count)
	runs := (n + limit - 1) / limit
	s.runs, s.heads, s.cells = s.runs[:0], s.heads[:0], s.cells[:0]
	for i := range runs {
		s.runs = append(s.runs, rowRun{first: n * i / runs, rows: n*(i+1)/runs - n*i/runs})
	}
}

// pair sorts run i into pairs; features starts with its nonzeros. It returns the
// remaining ones.
func (s *Sparse) pair(i int, features []feature) []feature {
	const bytes = 2 * 4 * Width
	pairs := (s.dim + 1) / 2
	if cap(s.at) < pairs {
		s.at = make([]int32, pairs)
	}
	run, at, rest := &s.runs[i], s.at[:pairs], features
	count := s.count[run.first : run.first+run.rows]
	clear(at)
	for _, n := range count {
		last := ^uint32(0)
		for _, f := range rest[:n] {
			if p := uint32(f.at) / bytes; p != last {
				at[p]++
				last = p
			}
		}
		rest = rest[n:]
	}
	next := int32(len(s.cells))
	for p, n := range at {
		at[p] = next
		if n > 0 {
			// The last of an odd number of features is paired with the one before.
			s.heads = append(s.heads, pairHead{int32(4 * Width * min(2*p, s.dim-2)), n})
			run.heads++
		}
		next += n
	}
	run.cells = int(next) - len(s.cells)
	s.cells = slices.Grow(s.cells, run.cells)[:next]
	for r, n := range count {
		last, c := ^uint32(0), (*pairCell)(nil)
		for _, f := range features[:n] {
			if p := uint32(f.at) / bytes; p != last {
				c = &s.cells[at[p]]
				*c = pairCell{sum: int32(r * 4 * Width)}
				at[p]++
				last = p
			}
			j := int(f.at) / (4 * Width)
			c.x[j-min(j/2*2, s.dim-2)] = f.val
		}
		features = features[n:]
	}
	return rest
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
