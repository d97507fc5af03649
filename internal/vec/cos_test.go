package vec

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestCosSameBits(t *testing.T) {
	const seed, rows = 14, 330
	for round := range 300 {
		rng := rand.New(rand.NewPCG(seed, uint64(round)))
		m := mixes[round%len(mixes)]
		dim, n := rng.IntN(12), 1+rng.IntN(20)
		from := rng.IntN(rows)
		to := from + rng.IntN(rows-from+1)
		w := randomPanels(rng, m, dim, rows)
		x, _ := guarded(n*dim, rng.IntN(9))
		m.fill(rng, x)
		phase, _ := guarded(to-from, rng.IntN(9))
		m.fill(rng, phase)
		ld := to - from + rng.IntN(2)
		size := (n-1)*ld + to - from
		want, _ := guarded(size, 3)
		cosOn(generic, want, ld, x, n, w, phase, from, to)
		for c := generic + 1; c <= best(); c++ {
			got, intact := guarded(size, 5)
			cosOn(c, got, ld, x, n, w, phase, from, to)
			if i, ok := same32(got, want); !ok || !intact() {
				t.Fatalf("round %d, dim %d, n %d, %d to %d: %s gives %x for value %d, Go %x; guards intact: %v",
					round, dim, n, from, to, c, math.Float32bits(got[i]), i, math.Float32bits(want[i]), intact())
			}
		}
		// One feature, one column: an independent sum.
		if n > 0 && to > from && m.rate == 0 && m.scale <= 1 {
			z := make([]float32, dim)
			w.Row(z, from)
			s := 0.0
			for f := range z {
				s += float64(z[f]) * float64(x[f])
			}
			s += float64(phase[0])
			if v := math.Cos(2 * math.Pi * s); math.Abs(v-float64(want[0])) > 1e-4 {
				t.Fatalf("round %d: %g, want %g", round, want[0], v)
			}
		}
	}
}

func TestCosError(t *testing.T) {
	const n = 1 << 16
	w := NewPanels(1)
	for i := range n {
		w.Append([]float32{float32(i-n/2) / 8191 * 1.25})
	}
	out, phase := make([]float32, n), make([]float32, n)
	worst := 0.0
	Cos(out, n, []float32{1}, 1, w, phase, 0, n)
	for i, v := range out {
		var z [1]float32
		w.Row(z[:], i)
		_, turn := math.Modf(float64(z[0])) // exact
		worst = max(worst, math.Abs(float64(v)-math.Cos(2*math.Pi*turn)))
	}
	t.Logf("largest error %.2g", worst)
	if worst > 3e-7 {
		t.Errorf("largest error %.3g, want ≤ 3e-7", worst)
	}
}

// Cosines gives what Cos does for one feature of weight 1, on each path, and
// writes nowhere else.
func TestCosines(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for n := range 70 {
		x := make([]float32, n)
		for i := range x {
			x[i] = rng.Float32() - .5
		}
		w, want := NewPanels(1), make([]float32, n)
		w.Append([]float32{1})
		for i := range x {
			cosOn(generic, want[i:], 1, x[i:], 1, w, []float32{0}, 0, 1)
		}
		for c := generic; c <= best(); c++ {
			got, intact := guarded(n, 5)
			copy(got, x)
			cosinesOn(c, got)
			if i, ok := same32(got, want); !ok || !intact() {
				t.Fatalf("%d turns, %s: value %d differs; guards intact: %v", n, c, i, intact())
			}
		}
	}
}
