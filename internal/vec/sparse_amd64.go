//go:build !purego

package vec

import "sync"

// sparseRows is the number of rows whose sums with two panels, 16 KiB, stay in the
// first-level cache.
const sparseRows = 32

// sparseSums has the sums of sparseRows rows. It is 64-byte aligned, like all Go
// allocations of its size; sums across cache lines would take twice as long.
type sparseSums [sparseRows * 2 * Width]float32

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
		if c == avx512 && n == Width && to-j >= 2*Width {
			panels, n = 2, 2*Width // hides the latency of the additions
		}
		b.phase = phase[j-from:]
		if n < Width {
			b.phase = shift(b.phase, &pad, at, n)
		}
		z, width := w.data[j/Width*Width*w.dim:], panels*Width
		features := s.features
		for first := 0; first < len(s.count); first += sparseRows {
			rows := min(sparseRows, len(s.count)-first)
			sums := buf[:rows*width]
			for r, m := range s.count[first : first+rows] {
				b.nonzeros(sums[r*width:(r+1)*width], z, features[:m])
				features = features[m:]
			}
			b.finish(sums, rows, width, width, 0)
			for r, p := range s.place[first : first+rows] {
				copy(dst[int(p)*ld+j-from:][:n], sums[r*width+at:])
			}
		}
		j += n
	}
}

// nonzeros sets sums to the products of a row with one or two panels.
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
