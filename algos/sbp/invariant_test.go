package sbp

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/internal/kernel/rows"
	"github.com/streamsvm/streamsvm/stream"
)

// moons draws n points of two interleaved half circles with noise.
func moons(n int, noise float64, seed uint64) []*stream.Example {
	r := rand.New(rand.NewPCG(seed, 2))
	xs := make([]*stream.Example, n)
	for i := range xs {
		a := r.Float64() * math.Pi
		x := &stream.Example{Seq: uint64(i + 1), Labelled: true, Y: float64(2*r.IntN(2) - 1)}
		u, v := math.Cos(a), math.Sin(a)
		if x.Y < 0 {
			u, v = 1-u, .5-v
		}
		x.X.Val = []float32{float32(u + noise*r.NormFloat64()), float32(v + noise*r.NormFloat64())}
		xs[i] = x
	}
	return xs
}

func learner(t testing.TB, options map[string]string) *Learner {
	t.Helper()
	l, err := Spec.New(algos.Env{Seed: 7}, options)
	if err != nil {
		t.Fatal(err)
	}
	return l.(*Learner)
}

// filled returns a learner that holds xs and has done no update.
func filled(t testing.TB, options map[string]string, xs []*stream.Example) *Learner {
	t.Helper()
	l := learner(t, options)
	for _, x := range xs {
		if _, err := l.Add(x); err != nil {
			t.Fatal(err)
		}
	}
	l.arrive()
	return l
}

// gram returns the kernel matrix as the learner's kernel code computes it, with
// the signs of the labels.
func (l *Learner) gram() [][]float64 {
	n := len(l.y)
	row := make([]float32, n)
	q := make([][]float64, n)
	for i := range q {
		l.basis.Between(row, n, []int32{int32(i)}, 0, n)
		q[i] = make([]float64, n)
		for j, k := range row {
			q[i][j] = l.y[i] * l.y[j] * float64(k)
		}
	}
	return q
}

// drift returns how far responses, their average and ‖w‖² are from Qα, of an
// exact computation, and ‖w‖².
func (l *Learner) drift(q [][]float64) (worst, norm2 float64) {
	for i := range q {
		var c, bar, size float64
		for j := range q {
			c += q[i][j] * l.scale * l.a[j]
			bar += q[i][j] * (l.sumS*l.a[j] - l.lag[j])
			size += math.Abs(l.sumS*l.a[j]) + math.Abs(l.lag[j])
		}
		worst = max(worst, math.Abs(c-l.y[i]*l.scale*l.u[i]))
		worst = max(worst, math.Abs(bar-l.y[i]*l.sumU[i])/(1+size*l.maxDiag))
		norm2 += l.scale * l.a[i] * c
	}
	// Rounding is in proportion to what has been added up.
	var size float64
	for _, a := range l.a {
		size += l.scale * a
	}
	return max(worst, math.Abs(norm2-l.r2)) / max(1, size*l.maxDiag), norm2
}

func TestResponsesDoNotDrift(t *testing.T) {
	for c, o := range []map[string]string{
		{"gamma": "2", "nu": "0.01"},
		{"gamma": "2", "nu": "0.01", "classes": "coin", "rate": "10"},
		{"gamma": "0.01", "nu": "0.001", "classes": "coin", "rate": "10"},
		{"gamma": "2", "nu": "0.01", "intercept": "false"},
		{"gamma": "2", "nu": "0.01", "rate": "10"},
		{"kernel": "linear", "nu": "0", "intercept": "false", "bias": "1"},
		{"kernel": "poly", "gamma": "1", "nu": "0.5", "cache": "0"},
	} {
		l := filled(t, o, moons(150, .2, 1))
		q := l.gram()
		steps := 10000
		if c == 0 { // so many that the scale is folded again and again
			steps = 100000
		}
		for done := 0; done < steps; done += 500 {
			l.update(500)
			if l.scale < foldBelow || l.scale > 1 {
				t.Fatalf("%v: scale %g", o, l.scale)
			}
			if l.r2 > 1 {
				t.Fatalf("%v: norm² %g", o, l.r2)
			}
			for i, a := range l.a {
				if a < 0 || l.sumS*a-l.lag[i] < -1e-12*max(1, l.sumS*a) {
					t.Fatalf("%v: a negative coefficient", o)
				}
			}
		}
		worst, norm2 := l.drift(q)
		if !(worst <= 1e-12) || norm2 == 0 {
			t.Errorf("%v: drift %g after %d steps", o, worst, steps)
		}
	}
}

// The norms of the iterate and of the average, which ν is found from, are those
// of all examples with a share, also of those that are frozen.
func TestNormsWithFrozen(t *testing.T) {
	for _, o := range []map[string]string{
		{}, {"restart": "0.5"}, {"rate": "10"},
	} {
		o["gamma"], o["buffer"], o["frozen"] = "2", "60", "40"
		l := learner(t, o)
		for _, x := range moons(600, .3, 6) {
			if _, err := l.Add(x); err != nil {
				t.Fatal(err)
			}
			if l.Need().Fresh > 0 {
				continue
			}
			if _, err := l.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
			b := l.cold.Subset(nil)
			var w, s []float64
			for i, a := range l.a {
				b.Append(l.basis.Row(i))
				w = append(w, l.y[i]*l.scale*a)
				s = append(s, l.y[i]*(l.sumS*a-l.lag[i]))
			}
			for i, a := range l.coldA {
				b.Append(l.cold.Row(i))
				w = append(w, l.scale*a)
				s = append(s, l.sumS*a-l.coldLag[i])
			}
			var ww, sw, ss float64
			row := make([]float32, len(w))
			for i := range w {
				b.Between(row, len(row), []int32{int32(i)}, 0, len(row))
				for j, k := range row {
					ww += w[i] * w[j] * float64(k)
					sw += s[i] * w[j] * float64(k)
					ss += s[i] * s[j] * float64(k)
				}
			}
			n := 1 + l.weight
			if math.Abs(ww-l.r2) > 1e-5 || math.Abs(sw-l.sumW) > 1e-5*n || math.Abs(ss-l.sum2) > 1e-5*n*n {
				t.Fatalf("%v, example %d: norms² %g, %g, product %g, want %g, %g, %g", o, x.Seq, l.r2, l.sum2, l.sumW, ww, ss, sw)
			}
		}
		if l.removed == 0 {
			t.Errorf("%v: no frozen example was taken out", o)
		}
	}
}

// The bias reported is that of the model: its decision where no kernel reaches.
func TestReportedBias(t *testing.T) {
	for _, o := range []map[string]string{{"rate": "3"}, {"restart": "0.5"}} {
		o["gamma"], o["bias"] = "2", "0"
		l := learner(t, o)
		for i, x := range moons(400, .3, 6) {
			if x.Y < 0 && i%3 > 0 {
				continue // of unequal classes
			}
			algostest.Feed(t, l, x)
		}
		want := l.Model().Decision(stream.Vec{Val: []float32{1e6, 1e6}})
		for _, g := range l.Report().Gauges {
			if g.Name == "bias" && !(math.Abs(g.Value-want) <= 1e-9*math.Abs(want)) || want == 0 {
				t.Errorf("%v: %s %g, the model has %g", o, g.Name, g.Value, want)
			}
		}
	}
}

// Levels that no solution has are refused in a state, and so is a look-ahead that
// there is not.
func TestStateRefusesLevels(t *testing.T) {
	for _, c := range []struct {
		change func(*Learner)
		ok     bool
	}{
		{func(*Learner) {}, true},
		{func(l *Learner) { l.cur.gamma = math.NaN() }, false},
		{func(l *Learner) { l.cur.bias = math.Inf(1) }, false},
		{func(l *Learner) { l.cur.delta = -.5 }, false},
		{func(l *Learner) { l.cur.delta = math.Inf(1) }, false},
		{func(l *Learner) { l.depth = 0 }, false},
		{func(l *Learner) { l.depth = rows.Block + 1 }, false},
		{func(l *Learner) { l.reach = -1 }, false},
	} {
		l := filled(t, map[string]string{"gamma": "2"}, moons(50, .2, 5))
		l.arrive()
		if err := l.batch(t.Context(), 20); err != nil {
			t.Fatal(err)
		}
		c.change(l)
		err := learner(t, map[string]string{"gamma": "2"}).UnmarshalBinary(algostest.Bytes(t, l))
		if (err == nil) != c.ok {
			t.Errorf("gamma %g, bias %g, delta %g, depth %d, reach %d: %v", l.cur.gamma, l.cur.bias, l.cur.delta, l.depth, l.reach, err)
		}
	}
}
