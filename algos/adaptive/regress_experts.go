package adaptive

import (
	"context"
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/model"
	"github.com/streamsvm/streamsvm/algos/online"
	"github.com/streamsvm/streamsvm/algos/ridge"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/stream"
)

// labels holds statistics of the labels so far.
type labels struct {
	n         float64
	last      float64
	mean, m2  float64 // Welford's
	low, high float64
}

func (y *labels) learn(v float64) {
	if y.n++; y.n == 1 {
		y.low, y.high = v, v
	}
	y.last, y.low, y.high = v, min(v, y.low), max(v, y.high)
	d := v - y.mean
	y.mean += d / y.n
	y.m2 += float64(d * (v - y.mean))
}

// sd is the standard deviation.
func (y *labels) sd() float64 { return math.Sqrt(y.m2 / max(y.n, 1)) }

func (y *labels) fields(f *state.Fields) {
	f.Float64("count", &y.n)
	f.Float64("last", &y.last)
	f.Float64("mean", &y.mean)
	f.Float64("m2", &y.m2)
	f.Float64("low", &y.low)
	f.Float64("high", &y.high)
	if f.Decoding() && f.Err() == nil && !(y.n >= 0 && y.m2 >= 0 && y.low <= y.high && y.n+math.Abs(y.last)+math.Abs(y.mean)+y.m2+math.Abs(y.low)+math.Abs(y.high) < math.Inf(1)) {
		f.Fail("count", fmt.Errorf("%g, %g, %g, %g", y.n, y.last, y.mean, y.m2))
	}
}

// follower is a linear expert of a regression.
type follower struct {
	onePass
	absolute bool
	labels   *labels // statistics so far
	begun    bool
}

// learn updates the weights with input z, whose prediction was s. By normalised least mean squares
// it takes the step that makes the prediction y; with the absolute loss the error counts at most
// one standard deviation of the labels. AdaGrad steps are in units of that standard deviation.
func (e *follower) learn(z stream.Vec, s, y, weight float64) {
	if !e.begun {
		e.begun, e.b = true, y
		return
	}
	r := y - s
	if r == 0 {
		return
	}
	unit := e.labels.sd()
	e.w = linear.Grow(e.w, z.Dim())
	if e.rate == 0 {
		if e.absolute {
			r = min(max(r, -unit), unit)
		}
		step := min(weight, 1) * r / (1 + linear.Square(z))
		linear.Axpy(step, z, e.w)
		e.b += step
		return
	}
	if unit == 0 {
		return
	}
	r = min(max(r/unit, -1e6), 1e6) // unit may be mere rounding
	if e.absolute {
		r = math.Copysign(1, r)
	}
	r *= weight
	e.g = linear.Grow(e.g, z.Dim())
	for j, v := range linear.Nonzeros(z) {
		d := float64(r * float64(v))
		if g := e.g[j] + float64(d*d); g > 0 {
			e.g[j] = g
			e.w[j] += float64(e.rate*unit) * (d / math.Sqrt(g))
		}
	}
	e.gb += float64(r * r)
	if e.gb > 0 {
		e.b += float64(e.rate*unit) * (r / math.Sqrt(e.gb))
	}
}

func (e *follower) reset() {
	e.onePass.reset()
	e.begun = false
}

func (e *follower) fields(f *state.Fields) {
	f.Bool("begun", &e.begun)
	e.onePass.fields(f)
}

// constantNumber predicts the same for all examples: the last label or the mean label.
type constantNumber struct {
	unbatched
	labels *labels
	value  *float64 // points into labels
}

func (e *constantNumber) predict(*input) score      { return score{*e.value, e.labels.n > 0} }
func (e *constantNumber) learn(*input, score) error { return nil } // see Learner.predictAndLearn
func (e *constantNumber) fields(*state.Fields)      {}             // numbers

func (e *constantNumber) function() function {
	if e.labels.n == 0 {
		return nil
	}
	return constant(*e.value)
}

// fitted is learner online at one rate, or learner ridge: a linear function of the inputs or
// of random features. It starts after a few examples, and divides labels by their standard
// deviation at that time, so that their scale does not matter. Unlike the panel's linear
// experts, ridge weights all examples equally, so its function is still good long after it
// was published.
type fitted struct {
	panel        *Learner
	form         form
	rate         string         // of online; empty: ridge
	l            algos.Learner  // nil: not started
	line         linearFunction // function of l, in units of the labels
	center, unit float64
}

func (e *fitted) fresh() (err error) {
	spec, options := &ridge.Spec, map[string]string{}
	if e.rate != "" {
		spec, options = &online.Spec, map[string]string{"rate": e.rate}
	}
	e.l, err = spec.New(algos.Env{Seed: e.panel.env.Seed, Log: e.panel.env.Log, Task: algos.Regress}, options)
	return err
}

func (e *fitted) begin([]input, bool) {}

func (e *fitted) predict(in *input) score {
	z := in.form(e.form)
	if e.l == nil || z == nil {
		return score{}
	}
	return score{e.line.b + linear.Dot(e.line.w, *z), true}
}

func (e *fitted) learn(in *input, _ score) error {
	z := in.form(e.form)
	if e.l == nil || z == nil {
		return nil
	}
	c := *in.x
	c.X, c.Y = *z, (in.x.Y-e.center)/e.unit
	_, err := algos.Feed(context.Background(), e.l, &c)
	e.draw()
	return err
}

// draw copies the learner's function to line.
func (e *fitted) draw() {
	m := e.l.Model().(*model.Linear)
	w := m.Weights()
	e.line.w = linear.Grow(e.line.w[:0], len(w))
	for j, v := range w {
		e.line.w[j] = e.unit * v
	}
	e.line.form, e.line.b = e.form, e.center+float64(e.unit*m.Bias())
}

// step starts the learner when there are enough examples.
func (e *fitted) step(context.Context, uint64) error {
	n, sd := e.panel.sizes.first, e.panel.labels.sd()
	if e.l != nil || e.panel.detector.Seen() < uint64(n) || !(sd > 1e-9*math.Abs(e.panel.labels.mean)) || e.rate == "" && e.panel.inputs.wide || e.form == onPhi && e.panel.fourier == nil || e.form == onSplines && e.panel.splines == nil {
		return nil
	}
	return e.start(e.panel.detector.Newest(n))
}

// start lets a new learner learn from xs.
func (e *fitted) start(xs []*stream.Example) error {
	if err := e.fresh(); err != nil {
		return err
	}
	e.center, e.unit = e.panel.labels.mean, e.panel.labels.sd()
	return e.panel.learnAgain(e, xs)
}

func (e *fitted) function() function {
	if e.l == nil {
		return nil
	}
	return e.panel.inputs.ofZ(&e.line)
}

func (e *fitted) fields(f *state.Fields) {
	there := e.l != nil
	f.Bool("there", &there)
	if f.Decoding() {
		e.l = nil
	}
	if !there || f.Err() != nil {
		return
	}
	if f.Decoding() {
		f.Fail("learner", e.fresh())
	}
	f.Float64("center", &e.center)
	f.Float64("unit", &e.unit)
	if f.Decoding() && f.Err() == nil && !(e.unit > 0 && e.unit+math.Abs(e.center) < math.Inf(1)) {
		f.Fail("unit", fmt.Errorf("%g, %g", e.center, e.unit))
	}
	if f.Err() != nil {
		return
	}
	f.Nested("learner", e.l.AppendBinary, e.l.UnmarshalBinary)
	if f.Decoding() && f.Err() == nil {
		e.draw()
	}
}
