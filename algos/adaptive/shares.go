package adaptive

import (
	"fmt"

	"github.com/streamsvm/streamsvm/checkpoint/state"
)

// alphas are the rates at which the best expert is assumed to change.
var alphas = [...]float64{1. / 30, 1. / 300, 1. / 3000, 1. / 30000}

const (
	metaRate = 1. / 500 // rate at which the best of alphas is assumed to change
	copied   = 0.5      // share of the given weights in startFrom
)

// shares weights experts by fixed share at several rates, and the rates by their
// likelihoods (Herbster and Warmuth, "Tracking the best expert", 1998; Monteleoni
// and Jaakkola, learn-α). Losses are negative log likelihoods and the learning rate
// is 1.
type shares struct {
	prior []float64 // initial weights of the experts, to which the share goes back
	w     [len(alphas)][]float64
	v     [len(alphas)]float64
}

func newShares(prior []float64) shares {
	c := shares{prior: prior}
	for i := range alphas {
		c.w[i] = append(c.w[i], prior...)
		c.v[i] = 1 / float64(len(alphas))
	}
	return c
}

// weights returns Σ_i v_i w_ie for each expert e.
func (c *shares) weights() []float64 {
	out := make([]float64, len(c.prior))
	for i, v := range c.v {
		for e, w := range c.w[i] {
			out[e] += float64(v * w)
		}
	}
	return out
}

// startFrom sets the weights close to w.
func (c *shares) startFrom(w []float64) {
	for i := range c.w {
		for e, p := range c.prior {
			c.w[i][e] = float64(copied*w[e]) + float64((1-copied)*p)
		}
	}
}

// learn updates the weights with the experts' likelihoods q of an example with
// weight share. The probability that the best expert changes is in proportion to
// share.
func (c *shares) learn(q []float64, share float64) {
	var all float64
	for i, alpha := range alphas {
		alpha = min(alpha*share, 0.5)
		w := c.w[i]
		var l float64
		for e, p := range q {
			w[e] *= p
			l += w[e]
		}
		for e := range w {
			w[e] = float64((1-alpha)*(w[e]/l)) + float64(alpha*c.prior[e])
		}
		c.v[i] *= l
		all += c.v[i]
	}
	meta := min(metaRate*share, 0.5)
	for i := range c.v {
		c.v[i] = float64((1-meta)*(c.v[i]/all)) + meta/float64(len(alphas))
	}
}

func (c *shares) fields(f *state.Fields) {
	for i := range c.w {
		f.Float64s("weights", &c.w[i])
		f.Float64("rate_weight", &c.v[i])
		if !f.Decoding() || f.Err() != nil {
			continue
		}
		if len(c.w[i]) != len(c.prior) {
			f.Fail("weights", fmt.Errorf("%d for %d experts", len(c.w[i]), len(c.prior)))
		}
		for _, w := range append([]float64{c.v[i]}, c.w[i]...) {
			if !(w > 0 && w <= 1) {
				f.Fail("weights", fmt.Errorf("%g is not in (0,1]", w))
			}
		}
	}
}
