//go:build !amd64 || purego

package sbp

func scan(u, y []float64, shift, lo, hi float64, depth *[lanes]float64, band []int32) (below, negative, found int) {
	return scanGo(u, y, shift, lo, hi, depth, 0, band)
}
