package adaptive

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/streamsvm/streamsvm/internal/linear"
)

// Log odds that say nothing any more shrink to those of the classes' rates, also where a class
// is rare.
func TestShrinkToTheRates(t *testing.T) {
	for _, rate := range []float64{0, -4.6} {
		r := rand.New(rand.NewPCG(1, 2))
		s := newShrinker(agePrior)
		for range 20_000 {
			y := 0
			if r.Float64() < linear.Sigmoid(rate) {
				y = 1
			}
			s.learn([]float64{rate + 2*r.NormFloat64()}, []float64{rate}, y, 1)
		}
		if s.slope > 0.2 || math.Abs(s.offset) > 0.3 || math.Abs(s.of(rate+3, rate)-rate) > 0.7 {
			t.Errorf("rate %v: %+v, %v becomes %v", rate, s, rate+3, s.of(rate+3, rate))
		}
	}
}
