package scale

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/ovr"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/contrib/scale/internal/normal"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/internal/pipeline"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/stream"
)

// learner is a learner whose model is a function of sums over examples.
type learner interface {
	algos.Learner
	// Fix takes over the features of a model.
	Fix(m algos.Model) error
	// Sum adds examples to the sums.
	Sum(xs []*stream.Example)
	Sums() *normal.Sums
	// Dim returns the number of features of the examples so far.
	Dim() int
	Restore(s *normal.Sums, dim int) error
}

// A plan is what all sums that go into one model have in common: learner and options,
// preprocessing, classes, and random features. Every version of a model has the same
// plan.
type plan struct {
	blank []byte // the model of no examples, encoded
	pipe  *pipeline.Pipeline
	spec  algos.Spec
	env   algos.Env
}

// newPlan returns the plan of an encoded model.
func newPlan(model []byte) (*plan, error) {
	pipe, err := pipeline.Decode(model)
	if err != nil {
		return nil, err
	}
	p := &plan{pipe: pipe, env: algos.Env{Task: pipe.Task}}
	if pipe.Task == algos.Classify {
		p.env.Classes = pipe.Classes()
	}
	if p.spec, err = registry.Lookup(pipe.Learner); err != nil {
		return nil, err
	}
	if pipe.Transform.Scale() == prep.Running {
		return nil, errors.New("its features are scaled by the examples before each, which are not the same in all sums: train it with another --scale")
	}
	p.blank, err = p.solve(nil)
	return p, err
}

// learner returns a learner without examples.
func (p *plan) learner() (learner, error) {
	l, err := ovr.Spec(p.spec).New(p.env, p.pipe.Options)
	if err != nil {
		return nil, err
	}
	a, ok := l.(learner)
	if !ok {
		return nil, fmt.Errorf("learner %s does not learn from sums; lssvm does", p.pipe.Learner)
	}
	return a, a.Fix(p.pipe.Model)
}

// admission returns an engine that decides which records can be learned from. The
// decision depends on the record alone, so it is the same in all processes.
func (p *plan) admission() (*engine.Engine, error) {
	return engine.NewEngine(engine.Config{
		Spec: p.spec, Options: p.pipe.Options, Task: p.pipe.Task, Signature: p.pipe.Signature, MaxClasses: max(p.env.Classes, 3),
		HashDim: p.pipe.Transform.HashDim(), Scale: prep.None, Warmup: 1,
	})
}

// solve returns the encoded model of all sketches, whose sums are added in order.
func (p *plan) solve(list []*sketch) ([]byte, error) {
	l, err := p.learner()
	if err != nil {
		return nil, err
	}
	total, dim := l.Sums(), 0
	for _, s := range list {
		if !bytes.Equal(s.plan, p.blank) {
			return nil, errOtherPlan
		}
		if err := total.Merge(s.sums); err != nil {
			return nil, err
		}
		dim = max(dim, s.dim)
	}
	if err := l.Restore(total, dim); err != nil {
		return nil, err
	}
	if _, err = l.Finish(context.Background()); err != nil {
		return nil, err
	}
	out := *p.pipe
	out.Model, out.Probability, out.Softmax = l.Model(), nil, nil // the map from decisions to probabilities is unknown
	return out.AppendBinary(nil)
}

var errOtherPlan = errors.New("the sketches are of different models")
