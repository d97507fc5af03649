package adaptive

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
)

// average has weights of predictions by fixed share at several rates. A loss is the
// squared or absolute error in units of what the weighted mean's own has been of late, at
// most mostLoss, and the learning rate is half of that at which the weights would be the
// probabilities of experts with normal (Laplace) errors of that size: the mean of several
// experts is often better than any of them.
type average struct {
	absolute bool
	shares
	n    float64 // predictions so far
	loss float64 // their mean loss, of late
}

const mostLoss = 16

func newAverage(absolute bool, n int) *average {
	return &average{absolute: absolute, shares: newShares(uniform(n))}
}

func uniform(n int) []float64 {
	p := make([]float64, n)
	for e := range p {
		p[e] = 1 / float64(n)
	}
	return p
}

func errorOf(absolute bool, f, y float64) float64 {
	if absolute {
		return math.Abs(f - y)
	}
	return float64((f - y) * (f - y))
}

// learn updates the weights with y, for which the predictions were f and the weighted mean
// was all.
func (c *average) learn(f []float64, all, y, weight float64) {
	c.n++
	c.loss += float64(max(0.02, 1/c.n) * (errorOf(c.absolute, all, y) - c.loss))
	if c.loss == 0 {
		return
	}
	rate := 0.25
	if c.absolute {
		rate = 0.5
	}
	q := make([]float64, len(f))
	for e, f := range f {
		q[e] = linear.ExpNeg(float64(weight * rate * min(errorOf(c.absolute, f, y)/c.loss, mostLoss)))
	}
	c.shares.learn(q, weight)
}

func (c *average) fields(f *state.Fields) {
	f.Float64("count", &c.n)
	f.Float64("loss", &c.loss)
	if f.Decoding() && f.Err() == nil && !(c.n >= 0 && c.loss >= 0 && c.n+c.loss < math.Inf(1)) {
		f.Fail("loss", fmt.Errorf("%g, %g", c.n, c.loss))
	}
	c.shares.fields(f)
}
