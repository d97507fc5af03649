package eval

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats/scalar"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/rng"
)

// told returns n probabilities, a few of them 0, 1 or equal to others, and
// labels that are positive with these odds raised to a power: 1 makes the
// probabilities right.
func told(seed uint64, n int, power float64) (probs []float64, labels []bool) {
	r := rng.New(seed, "told")
	for range n {
		p := r.Float64()
		switch r.IntN(10) {
		case 0:
			p = float64(r.IntN(2))
		case 1:
			p = 0.25
		case 2:
			p *= 1e-4
		}
		a, b := math.Pow(p, power), math.Pow(1-p, power)
		probs, labels = append(probs, p), append(labels, r.Float64() < a/(a+b))
	}
	return probs, labels
}

// slowProbability computes the measures but for the table from their
// definitions.
func slowProbability(probs []float64, labels []bool) Probability {
	n := float64(len(probs))
	m := noProbability()
	var loss, sum, positive float64
	for i, p := range probs {
		y := 0.0
		if labels[i] {
			y = 1
			positive++
		}
		told := y*p + (1-y)*(1-p)
		loss -= math.Log(math.Max(told, 0x1p-52))
		sum += (p - y) * (p - y)
	}
	m.LogLoss, m.Brier = Number(loss/n), Number(sum/n)
	m.BrierSkill = Number(1 - sum/positive/(1-positive/n))
	return m
}

func TestProbability(t *testing.T) {
	const size = 300
	probs, labels := told(1, 3000, 0.5)
	p := New(false, size)
	near := func(where string, got, want Probability) {
		t.Helper()
		g, w := reflect.ValueOf(got), reflect.ValueOf(want)
		for i := range 3 {
			if a, b := g.Field(i).Float(), w.Field(i).Float(); !scalar.EqualWithinAbsOrRel(a, b, 1e-12, 1e-12) {
				t.Errorf("%s: %s is %v, want %v", where, g.Type().Field(i).Name, a, b)
			}
		}
	}
	for i := range probs {
		p.AddProbability(probs[i], labels[i])
		if n := i + 1; n == size/2 || n == 2*size+17 || n == len(probs) {
			s := p.Summary()
			near("all", s.Probability, slowProbability(probs[:n], labels[:n]))
			near("window", s.Window.Probability, slowProbability(probs[max(0, n-size):n], labels[max(0, n-size):n]))
		}
	}
	s := p.Summary()
	// Over all examples the rows are of bins, over the window of single ones:
	// where the window is everything, they differ by little.
	exact := measureProbabilities(probs, func(i int) bool { return labels[i] })
	if d := math.Abs(float64(s.ECE - exact.ECE)); d > 0.003 {
		t.Errorf("ECE %v of bins, %v of examples", s.ECE, exact.ECE)
	}
	for _, rows := range [][]ReliabilityBin{s.Reliability, exact.Reliability} {
		var n uint64
		last := -1.0
		for _, row := range rows {
			n += row.Examples
			if float64(row.Probability) <= last {
				t.Errorf("the rows are out of order: %v", rows)
			}
			last = float64(row.Probability)
		}
		if n != uint64(len(probs)) || len(rows) > reliabilityBins || len(rows) < 10 {
			t.Errorf("%d examples in %d rows", n, len(rows))
		}
	}
}

// TestReliability compares the table of probabilities that all differ with
// groups of neighbours of equal size.
func TestReliability(t *testing.T) {
	r := rng.New(2, "rows")
	type one struct {
		p float64
		y bool
	}
	const n = 30 * reliabilityBins
	list := make([]one, n)
	for i := range list {
		list[i] = one{r.Float64(), r.IntN(3) == 0}
	}
	m := measureProbabilities(make([]float64, 0), nil)
	if m.Reliability != nil || !math.IsNaN(float64(m.ECE)) {
		t.Errorf("of nothing: %+v", m)
	}
	var probs []float64
	for _, v := range list {
		probs = append(probs, v.p)
	}
	m = measureProbabilities(probs, func(i int) bool { return list[i].y })
	slices.SortFunc(list, func(a, b one) int { return cmp.Compare(a.p, b.p) })
	var ece float64
	for k := range reliabilityBins {
		var sum, positive float64
		for _, v := range list[k*n/reliabilityBins : (k+1)*n/reliabilityBins] {
			sum += v.p
			if v.y {
				positive++
			}
		}
		ece += math.Abs(sum-positive) / n
		row := m.Reliability[k]
		if row.Examples != 30 || !close(float64(row.Probability), sum/30) || !close(float64(row.Share), positive/30) {
			t.Errorf("row %d is %+v, want %v and %v", k, row, sum/30, positive/30)
		}
	}
	if !close(float64(m.ECE), ece) {
		t.Errorf("ECE %v, want %v", m.ECE, ece)
	}
}

// TestNoise draws labels by the probabilities told, many times: the mean of the
// errors found is the noise that is announced.
func TestNoise(t *testing.T) {
	for _, n := range []int{200, 2000} {
		var ece, noise float64
		const times = 300
		for seed := range uint64(times) {
			probs, labels := told(seed, n, 1)
			m := measureProbabilities(probs, func(i int) bool { return labels[i] })
			ece += float64(m.ECE) / times
			noise += float64(m.ECENoise) / times
		}
		if math.Abs(ece/noise-1) > 0.06 {
			t.Errorf("of %d examples: mean error %.4f, announced %.4f", n, ece, noise)
		}
		probs, labels := told(1, n, 3)
		if m := measureProbabilities(probs, func(i int) bool { return labels[i] }); m.ECE < 1.5*m.ECENoise {
			t.Errorf("of %d wrong probabilities: error %.4f, noise %.4f", n, m.ECE, m.ECENoise)
		}
	}
}

func TestCells(t *testing.T) {
	last := -1
	for _, p := range []float64{0, 1e-300, 1e-7, 0x1p-20, 1e-3, 0.1, 0.25, 0.26, 0.499, 0.5, 0.51, 0.74, 0.75, 0.9, 0.999, 1 - 1e-7, 1} {
		c := cellOf(p)
		if c < last || c < 0 || c >= 2*halfCells {
			t.Errorf("%v is in cell %d, after %d", p, c, last)
		}
		last = c
	}
	if cellOf(0) != 0 || cellOf(1) != 2*halfCells-1 || cellOf(0.5) != halfCells {
		t.Error(cellOf(0), cellOf(1), cellOf(0.5), halfCells)
	}
}

// TestProbabilityState goes on from a state, and reads those of before there
// were probabilities.
func TestProbabilityState(t *testing.T) {
	encode := func(p *Prequential) []byte {
		data, err := state.Append(nil, p.Fields)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	probs, labels := told(3, 500, 1)
	p := New(false, 70)
	add := func(p *Prequential, i int) {
		p.Add(2*probs[i]-1, 1)
		p.AddProbability(probs[i], labels[i])
	}
	p.Add(1, 1)
	without := encode(p)
	if bytes.Contains(without, []byte("probability")) {
		t.Error("a state without probabilities says so")
	}
	for i := range probs {
		if i%90 == 0 {
			q := New(false, 70)
			if err := state.Decode(encode(p), q.Fields); err != nil {
				t.Fatal(err)
			}
			p = q
		}
		add(p, i)
	}
	q := New(false, 70)
	q.Add(1, 1)
	for i := range probs {
		add(q, i)
	}
	if !bytes.Equal(encode(p), encode(q)) {
		t.Error("a state that was resumed is another one")
	}
	if a, b := p.Summary(), q.Summary(); !reflect.DeepEqual(a.Probability, b.Probability) || !reflect.DeepEqual(a.Window.Probability, b.Window.Probability) {
		t.Errorf("%+v, want %+v", a, b)
	}

	// What was written before has a sum that is not kept any more.
	log, err := state.Append(nil, func(f *state.Fields) {
		v := 1.5
		f.Float64("log_loss", &v)
	})
	if err != nil {
		t.Fatal(err)
	}
	larger, err := state.Append(nil, func(f *state.Fields) {
		v := 1.0
		f.Float64("larger_class", &v)
	})
	if err != nil {
		t.Fatal(err)
	}
	q = New(false, 70)
	if err := state.Decode(bytes.Replace(without, larger, append(log, larger...), 1), q.Fields); err != nil || !bytes.Equal(encode(q), without) {
		t.Errorf("a state of before: %v", err)
	}

	good := encode(p)
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 0x41
		_ = state.Decode(bad, New(false, 70).Fields) // does not panic
	}
	if _, err := json.Marshal(p.Summary()); err != nil {
		t.Error(err)
	}
}
