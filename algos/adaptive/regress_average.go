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
	w        [len(alphas)][]float64
	v        [len(alphas)]float64
	n        float64 // predictions so far
	loss     float64 // their mean loss, of late
}

const mostLoss = 16

func newAverage(absolute bool) *average {
	c := &average{absolute: absolute}
	for i := range alphas {
		c.w[i] = make([]float64, numGuessers)
		for e := range c.w[i] {
			c.w[i][e] = 1. / numGuessers
		}
		c.v[i] = 1 / float64(len(alphas))
	}
	return c
}

// weights returns Σ_i v_i w_ie by expert.
func (c *average) weights() []float64 {
	out := make([]float64, numGuessers)
	for i, v := range c.v {
		for e, w := range c.w[i] {
			out[e] += float64(v * w)
		}
	}
	return out
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
	var all float64
	for i, alpha := range alphas {
		w := c.w[i]
		var l float64
		for e, p := range q {
			w[e] *= p
			l += w[e]
		}
		for e := range w {
			w[e] = float64((1-alpha)*(w[e]/l)) + alpha/numGuessers
		}
		c.v[i] *= l
		all += c.v[i]
	}
	for i := range c.v {
		c.v[i] = float64((1-metaRate)*(c.v[i]/all)) + metaRate/float64(len(alphas))
	}
}

func (c *average) fields(f *state.Fields) {
	f.Float64("count", &c.n)
	f.Float64("loss", &c.loss)
	if f.Decoding() && f.Err() == nil && !(c.n >= 0 && c.loss >= 0 && c.n+c.loss < math.Inf(1)) {
		f.Fail("loss", fmt.Errorf("%g, %g", c.n, c.loss))
	}
	for i := range c.w {
		f.Float64s("weights", &c.w[i])
		f.Float64("rate_weight", &c.v[i])
		if !f.Decoding() || f.Err() != nil {
			continue
		}
		if len(c.w[i]) != numGuessers {
			f.Fail("weights", fmt.Errorf("%d for %d experts", len(c.w[i]), numGuessers))
		}
		for _, w := range append([]float64{c.v[i]}, c.w[i]...) {
			if !(w > 0 && w <= 1) {
				f.Fail("weights", fmt.Errorf("%g is not in (0,1]", w))
			}
		}
	}
}
