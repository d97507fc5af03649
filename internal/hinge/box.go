package hinge

import (
	"math"

	"github.com/streamsvm/streamsvm/internal/vec"
)

// Box is the problem: maximise Σ w_i a_i − ½ a'Ka over a box. If Row is nil, all of K
// is stored: row i is Gram[i·Stride : i·Stride+n] for n points. Otherwise row i is
// Row(i), which must not change the row that it returned last.
type Box struct {
	Stride int
	Gram   []float32
	Row    func(i int) []float32
	G      []float64 // the gradient, w − Ka
	A      []float64
	Lo, Hi []float64 // bounds of A
}

// Resize makes room for n points, with undefined values and a Stride of n.
func (b *Box) Resize(n int) {
	if b.Row == nil {
		if cap(b.Gram) < n*n {
			b.Gram = make([]float32, n*n)
		}
		b.Stride, b.Gram = n, b.Gram[:n*n]
	}
	for _, v := range []*[]float64{&b.G, &b.A, &b.Lo, &b.Hi} {
		*v = extend(*v, n)[:n]
	}
}

// Ascend maximises over pairs of coefficients. It chooses the steepest gradients that
// the bounds allow to follow. It stops when no such gradient exceeds tol or after limit
// pairs, and returns the number of pairs.
func (b *Box) Ascend(limit int, tol float64) (pairs int) {
	for ; pairs < limit; pairs++ {
		// i is the coefficient that can rise with the largest gradient, j the one that
		// can fall with the smallest.
		i, j := vec.Extremes(b.G, b.A, b.Lo, b.Hi)
		gi, gj := 0.0, 0.0
		if i >= 0 {
			gi = b.G[i]
		}
		if j >= 0 {
			gj = -b.G[j]
		}
		if max(gi, gj) <= tol {
			break
		}
		switch {
		case i < 0 || i == j:
			b.single(j)
		case j < 0:
			b.single(i)
		default:
			b.double(i, j)
		}
	}
	return pairs
}

func (b *Box) row(i int) []float32 {
	if b.Row != nil {
		return b.Row(i)
	}
	return b.Gram[i*b.Stride : i*b.Stride+len(b.G)]
}

func (b *Box) single(i int) {
	k := b.row(i)
	d := clamp(b.G[i]/max(float64(k[i]), 1e-12), b.Lo[i]-b.A[i], b.Hi[i]-b.A[i])
	b.shift(i, d, k)
}

// double maximises over two coefficients exactly.
func (b *Box) double(i, j int) {
	rj := b.row(j)
	ri := b.row(i)
	kii, kjj, kij := float64(ri[i]), float64(rj[j]), float64(ri[j])
	gi, gj := b.G[i], b.G[j]
	il, ih := b.Lo[i]-b.A[i], b.Hi[i]-b.A[i]
	jl, jh := b.Lo[j]-b.A[j], b.Hi[j]-b.A[j]
	det := float64(kii*kjj) - float64(kij*kij)
	if det > 1e-12*kii*kjj {
		di := (float64(kjj*gi) - float64(kij*gj)) / det
		dj := (float64(kii*gj) - float64(kij*gi)) / det
		if di >= il && di <= ih && dj >= jl && dj <= jh {
			b.shift(i, di, ri)
			b.shift(j, dj, rj)
			return
		}
	}
	// The maximum is on the edge of the box.
	best, bi, bj := math.Inf(-1), 0.0, 0.0
	try := func(di, dj float64) {
		v := float64(gi*di) + float64(gj*dj) - (float64(kii*di*di)+float64(kjj*dj*dj))/2 - float64(kij*di*dj)
		if v > best {
			best, bi, bj = v, di, dj
		}
	}
	for _, di := range [2]float64{il, ih} {
		try(di, clamp((gj-float64(kij*di))/max(kjj, 1e-12), jl, jh))
	}
	for _, dj := range [2]float64{jl, jh} {
		try(clamp((gi-float64(kij*dj))/max(kii, 1e-12), il, ih), dj)
	}
	b.shift(i, bi, ri)
	b.shift(j, bj, rj)
}

// shift moves coefficient i, whose row is k, by d; a move to a bound ends exactly on
// it.
func (b *Box) shift(i int, d float64, k []float32) {
	if d == 0 {
		return
	}
	switch d {
	case b.Lo[i] - b.A[i]:
		b.A[i] = b.Lo[i]
	case b.Hi[i] - b.A[i]:
		b.A[i] = b.Hi[i]
	default:
		b.A[i] = clamp(b.A[i]+d, b.Lo[i], b.Hi[i])
	}
	vec.AxpyMixed(-d, k, b.G)
}

func clamp(x, lo, hi float64) float64 { return min(max(x, lo), hi) }
