package scs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/internal/expansion"
	"github.com/streamsvm/streamsvm/algos/internal/hinge"
	"github.com/streamsvm/streamsvm/internal/kernel"
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
	Presets: presets,
	Gone:    gone,
}, (*Options).validate, New, expansion.Decode)

// Learner runs SCS; see the package documentation. Not safe for concurrent
// use.
type Learner struct {
	o Options

	p    *hinge.Problem    // S_k, the iterate and the direction; nil before S_0 is there
	pend []*stream.Example // arrivals not yet used: T_k, and s_k unless recycled

	k      uint64  // iterations
	delta  float64 // radius
	fresh  bool    // the next direction is the negative subgradient
	norm   float64 // ‖d‖ of the last direction
	step   float64 // ‖t d‖ of the last step
	moved  bool    // the candidate differs from the incumbent
	counts counters

	model *expansion.Expansion // in use; without the guard nil where the iterate has changed
	pace  pace                 // whether the sample grows
	proof proof                // of the model in use
	seq   []uint64             // Seq of the points of S_k

	shuffle *samplers.Shuffle
	log     *slog.Logger
	evals   int64 // kernel values computed for problems that are gone

	// Scratch.
	breaks []hinge.Break
	near   []int32
	rest   []int32
	listed []bool
	came   int // the newest points of the sample that have taken the place of others
	dual   hinge.Dual
}

var _ algos.Learner = (*Learner)(nil)

// New returns a learner that has seen nothing.
func New(env algos.Env, o Options) (algos.Learner, error) {
	return &Learner{
		o: o, log: env.Log, pace: newPace(), delta: o.Delta0, fresh: true, norm: math.NaN(), step: math.NaN(),
		shuffle: samplers.NewShuffle(o.Shuffle, env.Seed),
	}, nil
}

var (
	errLabel   = errors.New("label is neither +1 nor -1")
	errFeature = errors.New("a feature is not finite, or is too large for single precision kernels")
)

// Add takes x as one of the draws that make up the next samples. Examples
// without a label are let go by.
func (l *Learner) Add(x *stream.Example) (algos.Fate, error) {
	if !x.Labelled {
		return algos.SampledOut, nil
	}
	if x.Y != 1 && x.Y != -1 {
		return algos.SampledOut, &stream.FieldError{Stage: stream.StageLearn, Field: "y", Err: fmt.Errorf("%w: %g", errLabel, x.Y)}
	}
	if !kernel.Finite(x.X) {
		return algos.SampledOut, &stream.FieldError{Stage: stream.StageLearn, Field: "x", Err: errFeature}
	}
	if l.guarded() && !l.admits() {
		return algos.SampledOut, nil
	}
	if x = l.shuffle.Add(x); x != nil {
		l.pend = append(l.pend, x)
	}
	return algos.Learned, nil
}

// Need says how many draws are missing for the next step.
func (l *Learner) Need() algos.Need {
	grow, test := l.draws()
	missing := grow + test - len(l.pend)
	if missing > 0 {
		missing += l.shuffle.Free()
	}
	if l.guarded() {
		missing = l.arrivals(missing, test)
	}
	return algos.Need{Fresh: max(0, missing), Steps: 1}
}

// Step lets the sample grow by the draws that have come and optimises on it:
// one turn of the loop of Algorithm 1. With the guard, the model in use changes
// only if the new one has its duality gap and passes the test; otherwise the
// sample waits.
func (l *Learner) Step(context.Context) (algos.Report, error) {
	if l.guarded() {
		l.guardedStep()
		return l.Report(), nil
	}
	grow, test := l.draws()
	if l.p == nil {
		l.begin(grow)
	} else {
		l.take(grow, test)
	}
	l.optimise(l.o.Iterations, false)
	return l.Report(), nil
}

// Finish takes the pending draws into the sample and completes the
// optimisation.
func (l *Learner) Finish(context.Context) (algos.Report, error) {
	if l.o.Final == 0 {
		return l.Report(), nil
	}
	l.pend = append(l.pend, l.shuffle.Drain()...)
	l.Model() // as in guardedStep
	if l.p == nil {
		if len(l.pend) == 0 {
			return l.Report(), nil
		}
		l.begin(min(len(l.pend), l.o.MaxSample))
	}
	for len(l.pend) > 0 {
		m, n := l.p.Len(), min(len(l.pend), max(1, l.limit()/2))
		l.extend(n)
		l.p.Mark()
		l.absorb(m, n)
	}
	l.optimise(l.o.Final, true)
	if l.o.asPaper() {
		l.p.Mark() // no draws are left to test on
	}
	if l.guarded() {
		l.pace.since, l.proof.latest = 0, false
		l.serve(nil)
	}
	return l.Report(), nil
}

// begin makes S_0 of the first n draws.
func (l *Learner) begin(n int) {
	xs := make([]stream.Vec, n)
	for i := range xs {
		xs[i] = l.pend[i].X
	}
	o := l.o
	f := o.Func(o.Bias, xs)
	basis := kernel.New(f)
	if kernel.SparsePays(f, xs) {
		basis = kernel.NewSparse(f)
	}
	l.p = hinge.New(basis, o.CacheMB<<20)
	l.extend(n)
	l.refresh()
}

// refresh brings the active set of the whole sample up to date, which only
// iterations on the whole sample need.
func (l *Learner) refresh() {
	if l.o.Margin == 0 {
		l.p.Refresh()
	}
}

// extend moves the first n pending draws into the sample.
func (l *Learner) extend(n int) {
	w := make([]float64, n)
	for i, e := range l.pend[:n] {
		l.p.Basis.Append(e.X)
		w[i] = e.Y
		l.seq = append(l.seq, e.Seq)
	}
	l.p.Extend(w)
	left := copy(l.pend, l.pend[n:])
	clear(l.pend[left:])
	l.pend = l.pend[:left]
	l.p.Lambda = l.lambda()
}

func (l *Learner) lambda() float64 {
	if math.IsNaN(l.o.Lambda) {
		return 1 / (l.o.C * float64(l.p.Len()))
	}
	return l.o.Lambda
}

// Model returns the expansion in use.
func (l *Learner) Model() algos.Model {
	if l.model == nil {
		switch {
		case l.p == nil || l.guarded() && !l.proof.given:
			l.model = expansion.New(kernel.New(kernel.Func{}), nil, 0)
		case l.o.asPaper():
			l.model = expansion.New(l.p.Basis, l.p.Alpha0, 0)
		case l.proof.reduced: // as when it came into use: the search did not rest
			l.model = l.reduce()
		default:
			l.model = expansion.New(l.p.Basis, l.p.Alpha, 0)
		}
	}
	return l.model
}

// Report describes the present state.
func (l *Learner) Report() algos.Report {
	r := algos.NewReport()
	r.Step, r.GradNorm, r.StepSize, r.KernelEvals = l.k, l.norm, l.step, 0
	if l.p != nil {
		r.Objective = l.p.Objective()
		switch gap, ok := l.p.Gap(); {
		case l.guarded():
			if l.proof.given {
				r.Certificate = l.proof.gap
			}
		case ok:
			r.Certificate = gap
		case l.o.Margin == 0:
			r.Certificate = l.p.Certificate()
		}
		r.Sample = l.p.Len()
		r.KernelEvals = l.p.Rows.Evals + l.evals
		r.Gauges = l.gauges()
	}
	return r
}
