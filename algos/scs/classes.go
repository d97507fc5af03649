package scs

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/ovr"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/hinge"
	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/kernel/rows"
	"github.com/streamsvm/streamsvm/internal/weight"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// classes is the learner for more than two classes: one one-vs-rest classifier per
// class. They share the sample, its packed points, and the kernel values over the whole
// sample; each has its own coefficients, duality gap and model in use. The growth
// controller looks at the errors of the predicted class, and the sample waits for the
// slowest classifier.
//
// Package ovr could do the same with independent classifiers, and does so for presets
// without the guard. But then each has a sample of its own and computes every kernel row
// again: K times the work and memory for K classes. That is why the steps below, which
// act on one sample for all classifiers, repeat those of Learner.
type classes struct {
	*samplers.Growing
	opt         options
	env         algos.Env
	classifiers []*Learner
	basis       *kernel.Basis // nil before S_0 is there
	rows        *rows.Cache   // over basis
	growth      growthController
}

var _ algos.ClassAdder = (*classes)(nil)

func newClasses(env algos.Env, o options) (algos.Learner, error) {
	k := env.Classes
	env.Classes = 0
	if !o.guarded() { // each classifier decides about its own sample
		return ovr.New(k, func() (algos.Learner, error) { return newBinary(env, o) })
	}
	l := &classes{opt: o, env: env, growth: newGrowthController()}
	for range k {
		l.append()
	}
	var err error
	l.Growing, err = samplers.NewGrowing(samplers.Options{Seed: env.Seed, Classes: true}, o.growing())
	return l, err
}

// append adds a classifier.
func (l *classes) append() {
	env := l.env
	env.Log = slog.New(slog.DiscardHandler)
	o := l.opt
	// All classifiers together stay within about the bound for one. Their logs are
	// discarded: K classifiers would report the same sample K times.
	o.CacheMB = max(1, o.CacheMB/(len(l.classifiers)+1))
	l.classifiers = append(l.classifiers, newClassifier(env, o))
}

// lead returns the first classifier, lent the shared buffer and the log, for the
// methods of the growth controller: they need a Learner, and sample sizes are the
// same for all classifiers.
func (l *classes) lead() *Learner {
	h := l.classifiers[0]
	h.Growing, h.log = l.Growing, l.env.Log
	return h
}

// AddClass implements algos.ClassAdder. To the new classifier all examples of the sample
// are negative.
func (l *classes) AddClass(context.Context) error {
	l.append()
	if l.basis != nil {
		l.classifiers[len(l.classifiers)-1].p = l.classifiers[0].p.Another()
	}
	return nil
}

// Add implements algos.Learner.
func (l *classes) Add(x *stream.Example) (algos.Fate, error) {
	if err := ovr.Check(x, len(l.classifiers)); err != nil {
		return algos.SampledOut, err
	}
	return l.Growing.Add(x)
}

// problems returns the optimisation problems of the classifiers.
func (l *classes) problems() []*hinge.Problem {
	ps := make([]*hinge.Problem, len(l.classifiers))
	for k, h := range l.classifiers {
		ps[k] = h.p
	}
	return ps
}

// len returns the size of the sample.
func (l *classes) len() int {
	if l.basis == nil {
		return 0
	}
	return l.classifiers[0].p.Len()
}

// each calls f for the classifiers, in parallel.
func (l *classes) each(f func(k int, h *Learner)) {
	_ = ovr.Each(len(l.classifiers), func(k int) error {
		f(k, l.classifiers[k])
		return nil
	})
}

// Step is Step of Learner for all classifiers.
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

// Finish is Finish of Learner for all classifiers.
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

func (l *classes) plan() { l.Plan(l.opt.Delta0, 1/math.Sqrt(l.classifiers[0].p.Lambda)) }

func (l *classes) mark() {
	for _, h := range l.classifiers {
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

// share gives the classifiers one point set.
func (l *classes) share(b *kernel.Basis) {
	l.basis = b
	l.rows = rows.New(b, 0)
	for _, h := range l.classifiers {
		h.p = hinge.New(b, 0)
	}
}

// extend appends draws to the packed points.
func (l *classes) extend(draws []*stream.Example) {
	w := make([][]float64, len(l.classifiers))
	for _, x := range draws {
		l.basis.Append(x.X)
	}
	for k := range w {
		w[k] = signs(draws, k)
	}
	hinge.ExtendAll(l.problems(), w, weight.Of(draws), l.rows)
}

// signs returns the labels for classifier k.
func signs(draws []*stream.Example, k int) []float64 {
	w := make([]float64, len(draws))
	for i, x := range draws {
		if w[i] = -1; int(x.Y) == k {
			w[i] = 1
		}
	}
	return w
}

// scale sets lambda by the size of the sample.
func (l *classes) scale() {
	for _, h := range l.classifiers {
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
	before, after := make([]float64, len(l.classifiers)), make([]float64, len(l.classifiers))
	for i, x := range draws {
		for k, h := range l.classifiers {
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

// admit keeps those of the test examples that join the sample.
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
		for _, h := range l.classifiers {
			h.came = n
		}
	}
	l.scale()
}

// evict is evict of Learner: a point matters if it does to one of the classifiers.
func (l *classes) evict(m int, out []int) {
	wrong, support := 0, 0
	matters := make([]bool, m)
	for i := range matters {
		bad, sv := false, false
		for _, h := range l.classifiers {
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
			for i := range m { // points are in order of age
				if len(out) < n && matters[i] == pass {
					out = append(out, i)
				}
			}
		}
		slices.Sort(out)
	}
	for _, h := range l.classifiers {
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
	l.basis = l.classifiers[0].p.Basis
}

// shrink is shrink of Learner, if one of the classifiers is over the budget.
func (l *classes) shrink() bool {
	support, m := 0, l.len()
	for _, h := range l.classifiers {
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
	for _, h := range l.classifiers {
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

// ascend is ascend of Learner: each classifier by itself on the points near its margin,
// then all together on the other points, so that a kernel row is computed once for all.
func (l *classes) ascend(n int, final bool) {
	at := make([]*ascent, len(l.classifiers))
	l.each(func(k int, h *Learner) { at[k] = h.newAscent(n, final) })
	for {
		l.each(func(k int, h *Learner) {
			if at[k] != nil {
				at[k].round(h)
			}
		})
		var ps []*hinge.Problem
		var rests [][]int32
		for k, h := range l.classifiers {
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

// serve publishes the models of the classifiers, as Learner does. The sample waits for
// those whose gap is too large.
func (l *classes) serve(test []*stream.Example) {
	waits := make([]bool, len(l.classifiers))
	l.each(func(k int, h *Learner) {
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

// Model returns the published expansions.
func (l *classes) Model() algos.Model {
	parts, blank := make([]algos.Model, len(l.classifiers)), make([]bool, len(l.classifiers))
	for k, h := range l.classifiers {
		parts[k], blank[k] = h.Model(), !h.cert.given
	}
	return ovr.NewModel(parts, blank)
}

// Report describes the present state: objective and gap are sums over the classifiers,
// gauges are means, except totals.
func (l *classes) Report() algos.Report {
	r := algos.NewReport()
	r.KernelEvals = 0
	if l.basis == nil {
		return r
	}
	r.Objective, r.Certificate, r.GradNorm, r.StepSize = 0, 0, math.NaN(), math.NaN()
	for k, h := range l.classifiers {
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
	r.Gauges = ovr.Mean(r.Gauges, len(l.classifiers))
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
	l.basis, l.classifiers = nil, nil
	return state.Decode(data, l.fields)
}

// maxClasses bounds the number of classes in a state, so that a corrupt one cannot
// exhaust memory.
const maxClasses = 1 << 12

func (l *classes) fields(f *state.Fields) {
	f.Group("buffer", l.Growing.Fields)
	f.Group("pace", l.growth.fields)
	n := len(l.classifiers)
	f.Int("classes", &n)
	if f.Err() == nil && (n < 3 || n > maxClasses) {
		f.Fail("classes", fmt.Errorf("%d", n))
	}
	if f.Err() != nil {
		return
	}
	for len(l.classifiers) < n {
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
			l.classifiers[k].ownFields(f, begun)
		}
	})
	if begun && f.Decoding() && f.Err() == nil && l.Len() != l.len() {
		f.Fail("buffer.seq", errSeq)
	}
}

// ownFields describes what a classifier does not share with the others.
func (l *Learner) ownFields(f *state.Fields, begun bool) {
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
