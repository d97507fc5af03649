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
	// leastScale is the lazy scale below which it is folded into the coefficients.
	leastScale = 1e-100
)

// sgd does the paper's steps (eq. 7, algorithm 1, generalised to minibatches and
// blocks of m features):
//
//	ζ_t     = C mean_B l'(f_t(x_l), y_l) φ_t(x_l) φ_t(·) + C* mean_B u'(f_t(x_u)) φ_t(x_u) φ_t(·)
//	f_{t+1} = (1 − γ_t) f_t − γ_t ζ_t
//
// with φ_t the features of a new block. The coefficients multiply cosines, so they include
// the 2/m of φφ'. Shrinking changes only the scale. The decisions on the stored labelled
// points are updated in each step. Unlabelled points are new and need the whole sum.
type sgd struct {
	opt options

	coef  []float64 // by slot, without the factor scale
	scale float64
	b     float64   // the bias is opt.Bias·b
	t     uint64    // steps since the start or the last restart
	next  uint64    // number of blocks used so far
	f     []float64 // decisions on the labelled points, by slot of the pool

	gamma, largest float64 // γ of the last step; largest |f| on an unlabelled point so far
	dropped        float64 // bound on the change from dropping the last block
	add            []float64
	slope, unlab   []float64 // −γC times the mean of l' by slot, −γC* u'/B
	buf            []float32
}

func newSGD(o options) *sgd { return &sgd{opt: o, scale: 1} }

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
	s.iterate(l, append([]stream.Vec(nil), l.vectors(d.Unlabelled)...))
}

// iterate does one step with the unlabelled points xs.
func (s *sgd) iterate(l *Learner, xs []stream.Vec) {
	s.t++
	s.slope = append(s.slope[:0], make([]float64, l.Len())...)
	labels := s.slope
	s.drawLabels(l, labels)
	fu := make([]float64, len(xs))
	s.view(l).Decisions(fu, xs)
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
	s.addBlock(l, labels, xs, unlab)
}

// defaultRho is ρ if the option is auto.
const defaultRho = 0.1

// admit stores the decisions on new labelled examples.
func (s *sgd) admit(l *Learner, d *samplers.Draw) {
	fresh := d.Join
	if len(fresh) == 0 {
		return
	}
	f := make([]float64, len(fresh))
	s.view(l).Decisions(f, l.vectors(fresh))
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

// slopes returns u'(f)/B for each f, and updates the gauges.
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

// grow makes room for a new block, dropping the oldest one if the window is full.
func (s *sgd) grow(l *Learner) {
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
	s.each(l, block, l.vectors(l.Sample()), visit)
}

// each calls visit with the block's features of each point.
func (s *sgd) each(l *Learner, block uint64, xs []stream.Vec, visit func(at int, z []float32)) {
	m := s.opt.Block
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

// addBlock sets the coefficients of the step's block and updates the decisions on the
// labelled points.
func (s *sgd) addBlock(l *Learner, labels []float64, xs []stream.Vec, unlab []float64) {
	m := s.opt.Block
	s.add = append(s.add[:0], make([]float64, m)...)
	block := s.next - 1
	slot := int(block % uint64(len(s.coef)/m))
	s.eachLabelled(l, block, func(at int, z []float32) {
		if g := labels[at]; g != 0 {
			vec.AxpyMixed(g, z, s.add)
		}
	})
	s.each(l, block, xs, func(at int, z []float32) {
		if g := unlab[at]; g != 0 {
			vec.AxpyMixed(g, z, s.add)
		}
	})
	norm := 2 / float64(m)
	for j := range s.add {
		s.add[j] *= norm
	}
	s.apply(l, block, s.add, 1)
	vec.Axpy64(1/s.scale, s.add, s.coef[slot*m:(slot+1)*m])
}

// finish does further steps on the stored examples, unless tuning is 0 as in the paper,
// which makes one pass.
func (s *sgd) finish(l *Learner) {
	if s.opt.Tuning > 0 {
		s.settle(l, lastSteps)
	}
}

// restartSteps and lastSteps count steps after a change of gamma or c and at the end.
const restartSteps, lastSteps = 20, 150

// restart learns again from 0.
func (s *sgd) restart(l *Learner, last bool) {
	s.coef, s.next = s.coef[:0], 0
	s.scale, s.b, s.t = 1, 0, 0
	clear(s.f)
	if !last { // otherwise finish will
		s.settle(l, restartSteps)
	}
}

// settle does n steps on the stored labels and recent unlabelled examples.
func (s *sgd) settle(l *Learner, n int) {
	l.rerun(n, nil, func(xs []stream.Vec, _ []float32) { s.iterate(l, xs) })
}

func (s *sgd) view(l *Learner) *rffmodel.Model {
	if len(s.coef) == 0 {
		return &rffmodel.Model{}
	}
	return &rffmodel.Model{
		Feats: l.feats, Dim: l.dim, Fresh: true, Next: s.next,
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
	if w > 0 && s.opt.Schedule != "decay" {
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
	if !f.Decoding() || f.Err() != nil {
		return
	}
	m, w := s.opt.Block, s.window()
	switch n := len(s.coef); {
	case n%m != 0, w > 0 && n > w*m, s.next < uint64(n/m), (w == 0 || n < w*m) && s.next != uint64(n/m):
		f.Fail("coef", fmt.Errorf("%d coefficients in blocks of %d after %d", n, m, s.next))
	case len(s.f) != l.Len():
		f.Fail("f", fmt.Errorf("%d decisions for %d labels", len(s.f), l.Len()))
	case !(s.scale > 0):
		f.Fail("scale", fmt.Errorf("%g", s.scale))
	}
}
