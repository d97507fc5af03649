// Package sbp learns a kernel SVM from a stream with the kernelized stochastic
// batch perceptron, on a buffer of examples.
//
// Options are stable; the package has no other API.
package sbp

import (
	"context"
	"math"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/kernel/rows"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// Learner runs the kernelized stochastic batch perceptron (Cotter, Shalev-Shwartz,
// Srebro, ICML 2012, Algorithms 1 to 3).
//
// Over the n examples of a buffer it maximises, for ‖w‖ ≤ 1,
//
//	f(w) = max_{b, ξ}  min_i (c_i + y_i b + ξ_i),   c_i = y_i ⟨w, Φ(x_i)⟩,  ξ ≥ 0,  Σ ξ_i ≤ n ν
//
// whose value γ is the height of a volume n ν of water poured over the responses c.
// Let w* be the minimiser of λ/2 ‖w‖² + mean hinge and L its mean hinge loss. With
// ν = L/‖w*‖, w*/‖w*‖ maximises f, and f = 1/‖w*‖. An update draws an example i at
// random from the examples under water,
//
//	w ← w + η y_i Φ(x_i),   η = 1/√(t max_j K(x_j,x_j)),   then w ← w/‖w‖ if ‖w‖ > 1
//
// and updates all responses, which needs the kernel row of i. The model is the average
// of the iterates divided by its γ. Its mean hinge loss on the buffer is exactly ν/γ.
//
// Paper → code: α scale·a, c scale·y∘u, ‖w‖² r2, γ and b cur.gamma and cur.bias
// times scale, their averages bar, Σ_t α sumS·a − lag, Σ_t c y∘sumU, T step.
//
// There are these departures, all of them options except the first. Candidates for
// updates are predicted, so that rows can be computed in blocks; this does not change
// the draws. ν is adapted to λ at each restart, by minimising the regularised risk over
// the multiples of the present average (at a fixed ν the average can only have a
// smaller risk than at the last restart, so the sequence descends towards w*). Examples
// arrive and are evicted, and averages restart, as described at the methods below.
//
// The printed algorithms are followed with these corrections: ‖w‖² = Σ α_i c_i;
// water also covers the largest response; with ν = 0 the draw is from the smallest
// responses; the average is divided by γ only if γ > 0.
//
// Cost: n kernel values per update, minus cached ones, and one value per support
// vector for each arrival. Memory: the cache, a block of rows and, with more than
// 1,024 features, 28 bytes per nonzero, 300 per example (in the buffer or frozen), and
// 200 per feature; otherwise Buffer examples in packed form and 72 bytes each. The
// process may take twice as much, since the garbage collector lets the heap double.
// It is not safe for concurrent use.
type Learner struct {
	*samplers.Buffer
	opt options
	rng *rng.Source

	// The members of the buffer, by slot.
	basis *kernel.Basis
	y     []float64
	a     []float64 // coefficients are scale·a·y
	u     []float64 // responses are scale·u·y
	lag   []float64
	sumU  []float64
	rows  *rows.Cache

	// Examples that have left the buffer but not the model; their coefficients are
	// signed.
	cold           *kernel.Basis
	coldA, coldLag []float64
	coldNext       int // the oldest one, once there are Frozen of them
	removed        uint64

	scale, r2    float64
	sum2, sumW   float64 // ‖S‖² and ⟨S,w⟩, where S is the sum of the iterates in the average
	shrunk       float64 // logarithm of the shrinkage of w beyond the amount that Frozen requires
	maxDiag      float64
	t            float64 // step count for the step size
	step         uint64
	sumS, weight float64 // over the iterates in the average: Σ weight·scale, Σ weight
	since        int     // arrivals since the last restart
	fresh        bool
	nu           float64
	fixed        bool // nu is given, not adapted
	only         float64
	cur, bar     level
	barUnit      float64 // factor for the numbers of bar

	model *expansion.Expansion // over shown
	shown *kernel.Basis
	swept *kernel.Basis // scratch: the support vectors of a sweep
	depth int           // number of rows to look ahead
	reach int           // updates since the last look-ahead

	// Scratch memory.
	peek                  rng.Source
	ahead, picked, chosen []int32
	coefs, lags           []float64
	block, own            []float32
	parts                 [][2]float64 // sums of a sweep, by piece and example
}

// coldSpans is the logarithm of the factor by which w shrinks, by projections or
// otherwise, during Frozen freezes: when an example is removed, e⁻⁵ of its
// contribution is left.
const coldSpans = 5

// firstNu is the initial ν for kernels with K(x,x) = 1.
const firstNu = 0.01

func newLearner(env algos.Env, o options) (algos.Learner, error) {
	b, err := samplers.New(samplers.Options{Policy: samplers.Policy(o.Keep), Size: o.Buffer, Seed: env.Seed, Every: o.Every, Warmup: o.Warmup()})
	l := &Learner{
		Buffer: b,
		opt:    o, basis: kernel.New(o.Func(o.Bias, nil)), cold: kernel.New(o.Func(o.Bias, nil)),
		shown: kernel.New(kernel.Func{}), swept: kernel.New(kernel.Func{}),
		rng:   rng.New(env.Seed, "sbp.draw"),
		scale: 1, barUnit: 1, depth: 4, nu: o.Nu, fixed: !math.IsNaN(o.Nu),
	}
	if !l.fixed {
		l.nu = firstNu
	}
	l.rows = rows.New(l.basis, o.CacheMB<<20)
	return l, err
}

// Limits implements algos.Limited. Weights are ignored: all examples count alike.
func (l *Learner) Limits() algos.Limits { return algos.Limits{Unweighted: true} }

// Step adds the pending examples to the buffer and does Updates updates per Every
// of them.
func (l *Learner) Step(ctx context.Context) (algos.Report, error) {
	if err := ctx.Err(); err != nil {
		return algos.Report{}, err
	}
	updates := l.opt.Updates * max(1, len(l.Pending())/l.opt.Every)
	l.arrive()
	if l.opt.Restart > 0 && float64(l.since) >= l.opt.Restart*float64(len(l.y)) {
		l.restart(shrink, retain)
	}
	l.update(updates)
	l.settle()
	return l.Report(), nil
}

// finalParts divides the final updates into parts with a new average each. The last
// average is over the second half.
var finalParts = [...]float64{1. / 8, 1. / 8, 1. / 4, 1. / 2}

// Finish adds the pending examples and does the final updates.
func (l *Learner) Finish(ctx context.Context) (algos.Report, error) {
	if len(l.Pending()) > 0 {
		l.arrive()
		l.settle()
	}
	if !l.fresh {
		return l.Report(), nil
	}
	total := math.Ceil(l.opt.Final * float64(len(l.y)))
	if l.opt.Restart == 0 {
		if err := l.batch(ctx, int(total)); err != nil {
			return algos.Report{}, err
		}
	} else {
		for _, part := range finalParts {
			l.restart(1, 0)
			if err := l.batch(ctx, int(math.Ceil(part*total))); err != nil {
				return algos.Report{}, err
			}
		}
	}
	l.fresh = false
	l.settle()
	return l.Report(), nil
}

// batch does n updates, checking ctx from time to time.
func (l *Learner) batch(ctx context.Context, n int) error {
	for n > 0 {
		if err := ctx.Err(); err != nil {
			l.settle()
			return err
		}
		k := min(n, 256)
		l.update(k)
		n -= k
	}
	l.settle()
	return nil
}

// lambda returns the ridge weight to which ν is adapted.
func (l *Learner) lambda() float64 {
	if math.IsNaN(l.opt.Lambda) {
		return 1 / (l.opt.C * float64(len(l.y)))
	}
	return l.opt.Lambda
}

// volume returns n ν.
func (l *Learner) volume() float64 { return l.nu * float64(len(l.y)) }

// solvable reports whether there is anything to solve: an example or, with an
// intercept, an example of each class.
func (l *Learner) solvable() bool {
	var has [2]bool
	for _, y := range l.y {
		if y > 0 {
			has[0] = true
		} else {
			has[1] = true
		}
		if has[0] && has[1] {
			return true
		}
	}
	return !l.opt.Intercept && len(l.y) > 0
}

// settle finds γ and b of the average and so updates the model.
func (l *Learner) settle() {
	l.model = nil
	if !l.solvable() {
		// Responses of a single class say nothing about b: the model does not change.
		// Before the first update it predicts that class.
		if len(l.y) > 0 && l.step == 0 {
			l.only = l.y[0]
		}
		return
	}
	u, unit := l.u, l.scale
	if l.weight > 0 {
		u, unit = l.sumU, 1/l.weight
	}
	l.bar.rescale(l.barUnit / unit)
	l.barUnit = unit
	l.bar.solve(u, l.y, l.volume()/unit, l.opt.Intercept)
}

// coef returns the coefficient of slot i before division by γ, given its a and lag.
func (l *Learner) coef(a, lag float64) float64 {
	if l.weight > 0 {
		return (float64(l.sumS*a) - lag) / l.weight
	}
	return l.scale * a
}

// Model returns the average divided by its γ. An average with γ ≤ 0, which makes more
// mistakes than the slack allows, is not divided: its decisions have the right sign
// but not the right magnitude.
func (l *Learner) Model() algos.Model {
	if l.model == nil {
		l.model = l.expansion()
	}
	return l.model
}

func (l *Learner) expansion() *expansion.Expansion {
	if l.step == 0 {
		return expansion.New(kernel.New(l.basis.Func), nil, l.only)
	}
	size := 1.0
	if g := l.bar.gamma * l.barUnit; g > 0 {
		size = 1 / g
	}
	idx, cold := l.picked[:0], l.chosen[:0]
	c := make([]float64, 0, len(l.a)+len(l.coldA))
	for i, a := range l.a {
		if v := size * l.y[i] * l.coef(a, l.lag[i]); v != 0 {
			idx, c = append(idx, int32(i)), append(c, v)
		}
	}
	for i, a := range l.coldA {
		if v := size * l.coef(a, l.coldLag[i]); v != 0 {
			cold, c = append(cold, int32(i)), append(c, v)
		}
	}
	l.picked, l.chosen = idx, cold
	l.shown.Pick(kernel.Part{Basis: l.basis, Idx: idx}, kernel.Part{Basis: l.cold, Idx: cold})
	return expansion.View(l.shown, c, size*l.bar.bias*l.barUnit)
}

// Report describes the present state. The objective is −γ of the average.
func (l *Learner) Report() algos.Report {
	r := algos.NewReport()
	r.Step, r.Sample, r.KernelEvals = l.step, len(l.y), l.rows.Evals
	nan := math.NaN()
	gamma, hinge, bias := nan, nan, nan
	if l.step > 0 {
		r.StepSize = l.eta(l.t)
		gamma, bias = l.bar.gamma*l.barUnit, l.bar.bias*l.barUnit
		r.Objective = -gamma
		if gamma > 0 {
			hinge = l.nu / gamma
			bias /= gamma
		}
	}
	r.Gauges = []stream.Measure{
		{Name: "gamma", Value: gamma},
		{Name: "bias", Value: bias},
		{Name: "nu", Value: l.nu},
		{Name: "hinge", Value: hinge},
		{Name: "norm", Value: math.Sqrt(l.r2)},
		{Name: "under_water", Value: float64(l.bar.under)},
		{Name: "support", Value: float64(expansion.Nonzero(l.a))},
		{Name: "frozen", Value: float64(l.cold.Len())},
		{Name: "removed", Value: float64(l.removed)},
	}
	return r
}
