package scs

import (
	"context"
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/ovr"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// classes is the learner for more than two classes: one one-vs-rest classifier per
// class, each with its own coefficients, duality gap and model in use. The growth
// controller looks at the errors of the predicted class, and the sample waits for the
// slowest classifier.
//
// Package ovr could do the same with independent classifiers, and does so for presets
// without the guard. But then each classifier has its own sample and computes every
// kernel row again: K times the work and memory for K classes.
type classes struct{ *Learner }

var _ algos.ClassAdder = classes{}

func newClasses(env algos.Env, o options) (algos.Learner, error) {
	l := classes{&Learner{opt: o, log: env.Log, growth: newGrowthController(), sign: sign}}
	for range env.Classes {
		l.append()
	}
	var err error
	l.Growing, err = samplers.NewGrowing(samplers.Options{Seed: env.Seed, Classes: true}, o.growing())
	return l, err
}

// sign returns the label of x for classifier k.
func sign(x *stream.Example, k int) float64 {
	if int(x.Y) == k {
		return 1
	}
	return -1
}

// AddClass implements algos.ClassAdder. All examples in the sample are negative for the
// new classifier.
func (l classes) AddClass(context.Context) error {
	l.append()
	if l.begun() {
		l.classifiers[len(l.classifiers)-1].p = l.classifiers[0].p.Another()
	}
	return nil
}

// Add implements algos.Learner.
func (l classes) Add(x *stream.Example) (algos.Fate, error) {
	if err := ovr.Check(x, len(l.classifiers)); err != nil {
		return algos.SampledOut, err
	}
	return l.Growing.Add(x)
}

// Step is Learner.Step with a report on all classifiers.
func (l classes) Step(context.Context) (algos.Report, error) {
	l.step()
	return l.Report(), nil
}

// Finish is Learner.Finish with a report on all classifiers.
func (l classes) Finish(context.Context) (algos.Report, error) {
	l.finish()
	return l.Report(), nil
}

// Model returns the expansions in use.
func (l classes) Model() algos.Model {
	parts, blank := make([]algos.Model, len(l.classifiers)), make([]bool, len(l.classifiers))
	for k, c := range l.classifiers {
		parts[k], blank[k] = c.Model(), !c.cert.given
	}
	return ovr.NewModel(parts, blank)
}

// Report describes the present state. Objective and gap are sums over the classifiers;
// gauges are means, except totals.
func (l classes) Report() algos.Report {
	r := algos.NewReport()
	r.KernelEvals = 0
	if !l.begun() {
		return r
	}
	r.Objective, r.Certificate, r.GradNorm, r.StepSize = 0, 0, math.NaN(), math.NaN()
	for k, c := range l.classifiers {
		r.Step += c.k
		r.Objective += c.p.Objective()
		if c.cert.given {
			r.Certificate += c.cert.gap
		} else {
			r.Certificate = math.NaN()
		}
		r.KernelEvals += c.p.Rows.Evals + c.evals
		own := append(c.ownGauges(), c.cert.gauges()...)
		if k == 0 {
			r.Gauges = own
			continue
		}
		for i, g := range own {
			r.Gauges[i].Value += g.Value
		}
	}
	r.Gauges = append(ovr.Mean(r.Gauges, len(l.classifiers)), l.growthGauges()...)
	r.Sample = l.size()
	return r
}

// AppendBinary appends the complete state.
func (l classes) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, l.fields) }

// UnmarshalBinary restores the output of AppendBinary, whatever the number of
// classes.
func (l classes) UnmarshalBinary(data []byte) error {
	l.classifiers = nil
	return state.Decode(data, l.fields)
}

func (l classes) fields(f *state.Fields) {
	f.Group("buffer", l.Growing.Fields)
	f.Group("pace", l.growth.fields)
	n := len(l.classifiers)
	f.Int("classes", &n)
	if f.Err() == nil && (n < 3 || n > algos.MaxClasses) {
		f.Fail("classes", fmt.Errorf("%d", n))
	}
	if f.Err() != nil {
		return
	}
	for len(l.classifiers) < n {
		l.append()
	}
	begun := l.begun()
	f.Bool("begun", &begun)
	if begun && f.Err() == nil {
		if f.Decoding() {
			l.share(kernel.New(kernel.Func{}))
		}
		f.Group("points", l.classifiers[0].p.Basis.Fields)
	}
	f.List("heads", n, 10, func(int) {}, func(f *state.Fields, k int) {
		if k < n {
			l.classifiers[k].ownFields(f, begun)
		}
	})
	l.checkSample(f)
}

// ownFields describes the state that a classifier does not share with the others.
func (c *classifier) ownFields(f *state.Fields, begun bool) {
	f.Uint64("k", &c.k)
	f.Bool("fresh", &c.fresh)
	f.Float64("norm", &c.norm)
	f.Float64("step", &c.step)
	f.Bool("moved", &c.moved)
	f.Int("came", &c.came)
	f.Group("counters", c.counts.fields)
	f.Group("proof", c.cert.fields)
	if !begun || f.Err() != nil {
		return
	}
	f.Group("problem", c.p.VectorFields)
	c.checkLambda(f)
	f.Group("model", c.modelFields)
}
