package oracle

import (
	"math"
	"testing"
)

func TestTwoPoints(t *testing.T) {
	// Orthogonal points of norm 1: the problem falls into two of one variable,
	// λ/2 a² + 1/2 max(0, 1−a), with minimum a = min(1, 1/(2λ)).
	q := [][]float64{{1, 0}, {0, 1}}
	for _, lambda := range []float64{2, 1, .5, .1, .01} {
		s := Solve(q, []float64{1, -1}, lambda, 1e-12, 1000)
		a := min(1, 1/(2*lambda))
		want := lambda*a*a + max(0, 1-a)
		if math.Abs(s.Objective-want) > 1e-10 || math.Abs(s.Alpha[0]-a) > 1e-9 || math.Abs(s.Alpha[1]+a) > 1e-9 {
			t.Errorf("λ %g: α %v, objective %g, want ±%g, %g", lambda, s.Alpha, s.Objective, a, want)
		}
	}
}

func TestGapBoundsEveryPoint(t *testing.T) {
	q := [][]float64{{1, .5, .2}, {.5, 1, .3}, {.2, .3, 1}}
	w := []float64{1, -1, 1}
	s := Solve(q, w, .05, 1e-12, 100000)
	if s.Gap > 1e-11 {
		t.Fatalf("gap %g after %d epochs", s.Gap, s.Epochs)
	}
	best := math.Inf(1)
	for a := -8.0; a <= 8; a += .25 {
		for b := -8.0; b <= 8; b += .25 {
			for c := -8.0; c <= 8; c += .25 {
				f, _ := evaluate(q, w, []float64{a, b, c}, make([]float64, 3), .05)
				best = min(best, f)
			}
		}
	}
	if s.Objective > best {
		t.Errorf("objective %g, but a grid has %g", s.Objective, best)
	}
}
