//go:build !purego

package sbp

import "github.com/streamsvm/streamsvm/internal/vec"

var wide = vec.Code() == "avx512"

func scan(u, y []float64, shift, lo, hi float64, depth *[lanes]float64, band []int32) (below, negative, found int) {
	n := len(u) &^ (lanes - 1)
	if !wide || n == 0 {
		return scanGo(u, y, shift, lo, hi, depth, 0, band)
	}
	below, negative, found = scanAVX512(&u[0], &y[0], n, shift, lo, hi, depth, &band[0])
	b, m, f := scanGo(u, y, shift, lo, hi, depth, n, band[found:])
	return below + b, negative + m, found + f
}
