package sift

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
)

func TestHeader(t *testing.T) {
	h := Header{P: 0.05, Decision: -1.7305, Version: 12, Epoch: 3}
	const text = "1 p=0.05 f=-1.7305 v=12 e=3"
	if got := string(h.Append(nil)); got != text {
		t.Errorf("%q, want %q", got, text)
	}
	if got, err := ParseHeader([]byte(text)); err != nil || got != h {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []struct{ text, says string }{
		{"", "format"}, {"2 p=1 f=0 v=1 e=1", "format"}, {"1 p=1 f=0 v=1", "words"}, {"1 p=1 f=0 v=1 e=1 g=2", "words"},
		{"1 f=0 p=1 v=1 e=1", "want p="}, {"1 p=0 f=0 v=1 e=1", "p is"}, {"1 p=1.5 f=0 v=1 e=1", "p is"}, {"1 p=NaN f=0 v=1 e=1", "p is"},
		{"1 p=-0.5 f=0 v=1 e=1", "p is"}, {"1 p=1e-9 f=0 v=1 e=1", "least"}, {"1 p=x f=0 v=1 e=1", "p is"}, {"1 p=1 f=Inf v=1 e=1", "f is"},
		{"1 p=1 f=0 v=-1 e=1", "v is"}, {"1 p=1 f=0 v=1 e=x", "e is"},
	} {
		if h, err := ParseHeader([]byte(bad.text)); err == nil || !strings.Contains(err.Error(), bad.says) || h != (Header{}) {
			t.Errorf("%q: %+v, %v", bad.text, h, err)
		}
	}
}

func TestSource(t *testing.T) {
	s := Source{stream.Partition{Topic: "examples", ID: 3}, 123456}
	const text = "examples/3:123456"
	if got := string(s.Append(nil)); got != text {
		t.Errorf("%q, want %q", got, text)
	}
	if got, err := ParseSource([]byte(text)); err != nil || got != s {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "examples", ":", "/", "/3:4", "examples/3", "examples:4", "examples/-1:4", "examples/3:-4", "examples/3:x", "examples/x:4",
		"examples/3:9223372036854775807", "examples/2147483648:1"} {
		if s, err := ParseSource([]byte(bad)); err == nil {
			t.Errorf("%q: %+v", bad, s)
		}
	}
}

func TestOf(t *testing.T) {
	r := &stream.Record{Headers: []stream.Header{{Key: "other", Value: []byte("x")}}}
	if _, ok, err := Of(r); ok || err != nil {
		t.Error("a header where there is none")
	}
	r.Headers = append(r.Headers, stream.Header{Key: HeaderKey, Value: []byte("1 p=0.5 f=2 v=1 e=1")})
	if h, ok, err := Of(r); !ok || err != nil || h.P != 0.5 {
		t.Error(h, ok, err)
	}
	r.Headers = append(r.Headers, r.Headers[1])
	if _, ok, err := Of(r); !ok || err == nil {
		t.Error("two headers pass")
	}
}

func FuzzHeader(f *testing.F) {
	f.Add([]byte("1 p=0.05 f=-1.7305 v=12 e=3"))
	f.Add([]byte("examples/3:123456"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if h, err := ParseHeader(text); err == nil {
			if again, err := ParseHeader(h.Append(nil)); err != nil || again != h {
				t.Errorf("%+v is read as %+v, %v", h, again, err)
			}
			if !(h.P >= LeastP && h.P <= 1) {
				t.Errorf("p %g", h.P)
			}
		}
		if s, err := ParseSource(text); err == nil {
			if again, err := ParseSource(s.Append(nil)); err != nil || again != s {
				t.Errorf("%+v is read as %+v, %v", s, again, err)
			}
		}
	})
}

// TestMargin: what each rule looks at.
func TestMargin(t *testing.T) {
	for _, c := range []struct {
		rule Rule
		f, y float64
		want float64
	}{{Hinge, -2, 1, -2}, {Hinge, -2, -1, 2}, {Hinge, -2, 0, 2}, {Uncertain, -2, 1, 2}} {
		if got := c.rule.Margin(c.f, c.y); got != c.want {
			t.Errorf("%s of %g and %g: %g, want %g", c.rule, c.f, c.y, got, c.want)
		}
	}
	scores := []float64{-1.5, 0.5, -0.25}
	for class, want := range map[int]float64{0: -1.5, 1: 0.25, 2: -0.5, -1: 0.25} {
		if got := Least(scores, class); got != want {
			t.Errorf("class %d: %g, want %g", class, got, want)
		}
	}
}

func TestProbability(t *testing.T) {
	p := Plan{S: 0.25}
	for m, want := range map[float64]float64{-3: 1, 1: 1, 1.2: 1, 1.25: 0.05, 9: 0.05} {
		if got := p.Probability(Hinge, m, 0.05); got != want {
			t.Errorf("margin %g: %g, want %g", m, got, want)
		}
	}
	if p.Probability(Hinge, math.NaN(), 0.05) != 1 {
		t.Error("a margin that is no number is of no interest")
	}
	if p.Probability(Uniform, -3, 0.05) != 0.05 {
		t.Error("uniform looks at the margin")
	}
	p.Kappa = 1
	for b := range p.P {
		p.P[b] = float64(b+1) / 20
	}
	for m, want := range map[float64]float64{-2: 1. / 20, -1: 2. / 20, 0.99: 5. / 20, 1: 6. / 20, 3: 14. / 20, 99: 14. / 20} {
		if got := p.Probability(Hinge, m, 0.5); got != want {
			t.Errorf("margin %g under a budget: %g, want %g", m, got, want)
		}
	}
}

func TestMeasures(t *testing.T) {
	tight := Plan{S: 0.1, Kappa: 0.3}
	for b := range tight.P {
		tight.P[b] = 0.01 + float64(b)/100
	}
	for _, p := range []Plan{{}, {S: 0.5}, tight} {
		list := append([]stream.Measure{{Name: "objective", Value: 2}}, p.Measures()...)
		if got, ok, err := PlanOf(list); err != nil || !ok || got != p {
			t.Errorf("%+v is read as %+v, %v, %v", p, got, ok, err)
		}
	}
	if _, ok, err := PlanOf([]stream.Measure{{Name: "objective", Value: 2}}); ok || err != nil {
		t.Error("a plan where there is none")
	}
	bad := tight
	bad.P[3] = 0
	for _, p := range []Plan{{S: -1}, {S: 0.6}, {Kappa: -1}, {Kappa: math.Inf(1)}, bad} {
		if _, _, err := PlanOf(p.Measures()); err == nil {
			t.Errorf("%+v passes", p)
		}
	}
	if _, _, err := PlanOf(slices.DeleteFunc(tight.Measures(), func(m stream.Measure) bool { return m.Name == "sift_p_07" })); err == nil {
		t.Error("a plan without a probability passes")
	}
}

// TestDraw pins draws: workers of all versions must decide alike.
func TestDraw(t *testing.T) {
	for _, c := range []struct {
		at   Source
		seed uint64
		want float64
	}{
		{Source{stream.Partition{Topic: "examples", ID: 3}, 123456}, 1, 0.2253299082721576},
		{Source{stream.Partition{Topic: "examples", ID: 3}, 123457}, 1, 0.3067250898061279},
		{Source{stream.Partition{Topic: "examples", ID: 3}, 123456}, 2, 0.2955035278095912},
	} {
		if got := draw(c.at, c.seed); got != c.want {
			t.Errorf("%+v, seed %d: %v, want %v", c.at, c.seed, got, c.want)
		}
	}
}

// TestUnbiased: what is forwarded, times its weight, is what there was.
func TestUnbiased(t *testing.T) {
	plan := Plan{S: 0.1}
	tight := Plan{Kappa: 1}
	for b := range tight.P {
		tight.P[b] = 0.02 + 0.03*float64(Bins-b)
	}
	for _, c := range []struct {
		rule Rule
		plan Plan
		m    float64 // least
	}{{Hinge, plan, 0.05}, {Hinge, tight, 0.05}, {Uncertain, plan, 0.001}, {Uniform, plan, 0.3}} {
		r := rand.New(rand.NewPCG(1, 2))
		var w, v, wrong, wrongAll, vWrong float64
		const n = 200000
		for i := range n {
			f, y := 1+1.5*r.NormFloat64(), 1.
			at := Source{stream.Partition{Topic: "t", ID: int32(i % 8)}, int64(i / 8)}
			p := c.plan.Probability(c.rule, c.rule.Margin(f, y), c.m)
			e := 0.
			if f < 0 {
				e = 1
			}
			wrongAll += e
			v += (1 - p) / p
			vWrong += e * (1 - p) / p
			if Forward(at, 5, p) {
				w += 1 / p
				wrong += e / p
			}
		}
		if d := math.Abs(w - n); d > 4*math.Sqrt(v) {
			t.Errorf("%s: weights add up to %.0f for %d records, which is %.1f σ", c.rule, w, n, d/math.Sqrt(v))
		}
		if d := math.Abs(wrong - wrongAll); d > 4*math.Sqrt(vWrong) {
			t.Errorf("%s: errors add up to %.0f, there are %.0f, which is %.1f σ", c.rule, wrong, wrongAll, d/math.Sqrt(vWrong))
		}
	}
}

// TestPlan: a plan asks for as much of the stream as its budget, most of what is
// needed, and its band follows the crowd at the margin.
func TestPlan(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	e := new(Estimate)
	if p := e.Plan(1); p != (Plan{S: DefaultBand}) {
		t.Errorf("%+v while nothing is known", p)
	}
	for i := range 20000 {
		seen := 1 + 1.2*r.NormFloat64()
		p := (&Plan{S: 0.1}).Probability(Hinge, seen, 0.05)
		if Forward(Source{stream.Partition{}, int64(i)}, 1, p) {
			e.Add(seen+0.1*r.NormFloat64(), seen, 1/p)
		}
	}
	// As much is from 1 to 1+S as below 1, which is half of it all.
	if p := e.Plan(1); p.S != DefaultBand || p.Kappa != 0 {
		t.Errorf("%+v", p)
	}
	for _, budget := range []float64{0.5, 0.2, 0.05, 0.005} {
		p := e.Plan(budget)
		sum, n := 0.0, 100000
		for range n {
			sum += p.Probability(Hinge, 1+1.2*r.NormFloat64(), 0) / float64(n)
		}
		if math.Abs(sum-budget) > 0.15*budget {
			t.Errorf("a budget of %g forwards %g", budget, sum)
		}
		if !(p.P[0] > p.P[9] && p.P[0] > p.P[13] && p.P[13] > 0) {
			t.Errorf("budget %g: %v", budget, p.P)
		}
		if _, _, err := PlanOf(p.Measures()); err != nil {
			t.Error(err)
		}
	}
	crowd := new(Estimate)
	for i := range 1000 {
		crowd.Add(1.001+0.2*r.Float64(), math.NaN(), 1)
		if i%10 == 0 {
			crowd.Add(0, math.NaN(), 1)
		}
	}
	if p := crowd.Plan(1); !(p.S > 0 && p.S < 0.05) {
		t.Errorf("a band of %g where nine tenths are at the margin", p.S)
	}
	if f := crowd.Free(); !(f > 0.1 && f < 0.3) {
		t.Errorf("%g of it are free", f)
	}
}
