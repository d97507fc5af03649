package eval

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats/scalar"
	"gonum.org/v1/gonum/stat"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/internal/testkit/alloctest"
)

// drawn returns n scores and labels; scores agree with labels more or less,
// have ties, and now and then lie far out.
func drawn(r *rng.Source, n int, share, noise float64) (scores, labels []float64) {
	y := 1.0
	for range n {
		if r.Float64() < 0.7 { // labels persist for a while
			y = -1
			if r.Float64() < share {
				y = 1
			}
		}
		s := y + noise*(2*r.Float64()-1)
		switch r.IntN(10) {
		case 0:
			s = math.Round(4*s) / 4
		case 1:
			s = 0
		case 2:
			s = math.Ldexp(s, r.IntN(80)-40)
		}
		scores, labels = append(scores, s), append(labels, y)
	}
	return scores, labels
}

// bruteAUC compares every positive with every negative score.
func bruteAUC(scores, labels []float64) float64 {
	var wins, pairs float64
	for i := range scores {
		for j := range scores {
			if labels[i] < 0 || labels[j] > 0 {
				continue
			}
			pairs++
			switch {
			case scores[i] > scores[j]:
				wins++
			case scores[i] == scores[j]:
				wins += 0.5
			}
		}
	}
	return wins / pairs
}

func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

func close(a, b float64) bool { return same(a, b) || scalar.EqualWithinAbsOrRel(a, b, 1e-12, 1e-12) }

func TestAUC(t *testing.T) {
	for seed := range uint64(300) {
		r := rng.New(seed, "auc")
		scores, labels := drawn(r, r.IntN(80), 0.3, 3*r.Float64())
		if got, want := AUC(scores, labels), bruteAUC(scores, labels); !close(got, want) {
			t.Fatalf("seed %d: %v, want %v", seed, got, want)
		}
	}
	nan := math.NaN()
	for _, tt := range []struct {
		scores, labels []float64
		want           float64
	}{
		{[]float64{1, 2, 3}, []float64{-1, 1, 1}, 1},
		{[]float64{3, 2, 1}, []float64{-1, 1, 1}, 0},
		{[]float64{0, 0, 0}, []float64{-1, 1, 1}, 0.5},
		{[]float64{1, 2}, []float64{1, 1}, nan},
		{nil, nil, nan},
		{[]float64{nan, 1, nan}, []float64{1, -1, -1}, 0.25},
		{[]float64{math.Inf(1), math.Inf(-1)}, []float64{1, -1}, 1},
		{[]float64{math.Inf(1), math.Inf(1), 3}, []float64{1, -1, -1}, 0.75},
		{[]float64{math.Inf(1), nan, math.Inf(-1)}, []float64{1, 1, 1}, nan},
		{[]float64{math.Inf(1), nan, math.Inf(-1)}, []float64{-1, -1, -1}, nan},
		{[]float64{nan, nan}, []float64{-1, -1}, nan},
		{[]float64{nan, nan}, []float64{-1, 1}, 0.5},
	} {
		if got := AUC(tt.scores, tt.labels); !same(got, tt.want) {
			t.Errorf("%v %v: %v, want %v", tt.scores, tt.labels, got, tt.want)
		}
	}
}

func TestBins(t *testing.T) {
	r := rng.New(1, "bins")
	for range 100_000 {
		a := math.Ldexp(2*r.Float64()-1, r.IntN(60)-40)
		b := a * (1 + math.Ldexp(2*r.Float64()-1, -r.IntN(10)))
		i, j := bin(a), bin(b)
		if a < b && i > j || a > b && i < j {
			t.Fatalf("%v is in bin %d, %v in %d", a, i, b, j)
		}
		if i == j && math.Abs(a) > 1e-5 && math.Abs(a) < 4000 && math.Abs(a-b) > math.Abs(a)/64 {
			t.Fatalf("%v and %v share bin %d", a, b, i)
		}
	}
	for _, tt := range []struct {
		score float64
		want  int
	}{
		{0, halfBins}, {math.Copysign(0, -1), halfBins}, {-1e-300, halfBins - 1}, {1e-300, halfBins},
		{math.Inf(1), numBins - 1}, {math.Inf(-1), 0}, {math.NaN(), 0}, {4096, numBins - 1}, {math.Nextafter(4096, 0), numBins - 2},
		{1.0 / (1 << 20), halfBins + 1}, {-1.0 / (1 << 20), halfBins - 2}, {math.MaxFloat64, numBins - 1},
	} {
		if got := bin(tt.score); got != tt.want {
			t.Errorf("bin(%v) = %d, want %d", tt.score, got, tt.want)
		}
	}
	// The error of the AUC is bounded by half the pairs that share a bin.
	for seed := range uint64(20) {
		r := rng.New(seed, "binned")
		scores, labels := drawn(r, 2000, 0.3, 2)
		b := new(bins)
		pairs := map[int][2]float64{}
		var n [2]float64
		for i, s := range scores {
			b.add(s, class(labels[i]))
			p := pairs[bin(s)]
			p[class(labels[i])]++
			pairs[bin(s)] = p
			n[class(labels[i])]++
		}
		bound := 0.0
		for _, p := range pairs {
			bound += p[0] * p[1] / 2
		}
		bound /= n[0] * n[1]
		if got, want := b.auc(), AUC(scores, labels); math.Abs(got-want) > bound+1e-12 || bound > 0.01 {
			t.Errorf("seed %d: %v, exactly %v, bound %v", seed, got, want, bound)
		}
	}
}

// oracle computes the measures of a classifier from their definitions; before
// is the label that precedes the first, or 0.
func oracle(scores, labels []float64, before float64) Measures {
	n := float64(len(scores))
	var right, stayed, loss float64
	share := map[float64]float64{} // of predictions and labels
	classShare := map[float64]float64{}
	for i := range scores {
		p := -1.0
		if scores[i] >= 0 {
			p = 1
		}
		if p == labels[i] {
			right++
		}
		if labels[i] == before {
			stayed++
		}
		before = labels[i]
		loss += math.Max(0, 1-labels[i]*scores[i])
		share[p] += 1 / n
		classShare[labels[i]] += 1 / n
	}
	acc := right / n
	chance := share[1]*classShare[1] + share[-1]*classShare[-1]
	return Measures{
		Accuracy: Number(acc), Error: Number(1 - acc), Hinge: Number(loss / n), AUC: Number(bruteAUC(scores, labels)),
		Kappa: Number((acc - chance) / (1 - chance)), KappaT: Number((acc - stayed/n) / (1 - stayed/n)),
	}
}

func compare(t *testing.T, where string, got, want Measures, auc float64) {
	t.Helper()
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range 6 {
		a, b := g.Field(i).Float(), w.Field(i).Float()
		name := g.Type().Field(i).Name
		if name == "AUC" && math.Abs(a-b) <= auc {
			continue
		}
		if !close(a, b) && !scalar.EqualWithinAbsOrRel(a, b, 1e-9, 1e-9) {
			t.Errorf("%s: %s is %v, want %v", where, name, a, b)
		}
	}
}

func TestPrequentialClassification(t *testing.T) {
	const size = 50
	for seed := range uint64(10) {
		r := rng.New(seed, "prequential")
		scores, labels := drawn(r, 400, 0.4, 2)
		p := New(false, size)
		for i := range scores {
			p.Add(scores[i], labels[i])
			n := i + 1
			if n < 10 || n%37 != 0 && n != size && n != size+1 && n != len(scores) {
				continue
			}
			where := fmt.Sprintf("seed %d, %d examples", seed, n)
			s := p.Summary()
			compare(t, where, s.Measures, oracle(scores[:n], labels[:n], 0), 0.01)
			from := max(0, n-size)
			before := 0.0
			if from > 0 {
				before = labels[from-1]
			}
			compare(t, where+", window", s.Window.Measures, oracle(scores[from:n], labels[from:n], before), 0)
			if s.Window.Examples != n-from || p.Examples() != uint64(n) {
				t.Errorf("%s: %d in the window, %d in all", where, s.Window.Examples, p.Examples())
			}
			var pos uint64
			for _, y := range labels[:n] {
				if y > 0 {
					pos++
				}
			}
			if a, b := p.Classes(); b != pos || a+b != uint64(n) {
				t.Errorf("%s: classes %d, %d", where, a, b)
			}
			if all, win := p.Accuracy(); !same(all, float64(s.Accuracy)) || !same(win, float64(s.Window.Accuracy)) {
				t.Errorf("%s: accuracy %v, %v", where, all, win)
			}
		}
	}
}

func TestPrequentialRegression(t *testing.T) {
	const size, seed = 30, 5
	r := rng.New(seed, "regression")
	p := New(true, size)
	var scores, labels []float64
	check := func(where string, m Measures, scores, labels []float64) {
		t.Helper()
		var abs, sq float64
		for i := range scores {
			abs += math.Abs(scores[i] - labels[i])
			sq += (scores[i] - labels[i]) * (scores[i] - labels[i])
		}
		n := float64(len(scores))
		_, variance := stat.PopMeanVariance(labels, nil)
		for _, v := range [][2]float64{{float64(*m.MAE), abs / n}, {float64(*m.RMSE), math.Sqrt(sq / n)}, {float64(*m.R2), 1 - sq/n/variance}} {
			if !scalar.EqualWithinAbsOrRel(v[0], v[1], 1e-9, 1e-9) {
				t.Errorf("%s: %v, want %v", where, v[0], v[1])
			}
		}
		if !math.IsNaN(float64(m.Accuracy)) || !math.IsNaN(float64(m.KappaT)) {
			t.Errorf("%s: accuracy %v", where, m.Accuracy)
		}
	}
	for n := 1; n <= 200; n++ {
		y := 1e6 + 10*r.Float64()
		labels, scores = append(labels, y), append(scores, y+r.Float64()-0.3)
		p.Add(scores[n-1], y)
		if n < 5 || n%17 != 0 {
			continue
		}
		from := max(0, n-size)
		s := p.Summary()
		check(fmt.Sprintf("seed %d, %d examples", seed, n), s.Measures, scores, labels)
		check(fmt.Sprintf("seed %d, %d examples, window", seed, n), s.Window.Measures, scores[from:], labels[from:])
	}
	test := Evaluate(true, scores, labels)
	check("test", Measures{MAE: test.MAE, RMSE: test.RMSE, R2: test.R2, Accuracy: test.Accuracy, KappaT: test.AUC}, scores, labels)
}

func TestEdges(t *testing.T) {
	p := New(false, 0) // a window of 1
	for _, v := range p.Measures()[1:] {
		if !math.IsNaN(v.Value) {
			t.Errorf("nothing scored: %s is %v", v.Name, v.Value)
		}
	}
	p.Add(0, 1)
	s := p.Summary()
	if s.Accuracy != 1 || s.Hinge != 1 || !math.IsNaN(float64(s.AUC)) || !math.IsNaN(float64(s.Kappa)) || s.KappaT != 1 {
		t.Errorf("one example: %+v", s)
	}
	p.Add(math.NaN(), 1)
	if s = p.Summary(); s.Accuracy != 0.5 || !math.IsNaN(float64(s.Hinge)) {
		t.Errorf("a NaN score: %+v", s)
	}
	if s := New(true, 5).Summary(); !math.IsNaN(float64(*s.MAE)) || !math.IsNaN(float64(*s.Window.R2)) {
		t.Errorf("empty regression: %+v", s)
	}
}

func TestJSON(t *testing.T) {
	encode := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	p := New(false, 2)
	p.Add(1, 1)
	p.Add(-0.5, 1)
	want := `{"accuracy":0.5,"error":0.5,"hinge":0.75,"auc":null,"kappa":0,"kappa_t":0,` +
		`"window":{"examples":2,"accuracy":0.5,"error":0.5,"hinge":0.75,"auc":null,"kappa":0,"kappa_t":0}}`
	if got := encode(p.Summary()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	q := New(true, 2)
	q.Add(1, 2)
	q.Add(5, 4)
	want = `{"accuracy":null,"error":null,"hinge":null,"auc":null,"kappa":null,"kappa_t":null,"mae":1,"rmse":1,"r2":0,` +
		`"window":{"examples":2,"accuracy":null,"error":null,"hinge":null,"auc":null,"kappa":null,"kappa_t":null,"mae":1,"rmse":1,"r2":0}}`
	if got := encode(q.Summary()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	want = `{"examples":4,"accuracy":0.75,"error":0.25,"auc":0.75}`
	if got := encode(Evaluate(false, []float64{-2, 1, 2, 3}, []float64{-1, 1, -1, 1})); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := encode(Evaluate(false, nil, nil)); got != `{"examples":0,"accuracy":null,"error":null,"auc":null}` {
		t.Errorf("empty test: %s", got)
	}
	var s Summary
	if err := json.Unmarshal([]byte(encode(p.Summary())), &s); err != nil || !math.IsNaN(float64(s.AUC)) || s.Window.Hinge != 0.75 {
		t.Errorf("read back: %+v, %v", s, err)
	}
	if got := encode([]Number{Number(math.Inf(1)), 1e21, -0.1}); got != "[null,1e+21,-0.1]" {
		t.Error(got)
	}
}

func TestMeasureNames(t *testing.T) {
	names := func(regress bool) string {
		var out []string
		for _, m := range New(regress, 5).Measures() {
			out = append(out, strings.TrimPrefix(m.Name, "prequential_"))
		}
		return strings.Join(out, " ")
	}
	if got := names(false); got != "examples accuracy hinge auc kappa kappa_t accuracy_window hinge_window auc_window kappa_window kappa_t_window" {
		t.Error(got)
	}
	if got := names(true); got != "examples mae rmse r2 mae_window rmse_window r2_window" {
		t.Error(got)
	}
}

// TestStoreAndRestore goes through the bytes at every example and must not
// show it.
func TestStoreAndRestore(t *testing.T) {
	for _, regress := range []bool{false, true} {
		r := rng.New(8, "store")
		scores, labels := drawn(r, 200, 0.4, 2)
		p, c := New(regress, 30), NewCurve()
		q, d := New(regress, 30), NewCurve()
		encode := func(p *Prequential, c *Curve) string {
			b, err := state.Append(nil, func(f *state.Fields) { p.Fields(f); c.Fields(f) })
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		for i := range scores {
			p.Add(scores[i], labels[i])
			c.Add(p)
			fresh, curve := New(regress, 30), NewCurve()
			if err := state.Decode([]byte(encode(q, d)), func(f *state.Fields) { fresh.Fields(f); curve.Fields(f) }); err != nil {
				t.Fatal(err)
			}
			q, d = fresh, curve
			q.Add(scores[i], labels[i])
			d.Add(q)
			if encode(p, c) != encode(q, d) {
				t.Fatalf("regression %v: states differ after %d examples", regress, i+1)
			}
			if a, b := fmt.Sprint(p.Measures(), c.Points(p)), fmt.Sprint(q.Measures(), d.Points(q)); a != b {
				t.Fatalf("regression %v: measures differ after %d examples:\n%s\n%s", regress, i+1, a, b)
			}
		}
		data := []byte(encode(p, c))
		for _, other := range []*Prequential{New(regress, 31), New(!regress, 30)} {
			if err := state.Decode(data, func(f *state.Fields) { other.Fields(f); NewCurve().Fields(f) }); err == nil {
				t.Error("a state of another kind is accepted")
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, n := range []int{0, 3, 40} {
		p, c := New(false, 8), NewCurve()
		scores, labels := drawn(rng.New(1, "fuzz"), n, 0.5, 2)
		for i := range scores {
			p.Add(scores[i], labels[i])
			c.Add(p)
		}
		b, err := state.Append(nil, func(f *state.Fields) { p.Fields(f); c.Fields(f) })
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, c := New(false, 8), NewCurve()
		var err error
		// Beside the bound there is the histogram, of one size.
		const histogram = 2 * numBins * 8
		alloctest.Check(t, len(data)+histogram/alloctest.Factor, func() { err = state.Decode(data, func(f *state.Fields) { p.Fields(f); c.Fields(f) }) })
		if err != nil {
			return
		}
		for range 10 { // whatever was read, one can go on from it
			p.Add(0.5, 1)
			c.Add(p)
		}
		p.Measures()
		c.Points(p)
	})
}

func TestCurve(t *testing.T) {
	r := rng.New(6, "curve")
	for _, n := range []int{1, 2, 1023, 1024, 1025, 2048, 2049, 5000, 70_001} {
		scores, labels := drawn(r, n, 0.4, 2)
		p, c := New(false, 100), NewCurve()
		right := make([]int, n+1)
		for i := range scores {
			p.Add(scores[i], labels[i])
			c.Add(p)
			right[i+1] = right[i]
			if class(scores[i]) == class(labels[i]) {
				right[i+1]++
			}
		}
		points := c.Points(p)
		if last := points[len(points)-1]; last.Examples != uint64(n) || len(points) > maxPoints+1 || n > maxPoints && len(points) < maxPoints/2 {
			t.Fatalf("%d examples: %d points up to %d", n, len(points), last.Examples)
		}
		for k, pt := range points {
			if k < len(points)-1 && pt.Examples != uint64(k+1)*c.stride {
				t.Fatalf("%d examples: point %d is at %d, stride %d", n, k, pt.Examples, c.stride)
			}
			i := int(pt.Examples)
			from := max(0, i-100)
			all, win := float64(right[i])/float64(i), float64(right[i]-right[from])/float64(i-from)
			if pt.All != all || pt.Window != win {
				t.Fatalf("%d examples: %+v, want %v, %v", n, pt, all, win)
			}
		}
	}
	if pts := NewCurve().Points(nil); len(pts) != 0 {
		t.Errorf("an empty curve has points %v", pts)
	}
	p, c := New(true, 4), NewCurve()
	for i := range 6 {
		p.Add(float64(i), 0)
		c.Add(p)
	}
	if got := c.Points(p)[5]; got != (Point{6, 2.5, 3.5}) {
		t.Errorf("regression: %+v", got)
	}
}

func BenchmarkAdd(b *testing.B) {
	scores, labels := drawn(rng.New(1, "bench"), 1000, 0.4, 2)
	p, c := New(false, 1000), NewCurve()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		p.Add(scores[i%1000], labels[i%1000])
		c.Add(p)
		i++
	}
}
