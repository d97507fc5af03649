package vec

import "math"

// Extremes returns the index of the largest g[i] above −Inf with a[i] < hi[i], and of
// the smallest g[i] below +Inf with a[i] > lo[i]. It returns the first of equal ones,
// or −1 if there is none.
func Extremes(g, a, lo, hi []float64) (up, down int) { return extremesOn(active, g, a, lo, hi) }

func extremesOn(c code, g, a, lo, hi []float64) (up, down int) {
	n := len(g)
	a, lo, hi = a[:n], lo[:n], hi[:n]
	up, down = -1, -1
	largest, smallest := math.Inf(-1), math.Inf(1)
	done := 0
	if c != generic && n >= 8 {
		var out [32]float64
		done = n / 8 * 8
		extremesAsm(c, g, a, lo, hi, done, &out)
		for i := range 8 {
			if v, at := out[i], int(out[8+i]); at >= 0 && (up < 0 || v > largest || v == largest && at < up) {
				up, largest = at, v
			}
			if v, at := out[16+i], int(out[24+i]); at >= 0 && (down < 0 || v < smallest || v == smallest && at < down) {
				down, smallest = at, v
			}
		}
	}
	for i := done; i < n; i++ {
		if g[i] > largest && a[i] < hi[i] {
			up, largest = i, g[i]
		}
		if g[i] < smallest && a[i] > lo[i] {
			down, smallest = i, g[i]
		}
	}
	return up, down
}
