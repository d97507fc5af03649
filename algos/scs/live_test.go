package scs

import (
	"bytes"
	"maps"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/stream"
)

// board draws from a chessboard of two squares by two in the first two of dim
// features, with a share of the labels flipped.
func board(r *rand.Rand, seq uint64, dim int, flip float64) *stream.Example {
	x := make([]float32, dim)
	for j := range x {
		x[j] = r.Float32()*2 - 1
	}
	y := 1.0
	if (x[0] > 0) != (x[1] > 0) {
		y = -1
	}
	if r.Float64() < flip {
		y = -y
	}
	return &stream.Example{Seq: seq, X: stream.Vec{Val: x}, Y: y, Labelled: true}
}

// live is a learner that is fed, with a look at it after each step.
type live struct {
	*Learner
	r    *rand.Rand
	seq  uint64
	last algos.Report
}

func newLive(t *testing.T, options map[string]string) *live {
	t.Helper()
	l, err := Spec.New(algos.Env{Seed: 1}, options)
	if err != nil {
		t.Fatal(err)
	}
	return &live{Learner: l.(*Learner), r: rand.New(rand.NewPCG(9, 9))}
}

func (l *live) feed(t *testing.T, n int, draw func(r *rand.Rand, seq uint64) *stream.Example, step func()) {
	t.Helper()
	for range n {
		l.seq++
		if _, err := l.Add(draw(l.r, l.seq)); err != nil {
			t.Fatal(err)
		}
		for l.Need().Fresh == 0 {
			r, err := l.Step(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			l.last = r
			if step != nil {
				step()
			}
		}
	}
}

// right returns the share of noise-free draws that the model in use gets right.
func (l *live) right(draw func(r *rand.Rand, seq uint64) *stream.Example) float64 {
	r := rand.New(rand.NewPCG(77, 77))
	n := 0
	for range 2000 {
		if x := draw(r, 0); l.Model().Decision(x.X)*x.Y > 0 {
			n++
		}
	}
	return float64(n) / 2000
}

func (l *live) gauge(t *testing.T, name string) float64 {
	t.Helper()
	for _, g := range l.last.Gauges {
		if g.Name == name {
			return g.Value
		}
	}
	t.Fatalf("no gauge %s", name)
	return 0
}

// again returns a learner with the state of l.
func (l *live) again(t *testing.T, options map[string]string) *live {
	t.Helper()
	data, err := l.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	again := newLive(t, options)
	if err := again.UnmarshalBinary(data); err != nil {
		t.Fatal(err)
	}
	return again
}

func noisy(r *rand.Rand, seq uint64) *stream.Example { return board(r, seq, 2, .15) }
func clean(r *rand.Rand, seq uint64) *stream.Example { return board(r, seq, 2, 0) }
func flipped(r *rand.Rand, seq uint64) *stream.Example {
	x := board(r, seq, 2, 0)
	x.Y = -x.Y
	return x
}

// TestModelInUseHasItsGap: after every step the duality gap of the model in use
// is within the bound that is reported with it, and is one: the objective of the
// whole sample minus the dual one, both from their definitions. That holds
// where few blocks are granted, where most points are left out at first, and in
// a full sample and a window.
func TestModelInUseHasItsGap(t *testing.T) {
	for name, options := range map[string]map[string]string{
		"default":     {},
		"few blocks":  {"blocks": "2", "block": "128"},
		"thin margin": {"margin": "0.001", "gap": "0.05"},
		"full":        {"max_sample": "300"},
		"window":      {"max_sample": "300", "full": "window"},
		"holding":     {"gain": "1", "t_max": "128"},
	} {
		t.Run(name, func(t *testing.T) {
			o := map[string]string{"gamma": "2", "c": "3", "initial": "64", "t_max": "256", "reduce": "0"}
			maps.Copy(o, options)
			l := newLive(t, o)
			steps, served := 0, 0
			l.feed(t, 2500, noisy, func() {
				steps++
				r := l.last
				if !l.classifiers[0].cert.given {
					return
				}
				if bound := l.gauge(t, "gap_bound"); !(r.Certificate <= bound) || r.Certificate < 0 {
					t.Fatalf("step %d: gap %g, bound %g", steps, r.Certificate, bound)
				}
				if !l.classifiers[0].cert.latest {
					return
				}
				served++
				if l.last.Sample > 700 && steps%4 > 0 {
					return // the definition takes its time
				}
				if gap := plainGap(l.Learner); math.Abs(gap-r.Certificate) > 1e-4*r.Objective {
					t.Fatalf("step %d: gap %g, by its definition %g", steps, r.Certificate, gap)
				}
			})
			waited := l.gauge(t, "waited_total")
			t.Logf("%d steps, %d models, waited %g", steps, served, waited)
			if served < 4 || (waited > 0) != (name == "few blocks") {
				t.Errorf("%d models in %d steps, waited %g", served, steps, waited)
			}
			if a := l.right(clean); a < .9 {
				t.Errorf("%.3f right", a)
			}
		})
	}
}

// plainGap is the duality gap at the present coefficients on the present sample,
// in float64 from kernel values of its own.
func plainGap(l *Learner) float64 {
	p := l.classifiers[0].p
	m := p.Len()
	var ridge, linear, loss float64
	for i := range m {
		x := p.Basis.Row(i)
		var f float64
		for j := range m {
			if p.Alpha[j] == 0 {
				continue
			}
			z := p.Basis.Row(j)
			var d float64
			for k := range x.Val {
				d += (float64(x.Val[k]) - float64(z.Val[k])) * (float64(x.Val[k]) - float64(z.Val[k]))
			}
			f += p.Alpha[j] * (math.Exp(-float64(p.Basis.Func.Gamma)*d) + float64(p.Basis.Func.Bias))
		}
		ridge += p.Alpha[i] * f
		linear += p.W[i] * p.Alpha[i]
		loss += max(0, 1-p.W[i]*f)
	}
	return p.Lambda*(ridge-linear) + loss/float64(m)
}

// TestWorseCandidateIsNotTaken: a stretch of flipped labels spoils what is
// learned from it; as soon as the draws behind it show that, the model in use
// stays as it is. A state stored meanwhile holds that model.
func TestWorseCandidateIsNotTaken(t *testing.T) {
	options := map[string]string{"gamma": "2", "c": "3", "initial": "1000", "reduce": "0"}
	l := newLive(t, options)
	l.feed(t, 1000, clean, nil)
	before := l.right(clean)
	for l.Need().Fresh > 100 {
		l.feed(t, 1, flipped, nil)
	}
	rejected := 0
	l.feed(t, 100, clean, func() { rejected = int(l.gauge(t, "rejected_total")) })
	if rejected != 1 {
		t.Fatalf("%d candidates rejected", rejected)
	}
	if a := l.right(clean); a != before || a < .95 {
		t.Errorf("%.3f right, before %.3f", a, before)
	}
	again := l.again(t, options)
	again.r, again.seq = rand.New(rand.NewPCG(5, 5)), l.seq
	l.r = rand.New(rand.NewPCG(5, 5))
	for range 3 {
		a, _ := l.Model().AppendBinary(nil)
		b, _ := again.Model().AppendBinary(nil)
		if !bytes.Equal(a, b) {
			t.Fatal("the model is another one after the state was stored")
		}
		l.feed(t, 2500, clean, nil)
		again.feed(t, 2500, clean, nil)
	}
	if a := l.right(clean); a < .97 {
		t.Errorf("%.3f right in the end", a)
	}
}

// TestGrowthEndsWhereItDoesNotPay: a plane that some hundred examples show stops
// the sample; a concept that has ever more to show does not; and a change of the
// labels sets off growth again.
func TestGrowthEndsWhereItDoesNotPay(t *testing.T) {
	side := 1.0
	plane := func(r *rand.Rand, seq uint64) *stream.Example {
		x := board(r, seq, 2, 0)
		x.Y = side
		if (x.X.Val[0]+x.X.Val[1] < .3) != (r.Float64() < .15) {
			x.Y = -side
		}
		return x
	}
	l := newLive(t, map[string]string{"kernel": "linear", "c": "1", "initial": "64", "t_max": "1024"})
	var sizes []int
	held := false
	const n = 40000
	l.feed(t, n, plane, func() {
		sizes = append(sizes, l.last.Sample)
		held = held || l.gauge(t, "holds") == 1
	})
	size := sizes[len(sizes)-1]
	if !held || size > 8000 || size < 2048 {
		t.Errorf("held: %v, the sample is %d", held, size)
	}
	if size != sizes[len(sizes)/2] || l.gauge(t, "grow_total") != 0 {
		t.Errorf("the sample is %d, after half of the stream %d; it grew again %g times", size, sizes[len(sizes)/2], l.gauge(t, "grow_total"))
	}
	if oldest := int(l.Seq(0)); oldest < n-stride*(size+1024) {
		t.Errorf("the oldest example is number %d of %d in a sample of %d", oldest, n, size)
	}
	side = -1
	l.feed(t, n, plane, nil)
	if l.gauge(t, "grow_total") != 1 {
		t.Errorf("after the labels changed the sample grew %g times", l.gauge(t, "grow_total"))
	}
	fine := newLive(t, map[string]string{"gamma": "60", "c": "30", "initial": "64", "t_max": "1024"})
	fine.feed(t, 20000, func(r *rand.Rand, seq uint64) *stream.Example { // twelve squares by twelve
		x := board(r, seq, 2, 0)
		x.Y = float64(2*((int(6*x.X.Val[0]+6)+int(6*x.X.Val[1]+6))%2) - 1)
		return x
	}, nil)
	if fine.gauge(t, "holds") == 1 || fine.last.Sample < 15000 {
		t.Errorf("a sample of %d holds its size though growth pays", fine.last.Sample)
	}
}

// TestBudgetIsKept: no model in use ever has more support vectors than the
// budget, and it is as good as the budget allows.
func TestBudgetIsKept(t *testing.T) {
	l := newLive(t, map[string]string{"gamma": "2", "c": "3", "initial": "64", "t_max": "256", "budget": "150", "reduce": "0"})
	l.feed(t, 20000, noisy, func() {
		if n := l.Model().Info().Support; n > 150 {
			t.Fatalf("%d support vectors", n)
		}
	})
	if a := l.right(clean); a < .9 || l.gauge(t, "hold_total") == 0 {
		t.Errorf("%.3f right, held %g times", a, l.gauge(t, "hold_total"))
	}
}

// TestReducedModel: the model in use is a reduced set as near to the expansion
// of the sample as the option says, and is the same after the state was stored.
func TestReducedModel(t *testing.T) {
	options := map[string]string{"gamma": "2", "c": "3", "initial": "256", "t_max": "1024"}
	l := newLive(t, options)
	reduced := 0
	l.feed(t, 6000, noisy, func() {
		if !l.classifiers[0].cert.latest || l.gauge(t, "reduction_change") == 0 {
			return
		}
		reduced++
		all := expansion.New(l.classifiers[0].p.Basis, l.classifiers[0].p.Alpha, 0)
		if n, m := len(all.Coef()), l.Model().Info().Support; 3*m > n {
			t.Fatalf("%d of %d support vectors are left", m, n)
		}
		for i, a := range l.classifiers[0].p.Alpha {
			x := l.classifiers[0].p.Basis.Row(i)
			d := math.Abs(all.Decision(x) - l.Model().Decision(x))
			if a != 0 && d > .0501 || d > .15 {
				t.Fatalf("the decision at point %d moved by %g", i, d)
			}
		}
	})
	if reduced == 0 {
		t.Fatal("no model was reduced")
	}
	again := l.again(t, options)
	a, _ := l.Model().AppendBinary(nil)
	b, _ := again.Model().AppendBinary(nil)
	if !bytes.Equal(a, b) {
		t.Error("the model is another one after the state was stored")
	}
}
