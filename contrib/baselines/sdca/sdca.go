// Package sdca learns a kernel SVM from a stream by stochastic dual coordinate
// ascent, on a buffer of examples.
//
// Options are stable; the package has no other API.
package sdca

import (
	"context"
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/internal/weight"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// options are the learner's options; the tags say what they mean.
type options struct {
	C float64 `opt:"c" default:"1" range:"(0,inf)" tune:"log 0.1 1000" doc:"weight of the losses as in LIBSVM: lambda = 1/(C n) for a buffer of n examples; used while lambda is auto"`
	kernel.Options
	Buffer int `opt:"buffer" default:"5000" range:"[1,1e8]" paper:"n" doc:"examples held: the last ones"`

	Lambda float64 `opt:"lambda" fixed:"auto" range:"(0,inf)" auto:"1/(C n)"` // ridge weight
	Every  int     `opt:"every" fixed:"8" range:"[1,1e8]"`                    // examples a step, between which the model stays as it is
	Visits int     `opt:"visits" fixed:"3" range:"[0,1e5]"`                   // examples of the buffer visited after each arrival
	Bias   float64 `opt:"bias" fixed:"1" range:"[0,inf)"`                     // constant added to the kernel, which gives the model a regularised bias; 0 for none
	Choice int     `opt:"choice" fixed:"32" range:"[1,1e5]"`                  // A visit is to the one of so many random examples with which the dual gains most
	Mean   float64 `opt:"average" fixed:"0.03" range:"[0,1]"`                 // the model between arrivals is a mean over the last ones, so many times the buffer; 0 takes the last iterate
	Final  float64 `opt:"final" fixed:"2" range:"[0,1000]"`                   // random visits at the end of a bounded stream, as a multiple of the examples held
}

// Spec registers the learner.
var Spec = algos.Define(algos.SpecInfo{
	Name:    "sdca",
	Summary: "kernel SVM by stochastic dual coordinate ascent on the last examples",
	When:    "a baseline with a duality gap; scs and sbp need fewer kernel evaluations",
	Paper:   "Hsieh, Chang, Lin, Keerthi, Sundararajan: A Dual Coordinate Descent Method for Large-scale Linear SVM, ICML 2008, Algorithm 1, with a kernel",
	Kind:    algos.Kernel,
	Presets: map[string]map[string]string{
		"paper": {"bias": "0", "every": "1", "visits": "2", "choice": "1", "average": "0"},
		// The last iterate leans to the latest labels.
		"drift": {"every": "1", "visits": "2", "choice": "1", "average": "0", "buffer": "2000"},
	},
}, check, newLearner, expansion.Decode)

func check(o *options) error { return o.Check() }

// Learner maximises, over the examples of a window,
//
//	Σ α_i − ½ Σ α_i α_j y_i y_j K(x_i,x_j),   0 ≤ α_i ≤ w_i/(λ n)
//
// where w_i are the weights of the examples and n is their sum, one coordinate at
// a time: each arrival first, then the best of some random
// ones. It is λ times the dual of λ/2 ‖w‖² + mean hinge, w = Σ α_i y_i Φ(x_i).
// An example that leaves the window takes its share of w along.
//
// An arrival whose label is noise, and one that leaves, move w by as much as a
// coefficient can be, and it takes many small changes of others to make good
// for that. So the last iterate is never near the optimum of the window while
// the stream goes on, and the model is a mean over iterates, in which the moves
// cancel. Examples that have left stay in the mean as long as iterates do that
// they were in: it would miss them more than it would miss those iterates.
//
// Cost: a kernel row an arrival, one an example that leaves and one a visit
// that changes a coefficient. Not safe for concurrent use.
type Learner struct {
	*samplers.Buffer // of the last ones, by slot
	opt              options
	rng              *rng.Source

	basis *kernel.Basis
	y     []float64
	v     weight.List
	mass  float64 // Σ v
	alpha []float64
	s     []float64 // ⟨w, Φ(x_i)⟩
	step  uint64
	fresh bool
	evals int64

	// The mean of the iterates is α + fade·lead, so that a coefficient costs
	// nothing while it stays as it is. Of those that have left, whose α is 0,
	// past holds the last ones; their leads are signed.
	lead     []float64
	fade     float64
	averaged uint64 // iterates in the mean
	past     *kernel.Basis
	pastLead []float64
	pastNext int // the oldest once the room is used up

	w   []float64 // α_i y_i
	row []float32

	// The model and its memory, which is used again: a model a step, of all
	// support vectors, would be most of what there is to collect.
	model *expansion.Expansion
	shown *kernel.Basis
	coef  []float64
	idx   []int32
}

func newLearner(env algos.Env, o options) (algos.Learner, error) {
	b, err := samplers.New(samplers.Options{Policy: samplers.Recent, Size: o.Buffer, Every: o.Every, Warmup: o.Warmup()})
	return &Learner{
		Buffer: b,
		opt:    o, basis: kernel.New(o.Func(o.Bias, nil)), rng: rng.New(env.Seed, "sdca.draw"),
		past: kernel.New(o.Func(o.Bias, nil)), fade: 1, shown: kernel.New(o.Func(o.Bias, nil)),
	}, err
}

// Step takes the pending examples in and makes Visits visits for each. Its
// report has no objective and no gauges, which would take a look at the whole
// window for each arrival.
func (l *Learner) Step(ctx context.Context) (algos.Report, error) {
	if err := ctx.Err(); err != nil {
		return algos.Report{}, err
	}
	l.take()
	return l.counts(), nil
}

// take takes the pending examples in, with so many visits for each and one of
// its own.
func (l *Learner) take() {
	l.setKernel()
	d := l.Take()
	for q, x := range d.Join {
		i := d.Slots[q]
		l.visit(i, l.place(i, x))
		for range l.opt.Visits {
			l.visit(l.choose(), nil)
		}
		l.average()
	}
}

// choose returns the one of Choice random examples with which the dual gains
// most. Most coefficients of a noisy window are at a bound and stay there, so
// that a random visit seldom does anything.
func (l *Learner) choose() int {
	best := l.rng.IntN(len(l.y))
	if l.opt.Choice == 1 {
		return best
	}
	most := l.gain(best)
	for range l.opt.Choice - 1 {
		i := l.rng.IntN(len(l.y))
		if g := l.gain(i); g > most {
			best, most = i, g
		}
	}
	return best
}

// gain returns what a visit of example i adds to the dual.
func (l *Learner) gain(i int) float64 {
	kii := l.basis.Diag(i)
	d := l.best(i, kii) - l.alpha[i]
	return float64(d*(1-float64(l.y[i]*l.s[i]))) - float64(float64(d*d)*kii)/2
}

func (l *Learner) setKernel() {
	if !l.Ready() && len(l.Pending()) > 0 {
		f := l.opt.Func(l.opt.Bias, l.Vecs())
		l.basis, l.past = kernel.New(f), kernel.New(f)
	}
}

// Finish takes the pending examples in and makes the final visits.
func (l *Learner) Finish(ctx context.Context) (algos.Report, error) {
	l.take()
	if l.fresh {
		l.forget()
		for range int(math.Ceil(l.opt.Final * float64(len(l.y)))) {
			if err := ctx.Err(); err != nil {
				return algos.Report{}, err
			}
			l.visit(l.rng.IntN(len(l.y)), nil)
		}
		l.fresh = false
	}
	return l.Report(), nil
}

// place puts x into a slot and returns its kernel row, if that was needed.
func (l *Learner) place(i int, x *stream.Example) []float32 {
	l.fresh = true
	if i == len(l.y) {
		l.basis.Append(x.X)
		l.y, l.alpha, l.s = append(l.y, x.Y), append(l.alpha, 0), append(l.s, 0)
		l.lead, l.w = append(l.lead, 0), append(l.w, 0)
	} else {
		if l.alpha[i] != 0 {
			l.change(i, 0, l.kernelRow(i))
		}
		l.leave(i)
		l.basis.Set(i, x.X)
		l.y[i] = x.Y
	}
	l.v.Set(i, len(l.y), x.Importance())
	l.mass = l.v.Sum(len(l.y))
	l.s[i] = 0
	if !l.support() {
		return nil
	}
	k := l.kernelRow(i)
	l.s[i] = vec.DotMixed(k, l.w)
	return k
}

// support reports whether w has any support vectors.
func (l *Learner) support() bool {
	for _, a := range l.alpha {
		if a != 0 {
			return true
		}
	}
	return false
}

// visit maximises over the coefficient of example i. k is its kernel row, or
// nil.
func (l *Learner) visit(i int, k []float32) {
	l.step++
	a := l.best(i, l.basis.Diag(i))
	if a == l.alpha[i] {
		return
	}
	if k == nil {
		k = l.kernelRow(i)
	}
	l.change(i, a, k)
}

// best returns the best α_i, the others being what they are.
func (l *Learner) best(i int, kii float64) float64 {
	if !(kii > 0) {
		return l.alpha[i]
	}
	return min(max(l.alpha[i]+(1-float64(l.y[i]*l.s[i]))/kii, 0), l.v.At(i)*l.bound())
}

// change sets α_i to a, given the kernel row of i.
func (l *Learner) change(i int, a float64, k []float32) {
	l.model = nil
	vec.AxpyMixed(float64((a-l.alpha[i])*l.y[i]), k, l.s)
	if l.averaged > 0 {
		l.lead[i] += (l.alpha[i] - a) / l.fade
	}
	l.alpha[i], l.w[i] = a, a*l.y[i]
}

func (l *Learner) kernelRow(i int) []float32 {
	n := len(l.y)
	if len(l.row) < n {
		l.row = make([]float32, 2*n)
	}
	l.basis.Between(l.row, n, []int32{int32(i)}, 0, n)
	l.evals += int64(n)
	return l.row[:n]
}

func (l *Learner) lambda() float64 {
	if math.IsNaN(l.opt.Lambda) {
		return 1 / (l.opt.C * l.mass)
	}
	return l.opt.Lambda
}

// bound returns 1/(λ n), which is for an example of weight 1. With λ given it falls as the window fills; a
// coefficient above it is brought down at the next visit.
func (l *Learner) bound() float64 { return 1 / (l.lambda() * l.mass) }

func (l *Learner) counts() algos.Report {
	r := algos.NewReport()
	r.Step, r.Sample, r.KernelEvals = l.step, len(l.y), l.evals
	return r
}

// Report describes the last iterate. The certificate is the duality gap, once
// every coefficient is within its bound.
func (l *Learner) Report() algos.Report {
	r := l.counts()
	support := 0
	if n := l.mass; n > 0 {
		lambda, bound := l.lambda(), l.bound()
		var norm2, loss, sum float64
		inside := true
		for i, a := range l.alpha {
			c := float64(l.y[i] * l.s[i])
			norm2 += float64(a * c)
			loss += float64(l.v.At(i) * max(0, 1-c))
			sum += a
			inside = inside && a <= l.v.At(i)*bound*(1+1e-12)
			if a != 0 {
				support++
			}
		}
		r.Objective = float64(lambda/2*norm2) + loss/n
		if inside {
			r.Certificate = max(0, float64(lambda*norm2)+loss/n-float64(lambda*sum))
		}
	}
	r.Gauges = []stream.Measure{{Name: "support", Value: float64(support)}}
	return r
}

// Model returns the mean of the iterates or, if there is none, the last one.
func (l *Learner) Model() algos.Model {
	if l.model == nil {
		l.model = l.expansion()
	}
	return l.model
}

func (l *Learner) fields(f *state.Fields) {
	f.Group("buffer", l.Buffer.Fields)
	f.Binary("rng", l.rng)
	f.Group("points", l.basis.Fields)
	f.Float64s("y", &l.y)
	f.Float64s("alpha", &l.alpha)
	f.Float64s("s", &l.s)
	f.Uint64("step", &l.step)
	f.Bool("fresh", &l.fresh)
	f.Int64("evals", &l.evals)
	f.Float64s("lead", &l.lead)
	f.Float64("fade", &l.fade)
	f.Uint64("averaged", &l.averaged)
	f.Group("past", l.past.Fields)
	f.Float64s("past_lead", &l.pastLead)
	f.Int("past_next", &l.pastNext)
	l.v.Fields(f, len(l.y))
	if !f.Decoding() || f.Err() != nil {
		return
	}
	n := l.basis.Len()
	if len(l.y) != n || len(l.alpha) != n || len(l.s) != n || l.Len() != n {
		f.Fail("alpha", fmt.Errorf("lengths do not agree with %d examples", n))
		return
	}
	l.mass = l.v.Sum(n)
	l.w = make([]float64, n)
	for i, y := range l.y {
		if y != 1 && y != -1 || !(l.alpha[i] >= 0) || math.IsInf(l.alpha[i], 1) || l.s[i]-l.s[i] != 0 {
			f.Fail("alpha", fmt.Errorf("example %d", i))
			return
		}
		l.w[i] = l.alpha[i] * y
	}
	if p := len(l.pastLead); len(l.lead) != n || l.past.Len() != p || p > l.room() || l.pastNext < 0 || l.pastNext >= max(p, 1) {
		f.Fail("past", fmt.Errorf("%d examples that have left, room for %d, means of %d", p, l.room(), len(l.lead)))
		return
	}
	if !(l.fade >= leastFade && l.fade <= 1) || !finite(l.lead) || !finite(l.pastLead) {
		f.Fail("lead", fmt.Errorf("out of bounds"))
	}
	l.model = nil
}

// AppendBinary appends the complete state.
func (l *Learner) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, l.fields) }

// UnmarshalBinary restores the state; after an error it is undefined.
func (l *Learner) UnmarshalBinary(data []byte) error {
	l.model = nil
	return state.Decode(data, l.fields)
}
