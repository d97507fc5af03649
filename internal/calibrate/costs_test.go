package calibrate

import (
	"math/rand/v2"
	"testing"
)

// TestCosts compares the choice with the expected cost of each class, summed over all
// labels.
func TestCosts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		k := 2 + r.IntN(4)
		c, p, sum := make(Costs, r.IntN(k+1)), make([]float64, k), 0.
		for i := range c {
			c[i] = 10 * r.Float64()
		}
		for i := range p {
			p[i] = r.Float64()
			sum += p[i]
		}
		expected := func(class int) (cost float64) {
			for label := range p {
				cost += p[label] / sum * c.Cost(class, label)
			}
			return cost
		}
		best := c.Best(p)
		for class := range p {
			if expected(class) < expected(best)-1e-12 {
				t.Fatalf("costs %v, probabilities %v: class %d is expected to cost %g, class %d %g", c, p, best, expected(best), class, expected(class))
			}
		}
		if k == 2 && c.Positive(p[1]/sum) != (expected(1) <= expected(0)) {
			t.Fatalf("costs %v, probability %v: positive %v", c, p[1]/sum, c.Positive(p[1]/sum))
		}
	}
}
