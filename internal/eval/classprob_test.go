package eval

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/rng"
)

// The measures of the probabilities of several classes are what plain loops over
// everything say, over all and over the window, also from a state that was read.
func TestClassProbabilities(t *testing.T) {
	const n, window = 900, 200
	r := rng.New(3, "classes")
	p := NewClasses(window)
	var probs [][]float64
	var labels []int
	for i := range n {
		k := 3
		if i > 400 {
			k = 5 // there are more classes by and by
		}
		q, sum := make([]float64, k), 0.0
		for c := range q {
			q[c] = math.Exp(2 * r.NormFloat64())
			sum += q[c]
		}
		best, at, u := 0, 0, r.Float64()
		for c := range q {
			if q[c] /= sum; q[c] > q[best] {
				best = c
			}
		}
		for at < k-1 && u > q[at] {
			u -= q[at]
			at++
		}
		if i == 401 {
			q = q[:3] // told before the class was known
			at = 4
			best = 0
			for c := range q {
				if q[c] > q[best] {
					best = c
				}
			}
		}
		probs, labels = append(probs, q), append(labels, at)
		p.Add(float64(best), float64(at))
		p.AddProbabilities(q, at)
		if i == 600 {
			data, err := state.Append(nil, p.Fields)
			if err != nil {
				t.Fatal(err)
			}
			p = NewClasses(window)
			if err := state.Decode(data, p.Fields); err != nil {
				t.Fatal(err)
			}
		}
	}
	slow := func(from int) (loss, brier, ece float64) {
		var top []float64
		var right []bool
		for i := from; i < n; i++ {
			said, best := 0.0, 0.0
			hit := false
			for c := range 5 {
				v, want := 0.0, 0.0
				if c < len(probs[i]) {
					v = probs[i][c]
				}
				if c == labels[i] {
					want, said = 1, v
				}
				brier += (v - want) * (v - want)
				if v > best {
					best, hit = v, c == labels[i]
				}
			}
			loss -= math.Log(max(said, 0x1p-52))
			top, right = append(top, best), append(right, hit)
		}
		order := make([]int, len(top))
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(i, j int) int { return cmp.Compare(top[i], top[j]) })
		for b := range 15 { // of equal size but for one
			gap := 0.0
			for rank, i := range order {
				if rank*15/len(order) == b {
					gap += top[i]
					if right[i] {
						gap--
					}
				}
			}
			ece += math.Abs(gap)
		}
		return loss / float64(n-from), brier / float64(n-from), ece / float64(n-from)
	}
	s := p.Summary()
	for _, c := range []struct {
		name string
		got  Probability
		from int
		ece  float64 // tolerance: over all examples, probabilities in a bin stay together
	}{{"all", s.Probability, 0, 0.01}, {"window", s.Window.Probability, n - window, 1e-9}} {
		loss, brier, ece := slow(c.from)
		if math.Abs(float64(c.got.LogLoss)-loss) > 1e-9 || math.Abs(float64(c.got.Brier)-brier) > 1e-9 || !(math.Abs(float64(c.got.ECE)-ece) <= c.ece) {
			t.Errorf("%s: %+v, want log loss %g, Brier %g, ECE %g", c.name, c.got, loss, brier, ece)
		}
		if !math.IsNaN(float64(c.got.BrierSkill)) || !(c.got.ECENoise > 0) {
			t.Errorf("%s: skill %g, noise %g", c.name, c.got.BrierSkill, c.got.ECENoise)
		}
	}
}
