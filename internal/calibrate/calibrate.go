// Package calibrate turns decisions into probabilities, on a stream: with each
// label that comes, a map of few parameters takes one Newton step on the log
// loss of what it said, and forgets.
//
// For two classes the map is a sigmoid with a slope of its own on each side of
// the decision 0; of more than two, a softmax with one temperature. Both keep
// the order of decisions. What they are fed with are decisions that were taken
// before their example was learned from, so that no examples have to be held
// out.
//
// Without forgetting these are online Newton steps on a loss that is
// exp-concave, whose regret against the best fixed map grows with the logarithm
// of the number of examples (Hazan, Agarwal, Kale, "Logarithmic regret
// algorithms for online convex optimization", Machine Learning 69, 2007; of
// Platt's map: Gupta, Ramdas, "Online Platt Scaling with Calibeating", ICML
// 2023). Forgetting gives that up, and follows streams that change.
//
// Results have the same bits on every machine.
package calibrate

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
)

const (
	// Least is the number of labels before which there is no map to be used.
	Least = 200

	// span is about how many labels a map goes back. docs/measured/probability.md
	// compares others.
	span   = 1000
	forget = 1.0 / span

	limit     = 6    // of decisions, in units of their root mean square
	steepest  = 20   // of slopes and bias
	curvature = 1e-3 // what a label weighs at least, so that a step stays bounded
)

// Sigmoid is the map for two classes: of the decision f, in units of Scale and
// clipped to ±6, the probability of the positive class is the logistic function
// of Above·f + Bias where f is positive, and of Below·f + Bias where it is not.
type Sigmoid struct {
	Above, Below float64 // slopes, not negative
	Bias         float64
	Scale        float64 // positive
}

// Probability returns the probability that the label is positive, given the
// decision; NaN for one that is NaN.
func (m *Sigmoid) Probability(decision float64) float64 {
	if decision != decision {
		return decision
	}
	v := clip(decision/m.Scale, limit)
	slope := m.Above
	if v < 0 {
		slope = m.Below
	}
	return linear.Sigmoid(float64(slope*v) + m.Bias)
}

// Fields describes the map.
func (m *Sigmoid) Fields(f *state.Fields) {
	f.Float64("above", &m.Above)
	f.Float64("below", &m.Below)
	f.Float64("bias", &m.Bias)
	f.Float64("scale", &m.Scale)
	ok := m.Above >= 0 && m.Above <= steepest && m.Below >= 0 && m.Below <= steepest && math.Abs(m.Bias) <= steepest && m.Scale > 0 && m.Scale <= math.MaxFloat64
	if f.Decoding() && !ok {
		f.Fail("scale", fmt.Errorf("%+v is no map to probabilities", *m))
	}
}

// Online learns a Sigmoid from decisions and labels in their order.
type Online struct {
	labels         uint64
	squares, count float64 // forgetting sums of the squares of decisions, and of 1
	theta          [3]float64
	curve          [6]float64 // the matrix of the Newton step, by rows of its lower triangle
}

// NewOnline returns an Online before the first label.
func NewOnline() *Online {
	return &Online{theta: [3]float64{1, 1, 0}, curve: [6]float64{1, 0, 1, 0, 0, 1}}
}

// Map returns the present map, and whether enough labels have come for it to be
// used.
func (o *Online) Map() (Sigmoid, bool) {
	return Sigmoid{Above: o.theta[0], Below: o.theta[1], Bias: o.theta[2], Scale: unit(o.squares, o.count)}, o.labels >= Least
}

// unit returns the root mean square, or 1 where that is of no use.
func unit(squares, count float64) float64 {
	if s := math.Sqrt(squares / count); s > 0 && s <= math.MaxFloat64 {
		return s
	}
	return 1
}

// Learn takes in a label, and the decision that was taken on its example before
// it was known. A decision that is not finite is passed over.
func (o *Online) Learn(decision float64, positive bool) {
	if !(math.Abs(decision) < 1e150) { // or its square might not be finite
		return
	}
	v := clip(decision/unit(o.squares, o.count), limit)
	o.labels++
	o.squares = float64((1-forget)*o.squares) + float64(decision*decision)
	o.count = float64((1-forget)*o.count) + 1

	x := [3]float64{max(v, 0), min(v, 0), 1}
	t := &o.theta
	p := linear.Sigmoid(float64(t[0]*x[0]) + float64(t[1]*x[1]) + t[2])
	g := p
	if positive {
		g = p - 1
	}
	w := max(float64(p*(1-p)), curvature)
	a := &o.curve
	k := 0
	for i := range x {
		for j := range i + 1 {
			a[k] = float64((1-forget)*a[k]) + float64(float64(w*x[i])*x[j])
			if i == j {
				a[k] += forget
			}
			k++
		}
	}
	step := solve(a, [3]float64{float64(g * x[0]), float64(g * x[1]), g})
	t[0] = min(max(t[0]-step[0], 0), steepest)
	t[1] = min(max(t[1]-step[1], 0), steepest)
	t[2] = clip(t[2]-step[2], steepest)
}

// solve returns the solution of a·x = b, a being positive definite and given by
// the rows of its lower triangle.
func solve(a *[6]float64, b [3]float64) (x [3]float64) {
	// Cholesky's factor, by rows as a.
	l00 := math.Sqrt(a[0])
	l10 := a[1] / l00
	l11 := math.Sqrt(a[2] - float64(l10*l10))
	l20 := a[3] / l00
	l21 := (a[4] - float64(l20*l10)) / l11
	l22 := math.Sqrt(a[5] - float64(l20*l20) - float64(l21*l21))
	y0 := b[0] / l00
	y1 := (b[1] - float64(l10*y0)) / l11
	y2 := (b[2] - float64(l20*y0) - float64(l21*y1)) / l22
	x[2] = y2 / l22
	x[1] = (y1 - float64(l21*x[2])) / l11
	x[0] = (y0 - float64(l10*x[1]) - float64(l20*x[2])) / l00
	return x
}

// clip returns the nearest number in [-most, most], or NaN for one.
func clip(v, most float64) float64 { return min(max(v, -most), most) }

// Fields describes the state.
func (o *Online) Fields(f *state.Fields) {
	f.Uint64("labels", &o.labels)
	f.Float64("squares", &o.squares)
	f.Float64("count", &o.count)
	t, a := o.theta[:], o.curve[:]
	f.Float64s("theta", &t)
	f.Float64s("curve", &a)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	if len(t) != len(o.theta) || len(a) != len(o.curve) {
		f.Fail("theta", fmt.Errorf("%d parameters, a matrix of %d numbers", len(t), len(a)))
		return
	}
	o.theta, o.curve = [3]float64(t), [6]float64(a)
}
