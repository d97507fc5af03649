package tsgs3vm

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/rffmodel"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

const (
	// windowTol is the remaining weight of a block at which the automatic window
	// drops it.
	windowTol = 1e-6
	// leastScale is the lazy scale at which it is folded into the coefficients.
	leastScale = 1e-100
)

// sgd does the paper's steps (eq. 7, algorithm 1, generalised to minibatches and
// blocks of m features):
//
//	ζ_t     = C mean_B l'(f_t(x_l), y_l) φ_t(x_l) φ_t(·) + C* mean_B u'(f_t(x_u)) φ_t(x_u) φ_t(·)
//	f_{t+1} = (1 − γ_t) f_t − γ_t ζ_t
//
// with φ_t the features of a new block, or all features. The coefficients are those of cosines, so they include the 2/m of φφ';
// shrinking multiplies only the scale. The decisions on the labelled points held
// are updated with each step; unlabelled ones are new and take the whole sum.
//
// With C = c n the steps are longer than the margin for as long as labels come, so
// that after thousands of them the last iterate is hardly better than chance. With
// fixed features, where it costs one vector, the model between steps is a mean of
// the iterates. The paper's version, with fresh features, uses the last iterate; so
// does the model after Finish, which lets the steps shrink.
type sgd struct {
	opt options

	coef  []float64 // by slot, without the factor scale
	scale float64
	b     float64   // the bias is opt.Bias·b
	t     uint64    // steps since the start or the last restart
	next  uint64    // number of blocks used so far
	f     []float64 // decisions on the labelled points, by slot of the pool

	gamma, largest float64  // of the last step
	dropped        float64  // bound on the change from dropping a block
	mean           iterates // the model, if there are any; otherwise the last one is
	add            []float64
	slope, unlab   []float64 // −γC times the mean of l' by slot, −γC* u'/B
	buf            []float32
	known          []float32 // all features of the labelled points, while they are kept
}

func newSGD(o options) *sgd {
	s := &sgd{opt: o, scale: 1}
	if o.Draw != "fresh" {
		s.coef = make([]float64, o.Features)
	}
	return s
}

// window returns the number of fresh blocks kept, or 0 for all.
func (s *sgd) window() int {
	if s.opt.Window > 0 || s.opt.Schedule == "decay" {
		return s.opt.Window
	}
	// ⌈ln tol / ln(1−γ)⌉, in portable arithmetic.
	keep, w := 1-s.rate(1), 0
	for left := 1.0; left > windowTol && w < 1<<20; w++ {
		left *= keep
	}
	return max(w, 1)
}

// rate returns γ_t, t = 1, 2, ….
func (s *sgd) rate(t uint64) float64 {
	g := s.opt.Step
	if s.opt.Schedule == "decay" {
		g /= float64(t)
	}
	return min(g, 1)
}

func (s *sgd) prepare(*Learner) {}

func (s *sgd) labels() int { return len(s.f) }

func (s *sgd) step(l *Learner, d *samplers.Draw) {
	s.admit(l, d)
	s.iterate(l, append([]stream.Vec(nil), l.vectors(d.Unlabelled)...), nil)
	if s.averages() && l.Len() > sweepLimit {
		s.mean.add(s.coef, s.scale, s.b)
	}
}

// averages reports whether the model between steps is a mean.
func (s *sgd) averages() bool { return s.opt.Tuning > 0 && s.opt.Draw == "fixed" }

// forget makes the last iterate the model.
func (s *sgd) forget() { s.mean = iterates{} }

// iterate does one step with the unlabelled points xs. z has their features, or is
// nil.
func (s *sgd) iterate(l *Learner, xs []stream.Vec, z []float32) {
	s.t++
	s.slope = append(s.slope[:0], make([]float64, l.Len())...)
	labels := s.slope
	s.drawLabels(l, labels)
	fu := make([]float64, len(xs))
	if z == nil {
		s.iterateView(l).Decisions(fu, xs)
	} else {
		s.decide(fu, z)
	}
	s.unlab = s.slopes(l, fu)
	unlab := s.unlab

	s.gamma = s.rate(s.t)
	_, c, cstar := l.weights(s.opt.Rho)
	if math.IsNaN(s.opt.Rho) && !s.opt.Ratio {
		_, c, cstar = l.weights(defaultRho)
	}
	db := 0.0
	for i := range labels {
		labels[i] = -s.gamma * c * labels[i]
		db += labels[i]
	}
	for i := range unlab {
		unlab[i] = -s.gamma * cstar * unlab[i]
		db += unlab[i]
	}
	s.shrink(1 - s.gamma)
	for i := range s.f {
		s.f[i] *= 1 - s.gamma
	}
	s.b = float64((1-s.gamma)*s.b) + db
	for i := range s.f {
		s.f[i] += float64(s.opt.Bias * db)
	}
	s.grow(l)
	for _, slot := range s.slots() {
		s.addBlock(l, slot, labels, xs, z, unlab)
	}
}

// defaultRho is ρ for a solver without arms to choose from.
const defaultRho = 0.1

// admit adds new labels, with their decisions.
func (s *sgd) admit(l *Learner, d *samplers.Draw) {
	fresh := d.Join
	if len(fresh) == 0 {
		return
	}
	f := make([]float64, len(fresh))
	s.iterateView(l).Decisions(f, l.vectors(fresh))
	loss := 0.0
	for i, x := range fresh {
		loss += hinge(f[i], x.Y)
		switch slot := d.Slots[i]; {
		case slot < 0:
		case slot == len(s.f):
			s.f = append(s.f, f[i])
		default:
			s.f[slot] = f[i]
		}
	}
	l.hinge = loss / float64(len(fresh))
}

// drawLabels sets dst[slot] to the slot's part of the weighted mean of l' over the
// labelled minibatch.
func (s *sgd) drawLabels(l *Learner, dst []float64) {
	n := l.Len()
	slope := func(i int) float64 {
		x := l.Sample()[i]
		return x.Importance() * hingeSlope(s.f[i], x.Y)
	}
	if n <= s.opt.BatchL {
		for i := range dst {
			dst[i] = slope(i) / float64(n)
		}
		return
	}
	for range s.opt.BatchL {
		i := l.rng.IntN(n)
		dst[i] += slope(i) / float64(s.opt.BatchL)
	}
}

// slopes returns u'(f)/B.
func (s *sgd) slopes(l *Learner, f []float64) []float64 {
	out := make([]float64, len(f))
	if len(f) == 0 {
		return out
	}
	inside, positive, loss := 0, 0, 0.0
	for i, v := range f {
		out[i] = symmetricSlope(v) / float64(len(f))
		loss += symmetric(v)
		s.largest = max(s.largest, math.Abs(v))
		if math.Abs(v) < 1 {
			inside++
		}
		if v >= 0 {
			positive++
		}
	}
	n := float64(len(f))
	l.uLoss, l.inside, l.share = loss/n, float64(inside)/n, float64(positive)/n
	return out
}

// shrink multiplies the coefficients by keep.
func (s *sgd) shrink(keep float64) {
	if keep == 0 {
		clear(s.coef)
		s.scale = 1
		return
	}
	s.scale *= keep
	if s.scale < leastScale {
		for j := range s.coef {
			s.coef[j] *= s.scale
		}
		s.scale = 1
	}
}

// grow makes room for a new block, dropping the one that leaves the window.
func (s *sgd) grow(l *Learner) {
	if s.opt.Draw != "fresh" {
		s.next++
		return
	}
	m, w := s.opt.Block, s.window()
	if w == 0 || len(s.coef) < w*m {
		s.coef = append(s.coef, make([]float64, m)...)
		s.next++
		return
	}
	slot := int(s.next % uint64(w))
	old := s.coef[slot*m : (slot+1)*m]
	s.apply(l, s.next-uint64(w), old, -s.scale)
	sum := 0.0
	for j, v := range old {
		sum += math.Abs(v)
		old[j] = 0
	}
	s.dropped = sum * s.scale
	l.feats.Release(s.next - uint64(w))
	s.next++
}

// apply adds t·⟨coef, cos⟩ of a block to the decisions on the labelled points.
func (s *sgd) apply(l *Learner, block uint64, coef []float64, t float64) {
	m := s.opt.Block
	s.eachLabelled(l, block, func(at int, z []float32) {
		s.f[at] += float64(t * vec.DotMixed(z[:m], coef))
	})
}

// eachLabelled calls visit with the block's features of each labelled point.
func (s *sgd) eachLabelled(l *Learner, block uint64, visit func(at int, z []float32)) {
	s.each(l, block, l.vectors(l.Sample()), s.known, visit)
}

// each calls visit with the block's features of each point, taken from known if
// that is not nil.
func (s *sgd) each(l *Learner, block uint64, xs []stream.Vec, known []float32, visit func(at int, z []float32)) {
	m := s.opt.Block
	if len(known) > 0 {
		for at := range xs {
			visit(at, known[at*s.opt.Features+int(block)*m:][:m])
		}
		return
	}
	if len(s.buf) < rffmodel.Rows*m {
		s.buf = make([]float32, rffmodel.Rows*m)
	}
	for from := 0; from < len(xs); from += rffmodel.Rows {
		part := xs[from:min(len(xs), from+rffmodel.Rows)]
		l.points.Pack(part)
		l.feats.Map(s.buf, m, &l.points, block)
		for r := range part {
			visit(from+r, s.buf[r*m:(r+1)*m])
		}
	}
}

// slots returns the slots that the step just begun changes.
func (s *sgd) slots() []int {
	slots := len(s.coef) / s.opt.Block
	if s.opt.Draw != "fixed" {
		return []int{int((s.next - 1) % uint64(slots))}
	}
	all := make([]int, slots)
	for i := range all {
		all[i] = i
	}
	return all
}

// addBlock adds the step's coefficients to a slot and updates the decisions on the
// labelled points.
func (s *sgd) addBlock(l *Learner, slot int, labels []float64, xs []stream.Vec, zu []float32, unlab []float64) {
	m := s.opt.Block
	s.add = append(s.add[:0], make([]float64, m)...)
	block := uint64(slot)
	if s.opt.Draw == "fresh" {
		block = s.next - 1
	}
	s.eachLabelled(l, block, func(at int, z []float32) {
		if g := labels[at]; g != 0 {
			vec.AxpyMixed(g, z, s.add)
		}
	})
	s.each(l, block, xs, zu, func(at int, z []float32) {
		if g := unlab[at]; g != 0 {
			vec.AxpyMixed(g, z, s.add)
		}
	})
	norm := 2 / float64(m)
	if s.opt.Draw == "fixed" {
		norm = 2 / float64(s.opt.Features)
	}
	for j := range s.add {
		s.add[j] *= norm
	}
	s.apply(l, block, s.add, 1)
	vec.Axpy64(1/s.scale, s.add, s.coef[slot*m:(slot+1)*m])
}

// finish does further steps on what is held, unless the options are the paper's,
// which makes one pass.
func (s *sgd) finish(l *Learner) {
	s.forget()
	if s.opt.Tuning > 0 {
		s.settle(l, lastSteps)
		if s.opt.Draw == "fixed" {
			s.converge(l)
		}
	}
}

const (
	// restartSteps follow a change of gamma or c, lastSteps end a stream.
	restartSteps, lastSteps = 20, 150
	// With fixed features, settleSteps follow at a time, at most mostSteps, until
	// |f|² changes by less than settleTol. With the weights that 200 labels need,
	// it is at first a hundred times too large, and falls as 1/t².
	settleSteps, mostSteps, settleTol = 250, 8000, 0.02
)

// converge does steps until the norm of f hardly changes.
func (s *sgd) converge(l *Learner) {
	before := s.squared()
	for n := 0; n < mostSteps; n += settleSteps {
		s.settle(l, settleSteps)
		now := s.squared()
		if math.Abs(now-before) <= settleTol*before {
			return
		}
		before = now
	}
}

// squared returns |f|² up to a constant factor.
func (s *sgd) squared() float64 {
	return float64(vec.Dot64(s.coef, s.coef)*s.scale) * s.scale
}

// restart learns again from 0.
func (s *sgd) restart(l *Learner, last bool) {
	clear(s.coef)
	if s.opt.Draw == "fresh" {
		s.coef, s.next = s.coef[:0], 0
	}
	s.scale, s.b, s.t = 1, 0, 0
	s.forget()
	clear(s.f)
	if !last { // otherwise finish is about to do so
		s.settle(l, restartSteps)
	}
}

// settle does n steps on the labels and the recent unlabelled examples held.
func (s *sgd) settle(l *Learner, n int) {
	size := s.opt.Features
	var z []float32
	if s.opt.Draw == "fixed" && (len(l.Recent())+l.Len())*size <= replayFloats {
		z = mapped(l.feats, size, l.Recent())
		s.known = mapped(l.feats, size, l.Sample())
		defer func() { s.known = nil }()
	}
	l.rerun(n, z, func(xs []stream.Vec, z []float32) { s.iterate(l, xs, z) })
}

// decide sets dst[i] to the decision on the point with features z[i], summed in the
// same order as in a Model.
func (s *sgd) decide(dst []float64, z []float32) {
	size, m := s.opt.Features, s.opt.Block
	for i := range dst {
		f := 0.0
		for b := 0; b < size; b += m {
			f += vec.DotMixed(z[i*size+b:i*size+b+m], s.coef[b:b+m])
		}
		dst[i] = float64(s.scale*f) + float64(s.opt.Bias*s.b)
	}
}

func (s *sgd) view(l *Learner) *rffmodel.Model {
	m := s.iterateView(l)
	if s.mean.n > 0 {
		m.Coef, m.Scale, m.Offset = s.mean.w, 1, float64(s.opt.Bias*s.mean.b)
	}
	return m
}

// iterateView returns the last iterate.
func (s *sgd) iterateView(l *Learner) *rffmodel.Model {
	if len(s.coef) == 0 {
		return &rffmodel.Model{}
	}
	return &rffmodel.Model{
		Feats: l.feats, Dim: l.dim, Fresh: s.opt.Draw == "fresh", Next: s.next,
		Coef: s.coef, Scale: s.scale, Offset: float64(s.opt.Bias * s.b), Rho: s.opt.Rho,
	}
}

// bound returns P-2's bound on |f|: 2(C + C*).
func (s *sgd) bound(l *Learner) float64 {
	_, c, cstar := l.weights(s.opt.Rho)
	return 2 * (c + cstar)
}

func (s *sgd) gauges(l *Learner) []stream.Measure {
	w := s.window()
	truncation := 0.0
	if s.opt.Draw == "fresh" && w > 0 && s.opt.Schedule != "decay" {
		truncation = s.bound(l)
		for range w {
			truncation *= 1 - s.rate(1)
		}
	}
	return []stream.Measure{
		{Name: "blocks", Value: float64(len(s.coef) / s.opt.Block)},
		{Name: "step_gamma", Value: s.gamma},
		{Name: "scale", Value: s.scale},
		{Name: "largest_decision", Value: s.largest},
		{Name: "decision_bound", Value: s.bound(l)},
		{Name: "truncation_bound", Value: truncation},
		{Name: "dropped", Value: s.dropped},
		{Name: "coefficient_bytes", Value: float64(8 * len(s.coef))},
	}
}

func (s *sgd) fields(l *Learner, f *state.Fields) {
	f.Float64s("coef", &s.coef)
	f.Float64("scale", &s.scale)
	f.Float64("b", &s.b)
	f.Uint64("t", &s.t)
	f.Uint64("next", &s.next)
	f.Float64s("f", &s.f)
	f.Float64("gamma", &s.gamma)
	f.Float64("largest", &s.largest)
	f.Float64("dropped", &s.dropped)
	if s.averages() {
		s.mean.fields(f, s.opt.Features)
	}
	if !f.Decoding() || f.Err() != nil {
		return
	}
	m, w := s.opt.Block, s.window()
	switch n := len(s.coef); {
	case s.opt.Draw != "fresh" && n != s.opt.Features,
		s.opt.Draw == "fresh" && (n%m != 0 || w > 0 && n > w*m || s.next < uint64(n/m) || w == 0 && s.next != uint64(n/m) || w > 0 && n < w*m && s.next != uint64(n/m)):
		f.Fail("coef", fmt.Errorf("%d coefficients in blocks of %d after %d", n, m, s.next))
	case len(s.f) != l.Len():
		f.Fail("f", fmt.Errorf("%d decisions for %d labels", len(s.f), l.Len()))
	case !(s.scale > 0):
		f.Fail("scale", fmt.Errorf("%g", s.scale))
	}
}
