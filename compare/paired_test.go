package compare

import (
	"testing"

	"github.com/streamsvm/streamsvm/internal/rng"
)

// A small difference is found although both are wrong on the same hard examples,
// and where there is none it is in the interval about as often as it says.
func TestPaired(t *testing.T) {
	missed := 0
	for seed := range uint64(200) {
		r := rng.New(seed, "paired test")
		a, b, c := make([]float32, 5000), make([]float32, 5000), make([]float32, 5000)
		for i := range a {
			if r.Float64() < 0.3 {
				a[i], b[i], c[i] = 1, 1, 1
			}
			if r.Float64() < 0.02 {
				a[i] = 1 - a[i]
			}
			if r.Float64() < 0.02 {
				b[i] = 1 - b[i]
			}
			if r.Float64() < 0.05 {
				c[i] = 1
			}
		}
		if i := PairedInterval(a, b); i[0] > 0 || i[1] < 0 {
			missed++
		}
		if i := PairedInterval(c, b); i[0] <= 0 {
			t.Errorf("seed %d: a difference of about 0.03 is in %v", seed, *i)
		}
	}
	if missed > 20 {
		t.Errorf("no difference is not in the interval in %d of 200", missed)
	}
	if PairedInterval(make([]float32, 300), make([]float32, 300)) != nil {
		t.Error("an interval of too few")
	}
}
