package tsgs3vm

import (
	"math"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/internal/rffmodel"
	"github.com/streamsvm/streamsvm/stream"
)

// Between steps the model is the mean of the iterates, as one that keeps them
// all computes it, once there are more labels than a sweep takes; after Finish
// it is that mean if labels have been let go, else the last iterate, polished.
func TestMeanOfIterates(t *testing.T) {
	for name, held := range map[string]string{"labels let go": "300", "all labels held": "20000"} {
		t.Run(name, func(t *testing.T) {
			made, err := DSG.New(algos.Env{Seed: 1}, map[string]string{
				"gamma": "2", "c": "1", "features": "128", "block": "64", "labels": held,
			})
			if err != nil {
				t.Fatal(err)
			}
			l := made.(*Learner)
			d := l.solver.(*dual)
			probe := stream.Vec{Val: []float32{.5, .2}}
			last := func() float64 {
				m := &rffmodel.Model{Feats: l.feats, Dim: l.dim, Coef: d.arms[0].w, Scale: d.norm(), Offset: d.opt.Bias * d.arms[0].b}
				return m.Decision(probe)
			}
			mean, k, apart, steps := 0.0, 0.0, 0.0, l.step
			for _, x := range algostest.Moons(16000, algos.Classify, 3) {
				algostest.Feed(t, l, x)
				if l.step == steps {
					continue
				}
				steps = l.step
				got := l.Model().Decision(probe)
				if l.Len() <= sweepLimit {
					if got != last() {
						t.Fatalf("%g with %d labels, the last iterate is %g", got, l.Len(), last())
					}
					continue
				}
				k++
				mean += max(2/(k+1), 1./meanSteps) * (last() - mean)
				if math.Abs(got-mean) > 1e-6 {
					t.Fatalf("%g after %g iterates, their mean is %g, the last one %g", got, k, mean, last())
				}
				apart = max(apart, math.Abs(got-last()))
			}
			if apart < .05 {
				t.Errorf("no iterate was farther than %g from the mean: this shows nothing", apart)
			}
			want := l.Model().Decision(probe)
			if _, err := l.Finish(t.Context()); err != nil {
				t.Fatal(err)
			}
			slack := .02 // for the step that takes in what was pending
			if l.labelled == uint64(l.Len()) {
				want, slack = last(), 0
			}
			if got := l.Model().Decision(probe); math.Abs(got-want) > slack {
				t.Errorf("finished %g, want %g", got, want)
			}
		})
	}
}
