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
type Learner struct {
	*samplers.Growing // S_k and T_k, by sequence number: the points are in p
	opt               options

	p *hinge.Problem // sample, coefficients and direction; nil before S_0 has arrived

	k      uint64  // iterations
	delta  float64 // radius
	fresh  bool    // the next direction is the negative subgradient
	norm   float64 // ‖d‖ of the last direction
	step   float64 // ‖t d‖ of the last step
	moved  bool    // the candidate differs from the incumbent
	counts counters

	model  *expansion.Expansion // in use; nil without the guard once the coefficients have changed
	growth growthController     // whether the sample grows
	cert   certificate          // certificate of the model in use

	log   *slog.Logger
	evals int64 // kernel values computed for problems already discarded

	// Scratch.
	breaks []hinge.Break
	near   []int32
	rest   []int32
	listed []bool
	came   int // number of points at the end of the sample that have replaced others and not been optimised yet
	dual   hinge.Dual
}

var _ algos.Learner = (*Learner)(nil)

// stride thins out arrivals once the sample has stopped growing: one in stride
// joins, so the sample spans the last stride·|S| arrivals.
const stride = 16

func newLearner(env algos.Env, o options) (algos.Learner, error) {
	if env.Classes > 2 {
		return newClasses(env, o)
	}
	return newBinary(env, o)
}

func newBinary(env algos.Env, o options) (*Learner, error) {
	g, l := o.growing(), newClassifier(env, o)
	var err error
	l.Growing, err = samplers.NewGrowing(samplers.Options{Seed: env.Seed}, g)
	return l, err
}

// newClassifier returns a learner without a sampler, for one class against the rest.
func newClassifier(env algos.Env, o options) *Learner {
	return &Learner{opt: o, log: env.Log, growth: newGrowthController(), delta: o.Delta0, fresh: true, norm: math.NaN(), step: math.NaN()}
}

// growing returns the growth rule of the sample.
func (o *options) growing() samplers.Growth {
	g := samplers.Growth{
		Rule: o.Growth, Initial: o.Initial, Max: o.MaxSample, Step: fixedGrowth, Factor: doubling, Kappa: o.Kappa, PFail: failure,
		TMax: o.TMax, Recycle: o.guarded(), Full: o.Full, Stride: stride,
	}
	if o.guarded() {
		g.Reserve, g.ReserveLeast = 16, testLeast
	}
	return g
}

// Step is one iteration of the loop of Algorithm 1, starting at the draws. It
// optimises on the sample that they leave behind, which is where the next iteration
// begins. With the guard, the model in use changes only if the duality gap of the
// new one is small enough and the reserved draws do not show it to be worse;
// otherwise the sample waits.
func (l *Learner) Step(context.Context) (algos.Report, error) {
	l.retain()
	d := l.Take()                // lines 9 and 12: s_k, T_k
	l.grow(d.Join)               // lines 10 and 11: S_k, f_k
	l.test(d.Test)               // lines 13 to 16: α_k or α_{k−1}, and δ_k
	l.admit(d.Test)              // T_k is recycled
	l.optimise(false)            // lines 5 to 8: d_k, t_k, α_k
	l.Wait(l.serve(l.Pending())) // the reserved draws test the new model
	l.plan()                     // δ_k fixes |s_{k+1}| and |T_{k+1}|
	return l.Report(), nil
}

// Finish takes the pending draws into the sample and completes the optimisation.
func (l *Learner) Finish(context.Context) (algos.Report, error) {
	if l.opt.Final == 0 {
		return l.Report(), nil
	}
	l.retain()
	// Nothing is tested any more: growth does not have to pay for itself when there
	// is no later step.
	for d := l.Drain(); len(d.Join)+len(d.Test) > 0; d = l.Drain() {
		l.grow(d.Join)
		if len(d.Test) > 0 {
			l.extend(d.Test)
			l.p.Mark()
			l.admit(d.Test)
		}
	}
	if l.p == nil {
		return l.Report(), nil
	}
	l.optimise(true)
	if !l.guarded() {
		l.p.Mark() // no draws are left to test on
	}
	l.Wait(l.serve(nil))
	l.plan()
	return l.Report(), nil
}

// plan gives the sampler the radius and the bound M from which the next sample size
// follows. M bounds f(z)|: for K(z,z) ≤ 1 the norm of an iterate that is at least
// as good as 0 is at most √(2/λ), near the optimum at most 1/√λ.
func (l *Learner) plan() { l.Plan(l.delta, 1/math.Sqrt(l.p.Lambda)) }

// grow adds new points to the sample.
func (l *Learner) grow(draws []*stream.Example) {
	if len(draws) == 0 {
		return
	}
	if l.p == nil {
		l.begin(draws)
	}
	l.extend(draws)
	l.refresh()
}

// begin creates the problem for S_0.
func (l *Learner) begin(draws []*stream.Example) {
	l.p = hinge.New(l.opt.basis(samplers.Vecs(draws)), l.opt.CacheMB<<20)
}

// basis returns an empty point set for examples like xs.
func (o *options) basis(xs []stream.Vec) *kernel.Basis {
	f := o.Func(o.Bias, xs)
	if kernel.SparsePays(f, xs) {
		return kernel.NewSparse(f)
	}
	return kernel.New(f)
}

// refresh recomputes the active set of the whole sample. Only iterations on the
// whole sample use it.
func (l *Learner) refresh() {
	if l.opt.Margin == 0 {
		l.p.Refresh()
	}
}

// extend appends draws to the sample.
func (l *Learner) extend(draws []*stream.Example) {
	w := make([]float64, len(draws))
	for i, x := range draws {
		l.p.Basis.Append(x.X)
		w[i] = x.Y
	}
	l.p.Extend(w, weight.Of(draws))
	l.p.Lambda = l.lambda()
}

func (l *Learner) lambda() float64 { return l.opt.lambda(l.p.Mass()) }

// lambda returns λ for a sample of total weight m.
func (o *options) lambda(m float64) float64 {
	if math.IsNaN(o.Lambda) {
		return 1 / (o.C * m)
	}
	return o.Lambda
}

// Model returns the expansion in use.
func (l *Learner) Model() algos.Model {
	if l.model == nil {
		switch {
		case l.p == nil || l.guarded() && !l.cert.given:
			l.model = expansion.New(kernel.New(kernel.Func{}), nil, 0)
		case !l.guarded():
			l.model = expansion.New(l.p.Basis, l.p.Alpha0, 0)
		case l.cert.reduced: // as when it was put into use: no search was skipped then
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
			if l.cert.given {
				r.Certificate = l.cert.gap
			}
		case ok:
			r.Certificate = gap
		case l.opt.Margin == 0:
			r.Certificate = l.p.Certificate()
		}
		r.Sample = l.p.Len()
		r.KernelEvals = l.p.Rows.Evals + l.evals
		r.Gauges = l.gauges()
	}
	return r
}
