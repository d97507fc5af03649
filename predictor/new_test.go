package predictor

import (
	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/calibrate"
	"github.com/streamsvm/streamsvm/internal/pipeline"
	"github.com/streamsvm/streamsvm/internal/prep"
)

// New puts a predictor together, without encoding it.
func New(spec algos.Spec, task algos.Task, options map[string]string, tr *prep.Transform, m algos.Model) *Predictor {
	return &Predictor{pipeline.Pipeline{Learner: spec.Name, Task: task, Options: options, Transform: tr, Model: m}}
}

// WithProbability gives p a map to probabilities.
func (p *Predictor) WithProbability(m *calibrate.Map) *Predictor {
	p.pipe.Probability = m
	return p
}

// WithCosts gives p costs of classes.
func (p *Predictor) WithCosts(costs ...float64) *Predictor {
	p.pipe.Costs = costs
	return p
}
