// Package additive learns with many processes what one learner of sums learns:
// workers, in a consumer group, sum the records of partitions and publish the
// sums; one solver adds them in the order of partitions and publishes the model.
//
// The sums of a partition are a function of its records in their order. Those in
// the topic of sums and the position behind the records that they are of are
// written in one transaction, and who is given a partition goes on from the sums at
// its position. So the sums are the same, to the bit, whoever computes them, however
// often somebody is killed, and so is the model.
package additive

import (
	"context"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/ovr"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/internal/normal"
	"github.com/streamsvm/streamsvm/internal/pipeline"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/stream"
)

// learner is one whose model is a function of sums over examples.
type learner interface {
	algos.Learner
	// Fix takes over the features of a model.
	Fix(m algos.Model) error
	// Sum adds examples to the sums.
	Sum(xs []*stream.Example)
	Sums() *normal.Sums
	// Dim is the number of features of examples so far, which goes with the sums.
	Dim() int
	Restore(s *normal.Sums, dim int) error
}

// Plan is what all processes that work on a model have in common: the learner and
// its options, what becomes of features before they are learned from, classes, and
// random features. It is that of any version of the model, and does not change.
type Plan struct {
	Model string // its name
	Hash  uint64 // of the plan
	pipe  *pipeline.Pipeline
	spec  algos.Spec
	env   algos.Env
}

// NewPlan returns the plan that goes with a version of a model.
func NewPlan(model string, payload []byte) (*Plan, error) {
	pipe, err := pipeline.Decode(payload)
	if err != nil {
		return nil, err
	}
	p := &Plan{Model: model, pipe: pipe, env: algos.Env{Task: pipe.Task}}
	if pipe.Task == algos.Classify {
		p.env.Classes = pipe.Classes()
	}
	if p.spec, err = registry.Lookup(pipe.Learner); err != nil {
		return nil, err
	}
	if pipe.Transform.Scale() == prep.Running {
		return nil, fmt.Errorf("model %s scales features by those before, which processes do not share", model)
	}
	blank, err := p.Solve(nil)
	if err != nil {
		return nil, err
	}
	data, err := blank.Payload()
	p.Hash = xxhash.Sum64(data)
	return p, err
}

// learner returns a learner without examples.
func (p *Plan) learner() (learner, error) {
	l, err := ovr.Spec(p.spec).New(p.env, p.pipe.Options)
	if err != nil {
		return nil, err
	}
	a, ok := l.(learner)
	if !ok {
		return nil, fmt.Errorf("model %s is of learner %s, which does not learn by sums: lssvm does", p.Model, p.pipe.Learner)
	}
	return a, a.Fix(p.pipe.Model)
}

// admission returns what decides which records can be learned from. It looks at a
// record alone, whatever came before.
func (p *Plan) admission() (*engine.Engine, error) {
	return engine.NewEngine(engine.Config{
		Spec: p.spec, Options: p.pipe.Options, Task: p.pipe.Task, Signature: p.pipe.Signature, MaxClasses: max(p.env.Classes, 3),
		HashDim: p.pipe.Transform.HashDim(), Scale: prep.None, Warmup: 1,
	})
}

// Solution is the model of sums.
type Solution struct {
	Report algos.Report
	Counts Counts
	pipe   pipeline.Pipeline
}

// Payload returns the encoded predictor. It is a function of the plan and the sums.
func (s *Solution) Payload() ([]byte, error) { return s.pipe.AppendBinary(nil) }

// Solve returns the model of the sums of parts, which are added in their order.
func (p *Plan) Solve(parts []*Part) (*Solution, error) {
	l, err := p.learner()
	if err != nil {
		return nil, err
	}
	s := &Solution{pipe: *p.pipe}
	total, dim := l.Sums(), 0
	for _, part := range parts {
		if err := total.Merge(part.Sums); err != nil {
			return nil, err
		}
		dim = max(dim, part.Dim)
		s.Counts.add(&part.Counts)
	}
	if err := l.Restore(total, dim); err != nil {
		return nil, err
	}
	if s.Report, err = l.Finish(context.Background()); err != nil {
		return nil, err
	}
	// Nothing is known of how decisions become probabilities.
	s.pipe.Model, s.pipe.Probability, s.pipe.Softmax = l.Model(), nil, nil
	return s, nil
}
