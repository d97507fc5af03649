package vec

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestGramCodesAgree: every code gives the sums of the definition, those that wrap
// around included.
func TestGramCodesAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, pairs := range []int{0, 1, 2, 7, 256, 300} {
		for _, limit := range []int{2048, 1 << 15} {
			a, b := make([]int16, 32*pairs), make([]int16, 32*pairs)
			for i := range a {
				a[i], b[i] = int16(r.IntN(2*limit)-limit), int16(r.IntN(2*limit)-limit)
				if r.IntN(5) == 0 {
					a[i], b[i] = int16(-limit), int16(-limit)
				}
			}
			var want [256]int32
			for i := range 16 {
				for j := range 16 {
					sum := int64(0)
					for p := range 2 * pairs {
						at := p/2*32 + p%2
						sum += int64(a[at+2*i]) * int64(b[at+2*j])
					}
					want[16*i+j] = int32(uint32(sum & math.MaxUint32))
				}
			}
			for _, c := range append(codes(t), generic) {
				got := [256]int32{1, 2, 3}
				gramOn(c, &got, a, b)
				if got != want {
					t.Errorf("%s, %d pairs: %v, want %v", c, pairs, got, want)
				}
			}
		}
	}
}

func BenchmarkGram(b *testing.B) {
	x, y := make([]int16, 32*256), make([]int16, 32*256)
	var dst [256]int32
	for _, c := range []code{generic, avx2, avx512} {
		if c > best() {
			continue
		}
		b.Run(c.String(), func(b *testing.B) {
			for b.Loop() {
				gramOn(c, &dst, x, y)
			}
			b.ReportMetric(float64(b.N)*256*512/b.Elapsed().Seconds()/1e9, "Gmac/s")
		})
	}
}
