// Package tsgs3vm learns semi-supervised kernel SVMs, from few labels among many
// examples, with random Fourier features: tsgs3vm from labelled and unlabelled
// examples, dsg from the labelled ones alone, of any number of classes.
//
// Options are stable; the package has no other API.
package tsgs3vm

import (
	"context"
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/columns"
	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/rff"
	"github.com/streamsvm/streamsvm/internal/rffmodel"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// Learner is the part that all solvers share: pools, schedule, features and the
// choice of gamma and c.
//
// A step is due as soon as a minibatch of BatchU unlabelled examples is complete,
// or enough labelled ones have come (see samplers.Pools). So either kind may be
// absent for any length of time: without unlabelled examples the labels drive the
// steps; without further labels the unlabelled minibatches do, with the stored
// labels. Before the first label, an unlabelled example can only enter the sample of
// recent ones: f is 0 and would stay 0, since u'(0) = 0.
//
// It is not safe for concurrent use.
type Learner struct {
	*samplers.Pools
	opt     options
	seed    uint64
	classes int // 0 if there are two

	gamma, c float64 // the values in use; gamma is 0 until the warm-up is over
	tuned    int     // number of labels when gamma and c were last chosen
	surveyed uint64  // number of unlabelled examples seen at that time
	cluster  cluster
	averages []average // by classifier
	feats    *rff.Features

	rng *rng.Source

	step            uint64
	dim             int    // largest dimension of an example in the steps so far
	labelled, unlab uint64 // numbers of examples in the steps so far
	positive        uint64 // number of positive examples among the labelled ones
	solver          solver
	model           *rffmodel.Model
	points          rff.Points // scratch memory
	vecs            []stream.Vec
	hinge, uLoss    float64 // means over the last batches
	inside, share   float64
}

// solver does the learning of a step.
type solver interface {
	// prepare is called before the sample changes, at the start of a step.
	prepare(l *Learner)
	// step learns from new labelled examples and an unlabelled minibatch; either
	// may be empty.
	step(l *Learner, d *samplers.Draw)
	// labels returns the number of stored labelled examples in the objective. During a
	// step it does not include all new ones yet.
	labels() int
	// finish completes the optimisation.
	finish(l *Learner)
	// restart learns from the stored examples again, with other features or weights;
	// last is set at the end of a bounded stream.
	restart(l *Learner, last bool)
	// view returns the present model.
	view(l *Learner) *rffmodel.Model
	fields(l *Learner, f *state.Fields)
	gauges(l *Learner) []stream.Measure
}

func newLearner(env algos.Env, o options) (*Learner, error) {
	o.Block = min(o.Block, o.Features)
	several := 0
	if env.Classes > 2 {
		several = env.Classes
	}
	opts := samplers.Options{Classes: several > 0, Policy: samplers.Policy(o.Keep), Size: o.Labels, Hold: true, Seed: env.Seed, Every: o.BatchL}
	if math.IsNaN(o.Gamma) {
		opts.Warmup = kernel.Warmup
	}
	unlabelled := samplers.PoolOptions{Batch: o.BatchU, Recent: o.Recent}
	if o.supervised() {
		unlabelled.Batch = 0
	}
	pools, err := samplers.NewPools(opts, unlabelled)
	if err != nil {
		return nil, err
	}
	l := &Learner{Pools: pools, opt: o, seed: env.Seed, rng: rng.New(env.Seed, "tsgs3vm.draw"), c: 1, classes: several, averages: make([]average, max(several, 1))}
	if !math.IsNaN(o.C) {
		l.c = o.C
	}
	if o.Solver == "sgd" {
		l.opt.Temperature = 0
		l.solver = newSGD(o)
	} else {
		l.solver = newDual(o, several)
	}
	if !math.IsNaN(o.Gamma) {
		err = l.setGamma(o.Gamma)
	}
	return l, err
}

// draw returns the random features for a kernel width.
func (o *options) draw(gamma float64, seed uint64) (*rff.Features, error) {
	return rff.New(rff.Spectrum(o.Kernel), gamma, o.Block, seed, o.Cache<<20)
}

func (l *Learner) setGamma(gamma float64) error {
	feats, err := l.opt.draw(gamma, l.seed)
	if err != nil {
		return err
	}
	l.gamma, l.feats = gamma, feats
	return nil
}

// Add adds an example. The one that ends the warm-up sets gamma.
func (l *Learner) Add(x *stream.Example) (algos.Fate, error) {
	fate, err := l.Pools.Add(x)
	if l.Warm() {
		l.endWarmup()
	}
	return fate, err
}

// supervised reports whether unlabelled examples have no effect.
func (o *options) supervised() bool { return !(o.Cluster > 0) && o.noLoss() }

// noLoss reports whether unlabelled examples have no weight in the objective.
func (o *options) noLoss() bool { return o.Rho == 0 && !o.Ratio }

func (l *Learner) endWarmup() {
	// Distances between finite points are positive and finite. The width is valid unless
	// the distances are extreme; then 1 will do.
	if l.setGamma(kernel.AutoGamma(l.Vecs(), l.opt.Kernel == "laplacian")) != nil {
		_ = l.setGamma(1)
	}
	l.Begin()
}

// Step learns from the pending examples.
func (l *Learner) Step(ctx context.Context) (algos.Report, error) {
	if err := ctx.Err(); err != nil {
		return algos.Report{}, err
	}
	l.advance(l.Take)
	return l.Report(), nil
}

// advance does one step on the draw that take returns.
func (l *Learner) advance(take func() *samplers.Draw) {
	l.model = nil
	l.step++
	l.dropCluster(len(l.Pending()))
	l.solver.prepare(l)
	d := take()
	l.labelled += uint64(len(d.Join))
	for _, x := range d.Join {
		if x.Y > 0 {
			l.positive++
		}
		l.dim = max(l.dim, x.X.Dim())
	}
	for _, x := range d.Unlabelled {
		l.dim = max(l.dim, x.X.Dim())
	}
	l.unlab += uint64(len(d.Unlabelled))
	l.solver.step(l, d)
	clear(d.Unlabelled)
	l.tune(false)
}

// Finish learns from the pending examples, including incomplete minibatches, and
// completes the optimisation.
func (l *Learner) Finish(ctx context.Context) (algos.Report, error) {
	if err := ctx.Err(); err != nil {
		return algos.Report{}, err
	}
	if !l.Ready() && len(l.Pending()) > 0 {
		l.endWarmup()
	}
	for l.More() {
		l.advance(l.Drain)
	}
	if l.step > 0 {
		l.model = nil
		l.tune(true)
		l.solver.finish(l)
	}
	return l.Report(), nil
}

// vectors returns the vectors of the examples, valid until the next call.
func (l *Learner) vectors(xs []*stream.Example) []stream.Vec {
	l.vecs = l.vecs[:0]
	for _, x := range xs {
		l.vecs = append(l.vecs, x.X)
	}
	return l.vecs
}

// rerun replays the recent unlabelled examples in n minibatches. z has their random
// features or is nil.
func (l *Learner) rerun(n int, z []float32, visit func(xs []stream.Vec, z []float32)) {
	xs, size := samplers.Vecs(l.Recent()), l.opt.Features
	for at := 0; n > 0; n-- {
		to := min(at+l.opt.BatchU, len(xs))
		var part []float32
		if z != nil {
			part = z[at*size : to*size]
		}
		visit(xs[at:to], part)
		if at = to; at == len(xs) {
			at = 0
		}
	}
}

// weights returns n, the number of labels in the objective, the paper's C, and its C*
// for an arm with the given rho.
func (l *Learner) weights(rho float64) (n, c, cstar float64) {
	n = float64(l.labelled)
	if l.opt.Keep == string(samplers.Recent) {
		n = float64(l.solver.labels())
	}
	c = l.c * n
	if !math.IsNaN(l.opt.Lambda) {
		c = 1 / l.opt.Lambda
	}
	if l.opt.Ratio {
		return n, c, c * float64(l.labelled) / max(float64(l.unlab), 1)
	}
	return n, c, rho * c
}

// Report describes the present state.
func (l *Learner) Report() algos.Report {
	r := algos.NewReport()
	r.Step = l.step
	r.Sample = l.Len() + len(l.Recent())
	r.StepSize = l.opt.Step
	bytes := 0
	if l.feats != nil {
		bytes = l.feats.Bytes()
	}
	r.Gauges = append([]stream.Measure{
		{Name: "labels_held", Value: float64(l.Len())},
		{Name: "labelled", Value: float64(l.labelled)},
		{Name: "unlabelled", Value: float64(l.unlab)},
		{Name: "unlabelled_skipped", Value: float64(l.Skipped())},
		{Name: "gamma", Value: l.gamma},
		{Name: "c", Value: l.c},
		{Name: "cluster", Value: l.cluster.weight},
		{Name: "feature_bytes", Value: float64(bytes)},
		{Name: "hinge", Value: l.hinge},
		{Name: "unlabelled_loss", Value: l.uLoss},
		{Name: "unlabelled_inside", Value: l.inside},
		{Name: "unlabelled_positive", Value: l.share},
	}, l.solver.gauges(l)...)
	return r
}

// Expect computes the features of points in advance while the last step is still running.
func (l *Learner) Expect(xs []stream.Vec) {
	if d, ok := l.solver.(*dual); ok && d.sweeps != nil {
		d.scored.expect(l.feats, l.opt.Features, xs[:min(len(xs), rffmodel.Rows)])
	}
}

// Model returns a view of the present model.
func (l *Learner) Model() algos.Model {
	if l.model == nil {
		if l.step == 0 {
			l.model = &rffmodel.Model{}
		} else {
			l.model = l.solver.view(l)
		}
	}
	return l.model
}

func (l *Learner) fields(f *state.Fields) {
	f.Group("pools", l.Pools.Fields)
	f.Float64("gamma", &l.gamma)
	f.Float64("c", &l.c)
	f.Int("tuned", &l.tuned)
	f.Uint64("surveyed", &l.surveyed)
	f.Float64("cluster", &l.cluster.weight)
	f.Float64("spread", &l.cluster.spread)
	columns.Examples(f, "landmarks", &l.cluster.points)
	for k := range l.averages {
		f.Group("average", l.averages[k].fields)
	}
	f.Binary("rng", l.rng)
	f.Uint64("step", &l.step)
	f.Int("dim", &l.dim)
	f.Uint64("labelled", &l.labelled)
	f.Uint64("unlabelled", &l.unlab)
	f.Uint64("positive", &l.positive)
	f.Float64("hinge", &l.hinge)
	f.Float64("unlabelled_loss", &l.uLoss)
	f.Float64("inside", &l.inside)
	f.Float64("unlabelled_positive", &l.share)
	if f.Decoding() && f.Err() == nil {
		l.check(f)
	}
	if f.Err() == nil {
		f.Group("solver", func(f *state.Fields) { l.solver.fields(l, f) })
	}
	l.model = nil
}

// check makes f fail for states that no run can have saved.
func (l *Learner) check(f *state.Fields) {
	for _, x := range l.cluster.points {
		if !kernel.Finite(x.X) {
			f.Fail("landmarks", fmt.Errorf("example %d cannot have been accepted", x.Seq))
			return
		}
	}
	if !(l.c > 0) || math.IsInf(l.c, 0) {
		f.Fail("c", fmt.Errorf("%g", l.c))
	}
	if k := l.cluster; !(k.weight >= 0 && finite(k.weight)) || k.weight > 0 && (!(k.spread > 0 && finite(k.spread)) || len(k.points) == 0) {
		f.Fail("cluster", fmt.Errorf("weight %g, spread %g, %d landmarks", k.weight, k.spread, len(k.points)))
	}
	for _, v := range l.averages {
		if n := len(v.w); n != 0 && n != l.opt.Features {
			f.Fail("average", fmt.Errorf("%d coefficients of %d features", n, l.opt.Features))
		}
	}
	l.feats = nil
	if l.gamma != 0 {
		f.Fail("gamma", l.setGamma(l.gamma))
	} else if l.step > 0 || l.Ready() {
		f.Fail("gamma", fmt.Errorf("not set after %d steps", l.step))
	}
	if l.step == 0 && l.Len() > 0 || l.labelled < uint64(l.Len()) {
		f.Fail("labelled", fmt.Errorf("%d labels seen in %d steps, %d held", l.labelled, l.step, l.Len()))
	}
}

// AppendBinary appends the complete state.
func (l *Learner) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, l.fields) }

// UnmarshalBinary restores the state; after an error it is undefined.
func (l *Learner) UnmarshalBinary(data []byte) error { return state.Decode(data, l.fields) }
