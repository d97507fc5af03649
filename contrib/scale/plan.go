package scale

import (
	"bytes"
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
	// Blank returns the model of no examples, with the features of Fix.
	Blank() algos.Model
	// Here returns the objective of the model of Fix, and Newton the model that is t of a
	// step away from it.
	Here() normal.Solution
	Newton(t float64) (algos.Model, error)
}

// A plan is the part that all sums of one model share: learner and options, preprocessing,
// classes, and random features. Every version of a model has the same plan, except that
// with a hinge loss its coefficients belong to the plan.
type plan struct {
	learner        // without examples
	id      []byte // the plan, encoded as a model
	blank   []byte // the model of no examples, encoded
	pipe    *pipeline.Pipeline
	spec    algos.Spec
	env     algos.Env
}

// newPlan returns the plan of an encoded model.
func newPlan(data []byte) (*plan, error) {
	pipe, err := pipeline.Decode(data)
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
	l, err := ovr.Spec(p.spec).New(p.env, pipe.Options)
	if err != nil {
		return nil, err
	}
	var ok bool
	if p.learner, ok = l.(learner); !ok {
		return nil, fmt.Errorf("learner %s does not learn from sums; lssvm does", pipe.Learner)
	}
	if err := p.Fix(pipe.Model); err != nil {
		return nil, err
	}
	if p.id, err = p.encode(p.Model()); err == nil {
		p.blank, err = p.encode(p.Blank())
	}
	return p, err
}

// encode encodes a model with the preprocessing of the plan. The map from its decisions
// to probabilities is unknown.
func (p *plan) encode(m algos.Model) ([]byte, error) {
	out := *p.pipe
	out.Model, out.Probability, out.Softmax = m, nil, nil
	return out.AppendBinary(nil)
}

// admission returns an engine that decides which records can be learned from. The
// decision depends on the record alone, so it is the same in all processes.
func (p *plan) admission() (*engine.Engine, error) {
	return engine.NewEngine(engine.Config{
		Spec: p.spec, Options: p.pipe.Options, Task: p.pipe.Task, Signature: p.pipe.Signature, MaxClasses: max(p.env.Classes, 3),
		HashDim: p.pipe.Transform.HashDim(), Scale: prep.None, Warmup: 1,
	})
}

// enough is the relative duality gap of a model that has converged.
const enough = 1e-3

// solve returns the encoded model that follows from sketches of different plans, and a
// message about it. Each sketch covers all examples.
func solve(list []*sketch) (model []byte, said string, err error) {
	var best *plan
	var here normal.Solution
	tried := map[string]bool{}
	for _, s := range list {
		p, err := newPlan(s.plan)
		if err == nil {
			err = p.Restore(s.sums, s.dim)
		}
		switch {
		case err != nil:
			return nil, "", err
		case best != nil && (!s.sums.Hinge() || !bytes.Equal(p.blank, best.blank)):
			return nil, "", fmt.Errorf("%s, %s: %w", list[0].path, s.path, errOtherPlan)
		case best != nil && (s.sums.Len() != list[0].sums.Len() || s.sums.Mass() != list[0].sums.Mass()):
			return nil, "", fmt.Errorf("%s, %s: the passes are over different records", list[0].path, s.path)
		}
		tried[string(p.id)] = true
		at := p.Here()
		if best == nil || at.Objective < here.Objective || at.Objective == here.Objective && bytes.Compare(p.id, best.id) < 0 {
			best, here = p, at
		}
	}
	said = fmt.Sprintf("objective %.6g, duality gap %.3g", here.Objective, here.Gap)
	if best.Sums().Hinge() && here.Gap <= enough*here.Objective {
		model, err = best.encode(best.pipe.Model)
		return model, said + ", converged", err
	}
	// A full step may not decrease the objective. If one was tried and did not, because another
	// pass is still the best, a shorter one does: the objective is convex and has a gradient.
	for t := 1.; t > 1e-9; t /= 2 {
		m, err := best.Newton(t)
		if err != nil {
			return nil, "", err
		}
		model, err := best.encode(m)
		if err != nil || !best.Sums().Hinge() {
			return model, "converged", err
		}
		next, err := newPlan(model)
		if err != nil {
			return nil, "", err
		}
		if !tried[string(next.id)] {
			return model, fmt.Sprintf("%s, step %g", said, t), nil
		}
	}
	return nil, "", errors.New("no step reduces the objective")
}

var errOtherPlan = errors.New("the sketches are of different models")
