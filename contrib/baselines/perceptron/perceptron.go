// Package perceptron learns a kernel classifier from a stream with the perceptron
// rule, on a budget of support vectors.
//
// Options are stable; the package has no other API.
package perceptron

import (
	"context"
	"fmt"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// options are the learner's options; the tags say what they mean.
type options struct {
	kernel.Options
	Budget int `opt:"budget" default:"20000" range:"[1,1e8]" doc:"most support vectors; beyond that the oldest one goes"`

	Bias    float64 `opt:"bias" fixed:"1" range:"[0,inf)"`          // constant added to the kernel, which gives the model a regularised bias; 0 for none
	Average bool    `opt:"average" fixed:"true"`                    // the model is the average of all iterates instead of the last one
	Removal string  `opt:"removal" fixed:"fade" enum:"fade,oldest"` // fade: weights shrink, so that little is left of a support vector when it goes; oldest: it goes with its full weight
}

// Spec registers the learner.
var Spec = algos.Define(algos.SpecInfo{
	Name:    "perceptron",
	Summary: "online kernel perceptron: one pass, one support vector for each mistake",
	When:    "a baseline, where nothing but speed matters",
	Paper:   "Freund, Schapire: Large Margin Classification Using the Perceptron Algorithm, Machine Learning 37 (1999)",
	Kind:    algos.Kernel,
	Presets: map[string]map[string]string{"paper": {"bias": "0", "average": "false", "removal": "oldest"}},
}, check, newLearner, expansion.Decode)

func check(o *options) error { return o.Check() }

// Learner runs the online kernel perceptron: w ← w + y Φ(x) on every example
// with y ⟨w, Φ(x)⟩ ≤ 0.
//
// A mistake on an example of weight v adds v y Φ(x). With weights of 1, for any function u, the number M of mistakes is at most
// Σ l_i + r‖u‖ √(Σ l_i) + r²‖u‖², with the sums of the hinge losses l_i of u
// over the mistakes and r² = max K(x,x).
//
// Departure: with removal=fade, w ← g (w + y Φ(x)) once there have been an eighth
// of Budget mistakes, with g near 1 − 8/Budget, and the average of the iterates
// fades at the same rate. A support vector has at most e⁻⁷ of its weight left when it
// goes (the idea of the Forgetron; Dekel, Shalev-Shwartz, Singer 2008). With its
// full weight it would take with it what it is in all past iterates of the
// average, of which then no more is left than a sum over the present support
// vectors, with the largest weights on those about to go.
//
// Cost: as many kernel values for each example as there are support vectors.
// Not safe for concurrent use.
type Learner struct {
	*samplers.Buffer
	opt options

	basis    *kernel.Basis
	coef     []float64 // signed
	oldest   int       // once there are Budget
	n        uint64
	mistakes uint64
	faded    float64 // mistakes, each with the weight it has left
	evals    int64

	// The average of the iterates is Σ_j (coef_j·sum − lag_j)/weight Φ(x_j).
	sum, weight float64
	lag         []float64

	model *expansion.Expansion
	row   []float32
}

func newLearner(_ algos.Env, o options) (algos.Learner, error) {
	b, err := samplers.New(samplers.Options{Every: 1, Warmup: o.Warmup()})
	return &Learner{opt: o, basis: kernel.New(o.Func(o.Bias, nil)), Buffer: b}, err
}

// Step learns from the pending examples.
func (l *Learner) Step(ctx context.Context) (algos.Report, error) { return l.Finish(ctx) }

// Finish learns from the pending examples.
func (l *Learner) Finish(ctx context.Context) (algos.Report, error) {
	if err := ctx.Err(); err != nil {
		return algos.Report{}, err
	}
	if !l.Ready() && len(l.Pending()) > 0 {
		l.basis = kernel.New(l.opt.Func(l.opt.Bias, l.Vecs()))
	}
	for _, x := range l.Take().Join {
		l.learn(x)
	}
	return l.Report(), nil
}

func (l *Learner) learn(x *stream.Example) {
	l.model = nil
	m := len(l.coef)
	if len(l.row) < m {
		l.row = make([]float32, 2*m)
	}
	l.basis.Block(l.row, m, []stream.Vec{x.X}, 0, m)
	l.evals += int64(m)
	if x.Y*vec.DotMixed(l.row[:m], l.coef) <= 0 {
		l.mistakes++
		c := x.Y * x.Importance()
		lag := float64(c * l.sum)
		if m < l.opt.Budget {
			l.basis.Append(x.X)
			l.coef, l.lag = append(l.coef, c), append(l.lag, lag)
		} else {
			l.basis.Set(l.oldest, x.X)
			l.coef[l.oldest], l.lag[l.oldest] = c, lag
			l.oldest = (l.oldest + 1) % m
		}
		l.fade()
	}
	l.n++
	l.sum++
	l.weight++
}

// spans is the size of the budget, as a multiple of the number of mistakes after
// which e⁻¹ is left of a support vector's weight. With more, the average is over
// fewer iterates. With fewer, removals are felt in it: past mistakes largely
// cancel each other, so that those that go weigh like the root of their number,
// the more the larger the budget is. With 5 and a budget of 7,000 the average
// loses up to 4 points now and then.
const spans = 8

// fade takes weight from all that was learned, so that the weights that
// mistakes have left sum up to no more than an eighth of the budget.
func (l *Learner) fade() {
	if l.opt.Removal != "fade" {
		return
	}
	l.faded++
	most := max(1, float64(l.opt.Budget)/spans)
	if l.faded <= most {
		return
	}
	g := most / l.faded
	for j, a := range l.coef {
		l.lag[j] = float64(g * (l.lag[j] - float64(a*l.sum)))
		l.coef[j] *= g
	}
	l.sum = 0
	l.weight *= g
	l.faded = most
}

// Report describes the present state.
func (l *Learner) Report() algos.Report {
	r := algos.NewReport()
	r.Step, r.Sample, r.KernelEvals = l.n, len(l.coef), l.evals
	r.Gauges = []stream.Measure{{Name: "mistakes", Value: float64(l.mistakes)}}
	return r
}

// Model returns the last iterate, or the average.
func (l *Learner) Model() algos.Model {
	if l.model == nil {
		c := append([]float64(nil), l.coef...)
		if l.opt.Average {
			for i, a := range l.coef {
				c[i] = (float64(a*l.sum) - l.lag[i]) / l.weight
			}
		}
		l.model = expansion.View(l.basis, c, 0)
	}
	return l.model
}

func (l *Learner) fields(f *state.Fields) {
	f.Group("buffer", l.Buffer.Fields)
	f.Group("support", l.basis.Fields)
	f.Float64s("coef", &l.coef)
	f.Float64s("lag", &l.lag)
	f.Float64("sum", &l.sum)
	f.Float64("weight", &l.weight)
	f.Int("oldest", &l.oldest)
	f.Uint64("n", &l.n)
	f.Uint64("mistakes", &l.mistakes)
	f.Float64("faded", &l.faded)
	f.Int64("evals", &l.evals)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	m := l.basis.Len()
	if len(l.coef) != m || len(l.lag) != m || m > l.opt.Budget || l.oldest < 0 || l.oldest >= max(m, 1) {
		f.Fail("coef", fmt.Errorf("%d coefficients for %d support vectors", len(l.coef), m))
	}
	if m > 0 && !(l.weight > 0) {
		f.Fail("weight", fmt.Errorf("%g for %d support vectors", l.weight, m))
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
