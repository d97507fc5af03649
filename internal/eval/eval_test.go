package eval

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
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

// oracle computes the measures of a classifier on the examples from the given
// one on, from their definitions.
func oracle(scores, labels []float64, from int) Measures {
	before := 0.0 // the label that precedes the first
	var balance, larger float64
	for i, y := range labels {
		if i >= from && (balance >= 0) == (y > 0) {
			larger++
		}
		if i < from {
			before = y
		}
		balance += y
	}
	scores, labels = scores[from:], labels[from:]
	n := float64(len(scores))
	var right, stayed, loss float64
	hit := map[float64]float64{}
	share := map[float64]float64{} // of predictions and labels
	classShare := map[float64]float64{}
	for i := range scores {
		p := -1.0
		if scores[i] >= 0 {
			p = 1
		}
		if p == labels[i] {
			right++
			hit[p] += 1 / n
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
		BalancedAccuracy: Number((hit[1]/classShare[1] + hit[-1]/classShare[-1]) / 2),
		Kappa:            Number((acc - chance) / (1 - chance)), KappaT: Number((acc - stayed/n) / (1 - stayed/n)),
		Baseline: Baseline{Number(larger / n), Number(stayed / n)},
	}
}

func sameMeasures(t *testing.T, where string, got, want Measures, auc float64) {
	t.Helper()
	if got.Baseline != want.Baseline {
		t.Errorf("%s: baseline %v, want %v", where, got.Baseline, want.Baseline)
	}
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range g.NumField() {
		name := g.Type().Field(i).Name
		if g.Field(i).Kind() != reflect.Float64 {
			continue
		}
		a, b := g.Field(i).Float(), w.Field(i).Float()
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
			sameMeasures(t, where, s.Measures, oracle(scores[:n], labels[:n], 0), 0.01)
			from := max(0, n-size)
			sameMeasures(t, where+", window", s.Window.Measures, oracle(scores[:n], labels[:n], from), 0)
			if s.Window.Examples != n-from || p.Examples() != uint64(n) {
				t.Errorf("%s: %d in the window, %d in all", where, s.Window.Examples, p.Examples())
			}
			var pos uint64
			for _, y := range labels[:n] {
				if y > 0 {
					pos++
				}
			}
			if c := p.Counts(); c[1] != pos || c[0]+c[1] != uint64(n) {
				t.Errorf("%s: classes %v", where, c)
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
	if one := Evaluate(true, []float64{1}, []float64{2}); !math.IsNaN(float64(*one.R2)) {
		t.Errorf("R2 of one example is %v", *one.R2)
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
	p.AddProbability(0.75, true)
	p.AddProbability(0.5, false)
	tail := `"balanced_accuracy":null,"auc":null,"kappa":0,"kappa_t":0,"baseline":{"majority":1,"no_change":0.5}`
	head := `"accuracy":0.5,"error":0.5,"hinge":0.75,"log_loss":0.49,"brier":0.15625,"brier_skill":0.375,"ece":0.375,"ece_noise":0.37,` +
		`"reliability":[{"examples":1,"probability":0.5,"share":0},{"examples":1,"probability":0.75,"share":1}],`
	want := `{` + head + tail + `,"interval":null,"window":{"examples":2,` + head + tail + `}}`
	s := p.Summary()
	for _, m := range []*Probability{&s.Probability, &s.Window.Probability} {
		for _, v := range []*Number{&m.LogLoss, &m.ECENoise} {
			*v = Number(math.Round(1e2*float64(*v)) / 1e2)
		}
	}
	if got := encode(s); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	q := New(true, 2)
	q.Add(1, 2)
	q.Add(5, 4)
	none := `"accuracy":null,"error":null,"hinge":null,"log_loss":null,"brier":null,"brier_skill":null,"ece":null,"ece_noise":null,"reliability":null,"balanced_accuracy":null,"auc":null,"kappa":null,"kappa_t":null,` +
		`"baseline":{"majority":null,"no_change":null},"mae":1,"rmse":1,"r2":0`
	want = `{` + none + `,"interval":null,"window":{"examples":2,` + none + `}}`
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
	s = Summary{}
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
	want := "examples"
	for _, suffix := range []string{"", "_window"} {
		for _, name := range []string{"accuracy", "hinge", "log_loss", "brier", "brier_skill", "ece", "ece_noise", "balanced_accuracy", "auc", "kappa", "kappa_t", "majority", "no_change"} {
			want += " " + name + suffix
		}
	}
	if got := names(false); got != want {
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
			if a, b := fmt.Sprint(p.Measures(), c.Points(p), p.blocks), fmt.Sprint(q.Measures(), d.Points(q), q.blocks); a != b {
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

// TestOlderState reads a state without what came later: that is not known over
// all examples, and known over the window.
func TestOlderState(t *testing.T) {
	p := New(false, 20)
	scores, labels := drawn(rng.New(3, "older"), 400, 0.4, 2)
	for i := range scores {
		p.Add(scores[i], labels[i])
	}
	data, err := state.Append(nil, p.Fields)
	if err != nil {
		t.Fatal(err)
	}
	later, err := state.Append(nil, p.laterFields)
	if err != nil || !bytes.HasSuffix(data, later) {
		t.Fatal(err, "what came later is not at the end")
	}
	q := New(false, 20)
	if err := state.Decode(data[:len(data)-len(later)], q.Fields); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		p.Add(scores[i], labels[i])
		q.Add(scores[i], labels[i])
		if data, err = state.Append(nil, q.Fields); err != nil {
			t.Fatal(err)
		}
		q = New(false, 20)
		if err := state.Decode(data, q.Fields); err != nil {
			t.Fatal(err)
		}
	}
	want, got := p.Final(), q.Final()
	if want.Interval == nil || got.Interval != nil || got.Baseline.Majority == got.Baseline.Majority {
		t.Errorf("intervals %v, %v, majority %v", want.Interval, got.Interval, got.Baseline.Majority)
	}
	if fmt.Sprint(got.Window) != fmt.Sprint(want.Window) || got.Accuracy != want.Accuracy || got.Baseline.NoChange != want.Baseline.NoChange {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestInterval draws many streams and counts how often the true accuracy lies
// within the interval, of independent errors and of such as come in runs.
func TestInterval(t *testing.T) {
	for _, tt := range []struct {
		run         float64 // mean length of a run of right or wrong predictions, in units of that of independent ones
		n           int
		least, most float64
	}{{1, 400, 0.90, 0.98}, {1, 20_000, 0.92, 0.98}, {5, 20_000, 0.90, 0.98}} {
		const streams, accuracy = 400, 0.8
		inside, r := 0, rng.New(4, "interval")
		for range streams {
			p := New(false, 1)
			right := r.Float64() < accuracy
			for range tt.n {
				if r.Float64() < 1/tt.run {
					right = r.Float64() < accuracy
				}
				if right {
					p.Add(1, 1)
				} else {
					p.Add(1, -1)
				}
			}
			if len(p.blocks.right) >= maxBlocks {
				t.Fatalf("%d blocks", len(p.blocks.right))
			}
			if i := p.Final().Interval; i[0] <= accuracy && accuracy <= i[1] {
				inside++
			}
		}
		if share := float64(inside) / streams; share < tt.least || share > tt.most {
			t.Errorf("runs %v, %d examples: %.3f of the intervals hold the true accuracy", tt.run, tt.n, share)
		} else {
			t.Logf("runs %v, %d examples: %.3f", tt.run, tt.n, share)
		}
	}
}

func TestWarnings(t *testing.T) {
	p := New(false, 100)
	for i := range 300 { // labels in runs; the learner predicts none of the longer ones
		y := 1.0
		if i%60 >= 40 {
			y = -1
		}
		p.Add(-1, y)
	}
	s := p.Summary()
	want := []string{
		"Over all 300 examples the learner is right in 33.33 %, always predicting the class that is more frequent so far in 66.67 %.",
		"Over all 300 examples the learner is right in 33.33 %, predicting the label of the example before again in 96.67 %.",
	}
	got := s.Warnings(p.Examples())
	if len(got) != 4 || got[0] != want[0] || got[1] != want[1] || !strings.HasPrefix(got[2], "Over the last 100 examples the learner is right in 40.00 %, always") {
		t.Errorf("%q", got)
	}
	if got := s.Warnings(warnFrom - 1); len(got) != 2 {
		t.Errorf("over few examples: %q", got)
	}
	if empty, regress := New(false, 100).Summary(), New(true, 100).Summary(); empty.Warnings(0) != nil || regress.Warnings(1000) != nil {
		t.Error("warnings of nothing")
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

// TestCountNewest compares with counts over what has been added.
func TestCountNewest(t *testing.T) {
	r := rng.New(4, "newest")
	p := New(false, 10)
	var labels []float64
	for range 50 {
		for n := range 13 {
			counts, want := []float64{1, 2}, []float64{1, 2}
			newest := labels[max(0, len(labels)-min(n, 10)):]
			for _, y := range newest {
				want[class(y)]++
			}
			if got := p.CountNewest(counts, n); got != len(newest) || !slices.Equal(counts, want) {
				t.Fatalf("the newest %d of %d: %d, %v, want %d, %v", n, len(labels), got, counts, len(newest), want)
			}
		}
		labels = append(labels, float64(2*r.IntN(2)-1))
		p.Add(0.5, labels[len(labels)-1])
	}
}
