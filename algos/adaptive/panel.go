package adaptive

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/compare"
	"github.com/streamsvm/streamsvm/internal/par"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// panel is shared by classification and regression: the kernel and linear experts, and the
// schedule by which they are trained and replaced.
type panel struct {
	*samplers.Buffer
	opt        options
	env        algos.Env
	aggregator aggregator

	detector *compare.Detector
	sizes    *sizes
	held     [1 + uncut]int            // size limit of each kernel learner; 0: none
	kernels  [1 + uncut]*kernelLearner // nil: not started; a challenger starts when the growing one has more examples than it
	inputs   inputs
	linear   [numExperts - l1]linearLearner
	fourier  *fourier // nil: not started, or never needed
	splines  *splines // nil: likewise

	choices *choices // of one of several classes, what they have in common
	before  uint64   // examples before the class was added

	dim    int   // number of features of the widest example
	evals  int64 // kernel values computed by replaced learners since start or restore
	tuned  uint64
	logged uint64 // example at which a cut was last logged
}

// aggregator combines the experts' predictions.
type aggregator interface {
	// predictAndLearn predicts the first n of xs into dst, learns from them, and returns n.
	predictAndLearn(ctx context.Context, dst []float64, xs []*stream.Example) (int, error)
	// endBatch is called after each such batch.
	endBatch() error
	Report() algos.Report
}

// linearLearner is a linear expert on the inputs or on random features.
type linearLearner interface {
	score(z stream.Vec) float64
	// learn updates the weights with input z, prediction s, label y and the example's
	// importance weight.
	learn(z stream.Vec, s, y, weight float64)
	reset()
	line() *onePass
	fields(f *state.Fields)
}

// makePanel returns a panel. held limits the examples of the growing learner; 0 is no limit.
// newLinear makes a linear expert from its step rule.
func makePanel(env algos.Env, o options, s *sizes, held int, a aggregator, newLinear func(onePass) linearLearner) (*panel, error) {
	number := env.Task == algos.Regress
	if o.Panel == "auto" {
		if o.Panel = "full"; env.Against > 2 {
			o.Panel = "small"
		}
	}
	b, err := samplers.New(samplers.Options{Regress: number, Every: 1})
	if err != nil {
		return nil, err
	}
	keep := held + tick
	if held == 0 {
		keep = s.kept()
	}
	cutting, err := compare.NewDetector(keep, s.windows[:]...)
	if err != nil {
		return nil, err
	}
	l := &panel{Buffer: b, opt: o, env: env, aggregator: a, detector: cutting, sizes: s}
	l.inputs.scaled = env.Scaled
	l.held[growing], l.held[uncut] = held, held
	copy(l.held[k64:], s.windows[:])
	for e := range l.linear {
		var step onePass
		if l1+e == ada {
			if step.rate = 0.3; number {
				step.rate = 0.1
			}
		}
		l.linear[e] = newLinear(step)
	}
	return l, nil
}

// The growing SVM is cut where a challenger is better by more standard errors than these. If
// examples are wide, it is the only kernel expert with a long memory.
const (
	cutAbove     = 3.0
	cutWideAbove = 4.0
)

// Step learns from the pending examples.
func (l *panel) Step(ctx context.Context) (algos.Report, error) {
	if err := ctx.Err(); err != nil {
		return algos.Report{}, err
	}
	if err := l.learn(ctx, nil, l.Take().Join); err != nil {
		return algos.Report{}, err
	}
	return l.aggregator.Report(), nil
}

// Follow implements algos.Sequential.
func (l *panel) Follow(ctx context.Context, dst []float64, xs []*stream.Example) (learned, steps int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	if err := l.learn(ctx, nil, l.Take().Join); err != nil {
		return 0, 0, err
	}
	known := make([]*stream.Example, 0, len(xs))
	for _, x := range xs {
		if x.Labelled {
			known = append(known, x)
		}
	}
	out := make([]float64, len(known))
	if err := l.learn(ctx, out, known); err != nil {
		return 0, 0, err
	}
	k := 0
	for i, x := range xs {
		if x.Labelled {
			dst[i] = out[k]
			k++
		}
	}
	return k, k, nil
}

// Finish learns from the pending examples and lets the growing SVM complete its
// optimisation.
func (l *panel) Finish(ctx context.Context) (algos.Report, error) {
	if err := l.learn(ctx, nil, l.Take().Join); err != nil {
		return algos.Report{}, err
	}
	m := l.kernels[growing]
	switch {
	case m == nil && l.detector.Seen() > 0:
		if err := l.begin(ctx, int(l.detector.Seen())); err != nil {
			return algos.Report{}, err
		}
	case m != nil && m.scs != nil:
		if _, err := m.scs.Finish(ctx); err != nil {
			return algos.Report{}, err
		}
	}
	return l.aggregator.Report(), nil
}

// learn predicts each of xs, which are labelled, into dst (may be nil) before it learns from
// it. Kernel learners change at ticks only, so their scores in between are computed together.
// Cancelling ctx has no effect: a batch that is half learned could not be undone.
func (l *panel) learn(ctx context.Context, dst []float64, xs []*stream.Example) error {
	ctx = context.WithoutCancel(ctx)
	for len(xs) > 0 {
		n, err := l.aggregator.predictAndLearn(ctx, dst, xs)
		if err == nil {
			err = l.aggregator.endBatch()
		}
		if err != nil {
			return err
		}
		xs, dst = xs[n:], dst[min(n, len(dst)):]
	}
	return nil
}

// each calls f for 0 to n−1, several at a time, and returns the first error.
func (l *panel) each(n int, f func(i int) error) error {
	limit := n
	if l.env.Against > 2 { // the learners of the classes already run concurrently
		limit = 1
	}
	errs := make([]error, n)
	par.AtMost(limit, n, func(i int) { errs[i] = f(i) })
	return cmp.Or(errs...)
}

// widen restarts the linear experts for wide examples.
func (l *panel) widen() {
	l.inputs.widen()
	l.fourier, l.splines = nil, nil
	for _, o := range l.linear {
		o.reset()
	}
}

// newKernelLearner returns kernel learner e, untrained.
func (l *panel) newKernelLearner(e int) *kernelLearner {
	return &kernelLearner{sizes: l.sizes, window: l.held[e], target: target{number: l.env.Task == algos.Regress}, growing: e == growing || e == uncut}
}

// begin starts the growing SVM on the n newest examples.
func (l *panel) begin(ctx context.Context, n int) error {
	l.kernels[growing] = l.newKernelLearner(growing)
	return l.choose(ctx, l.kernels[growing], n)
}

// choose tunes m on the n newest examples and trains it on them.
func (l *panel) choose(ctx context.Context, m *kernelLearner, n int) error {
	if m.rows > 0 {
		l.evals += m.evals()
	}
	l.tuned++
	c := l.choices
	if l.before > 0 { // no other class has learned from the same examples
		c = nil
	}
	return m.choose(ctx, l.env, l.detector.Newest(n), l.dim > narrow, c, l.detector.Seen())
}

// maintain runs at each tick: it trains the kernel learners, tests for a change point, and
// starts, ends and tunes kernel learners when that is due.
func (l *panel) maintain(ctx context.Context) error {
	err := l.each(len(l.kernels), func(i int) error {
		if m := l.kernels[i]; m != nil {
			return m.step(ctx)
		}
		return nil
	})
	if err != nil {
		return err
	}
	m := l.kernels[growing]
	if m == nil {
		if l.detector.Seen() < uint64(l.sizes.first) {
			return nil
		}
		return l.begin(ctx, l.sizes.first)
	}
	for k := range l.sizes.windows {
		if l.kernels[k64+k] == nil { // not started: no cut to it is possible
			l.detector.Forget(k)
		}
	}
	above := cutAbove
	if l.dim > narrow {
		above = cutWideAbove
	}
	if cut, by, yes := l.detector.Test(m.rows, above); yes {
		l.cut(cut, by)
		m = l.kernels[growing]
	}
	for i, w := range l.sizes.windows {
		if k64+i > k256 && l.opt.Panel == "small" {
			continue
		}
		if k64+i == k1024 && l.env.Task != algos.Regress { // classifiers gain nothing from it
			continue
		}
		k := &l.kernels[k64+i]
		switch {
		case k64+i == k2048 && m.rows > l.sizes.settled:
			if *k != nil {
				l.evals += (*k).evals()
				*k = nil
			}
		case *k == nil && m.rows > w:
			*k = m.with(w, l.detector.Newest(w), nil)
		}
	}
	cuts, _ := l.detector.ChangePoints()
	if seen, whole := l.detector.Seen(), uint64(l.sizes.whole); cuts > 0 && seen >= whole && seen < whole+tick && l.env.Task != algos.Regress {
		l.kernels[uncut] = l.newKernelLearner(uncut)
		if err := l.choose(ctx, l.kernels[uncut], l.sizes.whole); err != nil {
			return err
		}
	}
	if u := l.kernels[uncut]; u != nil && u.rows == m.rows { // of a regression: both are full
		l.evals += u.evals()
		l.kernels[uncut] = nil
	}
	for _, m := range l.kernels {
		if m == nil || !m.due(cuts > 0) {
			continue
		}
		if err := l.choose(ctx, m, m.rows); err != nil {
			return err
		}
		if m.growing && l.dim > narrow { // what was compared with the challengers is gone
			for k := range l.sizes.windows {
				l.detector.Forget(k)
			}
		}
	}
	return nil
}

// cut replaces the growing SVM by one trained on the window of challenger by, with that
// challenger's options.
func (l *panel) cut(c compare.ChangePoint, by int) {
	old := l.kernels[growing]
	keep := old.tuned >= l.sizes.whole // the first cut
	if l.env.Task == algos.Regress {
		keep = l.kernels[uncut] == nil && old.rows > l.held[k256]
	}
	memory := old.small
	if keep {
		l.kernels[uncut], memory = old, nil
	} else {
		l.evals += old.evals()
	}
	m := l.kernels[k64+by].with(l.held[growing], l.detector.Newest(c.To), memory)
	m.tuned, m.since, m.growing = m.rows, 0, true
	l.kernels[growing] = m
	if l.logged == 0 || c.At >= l.logged+256 {
		l.logged = c.At
		l.env.Log.Info("cut", slog.String("learner", "adaptive"), slog.Uint64("at", c.At), slog.Int("from", c.From), slog.Int("to", c.To), slog.Float64("z", c.Z))
	}
}

// ChangePoints implements algos.DriftReporter.
func (l *panel) ChangePoints() (total uint64, latest []compare.ChangePoint) {
	return l.detector.ChangePoints()
}

// changes returns the change points so far.
func (l *panel) changes() changes {
	total, latest := l.detector.ChangePoints()
	if len(latest) == 0 {
		return changes{cuts: total}
	}
	c := latest[len(latest)-1]
	return changes{total, c.At - uint64(c.To)}
}

// report describes the state; weights[i] is the weight of names[i].
func (l *panel) report(names []string, weights []float64) algos.Report {
	r := algos.NewReport()
	r.Step, r.KernelEvals = l.detector.Seen(), l.evals
	for _, m := range l.kernels {
		if m != nil {
			r.KernelEvals += m.evals()
		}
	}
	if m := l.kernels[growing]; m != nil {
		r.Sample = m.rows
	}
	for e, name := range names {
		r.Gauges = append(r.Gauges, stream.Measure{Name: "weight_" + name, Value: weights[e]})
	}
	total, _ := l.detector.ChangePoints()
	r.Gauges = append(r.Gauges, stream.Measure{Name: "cut_total", Value: float64(total)}, stream.Measure{Name: "tune_total", Value: float64(l.tuned)})
	return r
}

// fields describes the state; detector and record describe the states of the detector and the
// aggregator.
func (l *panel) fields(f *state.Fields, detector func(*state.Fields), record func()) {
	f.Group("buffer", l.Buffer.Fields)
	f.Group("cutting", detector)
	f.Group("inputs", l.inputs.fields)
	if f.Decoding() {
		l.inputs.scaled = l.env.Scaled
	}
	if l.env.Scaled == nil && (f.Next("sparse") || !f.Decoding() && l.inputs.scaled != nil) {
		f.Bools("sparse", &l.inputs.scaled)
		if len(l.inputs.scaled) > len(l.inputs.mean) {
			f.Fail("sparse", fmt.Errorf("%d of %d features", len(l.inputs.scaled), len(l.inputs.mean)))
		}
	}
	for _, x := range l.linear {
		f.Group("linear", x.fields)
	}
	dim := l.fourier.features()
	f.Int("random_features", &dim)
	if f.Decoding() {
		l.evals, l.fourier = 0, restoredFourier(f, dim, &l.inputs, l.env.Seed)
	}
	splineFields(f, &l.splines, &l.inputs)
	record()
	f.Int("features", &l.dim)
	f.Uint64("tuned", &l.tuned)
	f.Uint64("told", &l.logged)
	for e := range l.kernels {
		there := l.kernels[e] != nil
		f.Bool("machine", &there)
		if f.Decoding() {
			l.kernels[e] = nil
		}
		if !there || f.Err() != nil {
			continue
		}
		if f.Decoding() {
			l.kernels[e] = l.newKernelLearner(e)
		}
		f.Group("state", func(f *state.Fields) { l.kernels[e].fields(f, l.env) })
		if f.Decoding() && f.Err() == nil && (e > growing && l.kernels[growing] == nil) {
			f.Fail("machine", fmt.Errorf("%d without the first", e))
		}
	}
}
