// Package calibrate turns decisions into probabilities, on a stream: with each
// label that comes, a map of few parameters takes one Newton step on the log
// loss of what it said, and forgets.
//
// For two classes the map is a sigmoid of a function of the decision that is
// made of six straight pieces; of more than two, a softmax with one
// temperature. Both keep the order of decisions. What they are fed with are
// decisions that were taken before their example was learned from, so that no
// examples have to be held out.
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
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
)

const (
	// Least is the number of labels before which there is no map to be used.
	Least = 200

	// span is about how many labels a map goes back. docs/measured/probability.md
	// compares others, and other knots.
	span   = 1000
	forget = 1.0 / span

	limit     = 6    // of decisions, in units of their root mean square
	steepest  = 20   // of slopes and bias
	curvature = 1e-3 // what a label weighs at least, so that a step stays bounded
)

// knots are where the straight pieces meet on each side of 0, in units of the
// decisions' root mean square. The last one is where the map ends.
var knots = [...]float64{0, 0.5, 1, limit}

const pieces = len(knots) - 1 // on each side

// Map turns decisions into probabilities: the log odds of the positive class are
// LogOdds[i] at Decisions[i], and on a straight line in between; beyond the
// first and the last they stay what they are.
type Map struct {
	Decisions []float64 // increasing
	LogOdds   []float64 // as many, not decreasing
}

// Probability returns the probability that the label is positive, given the
// decision; NaN for one that is NaN.
func (m *Map) Probability(decision float64) float64 {
	if decision != decision {
		return decision
	}
	x, z := m.Decisions, m.LogOdds
	last := len(x) - 1
	if decision <= x[0] {
		return linear.Sigmoid(z[0])
	}
	for i := range last {
		if decision < x[i+1] {
			part := (decision - x[i]) / (x[i+1] - x[i])
			return linear.Sigmoid(min(z[i]+float64((z[i+1]-z[i])*part), z[i+1]))
		}
	}
	return linear.Sigmoid(z[last])
}

// Fields describes the map.
func (m *Map) Fields(f *state.Fields) {
	f.Float64s("decisions", &m.Decisions)
	f.Float64s("log_odds", &m.LogOdds)
	if f.Decoding() && f.Err() == nil {
		f.Fail("log_odds", m.check())
	}
}

func (m *Map) check() error {
	if len(m.Decisions) == 0 || len(m.LogOdds) != len(m.Decisions) {
		return fmt.Errorf("log odds at %d of %d decisions", len(m.LogOdds), len(m.Decisions))
	}
	for i := range m.Decisions {
		if !(math.Abs(m.Decisions[i]) <= math.MaxFloat64/2 && math.Abs(m.LogOdds[i]) <= math.MaxFloat64/2) ||
			i > 0 && !(m.Decisions[i] > m.Decisions[i-1] && m.LogOdds[i] >= m.LogOdds[i-1]) {
			return errors.New("numbers that are not finite, or are out of order")
		}
	}
	return nil
}

// Online learns a Map from decisions and labels in their order.
type Online struct {
	labels         uint64
	squares, count float64 // forgetting sums of the squares of decisions, and of 1
	bias           float64
	weight         float64 // of the bias, by itself
	sides          [2]side // of negative and of positive decisions
}

// side is what is known of the pieces on one side of 0. The matrix of the Newton
// step has nothing but 0 between the sides, as no decision is on both.
type side struct {
	slopes [pieces]float64
	matrix [pieces * (pieces + 1) / 2]float64 // the rows of its lower triangle
	border [pieces]float64                    // the row of the bias
}

// NewOnline returns an Online before the first label.
func NewOnline() *Online {
	one := side{slopes: [pieces]float64{1, 1, 1}, matrix: [...]float64{1, 0, 1, 0, 0, 1}}
	return &Online{weight: 1, sides: [2]side{one, one}}
}

// Known reports whether enough labels have come for the map to be used.
func (o *Online) Known() bool { return o.labels >= Least }

// Map returns the present map.
func (o *Online) Map() *Map {
	const n = 2*pieces + 1
	m, scale := &Map{make([]float64, n), make([]float64, n)}, unit(o.squares, o.count)
	m.LogOdds[pieces] = o.bias
	below, above := o.bias, o.bias
	for i := range pieces {
		wide := knots[i+1] - knots[i]
		below -= float64(o.sides[0].slopes[i] * wide)
		above += float64(o.sides[1].slopes[i] * wide)
		m.Decisions[pieces-1-i], m.LogOdds[pieces-1-i] = -float64(scale*knots[i+1]), below
		m.Decisions[pieces+1+i], m.LogOdds[pieces+1+i] = float64(scale*knots[i+1]), above
	}
	return m
}

// unit returns the root mean square, or 1 where that is of no use.
func unit(squares, count float64) float64 {
	if s := math.Sqrt(squares / count); s > 1e-150 && s < 1e150 {
		return s
	}
	return 1
}

// Learn takes in a label, and the decision that was taken on its example before
// it was known. It returns what the map said before it learned: what
// Map().Probability does, but for rounding. A decision that is not finite is
// passed over, and gives NaN.
func (o *Online) Learn(decision float64, positive bool) (probability float64) {
	if !(math.Abs(decision) < 1e150) { // or its square might not be finite
		return math.NaN()
	}
	v := min(max(decision/unit(o.squares, o.count), -limit), limit)
	o.labels++
	o.squares = float64((1-forget)*o.squares) + float64(decision*decision)
	o.count = float64((1-forget)*o.count) + 1

	// x is how far v goes on each piece of its side.
	on, sign := &o.sides[0], -1.0
	if v >= 0 {
		on, sign = &o.sides[1], 1
	}
	var x [pieces]float64
	z := o.bias
	for i := range x {
		x[i] = sign * min(max(math.Abs(v)-knots[i], 0), knots[i+1]-knots[i])
		z += float64(on.slopes[i] * x[i])
	}
	p := linear.Sigmoid(z)
	g := p
	if positive {
		g = p - 1
	}
	w := max(float64(p*(1-p)), curvature)
	o.forget()
	on.add(&x, w)
	o.weight += w
	o.step(on, &x, g)
	return p
}

// forget makes all that has come weigh less, and what was there at the
// beginning weigh as it did.
func (o *Online) forget() {
	o.weight = float64((1-forget)*o.weight) + forget
	for s := range o.sides {
		s := &o.sides[s]
		for i := range s.matrix {
			s.matrix[i] *= 1 - forget
		}
		for i := range s.border {
			s.border[i] *= 1 - forget
		}
		s.matrix[0] += forget
		s.matrix[2] += forget
		s.matrix[5] += forget
	}
}

// add adds w times the products of x, and of x with the 1 of the bias.
func (s *side) add(x *[pieces]float64, w float64) {
	k := 0
	for i := range x {
		wx := float64(w * x[i])
		for j := range i + 1 {
			s.matrix[k] += float64(wx * x[j])
			k++
		}
		s.border[i] += wx
	}
}

// step takes the Newton step: that by which the matrix gives the gradient, g
// times x on the one side and g for the bias.
func (o *Online) step(on *side, x *[pieces]float64, g float64) {
	// The slopes are eliminated first.
	var c, y [2][pieces]float64
	w, b := o.weight, g
	for k := range o.sides {
		s := &o.sides[k]
		c[k] = s.solve(s.border)
		if s == on {
			y[k] = s.solve([pieces]float64{float64(g * x[0]), float64(g * x[1]), float64(g * x[2])})
		}
		for i := range pieces {
			w -= float64(s.border[i] * c[k][i])
			b -= float64(s.border[i] * y[k][i])
		}
	}
	d := b / w
	o.bias = min(max(o.bias-d, -steepest), steepest)
	for k := range o.sides {
		for i := range pieces {
			slope := &o.sides[k].slopes[i]
			*slope = min(max(*slope-(y[k][i]-float64(c[k][i]*d)), 0), steepest)
		}
	}
}

// solve returns the solution of matrix·x = b.
func (s *side) solve(b [pieces]float64) (x [pieces]float64) {
	// The matrix is L·D·Lᵀ, with ones on the diagonal of L.
	a := &s.matrix
	r0 := 1 / a[0]
	l10, l20 := a[1]*r0, a[3]*r0
	r1 := 1 / (a[2] - float64(l10*a[1]))
	e := a[4] - float64(l20*a[1])
	l21 := e * r1
	r2 := 1 / (a[5] - float64(l20*a[3]) - float64(l21*e))
	y1 := b[1] - float64(l10*b[0])
	y2 := b[2] - float64(l20*b[0]) - float64(l21*y1)
	x[2] = y2 * r2
	x[1] = float64(y1*r1) - float64(l21*x[2])
	x[0] = float64(b[0]*r0) - float64(l10*x[1]) - float64(l20*x[2])
	return x
}

// Fields describes the state.
func (o *Online) Fields(f *state.Fields) {
	f.Uint64("labels", &o.labels)
	f.Float64("squares", &o.squares)
	f.Float64("count", &o.count)
	f.Float64("bias", &o.bias)
	f.Float64("weight", &o.weight)
	for _, s := range []struct {
		name string
		*side
	}{{"below", &o.sides[0]}, {"above", &o.sides[1]}} {
		numbers := slices.Concat(s.slopes[:], s.matrix[:], s.border[:])
		n := len(numbers)
		f.Float64s(s.name, &numbers)
		if !f.Decoding() || f.Err() != nil {
			continue
		}
		if len(numbers) != n {
			f.Fail(s.name, fmt.Errorf("%d numbers, want %d", len(numbers), n))
			return
		}
		n = copy(s.slopes[:], numbers)
		n += copy(s.matrix[:], numbers[n:])
		copy(s.border[:], numbers[n:])
	}
}
