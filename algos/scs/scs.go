package scs

import (
	"context"
	"log/slog"
	"math"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/ovr"
	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/internal/hinge"
	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/weight"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// Spec registers the learner.
var Spec = algos.Define(algos.SpecInfo{
	Name:    "scs",
	Summary: "kernel SVM on a growing sample: stochastic conjugate subgradients, then block dual ascent with a duality gap",
	When:    "classification where a linear model is not enough; the model is a kernel expansion",
	Paper:   "Zhang, Sen: A stochastic conjugate subgradient algorithm for kernel support vector machines, Algorithm 1",
	Kind:    algos.Kernel,
	Classes: true,
	Presets: presets,
	Gone:    gone,
}, check, newLearner, func(data []byte) (algos.Model, error) { return ovr.DecodeModel(data, expansion.Decode) })

// Learner runs SCS; see the package documentation. It is not safe for concurrent use.
//
// It has one classifier for two classes or, as part of classes, one classifier for each
// class against the rest. They share the sample, its packed points, and the kernel
// values over the whole sample.
type Learner struct {
	*samplers.Growing // S_k and T_k, by sequence number: the points are in the classifiers
	opt               options
	log               *slog.Logger

	classifiers []*classifier
	sign        func(x *stream.Example, k int) float64 // label of x for classifier k, ±1
	growth      growthController                       // whether the sample grows
}

var _ algos.Learner = (*Learner)(nil)

// classifier separates two classes, or one class from the rest.
type classifier struct {
	opt options

	p *hinge.Problem // sample, coefficients and direction; nil before S_0 has arrived

	k      uint64  // iterations
	delta  float64 // radius
	fresh  bool    // the next direction is the negative subgradient
	norm   float64 // ‖d‖ of the last direction
	step   float64 // ‖t d‖ of the last step
	moved  bool    // the candidate differs from the incumbent
	counts counters

	model *expansion.Expansion // in use; nil without the guard once the coefficients have changed
	cert  certificate          // certificate of the model in use

	evals int64 // kernel values computed for problems already discarded

	// Scratch.
	breaks []hinge.Break
	near   []int32
	rest   []int32
	listed []bool
	came   int // number of points at the end of the sample that have replaced others and not been optimised yet
	dual   hinge.Dual
	ascent *ascent // in progress
}

// stride thins out arrivals once the sample has stopped growing: one in stride
// joins, so the sample spans the last stride·|S| arrivals.
const stride = 16

func newLearner(env algos.Env, o options) (algos.Learner, error) {
	switch {
	case env.Classes <= 2:
		return newBinary(env, o)
	case o.guarded():
		return newClasses(env, o)
	}
	k := env.Classes // each classifier has its own sample
	env.Classes = 0
	return ovr.New(k, func() (algos.Learner, error) { return newBinary(env, o) })
}

func newBinary(env algos.Env, o options) (*Learner, error) {
	l := &Learner{opt: o, log: env.Log, growth: newGrowthController(), sign: func(x *stream.Example, _ int) float64 { return x.Y }}
	l.append()
	var err error
	l.Growing, err = samplers.NewGrowing(samplers.Options{Seed: env.Seed}, o.growing())
	return l, err
}

// append adds a classifier.
func (l *Learner) append() {
	o := l.opt
	o.CacheMB /= len(l.classifiers) + 1 // all together stay within about the bound for one
	c := &classifier{opt: o, delta: 1, fresh: true, norm: math.NaN(), step: math.NaN()}
	if !o.guarded() {
		c.delta = firstRadius
	}
	l.classifiers = append(l.classifiers, c)
}

// growing returns the growth rule of the sample.
func (o *options) growing() samplers.Growth {
	g := samplers.Growth{
		Rule: "fixed", Initial: o.Initial, Max: o.MaxSample, Step: fixedGrowth, TMax: o.TMax, Full: o.Full, Stride: stride,
	}
	if o.guarded() {
		g.Rule, g.Factor, g.Recycle, g.Reserve, g.ReserveLeast = "geometric", 2, true, 16, testLeast
	}
	return g
}

// begun reports whether S_0 has arrived.
func (l *Learner) begun() bool { return l.classifiers[0].p != nil }

// size returns |S|, or |S|+|T| while T is being tested.
func (l *Learner) size() int {
	if !l.begun() {
		return 0
	}
	return l.classifiers[0].p.Len()
}

// problems returns the optimisation problems of the classifiers.
func (l *Learner) problems() []*hinge.Problem {
	ps := make([]*hinge.Problem, len(l.classifiers))
	for k, c := range l.classifiers {
		ps[k] = c.p
	}
	return ps
}

// each calls f for the classifiers, in parallel.
func (l *Learner) each(f func(k int, c *classifier)) {
	_ = ovr.Each(len(l.classifiers), func(k int) error {
		f(k, l.classifiers[k])
		return nil
	})
}

// Step is one iteration of the loop of Algorithm 1, starting at the draws. It then
// optimises on the sample with the new draws, where the next iteration begins. With
// the guard, the model in use changes only if the new model has a small enough duality
// gap and the reserved draws do not show it to be worse. If the gap is too large, the
// sample waits.
func (l *Learner) Step(context.Context) (algos.Report, error) {
	l.step()
	return l.Report(), nil
}

func (l *Learner) step() {
	l.retain()
	d := l.Take()        // lines 9 and 12: s_k, T_k
	l.grow(d.Join)       // lines 10 and 11: S_k, f_k
	l.test(d.Test)       // lines 13 to 16: α_k or α_{k−1}, and δ_k
	l.admit(d.Test)      // T_k is recycled
	l.optimise(false)    // lines 5 to 8: d_k, t_k, α_k
	l.serve(l.Pending()) // the reserved draws test the new model
	l.plan()
}

// Finish takes the pending draws into the sample and completes the optimisation.
func (l *Learner) Finish(context.Context) (algos.Report, error) {
	l.finish()
	return l.Report(), nil
}

func (l *Learner) finish() {
	if !l.guarded() {
		return // pending examples stay pending
	}
	l.retain()
	// Nothing is tested any more: there is no later step for which growth would have
	// to pay.
	for d := l.Drain(); len(d.Join)+len(d.Test) > 0; d = l.Drain() {
		l.grow(d.Join)
		if len(d.Test) > 0 {
			l.extend(d.Test)
			l.mark()
			l.admit(d.Test)
		}
	}
	if !l.begun() {
		return
	}
	l.optimise(true)
	l.serve(nil)
	l.plan()
}

// plan records the radius and a bound on |f(z)|: for K(z,z) ≤ 1 the norm of an iterate
// near the optimum is at most 1/√λ.
func (l *Learner) plan() {
	c := l.classifiers[0]
	l.Plan(c.delta, 1/math.Sqrt(c.p.Lambda))
}

// grow adds new points to the sample.
func (l *Learner) grow(draws []*stream.Example) {
	if len(draws) == 0 {
		return
	}
	if !l.begun() {
		l.share(l.opt.basis(samplers.Vecs(draws)))
	}
	l.extend(draws)
	l.rescale()
}

// share makes all classifiers use the point set b.
func (l *Learner) share(b *kernel.Basis) {
	for _, c := range l.classifiers {
		c.p = hinge.New(b, c.opt.CacheMB<<20)
	}
}

// basis returns an empty point set for examples like xs.
func (o *options) basis(xs []stream.Vec) *kernel.Basis {
	f := o.Func(o.Bias, xs)
	if kernel.SparsePays(xs) {
		return kernel.NewSparse(f)
	}
	return kernel.New(f)
}

// rescale sets λ from the size of the sample. Without the guard, iterations run on the
// whole sample and also need the active set.
func (l *Learner) rescale() {
	for _, c := range l.classifiers {
		c.p.Lambda = l.opt.lambda(c.p.Mass())
		if !l.guarded() {
			c.p.Refresh()
		}
	}
}

// extend appends draws to the points. λ stays the one that the coefficients were
// optimised for.
func (l *Learner) extend(draws []*stream.Example) {
	for _, x := range draws {
		l.classifiers[0].p.Basis.Append(x.X)
	}
	w := make([][]float64, len(l.classifiers))
	for k := range w {
		w[k] = make([]float64, len(draws))
		for i, x := range draws {
			w[k][i] = l.sign(x, k)
		}
	}
	hinge.ExtendAll(l.problems(), w, weight.Of(draws))
}

func (l *Learner) mark() {
	for _, c := range l.classifiers {
		c.p.Mark()
	}
}

// lambda returns λ for a sample of total weight m.
func (o *options) lambda(m float64) float64 {
	if math.IsNaN(o.Lambda) {
		return 1 / (o.C * m)
	}
	return o.Lambda
}

// Model returns the expansion in use.
func (l *Learner) Model() algos.Model { return l.classifiers[0].Model() }

// Model returns the expansion in use.
func (c *classifier) Model() *expansion.Expansion {
	if c.model == nil {
		switch {
		case c.p == nil || c.guarded() && !c.cert.given:
			c.model = expansion.New(kernel.New(kernel.Func{}), nil, 0)
		case !c.guarded():
			c.model = expansion.New(c.p.Basis, c.p.Alpha0, 0)
		case c.cert.reduced: // as when it was put into use: no search was skipped then
			c.model = c.reduce()
		default:
			c.model = expansion.New(c.p.Basis, c.p.Alpha, 0)
		}
	}
	return c.model
}

// Report describes the present state.
func (l *Learner) Report() algos.Report {
	c, r := l.classifiers[0], algos.NewReport()
	r.Step, r.GradNorm, r.StepSize, r.KernelEvals = c.k, c.norm, c.step, 0
	if p := c.p; p != nil {
		r.Objective = p.Objective()
		switch gap, ok := p.Gap(); {
		case c.cert.given:
			r.Certificate = c.cert.gap
		case c.guarded():
		case ok:
			r.Certificate = gap
		default:
			r.Certificate = p.Certificate()
		}
		r.Sample = p.Len()
		r.KernelEvals = p.Rows.Evals + c.evals
		r.Gauges = l.gauges()
	}
	return r
}
