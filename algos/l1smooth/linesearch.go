package l1smooth

import (
	"cmp"
	"math"
	"slices"
)

// crossing is the point at which one weight passes 0 along a direction.
type crossing struct {
	at float64 // −w_j/d_j > 0
	j  int32   // position in w and d
}

// minimise returns the minimiser over s ≥ 0 of
//
//	j(s) = a s² + b s + μ ‖w + s d‖₁
//
// and, if it is on a kink, the positions of the weights that are 0 there. They must
// be set to 0, since w_j + s d_j may be off by rounding. w and d have the same
// length. j must be bounded below: a > 0 or μ‖d‖₁ > −b; otherwise ok is false.
//
// This is section 2.4 and Algorithm 4, corrected: the slope includes μ (E1), the end
// slopes of a segment are taken inside it (E2), weights at 0 add μ|d_j| to the slope
// at 0 (E3), equal kinks are one kink, and the last segment has no end (E4).
func minimise(w, d []float64, a, b, mu float64, buf *[]crossing) (s float64, hits []int32, ok bool) {
	cross := crossings(*buf, w, d)
	*buf = cross
	var norm, rem float64
	for _, v := range d {
		norm += math.Abs(v)
	}
	for _, c := range cross {
		rem += math.Abs(d[c.j])
	}
	base := b + float64(mu*(norm-2*rem)) // j'(0+)
	if base >= 0 {
		return 0, nil, true
	}
	for i := 0; i < len(cross); {
		sigma := cross[i].at
		if float64(2*a*sigma)+base > 0 {
			return -base / (2 * a), nil, true
		}
		end := i
		var jump float64
		for end < len(cross) && cross[end].at == sigma {
			jump += math.Abs(d[cross[end].j])
			end++
		}
		base += float64(2 * mu * jump)
		if float64(2*a*sigma)+base >= 0 {
			for _, c := range cross[i:end] {
				hits = append(hits, c.j)
			}
			return sigma, hits, true
		}
		i = end
	}
	if !(a > 0) {
		return 0, nil, false
	}
	return -base / (2 * a), nil, true
}

// crossings returns the points where weights pass 0 along d, sorted.
func crossings(cross []crossing, w, d []float64) []crossing {
	cross = cross[:0]
	for j, dj := range d {
		if w[j] > 0 && dj < 0 || w[j] < 0 && dj > 0 {
			cross = append(cross, crossing{-w[j] / dj, int32(j)})
		}
	}
	slices.SortFunc(cross, func(x, y crossing) int {
		return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.j, y.j))
	})
	return cross
}
