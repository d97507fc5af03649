package siftplan

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/internal/sift"
	"github.com/streamsvm/streamsvm/stream"
)

// TestBudget: a trainer that is behind asks for less, the less the further it is, and for
// all again when it has caught up.
func TestBudget(t *testing.T) {
	for _, excess := range []float64{1.01, 2, 1000} {
		b := 0.0
		for range 40 {
			next := nextBudget(b, 0.2, 0.3, excess, false)
			if next < LeastBudget || b > 0 && next > b || next > 0.2 {
				t.Fatalf("%g follows %g", next, b)
			}
			if got := nextBudget(b, 0.2, 0.3, excess, true); b > 0 && got != b {
				t.Fatalf("%g follows %g while the trainer catches up", got, b)
			}
			b = next
		}
		if b != LeastBudget {
			t.Errorf("budget %g after 40 versions behind", b)
		}
		for ; b != 0; b = nextBudget(b, 0.2, 0.3, 0.9, false) {
			if b > 0.3 {
				t.Fatalf("budget %g, where 0.3 comes without", b)
			}
		}
	}
}

// TestBudgetSettles: where a quarter of what is forwarded can be learned, the
// backlog stops growing after a few versions, however rare they are, and what is
// forwarded comes near to what can be learned.
func TestBudgetSettles(t *testing.T) {
	const target, arrive, learn, free = 30, 25000, 7000, 0.95 // seconds, records a second, share
	for _, period := range []int{5, 10, 60, 300} {
		var queue []float64 // records waiting, by the second they came in
		oldest, waits, before, budget, most, late := 0, 0.0, 0.0, 0.0, 0.0, 0.0
		for now := range 400 * period {
			share := free
			if budget > 0 {
				share = min(share, budget)
			}
			queue = append(queue, share*arrive)
			waits += share * arrive
			for room := float64(learn); room > 0 && oldest <= now; {
				n := min(room, queue[oldest])
				queue[oldest], room, waits = queue[oldest]-n, room-n, waits-n
				if queue[oldest] == 0 {
					oldest++
				}
			}
			most = max(most, waits)
			if now >= 200*period {
				late += share * arrive
			}
			if now%period == period-1 {
				excess := 0.0
				if waits > 0 {
					excess = float64(now-oldest) / target
				}
				budget = nextBudget(budget, share, free, excess, waits < before)
				before = waits
			}
		}
		late /= float64(200 * period)
		if bound := free * arrive * float64(target+4*period); most > bound || late < 0.7*learn || late > 1.1*learn {
			t.Errorf("a version each %d s: at most %.0f records waited, want %.0f; in the end %.0f/s came, %d/s can be learned", period, most, bound, late, learn)
		}
		t.Logf("a version each %d s: at most %.0f waited, in the end %.0f/s came", period, most, late)
	}
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
		if got := sift.Least(scores, class); got != want {
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
			at := sift.Source{Partition: stream.Partition{Topic: "t", ID: int32(i % 8)}, Offset: int64(i / 8)}
			p := c.plan.Probability(c.rule, c.rule.Margin(f, y), c.m)
			e := 0.
			if f < 0 {
				e = 1
			}
			wrongAll += e
			v += (1 - p) / p
			vWrong += e * (1 - p) / p
			if sift.Forward(at, 5, p) {
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
		if sift.Forward(sift.Source{Offset: int64(i)}, 1, p) {
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
