package vec

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

var draws = map[string]func(c code, dst []float32, seed, from uint64){"normal": normalsOn, "cauchy": cauchysOn}

func TestDrawsSameBits(t *testing.T) {
	const seed = 15
	rng := rand.New(rand.NewPCG(seed, 0))
	for name, draw := range draws {
		for n := range 201 {
			s, from := rng.Uint64(), rng.Uint64N(1000)
			want, _ := guarded(n, 2)
			draw(generic, want, s, from)
			for c := generic + 1; c <= best(); c++ {
				got, intact := guarded(n, rng.IntN(9))
				draw(c, got, s, from)
				if i, ok := same32(got, want); !ok || !intact() {
					t.Fatalf("%s, seed %d, %d from %d: %s gives %g for element %d, Go %g; guards intact: %v", name, s, n, from, c, got[i], i, want[i], intact())
				}
			}
		}
		for c := generic + 1; c <= best(); c++ { // rare values
			got, want := make([]float32, 1<<16), make([]float32, 1<<16)
			draw(generic, want, seed, 0)
			draw(c, got, seed, 0)
			if i, ok := same32(got, want); !ok {
				t.Fatalf("%s: %s gives %g for element %d, Go %g", name, c, got[i], i, want[i])
			}
		}
	}
}

func TestDrawsByCounter(t *testing.T) {
	const seed, n = 16, 1000
	rng := rand.New(rand.NewPCG(seed, 0))
	for name, draw := range draws {
		all, part := make([]float32, n), make([]float32, n)
		draw(active, all, seed, 12345)
		for range 200 {
			a := rng.IntN(n)
			b := a + rng.IntN(n-a+1)
			draw(active, part[a:b], seed, 12345+uint64(a))
			if i, ok := same32(part[a:b], all[a:b]); !ok {
				t.Fatalf("%s: element %d differs when drawn from %d to %d", name, a+i, a, b)
			}
		}
		other := make([]float32, n)
		draw(active, other, seed+1, 12345)
		if slices.Equal(all, other) {
			t.Errorf("%s: two seeds give the same numbers", name)
		}
	}
}

// kolmogorov returns the largest distance of x's distribution from cdf, times
// √n.
func kolmogorov(x []float32, cdf func(float64) float64) float64 {
	x = slices.Clone(x)
	slices.Sort(x)
	d, n := 0.0, float64(len(x))
	for i, v := range x {
		p := cdf(float64(v))
		d = max(d, p-float64(i)/n, float64(i+1)/n-p)
	}
	return d * math.Sqrt(n)
}

func TestNormals(t *testing.T) {
	const n = 1 << 20
	for seed := range uint64(3) {
		x := make([]float32, n)
		Normals(x, seed, 0)
		var m [5]float64
		tails := map[float64]float64{2: 0.0455002639, 3: 0.0026997961, 4: 6.334248e-5}
		beyond := map[float64]float64{}
		for _, f := range x {
			v := float64(f)
			p := 1.0
			for k := range m {
				m[k] += p / n
				p *= v
			}
			for z := range tails {
				if math.Abs(v) > z {
					beyond[z]++
				}
			}
		}
		// Five standard errors each.
		for k, want := range []struct{ mean, sd float64 }{{1, 0}, {0, 1}, {1, math.Sqrt2}, {0, math.Sqrt(15)}, {3, math.Sqrt(96)}} {
			if math.Abs(m[k]-want.mean) > 5*want.sd/math.Sqrt(n)+1e-9 {
				t.Errorf("seed %d: moment %d is %g, want %g", seed, k, m[k], want.mean)
			}
		}
		for z, p := range tails {
			if math.Abs(beyond[z]-n*p) > 5*math.Sqrt(n*p) {
				t.Errorf("seed %d: %g beyond %g, want about %g", seed, beyond[z], z, n*p)
			}
		}
		if d := kolmogorov(x[:1<<18], func(v float64) float64 { return 0.5 * math.Erfc(-v/math.Sqrt2) }); d > 2.2 {
			t.Errorf("seed %d: Kolmogorov's statistic is %g", seed, d)
		}
		// Neighbours, and the two numbers of one pair, are uncorrelated.
		for _, lag := range []int{1, 2, 16, 32} {
			r := 0.0
			for i := range n - lag {
				r += float64(x[i]) * float64(x[i+lag])
			}
			if math.Abs(r) > 5*math.Sqrt(n) {
				t.Errorf("seed %d: correlation at lag %d is %g", seed, lag, r/n)
			}
		}
	}
}

func TestCauchys(t *testing.T) {
	const n = 1 << 18
	for seed := range uint64(3) {
		x := make([]float32, n)
		Cauchys(x, seed, 0)
		if d := kolmogorov(x, func(v float64) float64 { return 0.5 + math.Atan(v)/math.Pi }); d > 2.2 {
			t.Errorf("seed %d: Kolmogorov's statistic is %g", seed, d)
		}
		far := 0.0
		for _, v := range x {
			if math.Abs(float64(v)) > 1000 {
				far++
			}
		}
		if p := 2 / math.Pi * math.Atan(1e-3) * n; math.Abs(far-p) > 5*math.Sqrt(p) {
			t.Errorf("seed %d: %g beyond 1000, want about %g", seed, far, p)
		}
	}
}
