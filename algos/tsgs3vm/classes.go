package tsgs3vm

import (
	"context"
	"fmt"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/ovr"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/rffmodel"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// classes is the learner for more than two classes: a one-vs-rest classifier for each class,
// which is an arm of the solver. All have the same sample, features, gamma and c.
//
// Independent classifiers (package ovr) each compute the features and their products again,
// and choose among settings alone. Unlabelled examples and balanced samples need them.
type classes struct {
	*Learner
	model algos.Scorer
}

// newClasses returns a learner for env.Classes classes.
func newClasses(env algos.Env, o options) (algos.Learner, error) {
	apart := func() (algos.Learner, error) {
		one := env
		one.Classes, one.Against = 0, env.Classes
		return ovr.New(env.Classes, func() (algos.Learner, error) { return newLearner(one, o) })
	}
	if !o.supervised() || o.Solver == "sgd" || samplers.Policy(o.Keep) == samplers.Balanced {
		return apart()
	}
	joint := func() (algos.Learner, error) {
		l, err := newLearner(env, o)
		return &classes{Learner: l}, err
	}
	l, err := joint()
	if err != nil {
		return nil, err
	}
	return &either{l.(algos.ClassAdder), joint, apart}, nil
}

// either is a learner that reads the states of earlier versions too, whose classifiers were
// independent, and continues with such classifiers.
type either struct {
	algos.ClassAdder
	joint, apart func() (algos.Learner, error)
}

// UnmarshalBinary restores the state, whatever the number of classes.
func (l *either) UnmarshalBinary(data []byte) error {
	of := l.joint
	_ = state.Decode(data, func(f *state.Fields) {
		if f.Next("heads") {
			of = l.apart
		}
	})
	fresh, err := of()
	if err != nil {
		return err
	}
	l.ClassAdder = fresh.(algos.ClassAdder)
	return l.ClassAdder.UnmarshalBinary(data)
}

// AddClass implements algos.ClassAdder. All examples in the sample are negative for the new
// classifier. With f = −1 everywhere its coefficients, 0, are optimal.
func (l *classes) AddClass(context.Context) error {
	d := l.solver.(*dual)
	d.wait()
	a := d.addClass()
	a.a = make([]float64, len(d.arms[0].a))
	if l.opt.Bias > 0 {
		a.b = -1 / l.opt.Bias
	}
	l.classes++
	l.averages = append(l.averages, average{})
	l.model = nil
	return nil
}

// Add implements algos.Learner.
func (l *classes) Add(x *stream.Example) (algos.Fate, error) {
	if err := ovr.Check(x, l.classes); err != nil {
		return algos.SampledOut, err
	}
	return l.Learner.Add(x)
}

// Step implements algos.Learner.
func (l *classes) Step(ctx context.Context) (algos.Report, error) {
	l.model = nil
	return l.Learner.Step(ctx)
}

// Finish implements algos.Learner.
func (l *classes) Finish(ctx context.Context) (algos.Report, error) {
	l.model = nil
	return l.Learner.Finish(ctx)
}

// Model returns a view of the present model.
func (l *classes) Model() algos.Model {
	if l.model != nil {
		return l.model
	}
	parts, blank := make([]*rffmodel.Model, l.classes), l.step == 0
	for k := range parts {
		if parts[k] = new(rffmodel.Model); !blank {
			parts[k] = l.solver.(*dual).viewOf(l.Learner, k)
		}
	}
	l.model = rffmodel.NewHeads(parts, blank)
	return l.model
}

// AppendBinary appends the complete state.
func (l *classes) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, l.fields) }

// UnmarshalBinary restores the state, whatever the number of classes.
func (l *classes) UnmarshalBinary(data []byte) error { return state.Decode(data, l.fields) }

func (l *classes) fields(f *state.Fields) {
	f.Int("classes", &l.classes)
	if f.Err() == nil && (l.classes < 3 || l.classes > algos.MaxClasses) {
		f.Fail("classes", fmt.Errorf("%d", l.classes))
	}
	if f.Err() != nil {
		return
	}
	if f.Decoding() {
		l.averages = make([]average, l.classes)
		l.solver = newDual(l.opt, l.classes)
	}
	l.Learner.fields(f)
	l.model = nil
}
