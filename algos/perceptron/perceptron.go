// Package perceptron is the online kernel perceptron.
package perceptron

import (
	"context"
	"fmt"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/internal/hinge"
	"github.com/streamsvm/streamsvm/algos/internal/intake"
	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/state"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// Options are the learner's options; the tags say what they mean.
type Options struct {
	hinge.KernelOptions
	Bias float64 `opt:"bias" default:"1" range:"[0,inf)" paper:"0" doc:"constant added to the kernel; 0 for none"`

	Average bool `opt:"average" default:"true" paper:"false" doc:"the model is the average of all iterates instead of the last one (Freund and Schapire 1999)"`
	Budget  int  `opt:"budget" default:"20000" range:"[1,100000000]" paper:"none" doc:"most support vectors; beyond that the oldest one goes"`
}

// Spec registers the learner.
var Spec = algos.Define(algos.SpecInfo{
	Name:    "perceptron",
	Summary: "online kernel perceptron: one pass, one support vector for each mistake",
	When:    "a baseline, where nothing but speed matters",
	Paper:   "Freund, Schapire: Large Margin Classification Using the Perceptron Algorithm, Machine Learning 37 (1999)",
	Kind:    algos.Kernel,
	Presets: map[string]map[string]string{"paper": {"bias": "0", "average": "false"}},
}, check, newLearner, kernel.DecodeExpansion)

func check(o *Options) error { return o.Check() }

// Learner runs the online kernel perceptron: w ← w + y Φ(x) on every example
// with y ⟨w, Φ(x)⟩ ≤ 0.
//
// For any function u, the number M of mistakes is at most
// Σ l_i + r‖u‖ √(Σ l_i) + r²‖u‖², with the sums of the hinge losses l_i of u
// over the mistakes and r² = max K(x,x).
//
// Cost: as many kernel values for each example as there are support vectors.
// Not safe for concurrent use.
type Learner struct {
	intake.Queue
	opt Options

	basis    *kernel.Basis
	y        []float64
	seen     []uint64 // examples seen before the support vector was one
	oldest   int      // once there are Budget
	n        uint64
	mistakes uint64
	evals    int64

	model *kernel.Expansion
	row   []float32
}

func newLearner(_ algos.Env, o Options) (algos.Learner, error) {
	return &Learner{opt: o, basis: kernel.New(o.Func(o.Bias, nil)), Queue: intake.Queue{Ready: o.Known()}}, nil
}

// Tabulate has kernel values come from a table, in which the only feature of an
// example is its number. It comes before the first Add; the state then cannot be
// stored.
func (l *Learner) Tabulate(t kernel.Table) { l.basis.Tabulate(t) }

// Need asks for one example or, before the first step, for those from which
// gamma is set.
func (l *Learner) Need() algos.Need { return l.NeedEvery(1) }

// Step learns from the pending examples.
func (l *Learner) Step(ctx context.Context) (algos.Report, error) {
	if err := ctx.Err(); err != nil {
		return algos.Report{}, err
	}
	return l.Finish(context.Background())
}

// Finish learns from the pending examples.
func (l *Learner) Finish(ctx context.Context) (algos.Report, error) {
	if err := ctx.Err(); err != nil {
		return algos.Report{}, err
	}
	if !l.Ready && len(l.Pending) > 0 {
		l.basis, l.Ready = kernel.New(l.opt.Func(l.opt.Bias, l.Vecs())), true
	}
	for _, x := range l.Pending {
		l.learn(x)
	}
	l.Pending = nil
	return l.Report(), nil
}

func (l *Learner) learn(x *stream.Example) {
	l.model = nil
	m := len(l.y)
	if len(l.row) < m {
		l.row = make([]float32, 2*m)
	}
	l.basis.Block(l.row, m, []stream.Vec{x.X}, 0, m)
	l.evals += int64(m)
	if x.Y*vec.DotMixed(l.row[:m], l.y) <= 0 {
		l.mistakes++
		if m < l.opt.Budget {
			l.basis.Append(x.X)
			l.y, l.seen = append(l.y, x.Y), append(l.seen, l.n)
		} else {
			l.basis.Set(l.oldest, x.X)
			l.y[l.oldest], l.seen[l.oldest] = x.Y, l.n
			l.oldest = (l.oldest + 1) % m
		}
	}
	l.n++
}

// Report describes the present state.
func (l *Learner) Report() algos.Report {
	r := algos.NewReport()
	r.Step, r.Sample, r.KernelEvals = l.n, len(l.y), l.evals
	r.Gauges = []stream.Measure{{Name: "mistakes", Value: float64(l.mistakes)}}
	return r
}

// Model returns the last iterate, or the average.
func (l *Learner) Model() algos.Model {
	if l.model == nil {
		c := make([]float64, len(l.y))
		for i, y := range l.y {
			c[i] = y
			if l.opt.Average {
				c[i] = y * float64(l.n-l.seen[i]) / float64(l.n)
			}
		}
		l.model = kernel.View(l.basis, c)
	}
	return l.model
}

func (l *Learner) fields(f *state.Fields) {
	l.Queue.Fields(f)
	f.Group("support", l.basis.Fields)
	f.Float64s("y", &l.y)
	f.Uint64s("seen", &l.seen)
	f.Int("oldest", &l.oldest)
	f.Uint64("n", &l.n)
	f.Uint64("mistakes", &l.mistakes)
	f.Int64("evals", &l.evals)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	m := l.basis.Len()
	if len(l.y) != m || len(l.seen) != m || m > l.opt.Budget || l.oldest < 0 || l.oldest >= max(m, 1) {
		f.Fail("y", fmt.Errorf("%d labels for %d support vectors", len(l.y), m))
		return
	}
	for i, y := range l.y {
		if y != 1 && y != -1 || l.seen[i] >= l.n {
			f.Fail("seen", fmt.Errorf("support vector %d of %d examples", l.seen[i], l.n))
		}
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
