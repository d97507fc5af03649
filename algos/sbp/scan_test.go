package sbp

import (
	"math"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/internal/rng"
)

// The code in use gives the numbers of the plain one, in every bit, for all
// lengths, with ties, infinities and zeros of either sign, and writes nowhere
// else.
func TestScan(t *testing.T) {
	r := rng.New(1, "sbp.scan")
	odd := []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), .25}
	for n := range 70 {
		for range 40 {
			u, y := make([]float64, n), make([]float64, n)
			for i := range u {
				if u[i] = r.NormFloat64(); r.IntN(4) == 0 {
					u[i] = odd[r.IntN(len(odd))]
				}
				y[i] = float64(2*r.IntN(2) - 1)
			}
			shift := []float64{0, .25, -1, math.Copysign(0, -1)}[r.IntN(4)]
			lo := []float64{0, -.5, .25, 1}[r.IntN(4)]
			hi := lo + r.Float64()
			const guard = -77
			var depth, want [lanes]float64
			band, plain := make([]int32, n+9), make([]int32, n)
			for i := n; i < len(band); i++ {
				band[i] = guard
			}
			b, m, f := scan(u, y, shift, lo, hi, &depth, band[:n])
			wb, wm, wf := scanGo(u, y, shift, lo, hi, &want, 0, plain)
			same := b == wb && m == wm && f == wf && slices.Equal(band[:f], plain[:wf])
			for i := range depth {
				same = same && math.Float64bits(depth[i]) == math.Float64bits(want[i])
			}
			if !same {
				t.Fatalf("n = %d: %d, %d, %v, %v; want %d, %d, %v, %v", n, b, m, band[:f], depth, wb, wm, plain[:wf], want)
			}
			for _, g := range band[n:] {
				if g != guard {
					t.Fatalf("n = %d: wrote past the end", n)
				}
			}
			// The plain one against the definition.
			below, inside := 0, []int32{}
			for i := range u {
				switch v := y[i] * (u[i] + shift); {
				case v < lo:
					below++
				case v < hi:
					inside = append(inside, int32(i))
				}
			}
			if below != wb || !slices.Equal(inside, plain[:wf]) {
				t.Fatalf("n = %d: %d below, %v; want %d, %v", n, wb, plain[:wf], below, inside)
			}
		}
	}
}
