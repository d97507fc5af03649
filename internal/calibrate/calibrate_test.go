package calibrate

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/rng"
)

func sigma(z float64) float64 { return 1 / (1 + math.Exp(-z)) }

func loss(p float64, positive bool) float64 {
	if !positive {
		p = 1 - p
	}
	return -math.Log(max(p, 1e-300))
}

// edges are the ends of all pieces.
var edges = []float64{-6, -1, -0.5, 0, 0.5, 1, 6}

const params = 2*pieces + 1

// slow is Online by its definition, with dense matrices of another library.
type slow struct {
	m, n  float64
	theta []float64
	a     *mat.SymDense
}

func newSlow() *slow {
	s := &slow{theta: make([]float64, params), a: mat.NewSymDense(params, nil)}
	for i := range params {
		s.a.SetSym(i, i, 1)
		if i < 2*pieces {
			s.theta[i] = 1
		}
	}
	return s
}

// inputs integrates the indicator of each piece from 0 to v.
func (s *slow) inputs(f float64) []float64 {
	v := f
	if s.m > 0 {
		v = f / math.Sqrt(s.m/s.n)
	}
	v = math.Max(-6, math.Min(6, v))
	length := func(a, b, c, d float64) float64 { return math.Max(0, math.Min(b, d)-math.Max(a, c)) }
	var x []float64
	for i := range 2 * pieces {
		x = append(x, length(0, v, edges[i], edges[i+1])-length(v, 0, edges[i], edges[i+1]))
	}
	return append(x, 1)
}

func (s *slow) probability(f float64) float64 {
	z := 0.0
	for i, x := range s.inputs(f) {
		z += s.theta[i] * x
	}
	return sigma(z)
}

func (s *slow) learn(f float64, positive bool) {
	const rho = 1 - 1.0/span
	p, x := s.probability(f), mat.NewVecDense(params, s.inputs(f))
	s.m, s.n = rho*s.m+f*f, rho*s.n+1
	s.a.ScaleSym(rho, s.a)
	s.a.SymRankOne(s.a, math.Max(p*(1-p), 1e-3), x)
	for i := range params {
		s.a.SetSym(i, i, s.a.At(i, i)+(1-rho))
	}
	y := 0.0
	if positive {
		y = 1
	}
	var step mat.VecDense
	if err := step.SolveVec(s.a, x); err != nil {
		panic(err)
	}
	for i := range params {
		least := 0.0
		if i == 2*pieces {
			least = -20
		}
		s.theta[i] = math.Min(math.Max(s.theta[i]-(p-y)*step.AtVec(i), least), 20)
	}
}

// stream returns a generator of decisions and labels: the probability of a
// positive label is that of truth.
func stream(r *rng.Source, scale float64, truth func(f float64) float64) func() (f float64, positive bool) {
	return func() (float64, bool) {
		f := r.NormFloat64()
		return scale * f, r.Float64() < truth(f)
	}
}

// TestStep compares every step, and every probability, with the definition.
func TestStep(t *testing.T) {
	r := rng.New(1, "step")
	o, s := NewOnline(), newSlow()
	for i := range 5000 {
		f := 3 * r.NormFloat64()
		switch r.IntN(20) {
		case 0:
			f = 0
		case 1:
			f *= 100
		}
		if i > 2500 {
			f *= 40 // the scale changes
		}
		for _, x := range []float64{f, -f, f / 2, 1e9, -1e9} {
			if got, want := o.Map().Probability(x), s.probability(x); math.Abs(got-want) > 1e-8 {
				t.Fatalf("label %d: p(%v) is %v, want %v", i, x, got, want)
			}
		}
		y := r.Float64() < sigma(f-1)
		want := o.Map().Probability(f)
		if got := o.Learn(f, y); math.Abs(got-want) > 1e-14 {
			t.Fatalf("label %d: p(%v) is %v, its map says %v", i, f, got, want)
		}
		s.learn(f, y)
	}
}

// TestMonotone: a larger decision never has a smaller probability.
func TestMonotone(t *testing.T) {
	for seed := range uint64(20) {
		r := rng.New(seed, "monotone")
		o := NewOnline()
		for range r.IntN(3000) {
			f := r.NormFloat64() * math.Exp(3*r.NormFloat64())
			o.Learn(f, r.Float64() < sigma(f*(r.Float64()-0.5))) // often the wrong way round
		}
		m := o.Map()
		if err := m.check(); err != nil {
			t.Fatal(err, m)
		}
		var fs []float64
		for range 2000 {
			fs = append(fs, r.NormFloat64()*math.Exp(5*r.NormFloat64()))
		}
		fs = append(fs, math.Inf(-1), math.Inf(1), 0)
		for _, x := range m.Decisions {
			fs = append(fs, x, math.Nextafter(x, -1e300), math.Nextafter(x, 1e300))
		}
		slices.Sort(fs)
		last := 0.0
		for _, f := range fs {
			p := m.Probability(f)
			if !(p >= last-4e-15 && p <= 1) { // the exponential has rounding errors
				t.Fatalf("seed %d: p(%v) is %v, after %v", seed, f, p, last)
			}
			last = p
		}
	}
	if p := NewOnline().Map().Probability(math.NaN()); !math.IsNaN(p) {
		t.Errorf("the probability at NaN is %v", p)
	}
}

// TestRegret compares the mean loss on i.i.d. data with that of the best map,
// which made the labels.
func TestRegret(t *testing.T) {
	for name, truth := range map[string]func(float64) float64{
		"sigmoid":   func(f float64) float64 { return sigma(2*f - 0.5) },
		"two sides": func(f float64) float64 { return sigma(3*math.Max(f, 0) + 0.5*math.Min(f, 0)) },
		"flat":      func(float64) float64 { return 0.03 },
		"steps":     func(f float64) float64 { return map[bool]float64{true: 0.7, false: 0.05}[f > 0] },
	} {
		for _, scale := range []float64{1e-3, 1, 500} {
			const n = 20000
			next := stream(rng.New(4, name), scale, truth)
			o := NewOnline()
			var got, best float64
			for range n {
				f, y := next()
				got += loss(o.Map().Probability(f), y) / n
				best += loss(truth(f/scale), y) / n
				o.Learn(f, y)
			}
			// Forgetting costs about params/(4·span) = .002; steps cannot be
			// followed exactly.
			most := 0.006
			if name == "steps" {
				most = 0.04
			}
			if got-best > most {
				t.Errorf("%s, scale %v: loss %.4f, of the best map %.4f", name, scale, got, best)
			}
		}
	}
}

// TestChange: after the stream has changed, the map is soon that of a fresh
// start.
func TestChange(t *testing.T) {
	r := rng.New(5, "change")
	before := stream(r, 1, func(f float64) float64 { return sigma(4*f + 1) })
	truth := func(f float64) float64 { return sigma(0.5*f - 2) }
	after := stream(r, 30, truth)
	o := NewOnline()
	for range 50000 {
		o.Learn(before())
	}
	var got, best float64
	for i := range 6000 {
		f, y := after()
		if i >= 3000 {
			got += loss(o.Map().Probability(f), y) / 3000
			best += loss(truth(f/30), y) / 3000
		}
		o.Learn(f, y)
	}
	if got-best > 0.01 {
		t.Errorf("loss %.4f 3,000 labels after a change, of the best map %.4f", got, best)
	}
}

func TestNotFinite(t *testing.T) {
	o := NewOnline()
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e200} {
		o.Learn(f, true)
	}
	if o.labels != 0 || o.Known() {
		t.Errorf("%d labels of decisions that are no numbers", o.labels)
	}
	for i := range 3 * Least {
		if o.Known() != (i >= Least) {
			t.Fatalf("known %v after %d labels", o.Known(), i)
		}
		f := []float64{0, 1e149, -1e149, 5e-324}[i%4]
		o.Learn(f, i%2 == 0)
		m := o.Map()
		if err := m.check(); err != nil {
			t.Fatalf("after %d labels: %v, %+v", i+1, err, m)
		}
	}
}

// TestState goes on from a state, to the same bits.
func TestState(t *testing.T) {
	r := rng.New(6, "state")
	o, p := NewOnline(), NewOnline()
	for i := range 1000 {
		f, y := r.NormFloat64(), r.IntN(3) == 0
		o.Learn(f, y)
		p.Learn(f, y)
		if i%100 == 0 {
			data, err := state.Append(nil, p.Fields)
			if err != nil {
				t.Fatal(err)
			}
			p = NewOnline()
			if err := state.Decode(data, p.Fields); err != nil {
				t.Fatal(err)
			}
		}
	}
	if *o != *p {
		t.Errorf("%+v, want %+v", p, o)
	}
	data, err := state.Append(nil, o.Map().Fields)
	if err != nil {
		t.Fatal(err)
	}
	var m Map
	if err := state.Decode(data, m.Fields); err != nil || !slices.Equal(m.LogOdds, o.Map().LogOdds) || !slices.Equal(m.Decisions, o.Map().Decisions) {
		t.Errorf("%+v, want %+v, %v", m, o.Map(), err)
	}
	for _, bad := range []Map{{}, {[]float64{1}, nil}, {[]float64{1, 1}, []float64{0, 1}}, {[]float64{1, 2}, []float64{1, 0}}, {[]float64{1}, []float64{math.NaN()}}, {[]float64{math.Inf(1)}, []float64{0}}} {
		data, err := state.Append(nil, bad.Fields)
		if err != nil {
			t.Fatal(err)
		}
		if err := state.Decode(data, new(Map).Fields); err == nil {
			t.Errorf("%+v is read", bad)
		}
	}
	if data, _ = state.Append(nil, o.Fields); !bytes.Contains(data, []byte("above")) {
		t.Error("a side is missing")
	}
	for i := range data {
		bad := bytes.Clone(data)
		bad[i] ^= 0x55
		_ = state.Decode(bad, NewOnline().Fields) // does not panic
	}
}
