package predictor_test

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
)

// TestDecisionsAgree: a decision has the same bits alone and in any company,
// on however many processors.
func TestDecisionsAgree(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	p := quadrants(1)
	r := rand.New(rand.NewPCG(1, 2))
	xs := make([]stream.Vec, 700)
	want := make([]float64, len(xs))
	for i := range xs {
		xs[i] = stream.Vec{Val: []float32{float32(r.NormFloat64()), float32(r.NormFloat64())}}
		want[i] = p.Decision(xs[i])
	}
	for _, procs := range []int{1, 2, 3, 8} {
		runtime.GOMAXPROCS(procs)
		for _, n := range []int{0, 1, 63, 127, 128, 129, 200, 511, 700} {
			got := make([]float64, n+1)
			got[n] = 42
			p.Decisions(got[:n], xs[:n])
			for i := range n {
				if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
					t.Fatalf("%d processors, decision %d of %d is %v, alone %v", procs, i, n, got[i], want[i])
				}
			}
			if got[n] != 42 {
				t.Fatalf("%d processors: more than %d decisions were written", procs, n)
			}
		}
	}
}
