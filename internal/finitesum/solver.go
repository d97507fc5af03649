package finitesum

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/internal/rng"
)

// Params are a method's settings.
type Params struct {
	Method *Method
	Seed   uint64
	// Rate is the step size times L, the largest curvature of a summand (see
	// Weighted). 0 is the method's default: 1 for SVRG-SD, 1/3 for SAGA-SD.
	Rate float64
	// Weighted draws long rows more often, so that L is at most twice the mean
	// curvature of a summand instead of the largest.
	Weighted bool

	// Sigma in (0,1] is 1 minus the momentum.
	Sigma float64
	// Decrease in [0,1] is the share of inner steps that are sufficient-decrease
	// steps, at least one per epoch unless it is 0, which leaves momentum alone.
	Decrease float64
	// Delta ≥ 0 sets the penalty ζ (1−θ)² ‖p‖²/2 of a sufficient-decrease step:
	// ζ = δ η / max(1 − L η, 0.1).
	Delta float64
	Theta Rule
}

// Solver runs one method on one problem. The rows may change between epochs; call
// Changed after that. It is not safe for concurrent use.
type Solver struct {
	prob *Problem
	par  Params
	gram *Gram // see UseGram

	// State between epochs.
	snap   []float64 // x~
	y      []float64 // SVRG-SD: y~
	sum    []float64 // SVRG-SD: sum of the snapshots since the rows last changed
	summed int       // their number
	epoch  uint64
	segs   uint64    // epochs since the start or Restart; part of every state, but not used
	halved int       // number of times that the step was halved
	table  []float64 // SAGA-SD: the derivatives e_i
	mean   []float64 // SAGA-SD: mean of e_i a_i
	passes float64

	// Known values at the snapshot; valid says which are up to date.
	valid      validity
	margins, d []float64 // a_iᵀx~, derivatives of the losses
	grad       []float64 // gradient of the mean loss
	value      float64   // F(x~)
	zero       float64   // F(0)

	// Scratch memory of an epoch.
	eta      float64
	sample   sampling
	walk     walk
	decrease decrease
	saved    []float64 // SAGA-SD: table and mean before the epoch
}

type validity uint8

const (
	nothing validity = iota
	theMargins
	theGradient
)

// NewSolver returns a solver that starts at x = 0. The parameters must be in range.
func NewSolver(prob *Problem, par Params) *Solver {
	if par.Rate == 0 {
		par.Rate = par.Method.rate
	}
	s := &Solver{prob: prob, par: par, decrease: decrease{lo: 1, hi: 1}}
	s.Changed()
	return s
}

// convex reports whether Algorithm 2 treats the problem as not strongly convex. Its
// epochs then begin at y~, not at the snapshot.
func (s *Solver) convex() bool { return !s.par.Method.table && s.prob.Ridge == 0 }

// vector is a vector that is kept between epochs.
type vector struct {
	name string
	v    *[]float64
	want int // its length
}

// vectors lists the vectors with one element per coordinate.
func (s *Solver) vectors() []vector {
	svrg, saga := s.prob.Dim(), 0
	if s.par.Method.table {
		svrg, saga = saga, svrg
	}
	return []vector{{"snapshot", &s.snap, s.prob.Dim()}, {"y", &s.y, svrg}, {"sum", &s.sum, svrg}, {"mean", &s.mean, saga}}
}

// Changed must be called after rows or weights of the problem have changed. It computes
// SAGA-SD's table entries for the given rows, and for new rows, at the present point.
func (s *Solver) Changed(slots ...int) {
	for _, c := range s.vectors() {
		*c.v = linear.Grow(*c.v, c.want)
	}
	s.valid, s.sample.n = nothing, 0
	clear(s.sum)
	s.summed = 0
	s.prob.balance()
	if !s.par.Method.table {
		return
	}
	p := s.prob
	known := min(len(s.table), p.Len())
	if p.weights != nil {
		known = 0 // the shares of all rows have changed
	}
	s.table = slices.Grow(s.table[:known], p.Len()-known)[:p.Len()]
	for _, i := range slots {
		if i < known {
			s.table[i] = p.deriv(p.dot(s.snap, i), i)
		}
	}
	for i := known; i < p.Len(); i++ {
		s.table[i] = p.deriv(p.dot(s.snap, i), i)
	}
	p.gradient(s.mean, s.table)
	s.passes++
}

// Restart makes the next epoch begin at the snapshot, even if convex is true.
func (s *Solver) Restart() {
	s.segs = 0
	copy(s.y, s.snap)
}

// UseGram gives the solver the Gram matrix of a problem with the squared loss, from
// which it finds θ. The caller keeps g up to date with the rows. nil removes it.
func (s *Solver) UseGram(g *Gram) { s.gram = g }

// X returns x~. It belongs to the solver and changes with the next epoch.
func (s *Solver) X() []float64 { return s.snap }

// Passes returns the work so far in passes over the rows: gradients of summands,
// and margins for θ, count 1/n each. The derivatives at the snapshot come from the
// full gradient and are not counted again.
func (s *Solver) Passes() float64 { return s.passes }

// Halvings returns how often Guard halved the step.
func (s *Solver) Halvings() int { return s.halved }

// Step returns the step size of the last epoch.
func (s *Solver) Step() float64 { return s.eta }

// evaluate computes the snapshot's margins and value, and the gradient if requested.
func (s *Solver) evaluate(gradient bool) {
	p, n := s.prob, s.prob.Len()
	if s.valid < theMargins {
		s.margins = slices.Grow(s.margins[:0], n)[:n]
		p.Margins(s.margins, s.snap)
		s.value = p.meanLoss(s.margins) + p.penalty(s.snap)
		s.zero = p.AtZero()
		s.valid = theMargins
	}
	if gradient && s.valid < theGradient {
		s.d = slices.Grow(s.d[:0], n)[:n]
		for i, z := range s.margins {
			s.d[i] = p.deriv(z, i)
		}
		s.grad = linear.Grow(s.grad, p.Dim())
		p.gradient(s.grad, s.d)
		s.valid = theGradient
	}
}

// Value returns F(x~).
func (s *Solver) Value() float64 {
	s.evaluate(false)
	return s.value
}

// Gap returns the norm of the smallest subgradient at x~ and an upper bound on
// F(x~) − min F: from strong convexity, or F(x~), since no loss is negative.
func (s *Solver) Gap() (norm, bound float64) {
	s.evaluate(true)
	norm = s.prob.subgradient(s.snap, s.grad)
	if s.prob.Ridge == 0 {
		return norm, s.value
	}
	return norm, min(float64(norm*norm)/(2*s.prob.Ridge), s.value)
}

// Epoch runs one epoch over the rows. If ctx ends first, it returns the error of
// ctx and leaves the solver unchanged.
func (s *Solver) Epoch(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	n := s.prob.Len()
	if n == 0 {
		return nil
	}
	if s.sample.n == 0 {
		s.sample.prepare(s.prob, s.par.Weighted)
	}
	passes := s.passes
	// At least two steps: the mean of x^_1 alone is the start of the epoch.
	m := max(int(math.Round(s.par.Method.inner*float64(n))), 2)
	if err := s.descend(ctx, m); err != nil {
		s.passes = passes
		return err
	}
	s.passes += float64(m) / float64(n)
	s.epoch++
	s.segs++
	s.valid = nothing
	return nil
}

// setStep sets η for summands whose ridge part has curvature ridge, and returns L.
func (s *Solver) setStep(ridge float64) (l float64) {
	l = float64(s.prob.Loss.Curvature()*s.sample.most) + ridge
	if !(l > 0) {
		l = 1 // all rows are 0
	}
	s.eta = math.Ldexp(s.par.Rate/l, -s.halved)
	return l
}

// Guard halves the step and returns to the point before the last epoch if F is not
// finite or exceeds ten times both F(0) and its value before the epoch. It reports
// whether it did. before is x~ before the epoch and value is F there.
func (s *Solver) Guard(before []float64, value float64) bool {
	s.evaluate(false)
	if s.value <= 10*max(s.zero, value) {
		return false
	}
	s.halved++
	copy(s.snap, before)
	s.Restart()
	s.table = s.table[:0]
	s.Changed()
	return true
}

// Output returns the point to use, which the caller must not change. It is x~ or, if
// convex is true, the mean of the snapshots since the rows last changed, if F is
// smaller there (Algorithm 2, last line).
//
// With a Lasso term Output then does one prox step along the full gradient, short
// enough not to raise F. The step sets coordinates to 0 that a mean of iterates
// leaves near 0.
func (s *Solver) Output() []float64 {
	x := s.snap
	if s.convex() && s.summed > 1 {
		mean := make([]float64, len(s.sum))
		for j, v := range s.sum {
			mean[j] = v / float64(s.summed)
		}
		if s.prob.Objective(mean) < s.Value() {
			x = mean
		}
	}
	l := s.prob.smoothness()
	if s.prob.Lasso == 0 || !(l > 0) || s.prob.Len() == 0 {
		return x
	}
	s.evaluate(true)
	grad := s.grad
	if &x[0] != &s.snap[0] {
		grad = s.prob.Gradient(x)
	}
	out := make([]float64, len(x))
	for j, v := range x {
		out[j] = soft(v-(grad[j]+float64(s.prob.Ridge*v))/l, s.prob.lasso(j)/l)
	}
	return out
}

// draws returns the named random generator of an epoch, a function of seed and epoch.
// The positions of decrease steps have their own generator, so that they do not change
// which rows are drawn.
func (s *Solver) draws(name string) *rng.Source {
	// splitmix64 of the pair separates neighbouring epochs.
	z := s.par.Seed + (s.epoch+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return rng.New(z^z>>31, name)
}

// Fields describes the state between epochs. After decoding, Restored must be called
// once the problem has the same rows as before and as many coordinates as X.
func (s *Solver) Fields(f *state.Fields) {
	var z []float64 // earlier versions had a method that needed it
	f.Float64s("snapshot", &s.snap)
	f.Float64s("y", &s.y)
	f.Float64s("z", &z)
	f.Float64s("sum", &s.sum)
	f.Int("summed", &s.summed)
	f.Uint64("epoch", &s.epoch)
	f.Uint64("segment", &s.segs)
	f.Int("halved", &s.halved)
	f.Float64s("table", &s.table)
	f.Float64s("mean", &s.mean)
	f.Float64("passes", &s.passes)
}

// Restored checks the decoded state and makes the solver ready.
func (s *Solver) Restored() error {
	rows := 0
	if s.par.Method.table {
		rows = s.prob.Len()
	}
	for _, c := range append(s.vectors(), vector{"table", &s.table, rows}) {
		if len(*c.v) != c.want {
			return fmt.Errorf("%s: %d numbers, want %d", c.name, len(*c.v), c.want)
		}
		if err := linear.Finite(*c.v); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	if s.summed < 0 || s.halved < 0 || s.halved > 2000 || !(s.passes >= 0) || math.IsInf(s.passes, 1) {
		return fmt.Errorf("%d summed, %d halved, %g passes", s.summed, s.halved, s.passes)
	}
	s.valid, s.sample.n = nothing, 0
	s.prob.balance()
	return nil
}
