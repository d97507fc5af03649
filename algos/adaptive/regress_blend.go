package adaptive

import (
	"fmt"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
)

// average weights predictions by fixed share at several rates. A loss is the squared or
// absolute error divided by the recent mean loss of the weighted mean, at most mostLoss. The
// learning rate is half the one that would make the weights posterior probabilities under
// normal (or Laplace) errors of that size: a mean of several experts is often better than
// each of them.
type average struct {
	absolute bool
	shares
	n    float64 // predictions so far
	loss float64 // recent mean loss
}

const mostLoss = 16

func newAverage(absolute bool, prior []float64) *average {
	return &average{absolute: absolute, shares: newShares(prior)}
}

func uniform(n int) []float64 { return slices.Repeat([]float64{1 / float64(n)}, n) }

func errorOf(absolute bool, f, y float64) float64 {
	if absolute {
		return math.Abs(f - y)
	}
	return float64((f - y) * (f - y))
}

// learn updates the weights with label y and predictions f.
func (c *average) learn(f []float64, y, weight float64) {
	c.n++
	c.loss += float64(max(0.02*min(weight, 1), 1/c.n) * (errorOf(c.absolute, dot(c.weights(), f), y) - c.loss))
	if c.loss == 0 {
		return
	}
	rate := 0.25 * weight
	if c.absolute {
		rate *= 2
	}
	q := make([]float64, len(f))
	for e, f := range f {
		q[e] = linear.ExpNeg(float64(rate * min(errorOf(c.absolute, f, y)/c.loss, mostLoss)))
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

// squares is recursive least squares with forgetting on the experts' predictions f. The
// weights are w_e = 1/n + d_e − mean(d), and the coefficients d start at 0, as in a stack:
//
//	x = (f − mean(f))/σ, r = (y − mean(f))/σ − ⟨d, x⟩, at most ±3,
//	k = P x/(φ + xᵀP x), d ← d + r k, P ← (P − k xᵀP)/φ,
//
// where σ² is the recent mean squared error. Neither the origin nor the scale of the labels
// matters, and an outlier moves the weights no more than an error of 3σ does. With the
// absolute loss σ is the mean absolute error, and r is at most ±1.
type squares struct {
	stack
	absolute bool
	n        float64 // errors so far
	noise    float64 // their mean loss, σ² or σ

	x []float64 // scratch
}

func newSquares(n int, spread, keep float64, absolute bool) squares {
	return squares{stack: *newStack(n, spread, keep), absolute: absolute, x: make([]float64, n)}
}

const noiseKeep = 0.01 // rate at which σ follows

func (s *squares) learn(f []float64, y, weight float64) {
	var mean, most float64
	for e, v := range f {
		mean += float64((v - mean) / float64(e+1))
	}
	if most = 3; s.absolute {
		most = 1
	}
	for e, v := range f {
		s.x[e] = v - mean
	}
	r := y - mean - dot(s.w, s.x)
	loss := errorOf(s.absolute, r, 0)
	if s.n++; s.noise > 0 {
		loss = min(loss, most*most*s.noise)
	}
	s.noise += float64(max(noiseKeep, 1/s.n) * (loss - s.noise))
	sigma := s.noise
	if !s.absolute {
		sigma = math.Sqrt(s.noise)
	}
	if !(sigma > 0) {
		return
	}
	for e := range s.x {
		s.x[e] /= sigma
	}
	s.observe(s.x, weight, s.keep)
	s.move(s.x, float64(weight*bounded(r/sigma, most)))
	s.limit()
}

// weights returns the weights of the predictions.
func (s *squares) weights() []float64 {
	n := float64(len(s.w))
	var mean float64
	for _, d := range s.w {
		mean += d / n
	}
	w := make([]float64, len(s.w))
	for e, d := range s.w {
		w[e] = 1/n + d - mean
	}
	return w
}

func (s *squares) fields(f *state.Fields) {
	s.stack.fields(f)
	f.Float64("errors", &s.n)
	f.Float64("noise", &s.noise)
	if f.Decoding() && f.Err() == nil && !(s.n >= 0 && s.noise >= 0 && s.n+s.noise < math.Inf(1)) {
		f.Fail("noise", fmt.Errorf("%g of %g", s.noise, s.n))
	}
}
