package finitesum

import (
	"context"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/internal/rng"
)

// Solver runs one method on one problem, whose rows may change between epochs:
// call Changed then. Not safe for concurrent use.
type Solver struct {
	prob *Problem
	par  Params
	gram *Gram // for ByGram; its owner keeps it in step with the rows

	// What an epoch leaves behind.
	snap   []float64 // x~
	y      []float64 // y~ of Convex and ConvexB; Katyusha: y
	z      []float64 // Katyusha: z
	sum    []float64 // of the snapshots since the rows last changed
	summed int
	epoch  uint64
	segs   uint64    // epochs since the start or Restart, Katyusha's s
	halved int       // times that the step was halved
	table  []float64 // SAGA: the derivatives e_i
	gbar   []float64 // SAGA: mean of e_i a_i

	// What is known of the snapshot; valid says how much.
	valid      validity
	margins, d []float64 // a_iᵀx~, derivatives there
	grad       []float64 // gradient of the mean loss there
	value      float64   // F(x~)
	zero       float64   // F(0)

	// Of the present epoch.
	eta, mom, zeta     float64
	rule               Rule
	x, xh, acc         []float64
	backE, backG       []float64
	rowF               []float64
	lazy               lazy
	kat                katyusha
	rows               []drawn
	sample             sampling
	built              bool // gram is the solver's own
	roomZ, roomB       []float64
	passes             float64
	thetaMin, thetaMax float64
	observe            func(k int, x, xh, y []float64, theta float64) // of tests
}

type validity uint8

const (
	nothing validity = iota
	theMargins
	theGradient
)

// NewSolver returns a solver that starts at x = 0. gram may be nil: it is then
// built where the rule for θ wants it; otherwise the caller keeps it in step
// with the rows.
func NewSolver(prob *Problem, par Params, gram *Gram) (*Solver, error) {
	if err := par.Validate(prob); err != nil {
		return nil, err
	}
	s := &Solver{prob: prob, par: par.filled(prob.Ridge), gram: gram}
	s.Changed()
	return s, nil
}

// Changed says that rows or weights of the problem are not what they were. The
// entries of SAGA's table for the rows listed, and for new rows, are taken at
// the present point.
func (s *Solver) Changed(slots ...int) {
	for _, c := range []struct {
		v    *[]float64
		want int
	}{{&s.snap, s.prob.Dim()}, {&s.y, s.wide(SVRGSD, Katyusha)}, {&s.z, s.wide(Katyusha)}, {&s.sum, s.wide(SVRGSD)}, {&s.gbar, s.wide(SAGA, SAGASD)}} {
		if have := len(*c.v); have < c.want {
			*c.v = append(*c.v, make([]float64, c.want-have)...)
		}
	}
	s.room0()
	s.valid, s.sample.n = nothing, 0
	if s.built { // and so not kept in step with the rows
		s.gram, s.built = nil, false
	}
	clear(s.sum)
	s.summed = 0
	if !s.par.Method.table() {
		return
	}
	p := s.prob
	known := min(len(s.table), p.Len())
	s.table = slices.Grow(s.table[:known], p.Len()-known)[:p.Len()]
	for _, i := range slots {
		if i < known {
			s.table[i] = p.Loss.deriv(p.dot(s.snap, i), p.b[i])
		}
	}
	for i := known; i < p.Len(); i++ {
		s.table[i] = p.Loss.deriv(p.dot(s.snap, i), p.b[i])
	}
	p.gradient(s.gbar, s.table)
	s.passes++
}

// Restart makes Katyusha's momentum for merely convex problems begin anew.
func (s *Solver) Restart() {
	s.segs = 0
	copy(s.y, s.snap)
	copy(s.z, s.snap)
}

// UseGram gives the solver the matrix that its owner keeps in step with the
// rows; with nil θ is found in the first step of an epoch instead.
func (s *Solver) UseGram(g *Gram) {
	s.gram, s.built, s.par.Theta = g, false, ByGram
	if g == nil {
		s.par.Theta = AtStart
	}
}

// X returns x~, which is the solver's and changes with the next epoch.
func (s *Solver) X() []float64 { return s.snap }

// Passes returns the work so far in passes over the rows: gradients of
// summands, and margins for θ, each counted as 1/n, with the derivatives at
// the snapshot kept from the full gradient.
func (s *Solver) Passes() float64 { return s.passes }

// Halvings returns how often Guard halved the step.
func (s *Solver) Halvings() int { return s.halved }

// Step returns the step size of the last epoch.
func (s *Solver) Step() float64 { return s.eta }

// evaluate makes the snapshot's margins and value known, and the gradient if
// asked.
func (s *Solver) evaluate(gradient bool) {
	p, n := s.prob, s.prob.Len()
	if s.valid < theMargins {
		s.margins = slices.Grow(s.margins[:0], n)[:n]
		p.Margins(s.margins, s.snap)
		s.value = p.meanLoss(s.margins, 1) + p.penalty(s.snap)
		s.zero = p.AtZero()
		s.valid = theMargins
	}
	if gradient && s.valid < theGradient {
		s.d = slices.Grow(s.d[:0], n)[:n]
		for i, z := range s.margins {
			s.d[i] = p.Loss.deriv(z, p.b[i])
		}
		p.gradient(s.grad, s.d)
		s.valid = theGradient
	}
}

// Value returns F(x~).
func (s *Solver) Value() float64 {
	s.evaluate(false)
	return s.value
}

// Gap returns the norm of the smallest subgradient at x~ and a bound on
// F(x~) − min F: what strong convexity gives, or F(x~), since no loss is
// negative.
func (s *Solver) Gap() (norm, bound float64) {
	s.evaluate(true)
	norm = s.prob.subgradient(s.snap, s.grad)
	if s.prob.Ridge == 0 {
		return norm, s.value
	}
	return norm, min(float64(norm*norm)/(2*s.prob.Ridge), s.value)
}

// Epoch runs one epoch over the rows. If ctx ends first the solver is as it
// was, and the error that of ctx.
func (s *Solver) Epoch(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p, n := s.prob, s.prob.Len()
	if n == 0 {
		return nil
	}
	if s.sample.n == 0 {
		s.sample.prepare(p, s.par.Weighted)
	}
	l := float64(p.Loss.Curvature() * s.sample.most)
	if s.par.Method != Katyusha {
		l += p.Ridge
	}
	if !(l > 0) {
		l = 1 // all rows are 0
	}
	s.eta = math.Ldexp(s.par.Rate/l, -s.halved)
	s.mom = 1 - s.par.Sigma
	s.zeta = s.par.Zeta
	if s.zeta == 0 && !s.par.NoPenalty {
		s.zeta = s.par.Delta * s.eta / max(1-float64(l*s.eta), 0.1)
	}
	s.thetaMin, s.thetaMax = math.Inf(1), math.Inf(-1)
	s.rule = s.par.Theta
	if s.rule == ByGram && s.par.Decrease > 0 {
		s.useGram()
	}
	if !s.par.Method.table() {
		s.evaluate(true)
		s.passes++
	}
	var err error
	switch {
	case s.par.Method == Katyusha:
		err = s.katyushaEpoch(ctx)
	default:
		err = s.descend(ctx)
	}
	if err != nil {
		return err
	}
	s.epoch++
	s.segs++
	if len(s.sum) > 0 {
		for j, v := range s.snap {
			s.sum[j] += v
		}
		s.summed++
	}
	s.valid = nothing
	return nil
}

// useGram makes sure that there is a Gram matrix, or chooses another rule.
func (s *Solver) useGram() {
	switch {
	case s.prob.Loss.Kind != Squared || s.prob.Dim() > MaxGram:
		s.rule = AtStart
	case s.gram == nil || s.gram.Len() != s.prob.Len() || s.gram.Dim() != s.prob.Dim():
		s.gram, s.built = new(Gram), true
		s.gram.Rebuild(s.prob)
	}
}

// Guard halves the step and goes back to the point before, from the last
// epoch on, if F is not finite or exceeds both F(0) and what it was by a factor
// 10. It reports whether it did. before is x~ as it was before the epoch and
// value F there.
func (s *Solver) Guard(before []float64, value float64) bool {
	s.evaluate(false)
	if s.value <= 10*max(s.zero, value) {
		return false
	}
	s.halved++
	copy(s.snap, before)
	s.valid = nothing
	s.Restart()
	if s.par.Method.table() {
		s.table = s.table[:0]
		s.Changed()
	}
	clear(s.sum)
	s.summed = 0
	return true
}

// Output returns the point to be used, which the caller must not change: x~,
// or for a merely convex problem the mean of the snapshots since the rows last
// changed where F is smaller there (Algorithm 2, last line).
//
// With a Lasso term that point takes one prox step along the full gradient, of
// a length that cannot raise F, and makes the coordinates 0 that a mean
// of iterates leaves near 0.
func (s *Solver) Output() []float64 {
	x := s.snap
	if s.par.Variant != Strongly && s.summed > 1 {
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
		t := s.prob.Lasso / l
		if j < s.prob.first() {
			t = 0
		}
		out[j] = soft(v-(grad[j]+float64(s.prob.Ridge*v))/l, t)
	}
	return out
}

// draws are the random numbers of an epoch: a function of seed and epoch. The
// positions of decrease steps have a generator of their own, so that they do
// not shift the rows drawn.
func (s *Solver) draws(name string) *rng.Source {
	// splitmix64 of the pair keeps neighbouring epochs apart.
	z := s.par.Seed + (s.epoch+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return rng.New(z^z>>31, name)
}

// places returns the positions of the decrease steps among m, ascending.
func (s *Solver) places(m int) []int {
	if !s.par.Method.decreases() || s.par.Decrease == 0 || m == 0 {
		return nil
	}
	if s.rule == AtStart {
		return []int{0}
	}
	n := min(max(int(s.par.Decrease*float64(m)), 1), m)
	out := make([]int, 0, n)
	if n == m {
		for k := range m {
			out = append(out, k)
		}
		return out
	}
	// Floyd's algorithm: every subset of n equally likely.
	r := s.draws("vr.decrease")
	seen := make(map[int]bool, n)
	for j := m - n; j < m; j++ {
		k := r.IntN(j + 1)
		if seen[k] {
			k = j
		}
		seen[k] = true
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// inner returns the number of steps of an epoch: two at least, since the mean
// of x^_1 alone is where the epoch began.
func (s *Solver) inner() int {
	return max(int(math.Round(s.par.Inner*float64(s.prob.Len())/float64(s.par.Batch))), 2)
}
