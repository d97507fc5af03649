// Package linear implements the arithmetic of linear learners: dot products and
// updates with dense and sparse vectors, Cholesky factorisation, and logistic
// functions that have the same bits on every machine.
package linear

import (
	"fmt"
	"iter"
	"math"

	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// lanes is the number of partial sums of a dot product. Feature j goes to lane j
// mod 32, as in vec.DotMixed, so that the dense and the sparse form of a vector
// have the same product.
const lanes = 32

var nan = math.Float64frombits(0x7ff8000000000001) // the canonical NaN of package vec

// Dot returns Σ_j w[j]·x_j over the features j < len(w), in float64. Its bits
// depend only on the values of the features, not on explicit zeros in x, and not on
// the CPU.
func Dot(w []float64, x stream.Vec) float64 {
	if x.Idx == nil {
		n := min(len(w), len(x.Val))
		return vec.DotMixed(x.Val[:n], w[:n])
	}
	var l Lanes
	val := x.Val[:len(x.Idx)]
	for k, j := range x.Idx {
		if int(j) >= len(w) {
			break
		}
		l[uint32(j)%lanes] += float64(float64(val[k]) * w[j])
	}
	return l.Sum()
}

// Lanes are the partial sums of a dot product: w[j]·x_j goes to lane j mod 32.
type Lanes [lanes]float64

// Sum returns the product.
func (l *Lanes) Sum() float64 {
	s := ((l.every8(0) + l.every8(4)) + (l.every8(2) + l.every8(6))) + ((l.every8(1) + l.every8(5)) + (l.every8(3) + l.every8(7)))
	if s != s {
		return nan
	}
	return s
}

func (l *Lanes) every8(i int) float64 { return (l[i] + l[i+16]) + (l[i+8] + l[i+24]) }

// Axpy sets w[j] += c·x_j for every feature in x. The product is rounded before it
// is added. w must have at least x.Dim() elements.
func Axpy(c float64, x stream.Vec, w []float64) {
	if x.Idx == nil {
		vec.AxpyMixed(c, x.Val, w)
		return
	}
	val := x.Val[:len(x.Idx)]
	for k, j := range x.Idx {
		v := w[j] + float64(c*float64(val[k]))
		if v != v {
			v = nan
		}
		w[j] = v
	}
}

// Square returns ‖x‖² in float64, the same for the dense and the sparse form of x.
func Square(x stream.Vec) float64 {
	var l [lanes]float64
	for k, v := range x.Val {
		j := k
		if x.Idx != nil {
			j = int(x.Idx[k])
		}
		l[j%lanes] += float64(float64(v) * float64(v))
	}
	for w := lanes / 2; w > 0; w /= 2 {
		for i := range w {
			l[i] += l[i+w]
		}
	}
	return l[0]
}

// Grow returns w extended by zeros to at least n elements. The capacity grows by
// doubling.
func Grow(w []float64, n int) []float64 {
	if n <= len(w) {
		return w
	}
	return append(w, make([]float64, n-len(w))...)
}

// Finite returns an error that names the first value that is NaN or infinite.
func Finite(lists ...[]float64) error {
	for _, list := range lists {
		for i, v := range list {
			if v-v != 0 {
				return fmt.Errorf("value %d is %g", i, v)
			}
		}
	}
	return nil
}

// Nonzeros yields the nonzero features of x, in order.
func Nonzeros(x stream.Vec) iter.Seq2[int, float32] {
	return func(yield func(int, float32) bool) {
		for k, v := range x.Val {
			if v == 0 {
				continue
			}
			j := k
			if x.Idx != nil {
				j = int(x.Idx[k])
			}
			if !yield(j, v) {
				return
			}
		}
	}
}
