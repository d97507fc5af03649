package adaptive

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/stream"
)

// labels are what is known of numbers without features.
type labels struct {
	n        float64
	last     float64
	mean, m2 float64 // Welford's
}

func (y *labels) learn(v float64) {
	y.n++
	y.last = v
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
	if f.Decoding() && f.Err() == nil && !(y.n >= 0 && y.m2 >= 0 && y.n+math.Abs(y.last)+math.Abs(y.mean)+y.m2 < math.Inf(1)) {
		f.Fail("count", fmt.Errorf("%g, %g, %g, %g", y.n, y.last, y.mean, y.m2))
	}
}

// follower is a linear expert for numbers.
type follower struct {
	onePass
	absolute bool
	labels   *labels // so far
	begun    bool
}

// learn updates the weights with z, of which s was predicted. Normalised least
// mean squares: the step that would bring the prediction to y, times rate; with
// the absolute loss, by a standard deviation of the labels at most. AdaGrad: in
// units of that.
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
	if !e.adaptive {
		if e.absolute {
			r = min(max(r, -unit), unit)
		}
		step := min(weight*e.rate, max(1, e.rate)) * r / (1 + linear.Square(z))
		linear.Axpy(step, z, e.w)
		e.b += step
		return
	}
	if unit == 0 {
		return
	}
	r = min(max(r/unit, -1e6), 1e6) // there may be nothing but rounding in unit
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
