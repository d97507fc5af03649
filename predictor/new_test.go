package predictor

import (
	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/pipeline"
	"github.com/streamsvm/streamsvm/internal/prep"
)

// New puts a predictor together, without encoding it.
func New(spec algos.Spec, task algos.Task, options map[string]string, tr *prep.Transform, m algos.Model) *Predictor {
	return &Predictor{pipeline.Pipeline{Learner: spec.Name, Task: task, Options: options, Transform: tr, Model: m}}
}
