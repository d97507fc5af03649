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
func (o *opinion) learn(s, y, share float64) {
	u := o.u(s)
	target := 0.0
	if y > 0 {
		target = 1
	}
	rate := max(0.02, 0.5/math.Sqrt(o.n+10))
	o.slope = max(0.05, o.slope-float64(min(share*rate, 0.5)*(linear.Sigmoid(float64(o.slope*u))-target)*u))
	o.square += float64(max(0.002, 1/(o.n+1)) * (float64(s*s) - o.square))
	o.n++
}

func (o *opinion) check() error {
	if !(o.n >= 0 && o.square >= 0 && o.slope >= 0.05 && o.n+o.square+o.slope < math.Inf(1)) {
		return fmt.Errorf("%g, %g, %g", o.n, o.square, o.slope)
	}
	return nil
}

// vote mixes experts by their shares.
type vote struct {
	experts []opinion
	shares

	p []float64 // scratch
}

func newVote(prior []float64) *vote {
	c := &vote{experts: make([]opinion, len(prior)), shares: newShares(prior), p: make([]float64, len(prior))}
	for i := range c.experts {
		c.experts[i].slope = 1
	}
	return c
}

// learn updates the weights with what the experts' scores have been worth.
func (c *vote) learn(scores []float64, y, share float64) {
	for e := range c.experts {
		p := c.experts[e].p(scores[e])
		if y < 0 {
			p = 1 - p
		}
		c.p[e] = p
		if share != 1 {
			c.p[e] = c.experts[e].power(scores[e], y, share)
		}
		c.experts[e].learn(scores[e], y, share)
	}
	c.shares.learn(c.p, share)
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
	c.shares.fields(f)
}
