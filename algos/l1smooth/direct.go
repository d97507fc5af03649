package l1smooth

import (
	"math"

	"github.com/streamsvm/streamsvm/internal/vec"
)

// cholesky overwrites H with its factor L, H = L L^T, and reports whether H is
// numerically positive definite.
func cholesky(H square, n int) bool {
	for i := range n {
		li := H.row(i)
		for j := range i {
			lj := H.row(j)
			li[j] = (li[j] - vec.Dot64(li[:j], lj[:j])) / lj[j]
		}
		// A pivot that is rounding of the diagonal element is none.
		p := li[i] - vec.Dot64(li[:i], li[:i])
		if !(p > 1e-14*li[i]) {
			return false
		}
		li[i] = math.Sqrt(p)
	}
	return true
}

// solve solves L L^T x = b in place.
func (l square) solve(x []float64) {
	for i := range x {
		row := l.row(i)
		x[i] = (x[i] - vec.Dot64(row[:i], x[:i])) / row[i]
	}
	for i := len(x) - 1; i >= 0; i-- {
		row := l.row(i)
		x[i] /= row[i]
		vec.Axpy64(-x[i], row[:i], x[:i])
	}
}

// shift adds t to the diagonal.
func (l square) shift(n int, t float64) {
	for i := range n {
		l[i*(i+1)/2+i] += t
	}
}

func (l square) trace(n int) float64 {
	var s float64
	for i := range n {
		s += l[i*(i+1)/2+i]
	}
	return s
}
