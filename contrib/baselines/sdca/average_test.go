package sdca

import (
	"fmt"
	"math"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/stream"
)

// The model is the mean of the iterates, as one that keeps them all computes
// it, also after examples have left the window; after Finish it is the last
// iterate.
func TestMean(t *testing.T) {
	for _, share := range []float64{.2, 1} {
		t.Run(fmt.Sprint(share), func(t *testing.T) { testMean(t, share) })
	}
}

func testMean(t *testing.T, share float64) {
	const buffer = 100
	l, err := Spec.New(algos.Env{Seed: 1}, map[string]string{
		"gamma": "2", "c": "2", "every": "1", "buffer": fmt.Sprint(buffer), "average": fmt.Sprint(share),
	})
	if err != nil {
		t.Fatal(err)
	}
	probes := []stream.Vec{{Val: []float32{0, .5}}, {Val: []float32{1, 0}}, {Val: []float32{-.5, 1}}}
	last := func() []float64 {
		s := l.(*Learner)
		f := make([]float64, len(probes))
		for q, x := range probes {
			for i, a := range s.alpha {
				row := s.basis.Row(i).Val
				u, v := float64(row[0]-x.Val[0]), float64(row[1]-x.Val[1])
				f[q] += a * s.y[i] * (math.Exp(-2*(u*u+v*v)) + 1)
			}
		}
		return f
	}
	mean := make([]float64, len(probes))
	k, apart := 0.0, 0.0
	for _, x := range algostest.Moons(500, algos.Classify, 3) {
		if !x.Labelled {
			continue
		}
		algostest.Feed(t, l, x)
		k++
		weight := 1 / min(k, max(1, share*min(k, buffer)))
		for q, f := range last() {
			mean[q] += weight * (f - mean[q])
			got := l.Model().Decision(probes[q])
			most := .01
			if k > buffer {
				most = .2 // the last 2 % of what examples that have left were are cut off
			}
			if d := math.Abs(got - mean[q]); d > most {
				t.Fatalf("probe %d after %g examples: %g, the mean is %g, the last iterate %g", q, k, got, mean[q], f)
			}
			apart = max(apart, math.Abs(got-f))
		}
	}
	if apart < .6 {
		t.Errorf("no iterate was farther than %g from the mean: this shows nothing", apart)
	}
	if _, err := l.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	for q, f := range last() {
		if got := l.Model().Decision(probes[q]); math.Abs(got-f) > 1e-4*(1+math.Abs(f)) {
			t.Errorf("finished, probe %d: %g, the last iterate is %g", q, got, f)
		}
	}
}

// Visits go to the examples with which the dual gains most: after as many, the
// duality gap of a window that examples pass through is smaller than with
// random ones.
func TestChoice(t *testing.T) {
	gap := func(choice string) (sum float64) {
		l, err := Spec.New(algos.Env{Seed: 1}, map[string]string{"gamma": "2", "c": "2", "buffer": "100", "choice": choice})
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range algostest.Moons(1000, algos.Classify, 3) {
			algostest.Feed(t, l, x)
			if i >= 400 {
				sum += l.Report().Certificate
			}
		}
		return sum
	}
	if random, chosen := gap("1"), gap("32"); chosen > .7*random {
		t.Errorf("mean gap %g with random visits, %g with chosen ones", random/600, chosen/600)
	}
}
