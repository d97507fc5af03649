package l1smooth

import (
	"bytes"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/stream"
)

// dualOf returns w and the dual value that belong to θ, by definition. v are the
// weights of the examples.
func (p *problem) dualOf(theta, v []float64) (w []float64, value float64) {
	mass := 0.0
	for _, v := range v {
		mass += v
	}
	z := make([]float64, len(p.z[0]))
	for i, row := range p.z {
		value += v[i] * theta[i] / mass
		for j, x := range row {
			z[j] += v[i] * theta[i] * x / mass
		}
	}
	w = make([]float64, len(z))
	for j, e := range z {
		w[j] = math.Copysign(max(math.Abs(e)-p.mu, 0), e) / p.lambda
		value -= p.lambda / 2 * w[j] * w[j]
	}
	return w, value
}

// TestAscent: θ stays within its bounds, w and the dual value are what belongs to
// it, the value never falls, each step is where it is greatest as far as w does
// not cross the threshold, and bounds hold.
func TestAscent(t *testing.T) {
	for name, zeros := range map[string]float64{"dense": 0, "sparse": 0.8} {
		for _, mu := range []string{"0", "0.01"} {
			xs := random(rand.New(rand.NewPCG(1, 40)), 600, 40, 0.3, zeros)
			v := make([]float64, len(xs))
			for i, x := range xs {
				v[i] = 1
				if i%3 == 0 {
					x.Weight, v[i] = 2.5, 2.5
				}
			}
			l, p := ready(t, xs, map[string]string{"lambda": "0.02", "mu": mu})
			s, a := &l.s, &l.s.ascent
			s.mount()
			last := 0.0
			for range 40 {
				s.epoch()
				s.certify()
				if slices.Min(a.theta) < 0 || slices.Max(a.theta) > 1 {
					t.Fatalf("%s, mu %s: θ from %g to %g", name, mu, slices.Min(a.theta), slices.Max(a.theta))
				}
				w, value := p.dualOf(a.theta, v)
				for j := range w {
					if math.Abs(w[j]-a.w[j]) > 1e-10*(1+math.Abs(w[j])) {
						t.Fatalf("%s, mu %s: w[%d] = %g, but θ says %g", name, mu, j, a.w[j], w[j])
					}
				}
				if math.Abs(value-a.value) > 1e-12 || value < last-1e-14 || a.f < value {
					t.Fatalf("%s, mu %s: dual value %g, %g by definition, %g before; f %g", name, mu, a.value, value, last, a.f)
				}
				last = value
				s.recall()
			}
			if a.f-a.value > 1e-2*a.f {
				t.Errorf("%s, mu %s: f = %g, dual value %g", name, mu, a.f, a.value)
			}
		}
	}
}

// TestAscentStep: without the l1 term a step maximises along its θ_i.
func TestAscentStep(t *testing.T) {
	xs := random(rand.New(rand.NewPCG(2, 40)), 30, 8, 0.3, 0)
	l, p := ready(t, xs, map[string]string{"lambda": "0.05", "mu": "0"})
	s, a := &l.s, &l.s.ascent
	s.mount()
	v := slices.Repeat([]float64{1}, len(xs))
	for round := range 3 {
		for i := range xs {
			a.list, a.lo, a.hi = []int32{int32(i)}, math.Inf(-1), math.Inf(1)
			s.epoch()
			theta := slices.Clone(a.theta)
			_, best := p.dualOf(theta, v)
			for k := range 101 {
				theta[i] = float64(k) / 100
				if _, value := p.dualOf(theta, v); value > best+1e-12 {
					t.Fatalf("round %d, example %d: %g at θ = %g, %g at %g", round, i, best, a.theta[i], value, theta[i])
				}
			}
		}
	}
}

// TestAscentOptimum: ascent comes to the optima found outside, and what it says
// of them is true at every measurement.
func TestAscentOptimum(t *testing.T) {
	for i, o := range optima(t) {
		if o.Lam == 0 {
			continue
		}
		l, _ := ready(t, o.examples(), map[string]string{
			"lambda": strconv.FormatFloat(o.Lam, 'g', -1, 64), "mu": strconv.FormatFloat(o.Mu, 'g', -1, 64),
		})
		s, a := &l.s, &l.s.ascent
		s.mount()
		for range 5000 {
			s.epoch()
			s.certify()
			if a.value > o.Objective+1e-11 || a.f < o.Objective-1e-11 {
				t.Fatalf("problem %d: f* in [%g, %g], but it is %g", i, a.value, a.f, o.Objective)
			}
			s.recall()
		}
		if a.f > o.Objective+1e-3*o.Objective {
			t.Errorf("problem %d: f = %g, optimum %g", i, a.f, o.Objective)
		}
	}
}

// wide returns n examples with more features than examples.
func wide(n int) []*stream.Example {
	return sparse(random(rand.New(rand.NewPCG(3, 40)), n, 3*n, 0, 0.9))
}

// TestWide: wide data are solved without a Newton step, to a thousandth, as
// Newton says too; tall data by Newton alone.
func TestWide(t *testing.T) {
	for _, l1 := range []string{"0", "0.1"} {
		l, p := ready(t, wide(400), map[string]string{"start": "dual", "l1": l1})
		if !l.s.ascends() {
			t.Fatalf("l1 %s: wide data, but no ascent", l1)
		}
		for l.solving {
			l.iterate()
		}
		f := p.value(l.s.w, 0)
		if l.s.steps > 0 || !(l.s.gap <= precise*f) || math.Abs(f-l.s.objective) > 1e-12 {
			t.Errorf("l1 %s: %d steps, f = %g, reported %g with a gap of %g", l1, l.s.steps, f, l.s.objective, l.s.gap)
		}
		newton, _ := ready(t, wide(400), map[string]string{"l1": l1, "alpha_min": "1e-6", "eta": "1e-4"})
		for newton.solving {
			newton.iterate()
		}
		if best := p.value(newton.s.w, 0); f-l.s.gap > best+1e-12 || f > best+l.s.gap+1e-9 {
			t.Errorf("l1 %s: f = %g, gap %g; Newton comes to %g", l1, f, l.s.gap, best)
		}
	}
	if l, _ := ready(t, random(rand.New(rand.NewPCG(4, 40)), 2000, 20, 0.3, 0), map[string]string{"start": "dual"}); l.s.ascends() {
		t.Error("tall data, but ascent")
	}
	if l, _ := ready(t, wide(50), map[string]string{"start": "dual", "lambda": "0", "mu": "0.01"}); l.s.ascends() {
		t.Error("ascent without a ridge")
	}
}

// TestLeave: where ascent is slow Newton goes on from no worse weights, and
// comes to the same optimum.
func TestLeave(t *testing.T) {
	xs := random(rand.New(rand.NewPCG(5, 40)), 1500, 100, 0.7, 0)
	o := map[string]string{"start": "dual", "c": "1000", "l1": "0.1"}
	l, p := ready(t, xs, o)
	if !l.s.ascends() {
		t.Fatal("no ascent")
	}
	before := p.value(l.s.w, 0)
	l.iterate()
	if f := p.value(l.s.w, 0); l.s.steps > 0 || !l.solving || f > before || math.Abs(f-l.s.objective) > 1e-12 || l.s.k == len(l.s.alphas) {
		t.Fatalf("ascent from f = %g to %g, reported %g; level %d, %d Newton steps", before, f, l.s.objective, l.s.k, l.s.steps)
	}
	for l.solving {
		l.iterate()
	}
	delete(o, "start")
	newton, _ := ready(t, xs, o)
	for newton.solving {
		newton.iterate()
	}
	if a, b := p.value(l.s.w, 0), p.value(newton.s.w, 0); math.Abs(a-b) > l.opt.AlphaMin {
		t.Errorf("f = %g after ascent, %g without", a, b)
	}
}

// TestWideState: a solution by ascent has the same bits whatever the number of
// processors, and wherever the state was stored on the way.
func TestWideState(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	var first []byte
	for k, processors := range []int{1, 8} {
		runtime.GOMAXPROCS(processors)
		made, err := Spec.New(algos.Env{Seed: 7}, map[string]string{"every": "100"})
		if err != nil {
			t.Fatal(err)
		}
		l := made.(*Learner)
		for i, x := range wide(1000) {
			if _, err := algos.Feed(t.Context(), l, x); err != nil {
				t.Fatal(err)
			}
			if k == 0 || i%137 != 0 {
				continue
			}
			data, err := l.AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			if made, err = Spec.New(algos.Env{Seed: 7}, map[string]string{"every": "100"}); err != nil {
				t.Fatal(err)
			}
			l = made.(*Learner)
			if err := l.UnmarshalBinary(data); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := l.Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, err := l.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = got
		}
		if !bytes.Equal(first, got) {
			t.Errorf("another state with %d processors", processors)
		}
		if l.s.steps > 0 {
			t.Errorf("%d Newton steps", l.s.steps)
		}
	}
}

// TestNewtonDual: steps in the free θ_i keep the bounds and raise the dual value;
// a full one without damping puts the free examples on the margin, and with these
// steps ascent comes to the optimum in few epochs, with bounds that hold.
func TestNewtonDual(t *testing.T) {
	for name, xs := range map[string][]*stream.Example{"sparse": wide(150), "dense": random(rand.New(rand.NewPCG(6, 40)), 100, 200, 0.3, 0)} {
		for i := range xs {
			if i%3 == 0 {
				xs[i].Weight = 2.5
			}
		}
		l, p := ready(t, xs, map[string]string{"c": "30", "l1": "0.1"})
		s, a := &l.s, &l.s.ascent
		v := make([]float64, len(xs))
		for i := range xs {
			v[i] = 1
			if i%3 == 0 {
				v[i] = 2.5
			}
		}
		s.mount()
		epochs, last := 0, 0.0
		for a.f-a.value > 1e-6*a.f && epochs < 60 {
			for range 5 {
				s.epoch()
				epochs++
			}
			s.certify()
			before := a.value
			if s.newtonDual() {
				s.certify()
				if !(a.value > before-1e-15) {
					t.Fatalf("%s: the dual value fell from %g to %g", name, before, a.value)
				}
			}
			if slices.Min(a.theta) < 0 || slices.Max(a.theta) > 1 {
				t.Fatalf("%s: θ from %g to %g", name, slices.Min(a.theta), slices.Max(a.theta))
			}
			w, value := p.dualOf(a.theta, v)
			for j := range w {
				if math.Abs(w[j]-a.w[j]) > 1e-9*(1+math.Abs(w[j])) {
					t.Fatalf("%s: w[%d] = %g, but θ says %g", name, j, a.w[j], w[j])
				}
			}
			if math.Abs(value-a.value) > 1e-11 || a.value < last-1e-14 || a.f < value-1e-12 {
				t.Fatalf("%s: dual value %g, %g by definition, %g before; f %g", name, a.value, value, last, a.f)
			}
			last = a.value
			s.recall()
		}
		if !(a.f-a.value <= 1e-6*a.f) {
			t.Errorf("%s: gap %g of %g after %d epochs", name, a.f-a.value, a.f, epochs)
		}
	}
}

// TestWideCertificate: the certificate of the path for wide data is at most a
// thousandth, and true according to optima by another method.
func TestWideCertificate(t *testing.T) {
	xs := sparse(random(rand.New(rand.NewPCG(7, 40)), 100, 300, 0, 0.9))
	for _, c := range []string{"0.1", "10"} {
		for _, l1 := range []string{"0.1", "1"} {
			l, p := ready(t, xs, map[string]string{"start": "dual", "c": c, "l1": l1, "direct": "100"})
			if !l.s.wide() {
				t.Fatal("not wide")
			}
			for l.solving {
				l.iterate()
			}
			f := p.value(l.s.w, 0)
			if l.s.steps > 0 || !(l.s.gap <= 1e-3*f) || math.Abs(f-l.s.objective) > 1e-12 {
				t.Errorf("c %s, l1 %s: %d steps, f = %g, reported %g with a gap of %g", c, l1, l.s.steps, f, l.s.objective, l.s.gap)
			}
			newton, _ := ready(t, xs, map[string]string{"c": c, "l1": l1, "alpha_min": "1e-7", "eta": "1e-3"})
			for newton.solving {
				newton.iterate()
			}
			if best := p.value(newton.s.w, 0); f-l.s.gap > best+1e-12 || f > best+l.s.gap+1e-6*best {
				t.Errorf("c %s, l1 %s: f = %g, gap %g; Newton comes to %g", c, l1, f, l.s.gap, best)
			}
		}
	}
}
