package adaptive

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
)

// average is the vote of a regression: the weighted mean of the predictions,
// with weights by fixed share as in a vote. A loss is the squared or absolute
// error in units of what the average's own has been of late, at most mostLoss,
// and the learning rate is half of that at which the weights would be the
// probabilities of experts with normal (Laplace) errors of that size: the mean of
// several experts is often better than any of them.
type average struct {
	absolute bool
	shares
	n    float64 // predictions so far
	loss float64 // their mean loss, of late
}

const mostLoss = 16

func newAverage(absolute bool) *average {
	return &average{absolute: absolute, shares: newShares(priors(numGuessers))}
}

// weighted returns Σ_e w_e f_e.
func weighted(w, f []float64) float64 {
	var sum float64
	for e, v := range w {
		sum += float64(v * f[e])
	}
	return sum
}

func (c *average) error(f, y float64) float64 {
	if c.absolute {
		return math.Abs(f - y)
	}
	return float64((f - y) * (f - y))
}

// learn updates the weights with y, of which the experts predicted scores, and
// their average f. What is predicted before the first label counts for nothing.
func (c *average) learn(scores []float64, f, y float64) {
	if c.n++; c.n == 1 {
		return
	}
	c.loss += float64(max(0.02, 1/(c.n-1)) * (c.error(f, y) - c.loss))
	if c.loss == 0 {
		return
	}
	rate := 0.25
	if c.absolute {
		rate = 0.5
	}
	var q [numGuessers]float64
	for e, f := range scores {
		q[e] = math.Exp(-rate * min(c.error(f, y)/c.loss, mostLoss))
	}
	c.shares.learn(q[:], 1)
}

func (c *average) fields(f *state.Fields) {
	f.Float64("count", &c.n)
	f.Float64("loss", &c.loss)
	if f.Decoding() && f.Err() == nil && !(c.n >= 0 && c.loss >= 0 && c.n+c.loss < math.Inf(1)) {
		f.Fail("loss", fmt.Errorf("%g, %g", c.n, c.loss))
	}
	c.shares.fields(f)
}
