//go:build !purego

package vec

import "sync"

// sparseSums has the sums of a run of rows. It is 64-byte aligned, like all Go
// allocations of its size; sums across cache lines would take twice as long.
type sparseSums [sparseRows * Width]float32

var sparsePool = sync.Pool{New: func() any { return new(sparseSums) }}

// cosAsm computes the sums of whole panels in a buffer.
func (s *Sparse) cosAsm(c code, dst []float32, ld int, w *Panels, phase []float32, from, to int) {
	buf := sparsePool.Get().(*sparseSums)
	defer sparsePool.Put(buf)
	var pad [Width]float32
	b := block{k: Kernel{Kind: fourier}, c: c, d: w.dim}
	for j := from; j < to; {
		at, panels := j%Width, 1
		n := min(Width-at, to-j)
		if c == avx512 && !s.paired && n == Width && to-j >= 2*Width {
			panels, n = 2, 2*Width // hides the latency of the additions
		}
		b.phase = phase[j-from:]
		if n < Width {
			b.phase = shift(b.phase, &pad, at, n)
		}
		z, width := w.data[j/Width*Width*w.dim:], panels*Width
		place, count, features, heads, cells := s.place, s.count, s.features, s.heads, s.cells
		for _, run := range s.runs {
			sums := buf[:run.rows*width]
			if s.paired {
				clear(sums)
				b.pairs(sums, z, heads[:run.heads], cells)
				heads, cells = heads[run.heads:], cells[run.cells:]
			} else {
				for r, m := range count[:run.rows] {
					b.nonzeros(sums[r*width:(r+1)*width], z, features[:m])
					features = features[m:]
				}
			}
			b.finish(sums, run.rows, width, width, 0)
			for r, p := range place[:run.rows] {
				copy(dst[int(p)*ld+j-from:][:n], sums[r*width+at:])
			}
			place, count = place[run.rows:], count[run.rows:]
		}
		j += n
	}
}

// pairs adds the products of a run of rows with a panel to their sums.
func (b *block) pairs(sums, z []float32, heads []pairHead, cells []pairCell) {
	if len(heads) == 0 {
		return
	}
	_ = z[Width*b.d-1]
	if b.c == avx512 {
		productPairsAVX512(&z[0], len(heads), &heads[0].at, &cells[0].sum, &sums[0])
		return
	}
	for half := 0; half < Width; half += Width / 2 {
		productPairsAVX2(&z[half], len(heads), &heads[0].at, &cells[0].sum, &sums[half])
	}
}

// nonzeros sets sums, those of a row with one or two panels, to products.
func (b *block) nonzeros(sums, z []float32, x []feature) {
	if len(x) == 0 {
		clear(sums)
		return
	}
	_ = z[len(sums)*b.d-1]
	switch {
	case b.c != avx512:
		productNonzeros1AVX2(&z[0], len(x), &x[0].at, &sums[0])
	case len(sums) == Width:
		productNonzeros1AVX512(&z[0], len(x), &x[0].at, &sums[0])
	default:
		productNonzeros2AVX512(&z[0], 4*Width*b.d, len(x), &x[0].at, &sums[0])
	}
}
