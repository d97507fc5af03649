package scs_test

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/algos/scs"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/internal/testkit/dataset"
	"github.com/streamsvm/streamsvm/internal/testkit/oracle"
	"github.com/streamsvm/streamsvm/stream"
)

// moons returns n examples of the two moons with noise of standard deviation
// 0.3, as in the check of the method that its parameters come from.
func moons(seed uint64, n int) []*stream.Example {
	r := rng.New(seed, "scs.moons")
	all := make([]*stream.Example, n)
	for i := range all {
		a := math.Pi * r.Float64()
		x, y, label := math.Cos(a), math.Sin(a), 1.0
		if r.IntN(2) == 0 {
			x, y, label = 1-x, 0.5-y, -1
		}
		all[i] = &stream.Example{Seq: uint64(i + 1), Y: label, Labelled: true,
			X: stream.Vec{Val: []float32{float32(x + .3*r.NormFloat64()), float32(y + .3*r.NormFloat64())}}}
	}
	return all
}

// paper returns a learner with the paper preset and the options given.
func paper(tb testing.TB, given map[string]string) algos.Learner {
	tb.Helper()
	o, err := scs.Spec.WithPreset("paper", given)
	if err != nil {
		tb.Fatal(err)
	}
	l, err := scs.Spec.New(algos.Env{Seed: 1}, o)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// gauge returns a named gauge of a report.
func gauge(tb testing.TB, r algos.Report, name string) float64 {
	tb.Helper()
	for _, g := range r.Gauges {
		if g.Name == name {
			return g.Value
		}
	}
	tb.Fatalf("no gauge %s", name)
	return 0
}

// steps feeds data and calls visit after every step.
func steps(tb testing.TB, l algos.Learner, data []*stream.Example, visit func(r algos.Report)) {
	tb.Helper()
	for _, x := range data {
		if _, err := l.Add(x); err != nil {
			tb.Fatal(err)
		}
		for l.Need().Fresh == 0 {
			r, err := l.Step(tb.Context())
			if err != nil {
				tb.Fatal(err)
			}
			visit(r)
		}
	}
}

// fixed are options under which the sample stays at its first size, with
// validation draws of t.
func fixed(more map[string]string) map[string]string {
	o := map[string]string{"gamma": "2", "initial": "120", "max_sample": "120", "t_max": "120"}
	maps.Copy(o, more)
	return o
}

// TestAcceptance is P-5 and P-6.
func TestAcceptance(t *testing.T) {
	for seed := range uint64(4) {
		l := paper(t, fixed(map[string]string{"lambda": "0.02"}))
		var accepted, rejected, radius float64
		var incumbent []byte
		steps(t, l, moons(seed, 120*40), func(r algos.Report) {
			a, b, rad := gauge(t, r, "accepted_total"), gauge(t, r, "rejected_total"), gauge(t, r, "radius")
			model, err := l.Model().AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case a > accepted:
				if dS, dT := gauge(t, r, "model_decrease"), gauge(t, r, "validation_decrease"); dS > .1*dT {
					t.Errorf("seed %d: accepted with decreases %g on S, %g on T", seed, dS, dT)
				}
				if radius > 0 && rad != min(2*radius, 1) {
					t.Errorf("seed %d: radius went from %g to %g on success", seed, radius, rad)
				}
			case b > rejected:
				if rad != max(radius/2, 1e-4) {
					t.Errorf("seed %d: radius went from %g to %g on failure", seed, radius, rad)
				}
				if !bytes.Equal(model, incumbent) {
					t.Errorf("seed %d: a rejected candidate changed the incumbent", seed)
				}
			}
			accepted, rejected, radius, incumbent = a, b, rad, model
		})
		if accepted == 0 || rejected == 0 {
			t.Errorf("seed %d: %g accepted, %g rejected", seed, accepted, rejected)
		}
	}
}

// gram returns the kernel matrix with the bias added, and the labels.
func gram(data []*stream.Example, gamma, bias float64) (q [][]float64, w []float64) {
	q = make([][]float64, len(data))
	for i, x := range data {
		w = append(w, x.Y)
		for _, z := range data {
			a, b := float64(x.X.Val[0]-z.X.Val[0]), float64(x.X.Val[1]-z.X.Val[1])
			q[i] = append(q[i], float64(float32(math.Exp(-gamma*(a*a+b*b)))+float32(bias)))
		}
	}
	return q, w
}

// TestDualOracle: on fixed samples the default learner, with tight tolerances,
// reaches the optimum that an independent solver finds.
func TestDualOracle(t *testing.T) {
	for _, n := range []int{100, 300} {
		data := moons(uint64(n), n)
		for _, c := range []struct {
			text   string
			lambda float64
		}{{"1", 1}, {"0.1", .1}, {"0.01", .01}, {"0.001", .001}} {
			for _, bias := range []float64{0, 1} {
				q, w := gram(data, 2, bias)
				best := oracle.Solve(q, w, c.lambda, 1e-8, 20000)
				o := map[string]string{"lambda": c.text, "gamma": "2", "initial": "100", "gap": "1e-5", "bias": "0"}
				if bias == 1 {
					o["bias"] = "1"
				}
				l, err := scs.Spec.New(algos.Env{Seed: 1}, o)
				if err != nil {
					t.Fatal(err)
				}
				r := train(t, l, data)
				if d := r.Objective - best.Objective; math.Abs(d) > 1e-6*best.Objective {
					t.Errorf("n %d, λ %s, bias %g: objective %.9g, optimum %.9g", n, c.text, bias, r.Objective, best.Objective)
				}
				if d := r.Objective - best.Objective; r.Certificate < d-1e-7 || r.Certificate > 2e-6 {
					t.Errorf("n %d, λ %s, bias %g: duality gap %g, distance %g", n, c.text, bias, r.Certificate, d)
				}
			}
		}
	}
}

// TestProcessorsAndCacheLeaveNoTrace: neither GOMAXPROCS nor the size of the
// cache shows in the state.
func TestProcessorsAndCacheLeaveNoTrace(t *testing.T) {
	data := moons(8, 1500)
	var want []byte
	for i, c := range []struct {
		procs int
		cache string
	}{{1, "256"}, {2, "256"}, {2, "0"}, {1, "1"}} {
		old := runtime.GOMAXPROCS(c.procs)
		l := newLearner(t, "initial=64 margin=0.2 cache="+c.cache)
		train(t, l, data)
		got, err := l.AppendBinary(nil)
		runtime.GOMAXPROCS(old)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			want = got
		} else if !bytes.Equal(got, want) {
			t.Errorf("%+v: the state differs", c)
		}
	}
}

func TestBudgetAndCap(t *testing.T) {
	data := moons(9, 3000)
	test := moons(10, 2000)
	l := newLearner(t, "initial=64 max_sample=400 c=1 t_max=200 gamma=2")
	r := train(t, l, data)
	if r.Sample != 400 {
		t.Errorf("sample %d", r.Sample)
	}
	full := accuracy(l.Model(), test)
	l = newLearner(t, "initial=64 max_sample=400 c=1 t_max=200 gamma=2 budget=40")
	r = train(t, l, data)
	if n := l.Model().Info().Support; n > 40 || n == 0 || gauge(t, r, "hold_total") == 0 {
		t.Errorf("%d support vectors, held %g times", n, gauge(t, r, "hold_total"))
	}
	if a := accuracy(l.Model(), test); full < .88 || a < full-.03 {
		t.Errorf("accuracy %.3f with a budget, %.3f without", a, full)
	}
}

// TestGapOnIJCNN1 is the certified optimum at a setting of practical size.
func TestGapOnIJCNN1(t *testing.T) {
	if os.Getenv("STREAMSVM_LONG") == "" {
		t.Skip("set STREAMSVM_LONG=1")
	}
	data := dataset.Load(t, "ijcnn1.train.libsvm.gz", 10000, 1)
	for _, options := range []string{
		"gap=1e-4",
	} {
		l := newLearner(t, "gamma=2 c=32 "+options)
		r := train(t, l, data)
		t.Logf("%s: gap %.3g at f = %.9g", options, r.Certificate, r.Objective)
		if !(r.Certificate <= 1e-6) {
			t.Errorf("%s: duality gap %g", options, r.Certificate)
		}
	}
}

// TestStateRefusesRadius: a radius is above 0.
func TestStateRefusesRadius(t *testing.T) {
	l := newLearner(t, "accept=printed budget=0 initial=64")
	steps(t, l, moons(5, 300), func(algos.Report) {})
	data := algostest.Bytes(t, l)
	at := bytes.LastIndex(data, []byte("\xa5delta\xcb")) + 7
	if at < 7 {
		t.Fatal("no radius")
	}
	for _, radius := range []float64{.5, 0, -1, math.NaN()} {
		binary.BigEndian.PutUint64(data[at:], math.Float64bits(radius))
		if err := newLearner(t, "accept=printed budget=0 initial=64").UnmarshalBinary(data); (err == nil) != (radius > 0) {
			t.Errorf("radius %g: %v", radius, err)
		}
	}
}

// train feeds the examples in order and finishes.
func train(tb testing.TB, l algos.Learner, data []*stream.Example) algos.Report {
	tb.Helper()
	algostest.Feed(tb, l, data...)
	r, err := l.Finish(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// accuracy returns the share of test examples that m classifies right.
func accuracy(m algos.Model, test []*stream.Example) float64 {
	right := 0
	for _, x := range test {
		if (m.Decision(x.X) >= 0) == (x.Y > 0) {
			right++
		}
	}
	return float64(right) / float64(len(test))
}

func newLearner(tb testing.TB, options string) algos.Learner {
	tb.Helper()
	o := map[string]string{}
	for w := range strings.FieldsSeq(options) {
		k, v, _ := strings.Cut(w, "=")
		o[k] = v
	}
	l, err := scs.Spec.New(algos.Env{Seed: 1}, o)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func TestLearnsIJCNN1(t *testing.T) {
	data := dataset.Load(t, "ijcnn1.train.libsvm.gz", 4000, 1)
	test := dataset.Load(t, "ijcnn1.test.libsvm.gz", 2000, 1)
	l := newLearner(t, "gamma=2 c=32")
	train(t, l, data)
	if a := accuracy(l.Model(), test); a < 0.95 {
		t.Errorf("accuracy %.4f", a)
	}
}
