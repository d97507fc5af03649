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
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// Learner is the part that all solvers share: pools, schedule, features and
// the choice of gamma and c.
//
// A step is due as soon as a minibatch of BatchU unlabelled examples is
// complete, or labelled ones have come that are an eighth of those before, at
// most BatchL. So either kind may be missing for as long as it likes: without
// unlabelled examples the labels drive the steps, and without further labels
// the unlabelled minibatches do, beside the labels that are kept. Before there
// is any label an unlabelled example can only enter the sample of recent ones,
// since f = 0 and u'(0) = 0 would not move.
//
// Not safe for concurrent use.
type Learner struct {
	opt  Options
	seed uint64

	warm     []*stream.Example // until gamma is set
	gamma, c float64           // as chosen; gamma is 0 until then
	tuned    int               // labels at which gamma and c were last chosen
	surveyed uint64            // unlabelled examples seen at that time
	cluster  cluster
	average  average
	feats    *rff.Features

	pools   *samplers.Pools
	pending []*stream.Example // labelled, not yet in the pool
	recent  samplers.Sampler  // of unlabelled examples
	rng     *rng.Source

	step            uint64
	dim             int    // of the examples in steps
	labelled, unlab uint64 // taken in by steps
	skipped         uint64 // unlabelled examples that were not
	positive        uint64 // of labelled
	solver          solver
	model           *Model
	points          rff.Points // scratch
	batch           []*stream.Example
	vecs            []stream.Vec
	hinge, uLoss    float64 // means over the last batches
	inside, share   float64
}

// solver is what a step does.
type solver interface {
	// step learns from new labelled examples and an unlabelled minibatch,
	// either of which may be empty.
	step(l *Learner, fresh, batch []*stream.Example)
	// finish completes the optimisation.
	finish(l *Learner)
	// restart learns anew from what is held, with other features or weights;
	// last is set where a bounded stream has ended.
	restart(l *Learner, last bool)
	// view returns the present model.
	view(l *Learner) *Model
	fields(l *Learner, f *state.Fields)
	gauges(l *Learner) []stream.Measure
}

func newLearner(env algos.Env, o Options) (algos.Learner, error) {
	o.Block = min(o.Block, o.Features)
	pools, err := samplers.NewPools(samplers.Policy(o.Keep), o.Labels, o.BatchU+kernel.Warmup, env.Seed)
	if err != nil {
		return nil, err
	}
	l := &Learner{opt: o, seed: env.Seed, pools: pools, rng: rng.New(env.Seed, "tsgs3vm.draw"), c: 1}
	if o.Keep == string(samplers.KeepRecent) {
		l.recent = samplers.NewWindow(o.Recent)
	} else {
		l.recent = samplers.NewReservoir(o.Recent, false, env.Seed)
	}
	if !math.IsNaN(o.C) {
		l.c = o.C
	}
	if o.Solver == "sgd" {
		l.opt.Temperature = 0
		l.solver = newSGD(o)
	} else {
		l.solver = newDual(o)
	}
	if !math.IsNaN(o.Gamma) {
		err = l.setGamma(o.Gamma)
	}
	return l, err
}

func (l *Learner) setGamma(gamma float64) error {
	feats, err := rff.New(rff.Spectrum(l.opt.Kernel), gamma, l.opt.Block, l.seed, l.opt.Cache<<20)
	if err != nil {
		return err
	}
	l.gamma, l.feats = gamma, feats
	return nil
}

// Add takes an example in.
func (l *Learner) Add(x *stream.Example) (algos.Fate, error) {
	if x.Labelled && x.Y != 1 && x.Y != -1 {
		return 0, &stream.FieldError{Stage: stream.StageLabel, Field: "y", Err: fmt.Errorf("label %g is not +1 or -1", x.Y)}
	}
	if !kernel.Finite(x.X) {
		return 0, &stream.FieldError{Stage: stream.StageFeature, Field: "x", Err: fmt.Errorf("a feature is not finite or too large")}
	}
	if !x.Labelled && l.supervised() {
		return algos.SampledOut, nil
	}
	if l.gamma == 0 {
		l.warm = append(l.warm, x)
		if len(l.warm) >= kernel.Warmup {
			l.endWarmup()
		}
		return algos.Learned, nil
	}
	return l.admit(x), nil
}

// supervised reports whether unlabelled examples are of no use.
func (l *Learner) supervised() bool {
	return !(l.opt.Cluster > 0) && l.opt.noLoss()
}

// noLoss reports whether unlabelled examples have no weight in the objective.
func (o *Options) noLoss() bool {
	return o.Rho == 0 && !o.Ratio
}

func (l *Learner) endWarmup() {
	xs := make([]stream.Vec, len(l.warm))
	for i, x := range l.warm {
		xs[i] = x.X
	}
	// Distances of finite points are positive and finite: the width is valid
	// unless they are absurd, in which case 1 will do.
	if l.setGamma(kernel.AutoGamma(xs, l.opt.Kernel == "laplacian")) != nil {
		_ = l.setGamma(1)
	}
	warm := l.warm
	l.warm = nil
	for _, x := range warm {
		l.admit(x)
	}
}

func (l *Learner) admit(x *stream.Example) algos.Fate {
	if x.Labelled {
		l.pending = append(l.pending, x)
		return algos.Learned
	}
	slot, _ := l.recent.Add(x)
	if l.labelled == 0 && len(l.pending) == 0 {
		l.skipped++
		if slot < 0 {
			return algos.SampledOut
		}
		return algos.Learned
	}
	l.pools.Unlabelled.Push(x)
	return algos.Learned
}

// Need asks for whichever minibatch is nearer to completion.
func (l *Learner) Need() algos.Need {
	if l.gamma == 0 {
		return algos.Need{Fresh: kernel.Warmup - len(l.warm), Steps: 1}
	}
	trigger := min(max(int(min(l.labelled, 1<<20))/8, 1), l.opt.BatchL)
	fresh := trigger - len(l.pending)
	// Where unlabelled examples are not taken, labels may come in larger groups,
	// which are scored together.
	if l.labelled > 0 && !l.supervised() {
		fresh = min(fresh, l.opt.BatchU-l.pools.Unlabelled.Len())
	}
	return algos.Need{Fresh: max(fresh, 0), Steps: 1}
}

// Step learns from what is pending.
func (l *Learner) Step(ctx context.Context) (algos.Report, error) {
	if err := ctx.Err(); err != nil {
		return algos.Report{}, err
	}
	n := 0
	if l.pools.Unlabelled.Len() >= l.opt.BatchU {
		n = l.opt.BatchU
	}
	l.advance(n)
	return l.Report(), nil
}

// advance takes one step with n unlabelled examples.
func (l *Learner) advance(n int) {
	l.model = nil
	l.step++
	fresh := l.pending
	l.pending = nil
	l.batch = l.pools.Unlabelled.Take(l.batch[:0], n)
	l.dropCluster(len(fresh))
	l.labelled += uint64(len(fresh))
	for _, x := range fresh {
		if x.Y > 0 {
			l.positive++
		}
		l.dim = max(l.dim, x.X.Dim())
	}
	for _, x := range l.batch {
		l.dim = max(l.dim, x.X.Dim())
	}
	l.unlab += uint64(n)
	l.solver.step(l, fresh, l.batch)
	clear(l.batch)
	l.tune(false)
}

// Finish learns from what is pending, the last minibatches being as small as
// they are, and completes the optimisation.
func (l *Learner) Finish(ctx context.Context) (algos.Report, error) {
	if err := ctx.Err(); err != nil {
		return algos.Report{}, err
	}
	if l.gamma == 0 && len(l.warm) > 0 {
		l.endWarmup()
	}
	if len(l.pending) > 0 || l.labelled > 0 && l.pools.Unlabelled.Len() > 0 {
		l.advance(min(l.pools.Unlabelled.Len(), l.opt.BatchU))
	}
	for l.pools.Unlabelled.Len() > 0 {
		l.advance(min(l.pools.Unlabelled.Len(), l.opt.BatchU))
	}
	if l.step > 0 {
		l.model = nil
		l.tune(true)
		l.solver.finish(l)
	}
	return l.Report(), nil
}

// vectors returns the features of the examples, valid until the next call.
func (l *Learner) vectors(xs []*stream.Example) []stream.Vec {
	l.vecs = l.vecs[:0]
	for _, x := range xs {
		l.vecs = append(l.vecs, x.X)
	}
	return l.vecs
}

// weight returns n, the number of labels in the objective, and the paper's C
// and C*, that of an arm with the given rho.
func (l *Learner) weights(rho float64) (n, c, cstar float64) {
	n = float64(l.labelled)
	if l.opt.Keep == string(samplers.KeepRecent) {
		n = float64(l.pools.Labelled.Len())
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
	r.Sample = l.pools.Labelled.Len() + l.recent.Len()
	r.StepSize = l.opt.Step
	bytes := 0
	if l.feats != nil {
		bytes = l.feats.Bytes()
	}
	r.Gauges = append([]stream.Measure{
		{Name: "labels_held", Value: float64(l.pools.Labelled.Len())},
		{Name: "labelled", Value: float64(l.labelled)},
		{Name: "unlabelled", Value: float64(l.unlab)},
		{Name: "unlabelled_skipped", Value: float64(l.skipped)},
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

// Model returns a view of the present model.
func (l *Learner) Model() algos.Model {
	if l.model == nil {
		if l.step == 0 {
			l.model = &Model{}
		} else {
			l.model = l.solver.view(l)
		}
	}
	return l.model
}

func (l *Learner) fields(f *state.Fields) {
	columns.Examples(f, "warm", &l.warm)
	f.Float64("gamma", &l.gamma)
	f.Float64("c", &l.c)
	f.Int("tuned", &l.tuned)
	f.Uint64("surveyed", &l.surveyed)
	f.Float64("cluster", &l.cluster.weight)
	f.Float64("spread", &l.cluster.spread)
	columns.Examples(f, "landmarks", &l.cluster.points)
	f.Group("average", l.average.fields)
	f.Group("pools", l.pools.Fields)
	columns.Examples(f, "pending", &l.pending)
	f.Group("recent", l.recent.Fields)
	f.Binary("rng", l.rng)
	f.Uint64("step", &l.step)
	f.Int("dim", &l.dim)
	f.Uint64("labelled", &l.labelled)
	f.Uint64("unlabelled", &l.unlab)
	f.Uint64("skipped", &l.skipped)
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

// check refuses what no run can have left behind.
func (l *Learner) check(f *state.Fields) {
	for _, list := range [][]*stream.Example{l.warm, l.pending, l.cluster.points, examples(l.pools.Labelled), examples(l.pools.Unlabelled), examples(l.recent)} {
		for _, x := range list {
			if x.Labelled && x.Y*x.Y != 1 || !kernel.Finite(x.X) {
				f.Fail("pools", fmt.Errorf("example %d cannot have been accepted", x.Seq))
				return
			}
		}
	}
	for _, x := range append(examples(l.pools.Labelled), l.pending...) {
		if !x.Labelled {
			f.Fail("pools", fmt.Errorf("example %d has no label", x.Seq))
			return
		}
	}
	if !(l.c > 0) || math.IsInf(l.c, 0) {
		f.Fail("c", fmt.Errorf("%g", l.c))
	}
	if k := l.cluster; !(k.weight >= 0 && finite(k.weight)) || k.weight > 0 && (!(k.spread > 0 && finite(k.spread)) || len(k.points) == 0) {
		f.Fail("cluster", fmt.Errorf("weight %g, spread %g, %d landmarks", k.weight, k.spread, len(k.points)))
	}
	if n := len(l.average.w); n != 0 && n != l.opt.Features {
		f.Fail("average", fmt.Errorf("%d coefficients of %d features", n, l.opt.Features))
	}
	l.feats = nil
	if l.gamma != 0 {
		f.Fail("gamma", l.setGamma(l.gamma))
	} else if l.step > 0 || len(l.warm) >= kernel.Warmup || l.pools.Labelled.Len() > 0 || len(l.pending) > 0 {
		f.Fail("gamma", fmt.Errorf("not set after %d steps", l.step))
	}
	if l.step == 0 && l.pools.Labelled.Len() > 0 || l.labelled < uint64(l.pools.Labelled.Len()) {
		f.Fail("labelled", fmt.Errorf("%d labels seen in %d steps, %d held", l.labelled, l.step, l.pools.Labelled.Len()))
	}
}

func examples(s samplers.Sample) []*stream.Example {
	out := make([]*stream.Example, s.Len())
	for i := range out {
		out[i] = s.At(i)
	}
	return out
}

// AppendBinary appends the complete state.
func (l *Learner) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, l.fields) }

// UnmarshalBinary restores the state; after an error it is undefined.
func (l *Learner) UnmarshalBinary(data []byte) error { return state.Decode(data, l.fields) }
