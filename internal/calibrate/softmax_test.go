package calibrate

import (
	"math"
	"testing"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/rng"
)

// slowSoftmax is OnlineSoftmax by its definition, with derivatives by
// differences.
type slowSoftmax struct{ m, n, slope, a float64 }

func (s *slowSoftmax) probabilities(scores []float64, slope float64) []float64 {
	scale := 1.0
	if s.m > 0 {
		scale = math.Sqrt(s.m / s.n)
	}
	top := math.Inf(-1)
	for _, v := range scores {
		top = math.Max(top, v)
	}
	var p []float64
	sum := 0.0
	for _, v := range scores {
		p = append(p, math.Exp(slope*math.Max((v-top)/scale, -12)))
		sum += p[len(p)-1]
	}
	for k := range p {
		p[k] /= sum
	}
	return p
}

func (s *slowSoftmax) learn(scores []float64, class int) {
	const h, rho = 1e-4, 1 - 1.0/span
	at := func(d float64) float64 { return -math.Log(s.probabilities(scores, s.slope+d)[class]) }
	first, second := (at(h)-at(-h))/(2*h), (at(h)-2*at(0)+at(-h))/(h*h)
	mean, square := 0.0, 0.0
	for _, v := range scores {
		mean += v / float64(len(scores))
	}
	for _, v := range scores {
		square += (v - mean) * (v - mean) / float64(len(scores))
	}
	s.m, s.n = rho*s.m+square, rho*s.n+1
	s.a = rho*s.a + math.Max(second, 1e-3) + (1 - rho)
	s.slope = math.Min(math.Max(s.slope-first/s.a, 0), 20)
}

// drawClass returns scores of k classes and a class by the softmax of them times
// slope.
func drawClass(r *rng.Source, k int, scale, slope float64) ([]float64, int) {
	scores, p := make([]float64, k), make([]float64, k)
	sum := 0.0
	for i := range scores {
		v := r.NormFloat64()
		scores[i] = scale*v + 7
		p[i] = math.Exp(slope * v)
		sum += p[i]
	}
	u := r.Float64() * sum
	for i := range p {
		if u -= p[i]; u < 0 {
			return scores, i
		}
	}
	return scores, k - 1
}

func TestSoftmaxStep(t *testing.T) {
	r := rng.New(1, "softmax")
	o, s := NewOnlineSoftmax(), &slowSoftmax{slope: 1, a: 1}
	for i := range 2000 {
		scores, y := drawClass(r, 5, 3, 2)
		m, known := o.Map()
		if known != (i >= Least) {
			t.Fatalf("known %v after %d labels", known, i)
		}
		got, want := make([]float64, 5), s.probabilities(scores, s.slope)
		m.Probabilities(got, scores)
		for k := range got {
			if math.Abs(got[k]-want[k]) > 1e-5 {
				t.Fatalf("label %d: %v, want %v", i, got, want)
			}
		}
		o.Learn(scores, y)
		s.learn(scores, y)
	}
}

// TestSoftmaxRegret: on i.i.d. data the loss is nearly that of the map that made
// the labels, and soon again when these have changed.
func TestSoftmaxRegret(t *testing.T) {
	for _, k := range []int{3, 10} {
		r, o := rng.New(2, "regret"), NewOnlineSoftmax()
		for _, c := range []struct{ scale, slope float64 }{{1, 3}, {40, 0.5}} {
			var got, best float64
			const n = 6000
			p := make([]float64, k)
			for i := range 2 * n {
				scores, y := drawClass(r, k, c.scale, c.slope)
				m, _ := o.Map()
				if i >= n {
					m.Probabilities(p, scores)
					got -= math.Log(p[y]) / n
					truth := Softmax{Slope: c.slope, Scale: c.scale}
					truth.Probabilities(p, scores)
					best -= math.Log(p[y]) / n
				}
				o.Learn(scores, y)
			}
			if got-best > 0.004 {
				t.Errorf("%d classes, %+v: loss %.4f, of the best map %.4f", k, c, got, best)
			}
		}
	}
}

func TestSoftmaxEdges(t *testing.T) {
	m := Softmax{Slope: 2, Scale: 0.5}
	p := make([]float64, 3)
	for _, scores := range [][]float64{{1, math.NaN(), 2}, {1, math.Inf(1), 2}, {1, math.Inf(-1), 2}} {
		m.Probabilities(p, scores)
		for _, v := range p {
			if !math.IsNaN(v) {
				t.Errorf("%v gives %v", scores, p)
			}
		}
	}
	same := []float64{3, -1e9, 3}
	m.Probabilities(same, same)
	if same[0] != same[2] || same[1] > 1e-10 || same[1] <= 0 || math.Abs(same[0]+same[1]+same[2]-1) > 1e-15 {
		t.Errorf("%v", same)
	}
	o := NewOnlineSoftmax()
	o.Learn([]float64{1, math.NaN()}, 0)
	if o.labels != 0 {
		t.Error("a score that is no number is learned")
	}
	for range 100 {
		o.Learn([]float64{0, 0, 0}, 1)
	}
	if m, _ := o.Map(); !(m.Slope >= 0 && m.Scale > 0) {
		t.Errorf("%+v", m)
	}
}

func TestSoftmaxState(t *testing.T) {
	r := rng.New(3, "state")
	o := NewOnlineSoftmax()
	for range 500 {
		o.Learn(drawClass(r, 4, 2, 1))
	}
	data, err := state.Append(nil, o.Fields)
	if err != nil {
		t.Fatal(err)
	}
	p := NewOnlineSoftmax()
	if err := state.Decode(data, p.Fields); err != nil {
		t.Fatal(err)
	}
	scores, y := drawClass(r, 4, 2, 1)
	o.Learn(scores, y)
	p.Learn(scores, y)
	a, _ := o.Map()
	if b, known := p.Map(); a != b || !known {
		t.Errorf("%+v, want %+v", b, a)
	}
	if data, err = state.Append(nil, a.Fields); err != nil {
		t.Fatal(err)
	}
	var m Softmax
	if err := state.Decode(data, m.Fields); err != nil || m != a {
		t.Errorf("%+v, want %+v, %v", m, a, err)
	}
	for _, bad := range []Softmax{{}, {-1, 1}, {math.NaN(), 1}, {1, math.Inf(1)}} {
		data, err := state.Append(nil, bad.Fields)
		if err != nil {
			t.Fatal(err)
		}
		if err := state.Decode(data, new(Softmax).Fields); err == nil {
			t.Errorf("%+v is read", bad)
		}
	}
}
