package synth

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

func TestElementary(t *testing.T) {
	var d draw
	d.seed(1, 2)
	for k := range 200000 {
		x := d.uniform()
		if k%2 == 0 {
			x = math.Ldexp(x, -d.intn(60))
		}
		if x > 0 {
			if got, want := logarithm(x), math.Log(x); math.Abs(got-want) > 4e-16*math.Max(math.Abs(want), 1e-300)+3e-16*math.Abs(want) {
				t.Fatalf("logarithm(%v) = %v, want %v", x, got, want)
			}
		}
		u := 8*d.uniform() - 4
		s, c := sinCos(u)
		// The sine of 2πu, with the turns taken off before π comes in.
		ws, wc := math.Sincos(2 * math.Pi * (u - math.Round(u)))
		if math.Abs(s-ws) > 1e-15 || math.Abs(c-wc) > 1e-15 {
			t.Fatalf("sinCos(%v) = %v, %v, want %v, %v", u, s, c, ws, wc)
		}
	}
	for u, want := range map[float64][2]float64{0: {0, 1}, 0.25: {1, 0}, 0.5: {0, -1}, 0.75: {-1, 0}, 1: {0, 1}} {
		if s, c := sinCos(u); s != want[0] || c != want[1] {
			t.Errorf("sinCos(%v) = %v, %v", u, s, c)
		}
	}
	if v := logarithm(1); v != 0 {
		t.Errorf("logarithm(1) = %v", v)
	}
}

// TestDistributions compares uniform, intn and normal with their distribution
// functions in equal bins, over examples of neighbouring numbers, of each of
// which only the first draws are used: that is where badly seeded generators
// are alike.
func TestDistributions(t *testing.T) {
	const n, bins = 200000, 50
	var uniform, whole, normal, pairs [bins]int
	var d draw
	last := 0.0
	for i := range n {
		d.seed(7, uint64(i))
		u := d.uniform()
		uniform[int(u*bins)]++
		// The sum of neighbours modulo 1 is uniform if they are independent.
		_, f := math.Modf(u - last + 1)
		pairs[int(f*bins)]++
		last = u
		whole[d.intn(bins)]++
		normal[min(int(distuv.UnitNormal.CDF(d.normal())*bins), bins-1)]++
	}
	for name, counts := range map[string][bins]int{"uniform": uniform, "intn": whole, "normal": normal, "neighbours": pairs} {
		chi := 0.0
		for _, c := range counts {
			e := float64(n) / bins
			chi += (float64(c) - e) * (float64(c) - e) / e
		}
		if p := distuv.ChiSquared(distuv.ChiSquared{K: bins - 1}).Survival(chi); p < 1e-4 {
			t.Errorf("%s: chi-square %.1f with %d degrees of freedom, p = %.2g", name, chi, bins-1, p)
		}
	}
}
