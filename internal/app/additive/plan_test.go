package additive

import (
	"math/rand/v2"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/trainer"
)

// version returns a model of lssvm, and examples.
func version(t *testing.T, o trainer.Options, n int) ([]byte, []stream.Example) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	xs := make([]stream.Example, n)
	for i := range xs {
		v := []float32{float32(r.NormFloat64()), float32(3 * r.NormFloat64())}
		xs[i] = stream.Example{Labelled: true, Y: 1, X: stream.Vec{Val: v}}
		if v[0]*v[1] < 0 {
			xs[i].Y = -1
		}
	}
	o.Learner, o.Tune, o.Warmup = "lssvm", trainer.TuneOff, 200
	s, err := trainer.Fit(t.Context(), xs, o)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Predictor()
	if err != nil {
		t.Fatal(err)
	}
	data, err := p.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return data, xs
}

// A plan is that of every version of a model, and another one where features,
// scaling or options differ.
func TestPlan(t *testing.T) {
	few := map[string]string{"features": "64"}
	data, xs := version(t, trainer.Options{Set: few, Seed: 1}, 400)
	p, err := NewPlan("m", data)
	if err != nil {
		t.Fatal(err)
	}
	l, err := p.learner()
	if err != nil {
		t.Fatal(err)
	}
	for i := range xs[:300] {
		x := xs[i]
		x.X = p.pipe.Transform.Apply(x.X)
		l.Sum([]*stream.Example{&x})
	}
	s, err := p.Solve([]*Part{{Sums: l.Sums(), Dim: l.Dim(), Counts: Counts{Summed: 300}}})
	if err != nil {
		t.Fatal(err)
	}
	next, err := s.Payload()
	if err != nil {
		t.Fatal(err)
	}
	again, err := NewPlan("m", next)
	if err != nil {
		t.Fatal(err)
	}
	if again.Hash != p.Hash || s.Counts.Summed != 300 {
		t.Errorf("the plan of the next version is %x, that of the first %x", again.Hash, p.Hash)
	}
	for name, o := range map[string]trainer.Options{
		"seed":    {Set: few, Seed: 2},
		"scale":   {Set: few, Seed: 1, Scale: trainer.ScaleMinMax},
		"gamma":   {Set: map[string]string{"features": "64", "gamma": "3"}, Seed: 1},
		"c":       {Set: map[string]string{"features": "64", "c": "3"}, Seed: 1},
		"running": {Set: few, Seed: 1, Scale: trainer.ScaleRunning},
	} {
		data, _ := version(t, o, 400)
		other, err := NewPlan("m", data)
		if name == "running" {
			if err == nil {
				t.Error("a scale that depends on the examples before is accepted")
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if other.Hash == p.Hash {
			t.Errorf("another %s is the same plan", name)
		}
	}
}
