// Package smo learns a kernel SVM from a stream by sequential minimal optimisation,
// on a buffer of examples.
//
// Options are stable; the package has no other API.
package smo

import (
	"context"
	"math"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/kernel/rows"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/internal/weight"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// Learner maximises, over the examples of a buffer,
//
//	Σ α_i − ½ Σ α_i α_j y_i y_j K(x_i,x_j),   0 ≤ α_i ≤ w_i/(λ n)
//
// and, with an intercept b, Σ α_i y_i = 0, where w_i are the weights of the
// examples and n is their sum. It is 1/λ times the dual of
// λ/2 ‖w‖² + mean_i max(0, 1 − y_i (⟨w,Φ(x_i)⟩ + b)), w = Σ α_i y_i Φ(x_i).
//
// An iteration with an intercept changes two coefficients: i, which violates
// the optimality conditions most, and j, with which the objective gains most by
// its second-order expansion (Fan, Chen, Lin, JMLR 2005, WSS 2; LIBSVM's
// choice). Without one it changes the coefficient that gains most.
//
// The solution is kept from one step to the next. Arrivals start with α = 0.
// An example that leaves hands its α over to others, one at a time, to those
// that then lose least, so that Σ α_i y_i stays 0.
//
// Departures: no shrinking of the problem; rows are float32, sums float64.
//
// Cost: two kernel rows an iteration, less those in the cache, and one value
// for each support vector an arrival. Memory: Buffer examples in packed form,
// the cache, 56 bytes an example. Not safe for concurrent use.
type Learner struct {
	*samplers.Buffer
	opt options

	// The members of the buffer, by slot.
	basis *kernel.Basis
	y     []float64
	v     weight.List
	alpha []float64
	s     []float64 // ⟨w, Φ(x_i)⟩
	diag  []float64 // K(x_i, x_i)
	rows  *rows.Cache

	// What sides notes during an optimisation: 0 or, not to be chosen, infinite.
	notUp, notLow []float64

	step    uint64
	bound   float64 // that alpha keeps to, for an example of weight 1
	b       float64
	worst   float64 // violation at the last look
	fresh   bool    // there may be something to improve
	removed uint64

	model *expansion.Expansion
}

func newLearner(env algos.Env, o options) (algos.Learner, error) {
	b, err := samplers.New(samplers.Options{Policy: samplers.Policy(o.Keep), Size: o.Buffer, Seed: env.Seed, Every: o.Every, Warmup: o.Warmup()})
	l := &Learner{Buffer: b, opt: o, basis: kernel.New(o.Func(o.Bias, nil))}
	l.rows = rows.New(l.basis, o.CacheMB<<20)
	return l, err
}

// Step takes the pending examples into the buffer and does at most Updates
// iterations for every Every of them.
func (l *Learner) Step(ctx context.Context) (algos.Report, error) {
	if err := ctx.Err(); err != nil {
		return algos.Report{}, err
	}
	n := l.opt.Updates * max(1, len(l.Pending())/l.opt.Every)
	l.arrive()
	l.optimise(n)
	return l.Report(), nil
}

// Finish takes the pending examples in and iterates until nothing violates the
// conditions by more than Tol, or Final is reached.
func (l *Learner) Finish(ctx context.Context) (algos.Report, error) {
	return l.Refine(ctx, int(math.Ceil(l.opt.Final*float64(l.basis.Len()+len(l.Pending())))))
}

// Refine takes the pending examples in and does at most n iterations.
func (l *Learner) Refine(ctx context.Context, n int) (algos.Report, error) {
	l.arrive()
	for n > 0 && l.fresh {
		if err := ctx.Err(); err != nil {
			return algos.Report{}, err
		}
		k := min(n, 256)
		l.optimise(k)
		n -= k
	}
	return l.Report(), nil
}

// lambda returns the ridge weight.
func (l *Learner) lambda() float64 {
	if math.IsNaN(l.opt.Lambda) {
		return 1 / (l.opt.C * l.v.Sum(max(len(l.y), 1)))
	}
	return l.opt.Lambda
}

// most bounds α_i.
func (l *Learner) most(i int) float64 { return l.bound * l.v.At(i) }

// setBound sets the bound on coefficients to 1/(λ n). With λ given it falls as
// the buffer fills; all coefficients fall with it, which keeps their sum 0.
func (l *Learner) setBound() {
	old := l.bound
	if l.bound = l.opt.C; math.IsNaN(l.opt.Lambda) {
		return
	}
	if l.bound = 1 / (l.opt.Lambda * l.v.Sum(len(l.y))); !(l.bound < old) {
		return
	}
	q := l.bound / old
	for i := range l.alpha {
		if l.alpha[i] == old*l.v.At(i) {
			l.alpha[i] = l.most(i)
		} else {
			l.alpha[i] *= q
		}
		l.s[i] *= q
	}
}

// arrive takes the pending examples into the buffer. Examples that make room
// leave first; then one sweep over the support vectors gives the responses of
// those that have come.
func (l *Learner) arrive() {
	if len(l.Pending()) == 0 {
		return
	}
	if !l.Ready() {
		l.basis = kernel.New(l.opt.Func(l.opt.Bias, l.Vecs()))
		l.rows = rows.New(l.basis, l.opt.CacheMB<<20)
	}
	d := l.Take()
	slots, xs := d.Last()
	if len(slots) == 0 {
		return
	}
	l.model, l.fresh = nil, true
	l.leave(d.Gone)
	l.rows.Tick()
	sparse := l.basis.Sparse()
	for q, i := range slots {
		x := xs[q]
		if i < len(l.y) {
			l.basis.Set(i, x.X)
			l.y[i], l.s[i] = x.Y, 0
		} else {
			l.basis.Append(x.X)
			l.y, l.alpha, l.s = append(l.y, x.Y), append(l.alpha, 0), append(l.s, 0)
		}
		l.v.Set(i, len(l.y), x.Importance())
		l.rows.Changed(i)
	}
	l.rows.Sync()
	l.measure(slots, sparse)
	l.setBound()
	l.respond(slots, xs)
}

// measure computes K(x,x) of new examples, or of all if their layout, on which
// the last bits depend, is no longer what it was.
func (l *Learner) measure(slots []int, sparse bool) {
	for len(l.diag) < len(l.y) {
		l.diag = append(l.diag, 0)
	}
	if l.basis.Sparse() == sparse {
		for _, i := range slots {
			l.diag[i] = l.basis.Diag(i)
		}
		return
	}
	for i := range l.diag {
		l.diag[i] = l.basis.Diag(i)
	}
}

// respond computes the responses of new examples from their kernel values with
// the support vectors.
func (l *Learner) respond(slots []int, examples []*stream.Example) {
	var idx []int32
	var c []float64
	for i, a := range l.alpha {
		if a != 0 {
			idx = append(idx, int32(i))
			c = append(c, float64(a*l.y[i]))
		}
	}
	if len(idx) == 0 {
		return
	}
	support := l.basis.Subset(idx)
	block := make([]float32, min(len(slots), rows.Block)*len(idx))
	xs := samplers.Vecs(examples)
	for len(slots) > 0 {
		n := min(len(slots), rows.Block)
		support.Block(block, len(idx), xs[:n], 0, len(idx))
		for r, i := range slots[:n] {
			l.s[i] = vec.DotMixed(block[r*len(idx):(r+1)*len(idx)], c)
		}
		l.rows.Evals += int64(n * len(idx))
		slots, xs = slots[n:], xs[n:]
	}
}

// Model returns w and b.
func (l *Learner) Model() algos.Model {
	if l.model == nil {
		c := make([]float64, len(l.y))
		for i, a := range l.alpha {
			c[i] = a * l.y[i]
		}
		l.model = expansion.New(l.basis, c, l.b)
	}
	return l.model
}

// Report describes the present state. The certificate is the duality gap.
func (l *Learner) Report() algos.Report {
	r := algos.NewReport()
	r.Step, r.Sample, r.KernelEvals = l.step, len(l.y), l.rows.Evals
	support := 0
	if n := l.v.Sum(len(l.y)); n > 0 && l.step > 0 {
		lambda := l.lambda()
		var norm2, loss, sum float64
		for i, a := range l.alpha {
			norm2 += float64(float64(a*l.y[i]) * l.s[i])
			loss += float64(l.v.At(i) * max(0, 1-float64(l.y[i]*(l.s[i]+l.b))))
			sum += a
			if a != 0 {
				support++
			}
		}
		r.Objective = float64(lambda/2*norm2) + loss/n
		r.Certificate = max(0, float64(lambda*norm2)+loss/n-float64(lambda*sum))
	}
	r.Gauges = []stream.Measure{
		{Name: "support", Value: float64(support)},
		{Name: "violation", Value: l.worst},
		{Name: "bias", Value: l.b},
		{Name: "removed", Value: float64(l.removed)},
	}
	return r
}
