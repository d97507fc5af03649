package online

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/stream"
)

func TestConformance(t *testing.T) {
	for _, o := range []map[string]string{
		{"average": "linear", "l2": "1e-4", "memory": "300"}, {"loss": "squared", "l1": "1e-5"},
		{"update": "sgd", "power": "0.7", "average": "uniform"}, {"update": "pa"}, {"update": "pa", "loss": "squared", "c": "0.01", "average": "linear"},
	} {
		t.Run(fmt.Sprint(o), func(t *testing.T) { algostest.Run(t, Spec, algostest.With(o)) })
	}
	only := Spec
	only.Tasks = []algos.Task{algos.Classify}
	for _, o := range []map[string]string{{"loss": "hinge"}, {"update": "pa", "loss": "squared_hinge", "c": "0.01"}} {
		t.Run(fmt.Sprint(o), func(t *testing.T) { algostest.Run(t, only, algostest.With(o)) })
	}
}

// stream of n examples with dim features, a third of them 0, in which feature
// j has the unit units[j]; the label is linear in the features but for noise.
func examples(n, dim int, task algos.Task, seed uint64, units []float64, sparse bool) []*stream.Example {
	r := rand.New(rand.NewPCG(seed, 7))
	out := make([]*stream.Example, n)
	for i := range out {
		x := &stream.Example{Seq: uint64(i + 1), Labelled: true}
		f := 0.3 + 0.3*r.NormFloat64()
		if sparse {
			x.X.Idx = []int32{}
		}
		for j := range dim {
			v := r.NormFloat64()
			if r.IntN(3) == 0 {
				v = 0
			}
			f += v * math.Sin(float64(j+1))
			if units != nil {
				v *= units[j]
			}
			if !sparse {
				x.X.Val = append(x.X.Val, float32(v))
			} else if v != 0 {
				x.X.Idx, x.X.Val = append(x.X.Idx, int32(j)), append(x.X.Val, float32(v))
			}
		}
		x.Y = math.Copysign(1, f)
		if task == algos.Regress {
			x.Y = 100 + 5*f
		}
		out[i] = x
	}
	return out
}

func learner(t *testing.T, task algos.Task, options map[string]string) *Learner {
	t.Helper()
	l, err := Spec.New(algos.Env{Task: task}, options)
	if err != nil {
		t.Fatal(err)
	}
	return l.(*Learner)
}

// The losses, their derivative by differences, and what makes a step implicit:
// s = −L'(f + q s).
func TestLosses(t *testing.T) {
	value := map[loss]func(f, y float64) float64{
		hinge:        func(f, y float64) float64 { return max(0, 1-y*f) },
		squaredHinge: func(f, y float64) float64 { return math.Pow(max(0, 1-y*f), 2) },
		logistic:     func(f, y float64) float64 { return math.Log1p(math.Exp(-y * f)) },
		squared:      func(f, y float64) float64 { return (y - f) * (y - f) / 2 },
		epsilon:      func(f, y float64) float64 { return max(0, math.Abs(y-f)-0.25) },
	}
	r := rand.New(rand.NewPCG(1, 1))
	for k, of := range value {
		for range 2000 {
			f, y, q := 3*r.NormFloat64(), float64(2*r.IntN(2)-1), math.Exp(4*r.NormFloat64())
			const h = 1e-6
			g := k.slope(f, y, 0.25)
			// At a kink, the slope may be that of either side.
			lo, hi := (of(f-h, y)-of(f, y))/h, (of(f, y)-of(f+h, y))/h
			if g < min(lo, hi)-1e-4 || g > max(lo, hi)+1e-4 {
				t.Fatalf("loss %d at f %g, y %g: slope %g, by differences %g and %g", k, f, y, g, lo, hi)
			}
			s := k.step(f, y, g, 0.25, q)
			// s minimises (q/2) s² + L(f + q s): it is never worse than its
			// neighbours.
			at := func(s float64) float64 { return q*s*s/2 + of(f+q*s, y) }
			for _, d := range []float64{1e-3, -1e-3} {
				d *= max(math.Abs(s), 1e-6)
				if at(s+d) < at(s)-1e-8*(1+at(s)) {
					t.Fatalf("loss %d at f %g, y %g, q %g: step %g costs %g, step %g costs %g", k, f, y, q, s, at(s), s+d, at(s+d))
				}
			}
		}
	}
}

func TestPower(t *testing.T) {
	for _, x := range []float64{1, 1.4, 2, 3, 1e3, 123456789, 1e15} {
		for _, p := range []float64{-1, -0.7, -0.3, 0, 0.25, 1} {
			if got, want := power(x, p), math.Pow(x, p); math.Abs(got-want) > 1e-13*want {
				t.Errorf("%g^%g = %g, want %g", x, p, got, want)
			}
		}
	}
	if got := powerInt(0.999, 12345); math.Abs(got-math.Pow(0.999, 12345)) > 1e-12*got {
		t.Errorf("0.999^12345 = %g", got)
	}
}

// A slow reference, written from the formulas with the constant feature as one
// of the others, makes the same updates.
func TestReference(t *testing.T) {
	const dim, n = 6, 400
	for _, task := range Spec.Tasks {
		for _, o := range []map[string]string{
			{"update": "pa", "c": "0.3"}, {"update": "pa", "loss": "squared", "c": "0.05", "bias": "4"},
			{"update": "sgd", "rate": "0.2"}, {"update": "sgd", "rate": "0.1", "power": "0.8", "bias": "0"},
			{"rate": "0.4"}, {"rate": "0.4", "loss": "squared", "bias": "0"},
		} {
			l := learner(t, task, o)
			w, g, sigma := make([]float64, dim+1), make([]float64, dim+1), make([]float64, dim+1)
			var count, norm float64
			var labels []float64
			for i, x := range examples(n, dim, task, 3, nil, i3(o)) {
				z := make([]float64, dim+1)
				for k, v := range x.X.Val {
					j := k
					if x.X.Idx != nil {
						j = int(x.X.Idx[k])
					}
					z[j] = float64(v)
				}
				z[dim] = l.z
				labels = append(labels, x.Y)
				if i == 0 && task == algos.Regress && l.z > 0 {
					w[dim] = x.Y / l.z
				}
				if l.opt.Update == "nag" {
					for j, v := range z {
						if a := math.Abs(v); a > sigma[j] {
							if w[j] != 0 && j < dim {
								w[j] *= sigma[j] / a
							}
							sigma[j] = a
						}
					}
				}
				f := 0.0
				for j := range z {
					f += w[j] * z[j]
				}
				if m := l.Model().Decision(x.X); l.opt.Update != "nag" && i > 0 && math.Abs(m-f) > 1e-9*(1+math.Abs(f)) {
					t.Fatalf("%s %v, example %d: f = %g, want %g", task, o, i, m, f)
				}
				slope := l.loss.slope(f, x.Y, 0.1)
				if slope != 0 {
					count++
					d := make([]float64, dim+1)
					for j, v := range z {
						switch {
						case l.opt.Update == "pa":
							d[j] = l.opt.C
						case l.opt.Update == "sgd":
							d[j] = l.opt.Rate / math.Pow(count, l.opt.Power)
						case v != 0:
							norm += v * v / (sigma[j] * sigma[j])
							g[j] += slope * slope * v * v
						}
					}
					if l.opt.Update == "nag" {
						size := 1.0
						if task == algos.Regress {
							size = deviation(labels)
						}
						for j, v := range z {
							if v != 0 {
								d[j] = l.opt.Rate * size * math.Sqrt(count/norm) / (sigma[j] * math.Sqrt(g[j]))
							}
						}
					}
					q := 0.0
					for j, v := range z {
						q += d[j] * v * v
					}
					s := l.loss.step(f, x.Y, l.loss.slope(f, x.Y, 0.1), 0.1, q)
					if q == 0 {
						s = 0
					}
					for j, v := range z {
						w[j] += s * d[j] * v
					}
				}
				algostest.Feed(t, l, x)
			}
			for j := range dim {
				if got := l.model.Weights()[j]; math.Abs(got-w[j]) > 1e-7*(1+math.Abs(w[j])) {
					t.Errorf("%s %v: weight %d is %g, want %g", task, o, j, got, w[j])
				}
			}
			if got, want := l.Model().Decision(stream.Vec{}), w[dim]*l.z; math.Abs(got-want) > 1e-7*(1+math.Abs(want)) {
				t.Errorf("%s %v: bias %g, want %g", task, o, got, want)
			}
		}
	}
}

// i3 lets every other case of TestReference be sparse.
func i3(o map[string]string) bool { return len(o)%2 == 1 }

func deviation(y []float64) float64 {
	var mean, sq float64
	for _, v := range y {
		mean += v / float64(len(y))
	}
	for _, v := range y {
		sq += (v - mean) * (v - mean) / float64(len(y))
	}
	return math.Sqrt(sq)
}

// PA-I and PA-II in the closed forms of their paper.
func TestPassiveAggressive(t *testing.T) {
	for _, c := range []struct {
		loss string
		tau  func(l, sq float64) float64
	}{
		{"hinge", func(l, sq float64) float64 { return min(0.2, l/sq) }},
		{"squared_hinge", func(l, sq float64) float64 { return l / (sq + 1/(2*0.2)) }},
	} {
		l := learner(t, algos.Classify, map[string]string{"update": "pa", "loss": c.loss, "c": "0.2"})
		w := make([]float64, 5) // the last one is the bias
		for i, x := range examples(500, 4, algos.Classify, 5, nil, false) {
			f, sq := w[4], 1.0
			for j, v := range x.X.Val {
				f += w[j] * float64(v)
				sq += float64(v) * float64(v)
			}
			tau := c.tau(max(0, 1-x.Y*f), sq)
			for j, v := range x.X.Val {
				w[j] += tau * x.Y * float64(v)
			}
			w[4] += tau * x.Y
			algostest.Feed(t, l, x)
			for j, v := range l.w {
				if math.Abs(v-w[j]) > 1e-10 {
					t.Fatalf("%s, example %d: weight %d is %g, want %g", c.loss, i, j, v, w[j])
				}
			}
		}
	}
}

// With nag, neither the units of features nor those of the labels matter.
func TestUnits(t *testing.T) {
	units := []float64{1, 1024, 1. / 4096, 1, 1 << 20, 1}
	for _, task := range Spec.Tasks {
		plain, scaled := learner(t, task, nil), learner(t, task, nil)
		a, b := examples(600, 6, task, 9, nil, true), examples(600, 6, task, 9, units, true)
		factor := 1.0
		if task == algos.Regress {
			factor = 1 << 30
		}
		for i := range a {
			b[i].Y *= factor
			f, g := plain.Model().Decision(a[i].X), scaled.Model().Decision(b[i].X)
			if math.Abs(f*factor-g) > 1e-6*factor*(1+math.Abs(f)) {
				t.Fatalf("%s, example %d: %g in one unit, %g in another", task, i, f, g)
			}
			algostest.Feed(t, plain, a[i])
			algostest.Feed(t, scaled, b[i])
		}
	}
}

// Dense and sparse forms of a stream lead to the same bits.
func TestForms(t *testing.T) {
	for _, task := range Spec.Tasks {
		for _, o := range []map[string]string{{}, {"update": "pa"}, {"update": "sgd"}} {
			a, b := learner(t, task, o), learner(t, task, o)
			algostest.Feed(t, a, examples(300, 40, task, 2, nil, false)...)
			algostest.Feed(t, b, examples(300, 40, task, 2, nil, true)...)
			for j := range a.w {
				if a.w[j] != b.w[j] {
					t.Fatalf("%s %v: weight %d is %g dense, %g sparse", task, o, j, a.w[j], b.w[j])
				}
			}
		}
	}
}

// Regularisation in sweeps ends near the regularised optimum, l1 with weights
// that are exactly 0, and an average has less noise than the last iterate.
func TestSweeps(t *testing.T) {
	const dim = 8
	run := func(o map[string]string) *Learner {
		o["loss"] = "squared"
		l := learner(t, algos.Regress, o)
		r := rand.New(rand.NewPCG(4, 4))
		for i := range 30000 {
			x := &stream.Example{Seq: uint64(i + 1), Labelled: true}
			for range dim {
				x.X.Val = append(x.X.Val, float32(r.NormFloat64()))
			}
			// Two features count, the others do not.
			x.Y = 2*float64(x.X.Val[0]) - float64(x.X.Val[1]) + r.NormFloat64()
			algostest.Feed(t, l, x)
		}
		if _, err := l.Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
		return l
	}
	w := func(l *Learner) []float64 { return l.model.Weights() }
	// E x xᵀ = 1, so that the optimum is known: w/(1+λ₂), and w shrunk by λ₁.
	for _, update := range []string{"nag", "sgd", "pa"} {
		base := map[string]string{"update": update, "rate": "0.1", "c": "0.002", "average": "linear"}
		with := func(k, v string) map[string]string {
			o := map[string]string{k: v}
			maps.Copy(o, base)
			return o
		}
		l2, l1 := run(with("l2", "1")), run(with("l1", "0.5"))
		if a := w(l2); math.Abs(a[0]-1) > 0.1 || math.Abs(a[1]+0.5) > 0.1 {
			t.Errorf("%s: l2 gives %v, want about 1 and -0.5", update, a)
		}
		if a := w(l1); math.Abs(a[0]-1.5) > 0.15 || math.Abs(a[1]+0.5) > 0.15 {
			t.Errorf("%s: l1 gives %v, want about 1.5 and -0.5", update, a)
		}
		zeros := 0
		for _, v := range l1.w[2:] {
			if v == 0 {
				zeros++
			}
		}
		if zeros < 3 {
			t.Errorf("%s: l1 leaves %d of 6 useless weights 0: %v", update, zeros, l1.w)
		}
	}
	noise := func(a []float64) float64 {
		s := math.Pow(a[0]-2, 2) + math.Pow(a[1]+1, 2)
		for _, v := range a[2:] {
			s += v * v
		}
		return math.Sqrt(s)
	}
	last, mean := run(map[string]string{"update": "sgd", "rate": "0.05", "power": "0"}), run(map[string]string{"update": "sgd", "rate": "0.05", "power": "0", "average": "linear"})
	if a, b := noise(w(last)), noise(w(mean)); b > a/3 {
		t.Errorf("error %g of the last iterate, %g of the average", a, b)
	}
}

// A concept that turns round is followed again with memory, and not without.
func TestMemory(t *testing.T) {
	accuracy := func(o map[string]string) float64 {
		l := learner(t, algos.Classify, o)
		right := 0
		for i, x := range examples(40000, 5, algos.Classify, 6, nil, false) {
			if i >= 36000 {
				x.Y = -x.Y
				if i >= 36500 && l.Model().Decision(x.X)*x.Y > 0 {
					right++
				}
			}
			algostest.Feed(t, l, x)
		}
		return float64(right) / 3500
	}
	if all, some := accuracy(nil), accuracy(map[string]string{"memory": "100"}); some < 0.7 || some < all+0.1 {
		t.Errorf("accuracy after a turn: %.3f with memory, %.3f without", some, all)
	}
}

func TestRefuses(t *testing.T) {
	for _, o := range []map[string]string{{"loss": "hinge"}, {"loss": "logistic"}, {"loss": "squared_hinge"}} {
		if _, err := Spec.New(algos.Env{Task: algos.Regress}, o); err == nil {
			t.Errorf("%v is taken for a regression", o)
		}
	}
	if err := Spec.Check(map[string]string{"memory": "1"}); err == nil {
		t.Error("a memory of one example is taken")
	}
	l := learner(t, algos.Classify, nil)
	for _, x := range []*stream.Example{
		{Labelled: true, Y: 2}, {Labelled: true, Y: 1, X: stream.Vec{Val: []float32{1e19}}},
		{Labelled: true, Y: 1, X: stream.Vec{Val: []float32{float32(math.NaN())}}},
	} {
		if _, err := l.Add(x); err == nil {
			t.Errorf("%+v is taken", x)
		}
	}
	if _, err := learner(t, algos.Regress, nil).Add(&stream.Example{Labelled: true, Y: math.Inf(1)}); err == nil {
		t.Error("an infinite label is taken")
	}
}

// A weight above 1 takes no step past the margin: where one of 1 stays below it, so
// does one of 1000, and it comes nearer.
func TestWeightStaysAtMargin(t *testing.T) {
	for _, update := range []string{"pa", "nag", "sgd"} {
		xs := examples(400, 5, algos.Classify, 7, nil, false)
		o := map[string]string{"update": update, "loss": "hinge"}
		for i := 100; i < len(xs); i += 50 {
			margin := func(w float32) float64 {
				l := learner(t, algos.Classify, o)
				algostest.Feed(t, l, xs[:i]...)
				x := *xs[i]
				x.Weight = w
				algostest.Feed(t, l, &x)
				return x.Y * l.Model().Decision(x.X)
			}
			one, many := margin(0), margin(1000)
			if many < one-1e-9 || many > max(one, 1)+1e-9 {
				t.Errorf("%s, example %d: margin %g after a weight of 1, %g after one of 1000", update, i, one, many)
			}
		}
	}
}
