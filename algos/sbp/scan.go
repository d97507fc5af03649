package sbp

import "math"

//go:generate go -C asm run . -out ../scan_amd64.s -stubs ../scan_stubs_amd64.go -pkg sbp

// lanes is the number of partial sums of a scan.
const lanes = 8

// scanGo adds lo − v(i) to lane i mod 8 of depth, for each v(i) = y_i (u_i + shift)
// below lo. It counts these i, and the ones among them with y_i < 0. It stores the i
// with lo ≤ v(i) < hi, in order, in band, which has room for all. It starts at example
// from.
func scanGo(u, y []float64, shift, lo, hi float64, depth *[lanes]float64, from int, band []int32) (below, negative, found int) {
	var all, neg uint64
	for i := from; i < len(u); i++ {
		sign := math.Float64bits(y[i]) & signBit
		v := math.Float64frombits(math.Float64bits(u[i]+shift)^sign) + 0
		// Branches on v < lo would be mispredicted; use the sign as a mask.
		d, e := math.Float64bits(v-lo), math.Float64bits(v-hi)
		depth[i%lanes] += math.Float64frombits((d ^ signBit) & -(d >> 63))
		all += d >> 63
		neg += (d & sign) >> 63
		if (e&^d)>>63 != 0 {
			band[found] = int32(i)
			found++
		}
	}
	return int(all), int(neg), found
}
