// Package pointtest generates random points for tests, and computes expected values
// for them without the code under test.
package pointtest

import (
	"math"
	"math/rand/v2"

	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// Random returns a vector of up to dim features, dense or sparse.
func Random(r *rand.Rand, dim int, sparse bool) stream.Vec {
	if !sparse {
		v := make([]float32, dim)
		for j := range v {
			v[j] = float32(r.NormFloat64())
		}
		return stream.Vec{Val: v}
	}
	x := stream.Vec{Idx: []int32{}}
	for j := range dim {
		if r.IntN(8) == 0 {
			x.Idx = append(x.Idx, int32(j))
			x.Val = append(x.Val, float32(r.NormFloat64()))
		}
	}
	return x
}

// Both returns a random vector of dim features, some of them 0, in dense and sparse
// form; the sparse form lists some of the zeros.
func Both(r *rand.Rand, dim int) (dense, sparse stream.Vec) {
	sparse.Idx = []int32{}
	for j := range dim {
		v := float32(r.NormFloat64())
		if r.IntN(3) == 0 {
			v = 0
		}
		dense.Val = append(dense.Val, v)
		if v != 0 || r.IntN(4) == 0 {
			sparse.Idx = append(sparse.Idx, int32(j))
			sparse.Val = append(sparse.Val, v)
		}
	}
	return dense, sparse
}

// Weights returns n weights, of which about the given share is nonzero.
func Weights(r *rand.Rand, n int, share float64) []float64 {
	w := make([]float64, n)
	for j := range w {
		if r.Float64() < share {
			w[j] = r.NormFloat64()
		}
	}
	return w
}

// Kernel computes a kernel value from its definition, in float64.
func Kernel(f vec.Kernel, x, z stream.Vec) float64 {
	at := func(x stream.Vec) map[int]float64 {
		m := map[int]float64{}
		for k, v := range x.Val {
			if x.Idx == nil {
				m[k] = float64(v)
			} else {
				m[int(x.Idx[k])] = float64(v)
			}
		}
		return m
	}
	a, b := at(x), at(z)
	for j := range b {
		a[j] += 0
	}
	var dot, sq, l1 float64
	for j, u := range a {
		v := b[j]
		dot += u * v
		sq += (u - v) * (u - v)
		l1 += math.Abs(u - v)
	}
	g := float64(f.Gamma)
	switch f.Kind {
	case vec.RBF:
		return math.Exp(-g * sq)
	case vec.Laplacian:
		return math.Exp(-g * l1)
	case vec.Polynomial:
		return math.Pow(g*dot+float64(f.Coef0), float64(f.Degree))
	}
	return dot
}
