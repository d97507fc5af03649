package prep

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/stream"
)

// TestAsinh fits Auto to features of known distributions: those with heavy tails are mapped,
// and are then closer to a normal distribution.
func TestAsinh(t *testing.T) {
	kinds := []struct {
		name   string
		mapped bool
		draw   func(r *rng.Source) float64
	}{
		{"uniform", false, func(r *rng.Source) float64 { return 10 * r.Float64() }},
		{"normal", false, func(r *rng.Source) float64 { return 50 + 5*r.NormFloat64() }},
		{"flag", false, func(r *rng.Source) float64 { return float64(r.IntN(30) / 29 * 9) }},
		{"constant", false, func(r *rng.Source) float64 { return 3 }},
		{"lognormal", true, func(r *rng.Source) float64 { return math.Exp(4 + 1.5*r.NormFloat64()) }},
		{"Pareto", true, func(r *rng.Source) float64 { return math.Exp(r.ExpFloat64()) }},
		{"exponential", true, func(r *rng.Source) float64 { return 1000 * r.ExpFloat64() }},
		{"both signs", true, func(r *rng.Source) float64 { return r.NormFloat64() * math.Exp(2*r.NormFloat64()) }},
		{"shifted", true, func(r *rng.Source) float64 { return math.Exp(2*r.NormFloat64()) - 700 }},
	}
	r := rng.New(1, "asinh")
	xs := make([]stream.Vec, 3000)
	for i := range xs {
		for _, k := range kinds {
			xs[i].Val = append(xs[i].Val, float32(k.draw(r)))
		}
	}
	tr := fit(t, Auto, xs...)
	if tr.Scale() != Standard || !tr.dense {
		t.Fatal(tr)
	}
	var out []stream.Vec
	for _, x := range xs {
		out = append(out, tr.Apply(x))
	}
	if want := "standard over 9 features, 5 by asinh (auto)"; tr.String() != want {
		t.Errorf("%v, want %s", tr, want)
	}
	plain := fit(t, Standard, xs...)
	if plain.asinh != nil {
		t.Error("asked for, standard has asinh")
	}
	for j, k := range kinds {
		a := tr.asinh[j]
		if (a.Size > 0) != k.mapped {
			t.Errorf("%s: %+v", k.name, a)
			continue
		}
		before, after := column(xs, j), column(out, j)
		mean, sd := stat.PopMeanStdDev(after, nil)
		if k.name != "constant" && (math.Abs(mean) > .05 || math.Abs(sd-1) > .05) {
			t.Errorf("%s: mean %g, standard deviation %g", k.name, mean, sd)
		}
		if !k.mapped {
			if y := plain.Apply(xs[7]); y.Val[j] != out[7].Val[j] {
				t.Errorf("%s: %g, standard %g", k.name, out[7].Val[j], y.Val[j])
			}
			continue
		}
		was := math.Pow(stat.Skew(before, nil), 2) + math.Pow(stat.ExKurtosis(before, nil), 2)/4
		is := math.Pow(stat.Skew(after, nil), 2) + math.Pow(stat.ExKurtosis(after, nil), 2)/4
		if was < heavyTails/2 || is > was/2 {
			t.Errorf("%s: departs by %g, before by %g", k.name, is, was)
		}
		for i, v := range before {
			want := (math.Asinh((v-a.Center)/a.Size) - tr.shift[j]) * tr.factor[j]
			if want = min(max(want, -6), 6); math.Abs(after[i]-want) > 1e-6 {
				t.Fatalf("%s: %g becomes %g, want %g", k.name, v, after[i], want)
			}
			if w := a.Inverse(a.Of(v)); math.Abs(w-v) > 1e-9*max(math.Abs(v-a.Center), math.Abs(a.Center), a.Size) {
				t.Fatalf("%s: %g and back: %g", k.name, v, w)
			}
		}
		if k.name == "shifted" && math.Abs(a.Center+700) > 5 || k.name == "lognormal" && a.Center != 0 {
			t.Errorf("%s: center %g", k.name, a.Center)
		}
	}
	data, err := state.Append(nil, tr.Fields)
	if err != nil {
		t.Fatal(err)
	}
	got := new(Transform)
	if err := state.Decode(data, got.Fields); err != nil || !reflect.DeepEqual(got.asinh, tr.asinh) {
		t.Errorf("restored: %v, %v", got.asinh, err)
	}
	// What stands for 0 is the mean of the mapped feature.
	for j, v := range tr.Shift() {
		if y := tr.one(j, float32(v), tr.asinhOf(j), tr.shift[j], tr.factor[j], nil); math.Abs(float64(y)) > 1e-3 {
			t.Errorf("%s: %g becomes %g", kinds[j].name, v, y)
		}
	}
}

// TestAsinhOfScaledData: where Auto scales nothing, a feature with heavy tails keeps its range,
// and the others their values.
func TestAsinhOfScaledData(t *testing.T) {
	r := rng.New(3, "asinh")
	xs := make([]stream.Vec, 500)
	for i := range xs {
		xs[i].Val = []float32{float32(r.Float64()), min(1, float32(.01*math.Exp(1.5*r.NormFloat64()))), float32(r.IntN(50) / 49)}
	}
	tr := fit(t, Auto, xs...)
	if tr.asinh == nil || tr.asinh[1].Size == 0 || tr.asinh[0].Size+tr.asinh[2].Size > 0 {
		t.Fatalf("%v: %+v", tr, tr.asinh)
	}
	lo, hi, below := float32(9), float32(-9), 0
	for _, x := range xs {
		y := tr.Apply(x)
		if y.Val[0] != x.Val[0] || y.Val[2] != x.Val[2] {
			t.Fatalf("%v becomes %v", x, y)
		}
		lo, hi = min(lo, y.Val[1]), max(hi, y.Val[1])
		if y.Val[1] < .2 {
			below++
		}
	}
	before := column(xs, 1)
	if a, b := slices.Min(before), slices.Max(before); math.Abs(float64(lo)-a) > 1e-6 || math.Abs(float64(hi)-b) > 1e-6 {
		t.Errorf("from [%g,%g] to [%g,%g]", a, b, lo, hi)
	}
	if below > 250 {
		t.Errorf("%d of 500 are below .2", below)
	}
}

// TestAsinhOfSparseEvents maps numbers beside features that are scaled already. Zeros stay zeros.
func TestAsinhOfSparseEvents(t *testing.T) {
	r := rng.New(2, "asinh")
	scaled := make([]bool, 5000)
	for j := range scaled {
		scaled[j] = j != 7 && j != 4000
	}
	var xs []stream.Vec
	for range 500 {
		x := stream.Vec{Idx: []int32{int32(r.IntN(7)), 7, int32(8 + r.IntN(3000)), 4000}, Val: []float32{1, float32(math.Exp(2 * r.NormFloat64())), 1, float32(-100 * math.Exp(2*r.NormFloat64()))}}
		if r.IntN(4) == 0 {
			x.Val[1] = 0
		}
		xs = append(xs, x)
	}
	tr, err := Fit(examples(xs...), Options{Scaled: scaled})
	if err != nil || tr.dense {
		t.Fatal(tr, err)
	}
	for i, a := range tr.asinh {
		if number := tr.idx[i] == 7 || tr.idx[i] == 4000; (a.Size > 0) != number || a.Center != 0 {
			t.Errorf("feature %d: %+v", tr.idx[i], a)
		}
	}
	y := tr.Apply(sparse(0, 1, 7, 0, 9, 1, 4000, -100))
	if y.Val[0] != 1 || y.Val[1] != 0 || y.Val[2] != 1 || !(y.Val[3] < -.5 && y.Val[3] > -6) {
		t.Error(y)
	}
	e := tr.Export()
	for k, j := range e.Index {
		if (e.AsinhSize[k] > 0) != (j == 7 || j == 4000) {
			t.Errorf("exported: feature %d has size %g", j, e.AsinhSize[k])
		}
	}
	for name, damage := range map[string]func(*Transform){
		"size":    func(c *Transform) { c.asinh[0].Size = math.Inf(1) },
		"center":  func(c *Transform) { c.asinh[0] = Asinh{3, 1} },
		"too far": func(c *Transform) { c.idx, c.factor = c.idx[:1], c.factor[:1] },
	} {
		c := *tr
		c.asinh = append([]Asinh(nil), tr.asinh...)
		damage(&c)
		data, err := state.Append(nil, c.Fields)
		if err == nil {
			err = state.Decode(data, new(Transform).Fields)
		}
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
