// Package calibrate turns decisions into probabilities, online (Platt scaling for
// streams): with each label, a map with few parameters takes one Newton step on the
// log loss of its prediction, with exponential forgetting.
//
// For two classes the map is a sigmoid of a piecewise linear function of the
// decision with six pieces; for more than two, a softmax with one temperature. Both
// preserve the order of decisions. They are fitted to decisions made before the
// example was learned from, so that no examples have to be held out.
//
// Without forgetting these are online Newton steps on an exp-concave loss, whose
// regret against the best fixed map grows with the logarithm of the number of
// examples (Hazan, Agarwal, Kale, "Logarithmic regret algorithms for online convex
// optimization", Machine Learning 69, 2007; for Platt's map: Gupta, Ramdas, "Online
// Platt Scaling with Calibeating", ICML 2023). Forgetting gives up that bound in
// order to follow streams that change.
//
// Results have the same bits on every machine.
package calibrate

import (
	"errors"
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
)

const (
	// Least is the number of labels before which the map is not used.
	Least = 200

	// span is the approximate number of latest labels that a map depends on.
	// docs/measured/probability.md compares others, and other knots.
	span   = 1000
	forget = 1.0 / span
	keep   = 1 - forget

	limit     = 6    // of decisions, in units of their root mean square
	steepest  = 20   // largest slope and bias
	curvature = 1e-3 // smallest weight of a label in the Newton matrix, so that a step stays bounded
)

// Knots of the pieces on each side of 0, in units of the root mean square of the
// decisions. The map is constant beyond limit.
const (
	pieces = 3 // on each side
	knot1  = 0.5
	knot2  = 1
)

// three has a number for each piece of a side. An array would not be kept in
// registers.
type three struct{ a, b, c float64 }

// Map maps decisions to probabilities: the log odds of the positive class are
// LogOdds[i] at Decisions[i], linear in between, and constant beyond the first and
// the last.
type Map struct {
	Decisions []float64 // increasing
	LogOdds   []float64 // as many as Decisions, nondecreasing
}

// Shifted returns the map for decisions that are log odds, of up to 40, plus shift.
func Shifted(shift float64) *Map { return &Map{[]float64{shift - 40, shift + 40}, []float64{-40, 40}} }

// Probability returns the probability that the label is positive, given the
// decision; NaN for NaN.
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

// Online learns a Map from a sequence of decisions and labels.
type Online struct {
	labels         uint64
	squares, count float64 // discounted sums of squared decisions, and of 1
	bias           float64
	weight         float64 // weight of the bias alone
	sides          [2]side // for negative and for positive decisions
}

// side has the statistics of the pieces on one side of 0. The Newton matrix is 0
// between the sides, since no decision is on both.
type side struct {
	slopes three
	matrix [3]three // lower triangle, by row
	border three    // row of the bias
}

// NewOnline returns an Online before the first label.
func NewOnline() *Online {
	one := side{slopes: three{1, 1, 1}, matrix: [...]three{{a: 1}, {b: 1}, {c: 1}}}
	return &Online{weight: 1, sides: [2]side{one, one}}
}

// Known reports whether there have been enough labels for the map to be used.
func (o *Online) Known() bool { return o.labels >= Least }

// Map returns the current map.
func (o *Online) Map() *Map {
	const n = 2*pieces + 1
	m, scale := &Map{make([]float64, n), make([]float64, n)}, unit(o.squares, o.count)
	m.LogOdds[pieces] = o.bias
	for i, s := range &o.sides {
		z, sign := o.bias, float64(2*i-1)
		for k, piece := range [...]struct{ slope, from, to float64 }{{s.slopes.a, 0, knot1}, {s.slopes.b, knot1, knot2}, {s.slopes.c, knot2, limit}} {
			z += float64(sign * float64(piece.slope*(piece.to-piece.from)))
			at := pieces + (2*i-1)*(k+1)
			m.Decisions[at], m.LogOdds[at] = float64(sign*float64(scale*piece.to)), z
		}
	}
	return m
}

// unit returns the root mean square, or 1 if that is unusable.
func unit(squares, count float64) float64 {
	if s := math.Sqrt(squares / count); s > 1e-150 && s < 1e150 {
		return s
	}
	return 1
}

// Learn updates the map with a label and the decision made on its example beforehand.
// It returns the probability before the update, which equals Map().Probability up to
// rounding. It ignores decisions that are not finite or too large, and returns NaN for
// them.
func (o *Online) Learn(decision float64, positive bool) (probability float64) {
	if !(math.Abs(decision) < 1e150) { // otherwise its square might not be finite
		return math.NaN()
	}
	v := min(max(decision/unit(o.squares, o.count), -limit), limit)
	o.labels++
	o.squares = float64(keep*o.squares) + float64(decision*decision)
	o.count = float64(keep*o.count) + 1

	// x is the part of v on each piece of its side, here. On the other side, away, it
	// is 0: there the matrix is only discounted, and only the bias moves the slopes.
	// The sign of decisions is unpredictable, so the sides are chosen without a branch.
	at := 1 - math.Float64bits(v)>>63
	here, away := &o.sides[at], &o.sides[1-at]
	x := along(math.Abs(v), float64(2*int(at)-1))
	z := here.slopes.add(o.bias, x)
	p := linear.Sigmoid(z)
	away.age()
	inv, low := away.factor()
	ca := solve(inv, low, away.border)
	label := 0
	if positive {
		label = 1
	}
	g := p - float64(label)
	w := max(float64(p*(1-p)), curvature)
	o.weight = float64(keep*o.weight) + forget + w
	here.learn(x, w)
	inv, low = here.factor()
	c, y := solve(inv, low, here.border), solve(inv, low, x.times(g))

	// The Newton step is the solution of matrix · step = gradient, where the gradient
	// is g times x, and g for the bias. The slopes have been eliminated, the ones below
	// 0 first.
	weights := [2]float64{away.border.sub(here.border.sub(o.weight, c), ca), here.border.sub(away.border.sub(o.weight, ca), c)}
	d := here.border.sub(g, y) / weights[at]
	o.bias = min(max(o.bias-d, -steepest), steepest)
	here.step(d, c, y)
	away.step(d, ca, three{})
	return p
}

// along returns the part of v on each piece of the side where it is positive, times
// sign.
func along(v, sign float64) three {
	return three{
		sign * min(max(v, 0), knot1),
		sign * min(max(v-knot1, 0), knot2-knot1),
		sign * min(max(v-knot2, 0), limit-knot2),
	}
}

// add returns b + x·y, adding one term at a time.
func (x three) add(b float64, y three) float64 {
	return b + float64(x.a*y.a) + float64(x.b*y.b) + float64(x.c*y.c)
}

// sub returns b − x·y.
func (x three) sub(b float64, y three) float64 {
	return b - float64(x.a*y.a) - float64(x.b*y.b) - float64(x.c*y.c)
}

// step changes the slopes by their part of the Newton step, given the bias's part
// d.
func (s *side) step(d float64, c, y three) {
	s.slopes = three{slope(s.slopes.a, y.a, c.a, d), slope(s.slopes.b, y.b, c.b, d), slope(s.slopes.c, y.c, c.c, d)}
}

func slope(old, y, c, d float64) float64 {
	return min(max(old-(y-float64(c*d)), 0), steepest)
}

// learn adds a label of weight w at x. Everything before is discounted, and the
// prior is restored to its full weight.
func (s *side) learn(x three, w float64) {
	a, u := &s.matrix, &s.border
	wx := x.times(w)
	a[0].a = float64(keep*a[0].a) + forget + float64(wx.a*x.a)
	a[1].a = float64(keep*a[1].a) + float64(wx.b*x.a)
	a[1].b = float64(keep*a[1].b) + forget + float64(wx.b*x.b)
	a[2].a = float64(keep*a[2].a) + float64(wx.c*x.a)
	a[2].b = float64(keep*a[2].b) + float64(wx.c*x.b)
	a[2].c = float64(keep*a[2].c) + forget + float64(wx.c*x.c)
	u.a, u.b, u.c = float64(keep*u.a)+wx.a, float64(keep*u.b)+wx.b, float64(keep*u.c)+wx.c
}

// age is learn for a label on the other side.
func (s *side) age() {
	a, u := &s.matrix, &s.border
	a[0].a, a[1].b, a[2].c = float64(keep*a[0].a)+forget, float64(keep*a[1].b)+forget, float64(keep*a[2].c)+forget
	a[1].a, a[2].a, a[2].b = float64(keep*a[1].a), float64(keep*a[2].a), float64(keep*a[2].b)
	u.a, u.b, u.c = float64(keep*u.a), float64(keep*u.b), float64(keep*u.c)
}

func (x three) times(c float64) three {
	return three{float64(c * x.a), float64(c * x.b), float64(c * x.c)}
}

// factor returns a factorisation L·D·Lᵀ of the matrix with a unit diagonal in L: the
// inverse of D, and the elements of L below the diagonal, by row. Not one struct: six
// numbers would not be kept in registers.
func (s *side) factor() (inv, low three) {
	a := &s.matrix
	inv.a = 1 / a[0].a
	low.a, low.b = a[1].a*inv.a, a[2].a*inv.a
	inv.b = 1 / (a[1].b - float64(low.a*a[1].a))
	e := a[2].b - float64(low.b*a[1].a)
	low.c = e * inv.b
	inv.c = 1 / (a[2].c - float64(low.b*a[2].a) - float64(low.c*e))
	return inv, low
}

// solve returns the solution of matrix·x = b, given the factors of the matrix.
func solve(inv, low, b three) (x three) {
	b.b -= float64(low.a * b.a)
	b.c = b.c - float64(low.b*b.a) - float64(low.c*b.b)
	x.c = b.c * inv.c
	x.b = float64(b.b*inv.b) - float64(low.c*x.c)
	x.a = float64(b.a*inv.a) - float64(low.a*x.b) - float64(low.b*x.c)
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
		list := s.list()
		numbers := make([]float64, len(list))
		for i, v := range list {
			numbers[i] = *v
		}
		f.Float64s(s.name, &numbers)
		if !f.Decoding() || f.Err() != nil {
			continue
		}
		if len(numbers) != len(list) {
			f.Fail(s.name, fmt.Errorf("%d numbers, want %d", len(numbers), len(list)))
			return
		}
		for i, v := range numbers {
			*list[i] = v
		}
	}
}

// list returns the numbers of the side in the order of the state.
func (s *side) list() [12]*float64 {
	a := &s.matrix
	return [...]*float64{
		&s.slopes.a, &s.slopes.b, &s.slopes.c,
		&a[0].a, &a[1].a, &a[1].b, &a[2].a, &a[2].b, &a[2].c,
		&s.border.a, &s.border.b, &s.border.c,
	}
}
