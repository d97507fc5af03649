package adaptive

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
)

const (
	firstScores = 10  // scores before outliers are bounded
	mostUnits   = 4   // bound of a score, in units of the scores' root mean square
	knot        = 0.3 // where the slope changes, in these units
	mostOdds    = 6   // bound of an expert's log odds
	mostLogOdds = 8   // bound of the ensemble's
	leastSpread = 0.01
	mostSlope   = 20
)

func bounded(v, most float64) float64 { return min(max(v, -most), most) }

// calibration maps an expert's scores to log odds:
//
//	L = a u₁ + d (u − u₁) + c, u = clip(s/r, ±4), u₁ = clip(u, ±0.3),
//
// where r is the root mean square of the scores; outliers count as 4r. The second slope fits
// noisy labels: where some labels are wrong, doubling a score hardly changes the odds.
type calibration struct {
	square float64 // r²
	slope  float64 // a
	outer  float64 // d
	offset float64 // c
}

// parts returns u₁ and u − u₁ of a score.
func (c *calibration) parts(s float64) (inner, outer float64) {
	u := 0.0
	switch {
	case c.square > 0:
		u = bounded(s/math.Sqrt(c.square), mostUnits)
	case s != 0:
		u = math.Copysign(1, s)
	}
	inner = bounded(u, knot)
	return inner, u - inner
}

// logOdds returns the log odds of +1, given a score.
func (c *calibration) logOdds(s float64) float64 { return bounded(c.raw(c.parts(s)), mostOdds) }

func (c *calibration) raw(inner, outer float64) float64 {
	return float64(c.slope*inner) + float64(c.outer*outer) + c.offset
}

func (c *calibration) fields(f *state.Fields) {
	f.Float64("square", &c.square)
	f.Float64("slope", &c.slope)
	f.Float64("outer", &c.outer)
	f.Float64("offset", &c.offset)
	if f.Decoding() && f.Err() == nil && !(c.square >= 0 && c.slope >= 0 && c.outer >= 0 && c.square+c.slope+c.outer+math.Abs(c.offset) < math.Inf(1)) {
		f.Fail("slope", fmt.Errorf("%+v", *c))
	}
}

// calibrator learns a calibration by Newton steps on the log loss, with forgetting.
type calibrator struct {
	calibration
	n       float64    // scores so far
	hessian [6]float64 // lower triangle by rows, discounted; the identity keeps it regular
}

func newCalibrator() calibrator {
	return calibrator{calibration: calibration{slope: 1, outer: 0.5}, hessian: [6]float64{1, 0, 1, 0, 0, 1}}
}

// learn takes a step with forgetting at the given rate, the offset only a fraction of it. p is
// the calibrated probability of +1, y is 1 or 0.
func (c *calibrator) learn(s, p, y, rate, fraction, weight float64) {
	u, v := c.parts(s)
	g, w := weight*(p-y), weight*max(float64(p*(1-p)), leastSpread)
	keep, h := 1-rate, &c.hessian
	wu, wv := float64(w*u), float64(w*v)
	h[0] = float64(keep*h[0]) + rate + float64(wu*u)
	h[1] = float64(keep*h[1]) + float64(wu*v)
	h[2] = float64(keep*h[2]) + rate + float64(wv*v)
	h[3] = float64(keep*h[3]) + wu
	h[4] = float64(keep*h[4]) + wv
	h[5] = float64(keep*h[5]) + rate + w
	// The step solves h·d = (g u, g v, g), by elimination.
	l1, l3 := h[1]/h[0], h[3]/h[0]
	d2, d4 := h[2]-float64(l1*h[1]), h[4]-float64(l1*h[3])
	l4 := d4 / d2
	b0 := float64(g * u)
	b1 := float64(g*v) - float64(l1*b0)
	b2 := g - float64(l3*b0) - float64(l4*b1)
	z2 := b2 / (h[5] - float64(l3*h[3]) - float64(l4*d4))
	z1 := (b1 - float64(d4*z2)) / d2
	z0 := (b0 - float64(h[1]*z1) - float64(h[3]*z2)) / h[0]
	c.slope = min(max(c.slope-bounded(z0, 1), 0), mostSlope)
	c.outer = min(max(c.outer-bounded(z1, 1), 0), mostSlope)
	c.offset = bounded(c.offset-float64(fraction*bounded(z2, 1)), mostOdds)
	square := float64(s * s)
	if c.n >= firstScores && c.square > 0 {
		square = min(square, float64(mostUnits*mostUnits*c.square))
	}
	c.square += float64(max(0.002, 1/(c.n+1)) * (square - c.square))
	c.n++
}

func (c *calibrator) fields(f *state.Fields) {
	c.calibration.fields(f)
	f.Float64("scores", &c.n)
	h := c.hessian[:]
	f.Float64s("hessian", &h)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	if len(h) != len(c.hessian) || linear.Finite(h) != nil || !(c.n >= 0 && c.n < math.Inf(1) && h[0] > 0 && h[2] > 0 && h[5] > 0) {
		f.Fail("hessian", fmt.Errorf("%g, of %g scores", h, c.n))
		return
	}
	copy(c.hessian[:], h)
}
