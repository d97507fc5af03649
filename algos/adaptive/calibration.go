package adaptive

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
)

const (
	mostUnits   = 4 // of a score, in units of its root mean square
	mostOdds    = 6 // of an expert's log odds
	mostLogOdds = 8 // of the ensemble's
	leastSpread = 0.01
	mostSlope   = 20
	offsetStep  = 0.25 // part of a Newton step that an offset takes: the rates of classes change sooner than scales
)

func bounded(v, most float64) float64 { return min(max(v, -most), most) }

// calibration makes log odds of an expert's scores: L = a s/r + c, where r is the root
// mean square of the scores.
type calibration struct {
	square float64 // r²
	slope  float64 // a
	offset float64 // c
}

// unit returns a score in units of what it usually is.
func (c *calibration) unit(s float64) float64 {
	if c.square == 0 {
		if s == 0 {
			return 0
		}
		return math.Copysign(1, s)
	}
	return bounded(s/math.Sqrt(c.square), mostUnits)
}

// logOdds returns the log odds of +1, given a score.
func (c *calibration) logOdds(s float64) float64 {
	return bounded(float64(c.slope*c.unit(s))+c.offset, mostOdds)
}

func (c *calibration) check() error {
	if !(c.square >= 0 && c.slope >= 0 && c.square+c.slope+math.Abs(c.offset) < math.Inf(1)) {
		return fmt.Errorf("%g, %g, %g", c.square, c.slope, c.offset)
	}
	return nil
}

// calibrator learns a calibration by Newton steps on the log loss, with forgetting. At
// first it is the identity, for scores in units of their root mean square.
type calibrator struct {
	calibration
	n             float64 // scores so far
	haa, hac, hcc float64 // Hessian, discounted; the identity keeps it regular
}

func newCalibrator() calibrator {
	return calibrator{calibration: calibration{slope: 1}, haa: 1, hcc: 1}
}

// learn takes a step, with forgetting at the given rate. y is 1 or 0.
func (c *calibrator) learn(s, y, rate, weight float64) {
	u := c.unit(s)
	p := linear.Sigmoid(float64(c.slope*u) + c.offset)
	g, h := weight*(p-y), weight*max(float64(p*(1-p)), leastSpread)
	keep := 1 - rate
	c.haa = float64(keep*c.haa) + rate + float64(float64(h*u)*u)
	c.hac = float64(keep*c.hac) + float64(h*u)
	c.hcc = float64(keep*c.hcc) + rate + h
	det := float64(c.haa*c.hcc) - float64(c.hac*c.hac)
	gu := float64(g * u)
	da := (float64(c.hcc*gu) - float64(c.hac*g)) / det
	dc := (float64(c.haa*g) - float64(c.hac*gu)) / det
	c.slope = min(max(c.slope-bounded(da, 1), 0), mostSlope)
	c.offset = bounded(c.offset-float64(offsetStep*bounded(dc, 1)), mostOdds)
	c.square += float64(max(0.002, 1/(c.n+1)) * (float64(s*s) - c.square))
	c.n++
}

func (c *calibrator) fields(f *state.Fields) {
	f.Float64("scores", &c.n)
	f.Float64("square", &c.square)
	f.Float64("slope", &c.slope)
	f.Float64("offset", &c.offset)
	f.Float64("haa", &c.haa)
	f.Float64("hac", &c.hac)
	f.Float64("hcc", &c.hcc)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	f.Fail("slope", c.check())
	if !(c.n >= 0 && c.n < math.Inf(1) && c.haa > 0 && c.hcc > 0 && c.haa*c.hcc-c.hac*c.hac > 0 && c.haa+c.hcc < math.Inf(1)) {
		f.Fail("haa", fmt.Errorf("%g, %g, %g of %g", c.haa, c.hac, c.hcc, c.n))
	}
}
