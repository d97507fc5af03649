package sbp

import (
	"math"
	"testing"

	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/stream"
)

// exact returns the iterate's and the average's value at x, and the iterate's
// squared norm, from coefficients and kernel values alone.
func (l *Learner) exact(x stream.Vec) (f, bar float64) {
	row := make([]float32, len(l.y))
	l.basis.Block(row, len(row), []stream.Vec{x}, 0, len(row))
	for i, k := range row {
		f += l.scale * l.a[i] * l.y[i] * float64(k)
		bar += (l.sumS*l.a[i] - l.lag[i]) * l.y[i] * float64(k)
	}
	row = make([]float32, len(l.coldA))
	l.cold.Block(row, len(row), []stream.Vec{x}, 0, len(row))
	for i, k := range row {
		f += l.scale * l.coldA[i] * float64(k)
		bar += (l.sumS*l.coldA[i] - l.coldLag[i]) * float64(k)
	}
	return f, bar
}

// Whatever arrives and leaves, responses and norm are those of the model.
func TestResponsesFollowTheBuffer(t *testing.T) {
	for _, o := range []map[string]string{
		{"buffer": "70"},
		{"buffer": "70", "restart": "0.5"},
		{"buffer": "70", "keep": "reservoir", "every": "5"},
		{"buffer": "70", "keep": "reservoir", "every": "150"}, // a slot changes hands twice in a step
		{"buffer": "70", "frozen": "25", "every": "90"},
		{"buffer": "70", "rate": "20", "nu": "0.001"}, // the scale is folded in
	} {
		for _, kernel := range []string{"rbf", "poly"} {
			o["kernel"], o["gamma"] = kernel, "1"
			l := learner(t, o)
			sum := 0.0
			for _, x := range moons(1200, .2, 3) {
				algostest.Feed(t, l, x)
				if x.Seq%100 > 0 && x.Seq%151 > 0 {
					continue
				}
				size := 1 + l.sumS
				norm2 := 0.0
				for i := range l.y {
					f, bar := l.exact(l.basis.Row(i))
					if d := math.Abs(l.scale*l.u[i] - f); d > 1e-11 {
						t.Fatalf("%v, example %d: response %g, want %g", o, x.Seq, l.scale*l.u[i], f)
					}
					if d := math.Abs(l.sumU[i] - bar); d > 1e-11*size*(1+math.Abs(bar)) {
						t.Fatalf("%v, example %d: sum of responses %g, want %g", o, x.Seq, l.sumU[i], bar)
					}
					norm2 += l.scale * l.a[i] * l.y[i] * f
				}
				for i, a := range l.coldA {
					f, _ := l.exact(l.cold.Row(i))
					norm2 += l.scale * a * f
				}
				if math.Abs(norm2-l.r2) > 1e-10 {
					t.Fatalf("%v, example %d: norm² %g, want %g", o, x.Seq, l.r2, norm2)
				}
				// The model is the average over its γ.
				p := l.basis.Row(0)
				_, bar := l.exact(p)
				bar /= l.weight
				bar += l.bar.bias * l.barUnit
				if g := l.bar.gamma * l.barUnit; g > 0 {
					bar /= g
				}
				if got := l.Model().Decision(p); math.Abs(got-bar) > 1e-4*(1+math.Abs(bar)) {
					t.Fatalf("%v, example %d: f = %g, want %g", o, x.Seq, got, bar)
				}
				sum += norm2
			}
			if l.removed == 0 && l.cold.Len() == 0 || sum == 0 {
				t.Errorf("%v: nothing left the buffer with a coefficient", o)
			}
			if len(l.coldA) > l.opt.Frozen {
				t.Errorf("%v: %d frozen", o, len(l.coldA))
			}
		}
	}
}

// A window that slides is followed: after the classes change places the model
// does, too.
func TestFollowsAChange(t *testing.T) {
	l := learner(t, map[string]string{"gamma": "2", "buffer": "200", "frozen": "100"})
	right := 0
	for i, x := range moons(3000, .15, 11) {
		if i >= 1500 {
			x.Y = -x.Y
		}
		if i >= 1900 && l.Model().Decision(x.X)*x.Y > 0 {
			right++
		}
		algostest.Feed(t, l, x)
	}
	if share := float64(right) / 1100; share < .95 {
		t.Errorf("%.3f right after the change", share)
	}
}

func TestOneClassHasNoBias(t *testing.T) {
	for _, y := range []float64{1, -1} {
		l := learner(t, map[string]string{"gamma": "1"})
		for _, x := range moons(60, .1, 1) {
			x.Y = y
			algostest.Feed(t, l, x)
		}
		if f := l.Model().Decision(stream.Vec{}); f != y || l.step != 0 {
			t.Errorf("f = %g after %d steps with examples of class %+g only", f, l.step, y)
		}
	}
}
