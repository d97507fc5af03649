package eval

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/streamsvm/streamsvm/checkpoint/state"
)

// TestWeighted: an example of weight k counts as k of them, and weights that come
// late find the examples before counted.
func TestWeighted(t *testing.T) {
	for name, fresh := range map[string]func() *Prequential{
		"classes": func() *Prequential { return NewClasses(50) },
		"two":     func() *Prequential { return New(false, 50) },
		"regress": func() *Prequential { return New(true, 50) },
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			weighted, repeated := fresh(), fresh()
			for i := range 400 {
				score, label := r.NormFloat64(), 1-2*float64(r.IntN(2))
				if name == "classes" {
					score, label = float64(r.IntN(3)), float64(r.IntN(3))
				}
				w := 1
				if i > 100 {
					w = 1 + r.IntN(3)
				}
				weighted.AddWeighted(score, label, float64(w))
				for range w {
					repeated.Add(score, label)
				}
				if i == 100 && weighted.Weighted() != nil {
					t.Fatal("there are weights")
				}
			}
			s, m := repeated.Summary(), weighted.Weighted()
			near := func(what string, got, want float64) {
				if math.Abs(got-want) > 1e-12*math.Abs(want) && !(math.IsNaN(got) && math.IsNaN(want)) {
					t.Errorf("%s %g, want %g", what, got, want)
				}
			}
			near("sum", m.Sum, float64(repeated.Examples()))
			near("accuracy", float64(m.Accuracy), float64(s.Accuracy))
			near("hinge", float64(m.Hinge), float64(s.Hinge))
			if s.MAE != nil {
				near("mae", float64(*m.MAE), float64(*s.MAE))
				near("rmse", float64(*m.RMSE), float64(*s.RMSE))
			}
			if !(m.Effective < m.Sum) || !(m.Window.Sum > 50 && m.Window.Sum < 150) {
				t.Errorf("%+v, window %+v", m, m.Window)
			}
			data, err := state.Append(nil, weighted.Fields)
			if err != nil {
				t.Fatal(err)
			}
			again := fresh()
			if err := state.Decode(data, again.Fields); err != nil {
				t.Fatal(err)
			}
			weighted.AddWeighted(1, 1, 5)
			again.AddWeighted(1, 1, 5)
			a, b := weighted.Weighted(), again.Weighted()
			near("sum after a restart", a.Window.Sum, b.Window.Sum)
			near("accuracy after a restart", float64(a.Accuracy), float64(b.Accuracy))
		})
	}
}
