package linear

import (
	"math"

	"github.com/streamsvm/streamsvm/internal/vec"
)

// Lower is a symmetric matrix, or a Cholesky factor: the lower triangle, row by
// row.
type Lower []float64

// Triangle returns the length of a Lower with n rows.
func Triangle(n int) int { return n * (n + 1) / 2 }

// Row returns row i up to the diagonal.
func (l Lower) Row(i int) []float64 { return l[Triangle(i):Triangle(i+1)] }

// Cholesky overwrites the first n rows, a matrix A, with L, where A = L Lᵀ. A pivot
// below tiny, for example 1e-14, times its diagonal element is only rounding. Then
// Cholesky returns false or, with skip, sets the pivot to 0, so that Solve leaves out
// its coordinate. It takes O(n³/6).
func (l Lower) Cholesky(n int, tiny float64, skip bool) bool {
	for i := range n {
		row := l.Row(i)
		for j := range i {
			if lj := l.Row(j); lj[j] > 0 {
				row[j] = (row[j] - vec.Dot64(row[:j], lj[:j])) / lj[j]
			} else {
				row[j] = 0
			}
		}
		pivot := row[i] - vec.Dot64(row[:i], row[:i])
		switch {
		case pivot > tiny*row[i]:
			row[i] = math.Sqrt(pivot)
		case skip:
			row[i] = 0
		default:
			return false
		}
	}
	return true
}

// Solve solves L Lᵀ x = b in place, where L is a Cholesky factor. Coordinates that
// Cholesky skipped become 0.
func (l Lower) Solve(x []float64) {
	for i := range x {
		if row := l.Row(i); row[i] > 0 {
			x[i] = (x[i] - vec.Dot64(row[:i], x[:i])) / row[i]
		} else {
			x[i] = 0
		}
	}
	for i := len(x) - 1; i >= 0; i-- {
		if row := l.Row(i); row[i] > 0 {
			x[i] /= row[i]
			vec.Axpy64(-x[i], row[:i], x[:i])
		} else {
			x[i] = 0
		}
	}
}

// Shift adds t to the diagonal of the first n rows.
func (l Lower) Shift(n int, t float64) {
	for i := range n {
		l.Row(i)[i] += t
	}
}

// Trace returns the sum of the diagonal of the first n rows.
func (l Lower) Trace(n int) (t float64) {
	for i := range n {
		t += l.Row(i)[i]
	}
	return t
}
