package pipeline

import (
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/model"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/stream"
)

// Models of some learners that only earlier versions had are still read.
func TestModelsOfRemovedLearners(t *testing.T) {
	for _, name := range []string{"katyusha", "saga", "svrg"} {
		old := &Pipeline{Learner: name, Task: algos.Regress, Transform: new(prep.Transform), Model: model.NewLinear([]float64{2, -1}, .5)}
		data, err := old.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Decode(data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if f := p.Model.Decision(stream.Vec{Val: []float32{1, 3}}); f != -.5 || p.Learner != name {
			t.Errorf("a model of %s decides %g as one of %s", name, f, p.Learner)
		}
	}
}
