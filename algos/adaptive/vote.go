package adaptive

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
)

// opinion makes a probability of an expert's scores. It scales them only: there
// is no offset, so that p ≥ ½ is the expert's own decision. A learned offset
// costs accuracy where classes are unequal.
type opinion struct {
	n      float64 // scores so far
	square float64 // their mean square, of late
	slope  float64
}

// u returns a score in units of what it usually is.
func (o *opinion) u(s float64) float64 {
	switch {
	case s == 0:
		return 0
	case o.square == 0:
		return math.Copysign(1, s)
	}
	return min(max(s/math.Sqrt(o.square), -3), 3)
}

// odds returns the log odds of +1 by a score alone.
func (o *opinion) odds(s float64) float64 {
	unit := 1.0
	if o.square > 0 {
		unit = math.Sqrt(o.square)
	}
	return float64(o.slope * (s / unit))
}

// p returns the probability of +1 that counts in a vote. It is kept away from 0 and 1, so that an
// expert that has failed badly can come back.
func (o *opinion) p(s float64) float64 {
	return min(max(linear.Sigmoid(float64(o.slope*o.u(s))), 0.02), 0.98)
}

// learn takes note of a score and of the label.
func (o *opinion) learn(s, y float64) {
	u := o.u(s)
	target := 0.0
	if y > 0 {
		target = 1
	}
	rate := max(0.02, 0.5/math.Sqrt(o.n+10))
	o.slope = max(0.05, o.slope-float64(rate*(linear.Sigmoid(float64(o.slope*u))-target)*u))
	o.square += float64(max(0.002, 1/(o.n+1)) * (float64(s*s) - o.square))
	o.n++
}

func (o *opinion) check() error {
	if !(o.n >= 0 && o.square >= 0 && o.slope >= 0.05 && o.n+o.square+o.slope < math.Inf(1)) {
		return fmt.Errorf("%g, %g, %g", o.n, o.square, o.slope)
	}
	return nil
}

// alphas are the rates at which the best expert is assumed to change.
var alphas = [...]float64{1. / 30, 1. / 300, 1. / 3000, 1. / 30000}

const metaRate = 1. / 500 // at which the best of these is

// vote mixes experts by fixed share at several rates, and these by their record
// (Herbster and Warmuth, "Tracking the best expert", 1998; Monteleoni and
// Jaakkola, learn-α). Losses are logarithmic, at which the learning rate is 1.
type vote struct {
	experts []opinion
	w       [len(alphas)][]float64
	v       [len(alphas)]float64

	p []float64 // scratch
}

func newVote(n int) *vote {
	c := &vote{experts: make([]opinion, n), p: make([]float64, n)}
	for i := range c.experts {
		c.experts[i].slope = 1
	}
	for i := range alphas {
		c.w[i] = make([]float64, n)
		for e := range n {
			c.w[i][e] = 1 / float64(n)
		}
		c.v[i] = 1 / float64(len(alphas))
	}
	return c
}

// weights returns Σ_i v_i w_ie by expert.
func (c *vote) weights() []float64 {
	out := make([]float64, len(c.experts))
	for i, v := range c.v {
		for e, w := range c.w[i] {
			out[e] += float64(v * w)
		}
	}
	return out
}

// learn updates the weights with what the experts' scores have been worth.
func (c *vote) learn(scores []float64, y float64) {
	for e := range c.experts {
		p := c.experts[e].p(scores[e])
		if y < 0 {
			p = 1 - p
		}
		c.p[e] = p
		c.experts[e].learn(scores[e], y)
	}
	var all float64
	n := float64(len(c.p))
	for i, alpha := range alphas {
		w := c.w[i]
		var l float64
		for e, p := range c.p {
			w[e] *= p
			l += w[e]
		}
		for e := range w {
			w[e] = float64((1-alpha)*(w[e]/l)) + alpha/n
		}
		c.v[i] *= l
		all += c.v[i]
	}
	for i := range c.v {
		c.v[i] = float64((1-metaRate)*(c.v[i]/all)) + metaRate/float64(len(alphas))
	}
}

func (c *vote) fields(f *state.Fields) {
	for e := range c.experts {
		o := &c.experts[e]
		f.Float64("scores", &o.n)
		f.Float64("square", &o.square)
		f.Float64("slope", &o.slope)
		if f.Decoding() && f.Err() == nil {
			f.Fail("slope", o.check())
		}
	}
	for i := range c.w {
		f.Float64s("weights", &c.w[i])
		f.Float64("rate_weight", &c.v[i])
		if !f.Decoding() || f.Err() != nil {
			continue
		}
		if len(c.w[i]) != len(c.experts) {
			f.Fail("weights", fmt.Errorf("%d for %d experts", len(c.w[i]), len(c.experts)))
		}
		for _, w := range append([]float64{c.v[i]}, c.w[i]...) {
			if !(w > 0 && w <= 1) {
				f.Fail("weights", fmt.Errorf("%g is not in (0,1]", w))
			}
		}
	}
}
