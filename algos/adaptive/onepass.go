package adaptive

import (
	"errors"
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/stream"
)

// onePass is a linear expert: f(z) = b + ⟨w, z⟩, updated on each example.
type onePass struct {
	rate float64 // of AdaGrad; 0: passive-aggressive
	w    []float64
	b    float64
	g    []float64 // AdaGrad: sums of squared gradients
	gb   float64
}

func (e *onePass) score(z stream.Vec) float64 { return e.b + linear.Dot(e.w, z) }

// learn updates the weights with z, whose score is s. Passive-aggressive: the step that brings the
// margin to 1 (Crammer et al., JMLR 2006, PA), whatever the weight. AdaGrad: a subgradient step on
// the hinge loss, of each weight at its own rate (Duchi, Hazan, Singer, JMLR 2011, diagonal). The
// gradient counts by the weight of the example.
func (e *onePass) learn(z stream.Vec, s, y, weight float64) {
	margin := float64(y * s)
	if margin >= 1 {
		return
	}
	e.w = linear.Grow(e.w, z.Dim())
	if e.rate == 0 {
		step := (1 - margin) / (1 + linear.Square(z)) * y
		linear.Axpy(step, z, e.w)
		e.b += step
		return
	}
	e.g = linear.Grow(e.g, z.Dim())
	for j, v := range linear.Nonzeros(z) {
		d := float64(weight * float64(v))
		if e.g[j] += float64(d * d); e.g[j] == 0 {
			continue // the loss is so small that its square is none
		}
		e.w[j] += float64(e.rate*y) * (d / math.Sqrt(e.g[j]))
	}
	e.gb += float64(weight * weight)
	e.b += float64(float64(e.rate*y)*weight) / math.Sqrt(e.gb)
}

// line returns the function.
func (e *onePass) line() *onePass { return e }

// reset forgets everything.
func (e *onePass) reset() { *e = onePass{rate: e.rate} }

func (e *onePass) fields(f *state.Fields) {
	f.Float64s("w", &e.w)
	f.Float64("b", &e.b)
	if e.rate > 0 {
		f.Float64s("g", &e.g)
		f.Float64("gb", &e.gb)
	}
	if !f.Decoding() || f.Err() != nil {
		return
	}
	if err := linear.Finite(e.w, e.g, []float64{e.b, e.gb}); err != nil {
		f.Fail("w", err)
	}
	if e.rate > 0 && len(e.g) < len(e.w) {
		f.Fail("g", errors.New("lengths do not agree"))
	}
	for j, v := range e.g {
		if v < 0 || v == 0 && j < len(e.w) && e.w[j] != 0 {
			f.Fail("g", fmt.Errorf("value %d is %g", j, v))
			return
		}
	}
}
