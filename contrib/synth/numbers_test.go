package synth

import (
	"math"
	"testing"
)

// TestFriedman compares with the formula, and the noise with what is asked for.
func TestFriedman(t *testing.T) {
	const n = 20000
	formula := func(x []float32, shift int) float64 {
		v := func(k int) float64 { return float64(x[(k+shift)%len(x)]) }
		return 10*math.Sin(math.Pi*v(0)*v(1)) + 20*math.Pow(v(2)-0.5, 2) + 10*v(3) + 5*v(4)
	}
	for k, ex := range draws(must(t, "friedman", 5, map[string]string{"noise": "0", "block": "5000", "dim": "12"}), n) {
		if want := formula(ex.X.Val, 5*(k/5000)); math.Abs(ex.Y-want) > 1e-9 {
			t.Fatalf("example %d: %g, want %g", k, ex.Y, want)
		}
	}
	g := must(t, "friedman", 5, map[string]string{"noise": "2", "unlabelled": "0.25"})
	var sum, squares float64
	labelled := 0
	for _, ex := range draws(g, n) {
		if !ex.Labelled {
			continue
		}
		labelled++
		d := ex.Y - formula(ex.X.Val, 0)
		sum += d
		squares += d * d
	}
	share(t, "labelled", labelled, n, 0.75)
	if mean, sd := sum/float64(labelled), math.Sqrt(squares/float64(labelled)); math.Abs(mean) > 0.1 || math.Abs(sd-2) > 0.1 || !g.Regress() {
		t.Errorf("noise of mean %.3f and deviation %.3f, want 0 and 2", mean, sd)
	}
}
