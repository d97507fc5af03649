package adaptive

import (
	"context"
	"math"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/stream"
)

// lately runs a panel over xs with labels that come delay examples later, and
// returns it with the share of right decisions.
func lately(t *testing.T, xs []*stream.Example, delay int) (*Learner, float64) {
	t.Helper()
	a, err := Spec.New(algos.Env{Seed: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := a.(*Learner)
	var f [1]float64
	right := 0
	for i, x := range xs {
		if (l.Foretell(x) >= 0) == (x.Y > 0) {
			right++
		}
		if i < delay {
			continue
		}
		if _, _, err := l.Follow(context.Background(), f[:], xs[i-delay:i-delay+1]); err != nil {
			t.Fatal(err)
		}
		if len(l.waiting) != delay {
			t.Fatalf("%d predictions are kept for %d examples that wait", len(l.waiting), delay)
		}
	}
	return l, float64(right) / float64(len(xs))
}

// Labels come in runs, and the features say nothing: the best expert is l1, which
// repeats the label before, as long as it knows that. With labels that come 50
// examples later nobody does, and it must not be weighed as if it did.
func TestWeightsAreOfWhatWasForetold(t *testing.T) {
	xs := algostest.Moons(1500, algos.Classify, 3)
	for i, x := range xs {
		x.Y = float64(i/8%2)*2 - 1
		x.X.Val = []float32{float32(math.Mod(float64(i)*0.37, 1)), float32(math.Mod(float64(i)*0.73, 1))}
	}
	at, now := lately(t, xs, 0)
	late, then := lately(t, xs, 50)
	w, v := at.vote.weights(), late.vote.weights()
	if w[l1] < 0.5 || v[l1] > 0.25 {
		t.Errorf("l1 has weight %.3f at once (accuracy %.3f), %.3f with labels 50 examples later (%.3f)", w[l1], now, v[l1], then)
	}
}

// A machine that has been cut is not blamed for what the one before it said.
func TestCutsWithLateLabels(t *testing.T) {
	xs := algostest.Moons(3000, algos.Classify, 3)
	for i, x := range xs {
		if i >= 1500 {
			x.Y = -x.Y
		}
	}
	at, _ := lately(t, xs, 0)
	late, _ := lately(t, xs, 400)
	n, _ := at.ChangePoints()
	m, cuts := late.ChangePoints()
	if n == 0 || m == 0 || m > n+1 {
		t.Errorf("%d cuts at once, %d with labels 400 examples later: %v", n, m, cuts)
	}
}
