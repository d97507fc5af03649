package scs

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/hinge"
	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/kernel/rows"
	"github.com/streamsvm/streamsvm/internal/rest"
	"github.com/streamsvm/streamsvm/internal/weight"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// classes is the learner for more than two classes: one one-vs-rest classifier per
// class. They share the sample, its packed points, and the kernel values computed
// over the whole sample; each has its own coefficients, duality gap and served
// model. The growth controller looks at the errors of the predicted class, and the
// sample waits until every classifier is within its gap.
type classes struct {
	*samplers.Growing
	opt    options
	env    algos.Env
	ovr    []*Learner
	basis  *kernel.Basis // nil before S_0 has arrived
	rows   *rows.Cache   // over basis
	growth growthController
}

var _ algos.ClassAdder = (*classes)(nil)

func newClasses(env algos.Env, o options) (algos.Learner, error) {
	k := env.Classes
	env.Classes = 0
	if !o.guarded() { // nothing can be shared when each classifier chooses its own sample
		return rest.New(k, func() (algos.Learner, error) { return newBinary(env, o) })
	}
	l := &classes{opt: o, env: env, growth: newGrowthController()}
	for range k {
		l.append()
	}
	var err error
	l.Growing, err = samplers.NewGrowing(samplers.Options{Seed: env.Seed, Classes: true}, o.growing())
	return l, err
}

// append adds the classifier of one more class. Its log is discarded, since K
// classifiers would report the same sample K times.
func (l *classes) append() {
	env := l.env
	env.Log = slog.New(slog.DiscardHandler)
	o := l.opt
	// All classifiers together stay within about the bound for one.
	o.CacheMB = max(1, o.CacheMB/(len(l.ovr)+1))
	l.ovr = append(l.ovr, newClassifier(env, o))
}

// lead returns the first classifier, lent the shared buffer and the log, for the
// methods of the growth controller: they need a Learner, and sample sizes are the
// same for all classifiers.
func (l *classes) lead() *Learner {
	h := l.ovr[0]
	h.Growing, h.log = l.Growing, l.env.Log
	return h
}

// AddClass implements algos.ClassAdder. Every example already in the sample is a
// negative one for the new class.
func (l *classes) AddClass(context.Context) error {
	l.append()
	if l.basis != nil {
		l.ovr[len(l.ovr)-1].p = l.ovr[0].p.Another()
	}
	return nil
}

// Add implements algos.Learner.
func (l *classes) Add(x *stream.Example) (algos.Fate, error) {
	if x.Labelled && int(x.Y) >= len(l.ovr) {
		return algos.SampledOut, &stream.FieldError{Stage: stream.StageLabel, Reason: stream.ReasonLabel, Field: "y", Err: fmt.Errorf("label %g is not the number of a class, 0 to %d", x.Y, len(l.ovr)-1)}
	}
	return l.Growing.Add(x)
}

// problems returns the optimisation problem of each classifier.
func (l *classes) problems() []*hinge.Problem {
	ps := make([]*hinge.Problem, len(l.ovr))
	for k, h := range l.ovr {
		ps[k] = h.p
	}
	return ps
}

// len returns the size of the sample.
func (l *classes) len() int {
	if l.basis == nil {
		return 0
	}
	return l.ovr[0].p.Len()
}

// each calls f for every classifier, several at a time.
func (l *classes) each(f func(k int, h *Learner)) {
	_ = rest.Each(len(l.ovr), func(k int) error {
		f(k, l.ovr[k])
		return nil
	})
}

// Step does the same as Learner.Step, for all classifiers.
func (l *classes) Step(context.Context) (algos.Report, error) {
	l.retain()
	d := l.Take()
	l.grow(d.Join)
	l.test(d.Test)
	l.admit(d.Test)
	l.optimise(false)
	l.serve(l.Pending())
	l.plan()
	return l.Report(), nil
}

// Finish does the same as Learner.Finish, for all classifiers.
func (l *classes) Finish(context.Context) (algos.Report, error) {
	if l.opt.Final == 0 {
		return l.Report(), nil
	}
	l.retain()
	for d := l.Drain(); len(d.Join)+len(d.Test) > 0; d = l.Drain() {
		l.grow(d.Join)
		if len(d.Test) > 0 {
			l.extend(d.Test)
			l.mark()
			l.admit(d.Test)
		}
	}
	if l.basis == nil {
		return l.Report(), nil
	}
	l.optimise(true)
	l.serve(nil)
	l.plan()
	return l.Report(), nil
}

func (l *classes) retain() { l.each(func(_ int, h *Learner) { h.retain() }) }

func (l *classes) plan() { l.Plan(l.opt.Delta0, 1/math.Sqrt(l.ovr[0].p.Lambda)) }

func (l *classes) mark() {
	for _, h := range l.ovr {
		h.p.Mark()
	}
}

// grow adds new points to the sample.
func (l *classes) grow(draws []*stream.Example) {
	if len(draws) == 0 {
		return
	}
	if l.basis == nil {
		l.share(l.opt.basis(samplers.Vecs(draws)))
	}
	l.extend(draws)
	l.scale()
}

// share gives all classifiers the point set b.
func (l *classes) share(b *kernel.Basis) {
	l.basis = b
	l.rows = rows.New(b, 0)
	for _, h := range l.ovr {
		h.p = hinge.New(b, 0)
	}
}

// extend appends draws to the packed points.
func (l *classes) extend(draws []*stream.Example) {
	w := make([][]float64, len(l.ovr))
	for _, x := range draws {
		l.basis.Append(x.X)
	}
	for k := range w {
		w[k] = signs(draws, k)
	}
	hinge.ExtendAll(l.problems(), w, weight.Of(draws), l.rows)
}

// signs returns the labels of draws for classifier k: +1 for its class, −1 for the
// rest.
func signs(draws []*stream.Example, k int) []float64 {
	w := make([]float64, len(draws))
	for i, x := range draws {
		if w[i] = -1; int(x.Y) == k {
			w[i] = 1
		}
	}
	return w
}

// scale sets lambda to its value for the present sample size.
func (l *classes) scale() {
	for _, h := range l.ovr {
		h.p.Lambda = h.lambda()
	}
}

// test appends T_k to the sample and lets the growth controller decide whether
// growth pays. Errors are those of the predicted class, since that is what users
// see.
func (l *classes) test(draws []*stream.Example) {
	if len(draws) == 0 {
		return
	}
	m := l.len()
	l.extend(draws)
	var n, wrong, fixed, broken, sumSq float64
	before, after := make([]float64, len(l.ovr)), make([]float64, len(l.ovr))
	for i, x := range draws {
		for k, h := range l.ovr {
			before[k], after[k] = h.p.S0[m+i], h.p.S[m+i]
		}
		// Growth pays if it fixes predictions of the class, whatever the
		// classifiers' own errors do.
		was, is := algos.Largest(before) == int(x.Y), algos.Largest(after) == int(x.Y)
		v := x.Importance()
		n += v
		if !is {
			wrong += v
		}
		switch {
		case is && !was:
			fixed += v
			sumSq += float64(v * v)
		case was && !is:
			broken += v
			sumSq += float64(v * v)
		}
	}
	if l.growth.updateWith(l.lead(), m, n, wrong, fixed, broken, sumSq) {
		l.mark()
	}
}

// admit keeps those of the tested draws that join the sample.
func (l *classes) admit(draws []*stream.Example) {
	if len(draws) == 0 {
		return
	}
	m := l.len() - len(draws)
	l.plan()
	n, gone := l.Admit()
	hinge.TruncateAll(l.problems(), m+n, l.rows)
	if len(gone) > 0 {
		l.evict(m, gone)
		for _, h := range l.ovr {
			h.came = n
		}
	}
	l.scale()
}

// evict does the same as Learner.evict. A point matters if it matters to any
// classifier.
func (l *classes) evict(m int, out []int) {
	wrong, support := 0, 0
	matters := make([]bool, m)
	for i := range matters {
		bad, sv := false, false
		for _, h := range l.ovr {
			if h.p.Alpha[i] != 0 {
				sv = true
				bad = bad || h.p.W[i]*h.p.S[i] <= 0
			}
			matters[i] = matters[i] || h.p.Alpha[i] != 0 || h.p.Active[i]
		}
		if sv {
			support++
		}
		if bad {
			wrong++
		}
	}
	// As in Learner.evict; a point is noise if any classifier that uses it has it
	// on the wrong side.
	all := l.opt.Full == "window" || l.Holds() || 5*wrong > support
	if !all {
		n := len(out)
		out = out[:0]
		for _, pass := range [2]bool{false, true} {
			for i := range m { // points are ordered by age
				if len(out) < n && matters[i] == pass {
					out = append(out, i)
				}
			}
		}
		slices.Sort(out)
	}
	for _, h := range l.ovr {
		clear(h.p.D)
		h.transfer(m, out)
	}
	l.remove(out)
}

// remove drops the points in out, which are in ascending order, from the sample.
func (l *classes) remove(out []int) {
	l.each(func(_ int, h *Learner) {
		h.forget(out)
		h.p.Mark()
	})
	l.Leave(out)
	keep := make([]int32, 0, l.len())
	for i := range int32(l.len()) {
		if len(out) > 0 && out[0] == int(i) {
			out = out[1:]
			continue
		}
		keep = append(keep, i)
	}
	hinge.KeepAll(l.problems(), keep, l.rows)
	l.basis = l.ovr[0].p.Basis
}

// shrink does the same as Learner.shrink, when any classifier is over the budget.
func (l *classes) shrink() bool {
	support, m := 0, l.len()
	for _, h := range l.ovr {
		support = max(support, h.support())
	}
	if l.opt.Budget == 0 || support <= l.opt.Budget || m < 2 {
		return false
	}
	n := min(m-1, (support-l.opt.Budget)*m/support+m/20+1)
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	for _, h := range l.ovr {
		clear(h.p.D)
	}
	l.remove(out)
	l.scale()
	l.growth.hold(l.lead(), l.len(), "budget")
	return true
}

// optimise improves all classifiers on the present sample.
func (l *classes) optimise(final bool) {
	n := l.opt.Iterations
	if final {
		n = l.opt.Final
	}
	if l.len() > warm {
		n = 0
	}
	l.ascend(n, final)
	for l.shrink() {
		l.ascend(0, final)
	}
}

// ascend does the same as Learner.ascend. Each classifier works on the points near
// its own margin; then the scores of the other points are updated for all
// classifiers in one pass, so that each kernel value is computed once.
func (l *classes) ascend(n int, final bool) {
	at := make([]*ascent, len(l.ovr))
	l.each(func(k int, h *Learner) { at[k] = h.newAscent(n, final) })
	for {
		l.each(func(k int, h *Learner) {
			if at[k] != nil {
				at[k].round(h)
			}
		})
		var ps []*hinge.Problem
		var rests [][]int32
		for k, h := range l.ovr {
			if at[k] != nil {
				ps, rests = append(ps, h.p), append(rests, h.rest)
			}
		}
		if len(ps) == 0 {
			return
		}
		hinge.AdvanceAll(ps, rests, l.rows)
		l.each(func(k int, h *Learner) {
			if at[k] != nil && at[k].done(h) {
				at[k] = nil
			}
		})
	}
}

// serve puts the models of the classifiers into use, each under the rules of
// Learner.serve. The sample waits while any gap is too large.
func (l *classes) serve(test []*stream.Example) {
	waits := make([]bool, len(l.ovr))
	l.each(func(k int, h *Learner) {
		// The test draws, with the labels of this classifier.
		own, w := make([]*stream.Example, len(test)), signs(test, k)
		for i, x := range test {
			c := *x
			c.Y = w[i]
			own[i] = &c
		}
		waits[k] = h.serve(own)
	})
	l.Wait(slices.Contains(waits, true))
}

// Model returns the models in use.
func (l *classes) Model() algos.Model {
	parts, blank := make([]algos.Model, len(l.ovr)), make([]bool, len(l.ovr))
	for k, h := range l.ovr {
		parts[k], blank[k] = h.Model(), !h.cert.given
	}
	return rest.NewModel(parts, blank)
}

// Report describes the present state. Objective and gap are sums over the
// classifiers, gauges that are not totals are means.
func (l *classes) Report() algos.Report {
	r := algos.NewReport()
	r.KernelEvals = 0
	if l.basis == nil {
		return r
	}
	r.Objective, r.Certificate, r.GradNorm, r.StepSize = 0, 0, math.NaN(), math.NaN()
	for k, h := range l.ovr {
		r.Step += h.k
		r.Objective += h.p.Objective()
		if h.cert.given {
			r.Certificate += h.cert.gap
		} else {
			r.Certificate = math.NaN()
		}
		r.KernelEvals += h.p.Rows.Evals + h.evals
		own := append(h.ownGauges(), h.cert.gauges()...)
		if k == 0 {
			r.Gauges = own
			continue
		}
		for i, g := range own {
			r.Gauges[i].Value += g.Value
		}
	}
	r.Gauges = rest.Mean(r.Gauges, len(l.ovr))
	lead := l.lead()
	lead.growth = l.growth
	r.Gauges = append(r.Gauges, lead.growthGauges()...)
	r.Sample, r.KernelEvals = l.len(), r.KernelEvals+l.rows.Evals
	return r
}

// AppendBinary appends the complete state.
func (l *classes) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, l.fields) }

// UnmarshalBinary restores the output of AppendBinary, whatever the number of
// classes.
func (l *classes) UnmarshalBinary(data []byte) error {
	l.basis, l.ovr = nil, nil
	return state.Decode(data, l.fields)
}

// maxClasses bounds the number of classes in a state, so that a corrupt one cannot
// exhaust memory.
const maxClasses = 1 << 12

func (l *classes) fields(f *state.Fields) {
	f.Group("buffer", l.Growing.Fields)
	f.Group("pace", l.growth.fields)
	n := len(l.ovr)
	f.Int("classes", &n)
	if f.Err() == nil && (n < 3 || n > maxClasses) {
		f.Fail("classes", fmt.Errorf("%d", n))
	}
	if f.Err() != nil {
		return
	}
	for len(l.ovr) < n {
		l.append()
	}
	begun := l.basis != nil
	f.Bool("begun", &begun)
	if begun && f.Err() == nil {
		if f.Decoding() {
			l.share(kernel.New(kernel.Func{}))
		}
		f.Group("points", l.basis.Fields)
		if f.Decoding() && f.Err() == nil {
			l.rows.Restart(l.basis)
		}
	}
	if f.Decoding() && f.Err() == nil && l.Len() > 0 && !begun {
		f.Fail("buffer.seq", errSeq)
	}
	f.List("heads", n, 10, func(int) {}, func(f *state.Fields, k int) {
		if k < n {
			l.ovr[k].classFields(f, begun)
		}
	})
	if begun && f.Decoding() && f.Err() == nil && l.Len() != l.len() {
		f.Fail("buffer.seq", errSeq)
	}
}

// classFields describes a classifier without what it shares with the others.
func (l *Learner) classFields(f *state.Fields, begun bool) {
	f.Uint64("k", &l.k)
	f.Bool("fresh", &l.fresh)
	f.Float64("norm", &l.norm)
	f.Float64("step", &l.step)
	f.Bool("moved", &l.moved)
	f.Int("came", &l.came)
	f.Group("counters", l.counts.fields)
	f.Group("proof", l.cert.fields)
	if !begun || f.Err() != nil {
		return
	}
	f.Group("problem", l.p.VectorFields)
	if f.Decoding() && f.Err() == nil && !(l.p.Lambda > 0 && l.p.Lambda < math.Inf(1)) {
		f.Fail("problem.lambda", errRadius)
	}
	f.Group("model", l.modelFields)
}
