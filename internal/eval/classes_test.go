package eval

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/streamsvm/streamsvm/checkpoint/state"
)

// TestClasses compares the measures with what their definitions give, of classes
// that appear one after the other, stored and restored in between.
func TestClasses(t *testing.T) {
	const window = 100
	r := rand.New(rand.NewPCG(5, 5))
	p := NewClasses(window)
	var labels, predicted []int
	check := func(m *Measures, from int) {
		t.Helper()
		n, right, stayed, largest := 0., 0., 0., 0.
		count, said, hit := map[int]float64{}, map[int]float64{}, map[int]float64{}
		before := map[int]int{}
		for i, y := range labels {
			best := 0
			for k := range 10 {
				if before[k] > before[best] {
					best = k
				}
			}
			before[y]++
			if i < from {
				continue
			}
			n++
			count[y]++
			said[predicted[i]]++
			if predicted[i] == y {
				right++
				hit[y]++
			}
			if i > 0 && y == best {
				largest++
			}
			if i > 0 && labels[i-1] == y {
				stayed++
			}
		}
		recall, chance := 0., 0.
		for k, c := range count {
			recall += hit[k] / c / float64(len(count))
			chance += c / n * said[k] / n
		}
		for _, v := range []struct {
			name      string
			got, want float64
		}{
			{"accuracy", float64(m.Accuracy), right / n},
			{"balanced accuracy", float64(m.BalancedAccuracy), recall},
			{"kappa", float64(m.Kappa), (right/n - chance) / (1 - chance)},
			{"kappa-temporal", float64(m.KappaT), (right/n - stayed/n) / (1 - stayed/n)},
			{"no change", float64(m.Baseline.NoChange), stayed / n},
			{"majority", float64(m.Baseline.Majority), largest / n},
		} {
			if math.Abs(v.got-v.want) > 1e-12 {
				t.Fatalf("%d examples from %d on: %s %g, want %g", len(labels), from, v.name, v.got, v.want)
			}
		}
		for k, c := range m.Classes {
			if float64(c.Examples) != count[k] || count[k] > 0 && math.Abs(float64(c.Recall)-hit[k]/count[k]) > 1e-12 || said[k] > 0 && math.Abs(float64(c.Precision)-hit[k]/said[k]) > 1e-12 {
				t.Fatalf("class %d: %+v, want %g examples, %g of %g right", k, c, count[k], hit[k], said[k])
			}
		}
	}
	for i := range 700 {
		k := 2 + i/150
		y := min(r.IntN(k), r.IntN(k))
		c := y
		if r.IntN(3) == 0 {
			c = r.IntN(k)
		}
		labels, predicted = append(labels, y), append(predicted, c)
		p.Add(float64(c), float64(y))
		if i%97 != 0 {
			continue
		}
		data, err := state.Append(nil, p.Fields)
		if err != nil {
			t.Fatal(err)
		}
		q := NewClasses(window)
		if err := state.Decode(data, q.Fields); err != nil {
			t.Fatal(err)
		}
		a, err1 := json.Marshal(p.Final())
		b, err2 := json.Marshal(q.Final())
		if err1 != nil || err2 != nil || !bytes.Equal(a, b) {
			t.Fatalf("%s became %s, %v, %v", a, b, err1, err2)
		}
		p = q
		s := p.Summary()
		check(&s.Measures, 0)
		check(&s.Window.Measures, max(0, len(labels)-window))
		for n := range data {
			if state.Decode(data[:n], NewClasses(window).Fields) == nil {
				t.Fatalf("%d of %d bytes are accepted", n, len(data))
			}
			if n > 300 {
				break
			}
		}
	}
	test := EvaluateClasses([]float64{0, 1, 2, 2}, []float64{0, 1, 1, 5})
	if test.Examples != 4 || test.Accuracy != .5 || len(test.Classes) != 6 || test.Classes[1].Recall != .5 {
		t.Errorf("%+v", test)
	}
}
