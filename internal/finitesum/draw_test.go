package finitesum

import (
	"math"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/stream"
)

// Where all rows are zeros none is longer than the others.
func TestWeightedZeros(t *testing.T) {
	p := generate(8, 3, 1, 3).with(Squared, .01, 0, 0)
	for i := range p.Len() {
		p.Set(i, stream.Vec{Val: make([]float32, 3)}, p.b[i])
	}
	var s sampling
	s.prepare(p, true)
	r, hits := rng.New(1, "t"), make([]int, p.Len())
	for range 8000 {
		i, w := s.next(r)
		if w != 1 {
			t.Fatalf("weight %g", w)
		}
		hits[i]++
	}
	if slices.Min(hits) < 850 || slices.Max(hits) > 1150 { // 5 standard deviations
		t.Errorf("draws %d", hits)
	}
}

// Weighted sampling draws with the probabilities that it says, keeps the
// estimate unbiased, and takes long rows out of the step size.
func TestWeighted(t *testing.T) {
	p := generate(40, 5, 1, 3).with(Squared, .01, 0, 0)
	for i := range 4 {
		x := p.rows[i].Clone()
		for k := range x.Val {
			x.Val[k] *= 30
		}
		p.Set(i, x, p.b[i])
	}
	var s sampling
	s.prepare(p, true)
	sum, chance := 0.0, make([]float64, p.Len())
	for i, v := range p.norm2 {
		sum += v
		chance[i] += s.keep[i] / float64(p.Len())
		chance[s.alias[i]] += (1 - s.keep[i]) / float64(p.Len())
	}
	mean := sum / float64(p.Len())
	for i, v := range p.norm2 {
		want := (1/float64(p.Len()) + v/sum) / 2
		if math.Abs(chance[i]-want) > 1e-15 || math.Abs(s.weight[i]*want*float64(p.Len())-1) > 1e-14 {
			t.Errorf("row %d: probability %g, want %g; weight %g", i, chance[i], want, s.weight[i])
		}
	}
	if s.most > 2*mean || slices.Max(p.norm2) < 9*mean {
		t.Errorf("largest weighed ‖a‖² %g, mean %g, largest %g", s.most, mean, slices.Max(p.norm2))
	}
	r, hits := rng.New(1, "t"), make([]float64, p.Len())
	const draws = 200000
	for range draws {
		i, w := s.next(r)
		hits[i]++
		if w != s.weight[i] {
			t.Fatal("the weight of another row")
		}
	}
	for i, h := range hits {
		want := draws * chance[i]
		if math.Abs(h-want) > 5.5*math.Sqrt(want) {
			t.Errorf("row %d: %g draws of %g", i, h, want)
		}
	}
	want := ridgeOptimum(t, p)
	for _, m := range methods {
		even, odd := solver(p, Params{Method: m, Seed: 1}), solver(p, Params{Method: m, Weighted: true, Seed: 1})
		run(t, even, 120)
		run(t, odd, 120)
		a, b := largest(even.X(), want), largest(odd.X(), want)
		if !(b < a/2) {
			t.Errorf("%s: off by %g with uniform rows, by %g with weighted ones", m, a, b)
		}
	}
}
