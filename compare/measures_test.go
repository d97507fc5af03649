package compare

import (
	"math"
	"testing"
)

func TestBrier(t *testing.T) {
	for _, tt := range []struct {
		p        float64
		positive bool
		want     float64
	}{{0.25, true, 0.5625}, {0.25, false, 0.0625}, {1, true, 0}, {0, true, 1}} {
		if got := Brier(tt.p, tt.positive); got != tt.want {
			t.Errorf("%v, %v: %v", tt.p, tt.positive, got)
		}
	}
	if got := Brier(math.NaN(), true); got == got {
		t.Error(got)
	}
	// Of two classes it is twice that of the positive one; an unknown class adds 1.
	if a, b := BrierClasses([]float64{0.75, 0.25}, 1), BrierClasses([]float64{0.75, 0.25}, 2); a != 2*0.5625 || b != 0.5625+0.0625+1 {
		t.Error(a, b)
	}
}

func TestPSI(t *testing.T) {
	a := Shares([]uint64{10, 30, 0})
	if sum := a[0] + a[1] + a[2]; math.Abs(sum-1) > 1e-15 || a[2] != 0.5/41.5 {
		t.Error(a)
	}
	if got := PSI(a, a); got != 0 {
		t.Error(got)
	}
	p, q := []float64{0.5, 0.5}, []float64{0.8, 0.2}
	want := 0.3*math.Log(0.8/0.5) + 0.3*math.Log(0.5/0.2)
	if x, y := PSI(p, q), PSI(q, p); math.Abs(x-want) > 1e-15 || math.Abs(y-want) > 1e-15 {
		t.Error(x, y, want)
	}
}

// The exact test against sums of binomial coefficients, and the approximation against
// the exact test where both are defined.
func TestMcNemar(t *testing.T) {
	for _, tt := range []struct {
		wins, losses uint64
		want         float64
	}{{0, 0, 1}, {0, 5, 1}, {5, 0, 1. / 32}, {8, 2, 56. / 1024}, {1, 1, 0.75}} {
		if got := McNemar(tt.wins, tt.losses); math.Abs(got-tt.want) > 1e-12 {
			t.Errorf("%d, %d: %v, want %v", tt.wins, tt.losses, got, tt.want)
		}
	}
	for _, d := range []uint64{0, 10, 30, 60} {
		if a, b := McNemar(500+d, 500-d), McNemar(501+d, 500-d); math.Abs(a-b) > 0.1*a+0.002 {
			t.Errorf("%d: %v, and %v by the approximation", d, a, b)
		}
	}
}
