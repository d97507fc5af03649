package vec

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// guarded64 is a slice of n float64 with NaN words on both sides, drawn like a
// mix's features but with 53 bits.
func guarded64(rng *rand.Rand, m mix, n int) (all, part []float64) {
	offset := 1 + rng.IntN(9)
	all = make([]float64, offset+n+40)
	for i := range all {
		all[i] = math.Float64frombits(0x7ff4dcba98765432)
	}
	part = all[offset : offset+n : offset+n]
	v := make([]float32, 1)
	for i := range part {
		if m.fill(rng, v); m.rate > 0 && rng.IntN(4) == 0 {
			part[i] = float64(v[0])
		} else {
			part[i] = rng.NormFloat64() * float64(m.scale)
		}
	}
	return all, part
}

func same64(a, b []float64) bool {
	for i := range a {
		if math.Float64bits(a[i]) != math.Float64bits(b[i]) {
			return false
		}
	}
	return len(a) == len(b)
}

func TestDotSameBits(t *testing.T) {
	const seed = 5
	rng := rand.New(rand.NewPCG(seed, 0))
	for n := range 201 {
		for _, m := range mixes {
			k, _ := guarded(n, rng.IntN(9))
			m.fill(rng, k)
			_, a := guarded64(rng, m, n)
			_, b := guarded64(rng, m, n)
			mixed, plain := dotMixedOn(generic, k, a), dot64On(generic, a, b)
			if m.rate == 0 {
				var s1, s2, t1, t2 float64
				for i := range a {
					s1, t1 = s1+float64(k[i])*a[i], t1+math.Abs(float64(k[i])*a[i])
					s2, t2 = s2+a[i]*b[i], t2+math.Abs(a[i]*b[i])
				}
				if math.Abs(mixed-s1) > 1e-14*t1 || math.Abs(plain-s2) > 1e-14*t2 {
					t.Fatalf("n %d, %+v: dots %g and %g, want %g and %g", n, m, mixed, plain, s1, s2)
				}
			}
			for c := generic + 1; c <= best(); c++ {
				if got := dotMixedOn(c, k, a); !same64([]float64{got}, []float64{mixed}) {
					t.Fatalf("mixed, n %d, %+v: %s gives %x, Go %x", n, m, c, math.Float64bits(got), math.Float64bits(mixed))
				}
				if got := dot64On(c, a, b); !same64([]float64{got}, []float64{plain}) {
					t.Fatalf("n %d, %+v: %s gives %x, Go %x", n, m, c, math.Float64bits(got), math.Float64bits(plain))
				}
			}
		}
	}
}

func TestAxpySameBits(t *testing.T) {
	const seed = 10
	rng := rand.New(rand.NewPCG(seed, 0))
	for n := range 201 {
		for _, m := range mixes {
			k, _ := guarded(n, rng.IntN(9))
			m.fill(rng, k)
			_, x := guarded64(rng, m, n)
			all, y := guarded64(rng, m, n)
			start := append([]float64(nil), all...)
			f := rng.NormFloat64()
			for _, axpy := range []func(c code){
				func(c code) { axpyMixedOn(c, f, k, y) },
				func(c code) { axpy64On(c, f, x, y) },
			} {
				axpy(generic)
				want := append([]float64(nil), all...)
				for c := generic + 1; c <= best(); c++ {
					copy(all, start)
					axpy(c)
					if !same64(all, want) {
						t.Fatalf("n %d, %+v: %s and Go differ, or the words around were written", n, m, c)
					}
				}
				copy(all, start)
			}
			axpyMixedOn(generic, f, k, y)
			for i, v := range y {
				if want := start[len(all)-n-40+i] + float64(f*float64(k[i])); v != want && want == want {
					t.Fatalf("n %d: element %d is %g, want %g", n, i, v, want)
				}
			}
		}
	}
}

func TestOverlap(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 0))
	for n := range 100 {
		k, _ := guarded(n, r.IntN(9))
		mixes[0].fill(r, k)
		for _, v := range []float32{0.5, -0.5, 0, float32(math.Copysign(0, -1)), 3} {
			all, y := guarded64(r, mixes[0], n)
			start, want := slices.Clone(all), slices.Clone(y)
			for i, z := range k {
				if z*v > 0 {
					want[i] += math.Min(math.Abs(float64(z)), math.Abs(float64(v)))
				}
			}
			for c := generic; c <= best(); c++ {
				copy(all, start)
				overlapOn(c, v, k, y)
				if !slices.Equal(y, want) {
					t.Fatalf("n %d, %g: %s gives %g, want %g", n, v, c, y, want)
				}
				copy(y, start[len(all)-n-40:])
				if !same64(all, start) {
					t.Fatalf("n %d: %s writes around", n, c)
				}
			}
		}
	}
}

func TestDistances(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 0))
	for n := range 100 {
		_, norms := guarded64(r, mixes[0], n)
		_, dots := guarded64(r, mixes[0], n)
		dst, around := guarded(n, r.IntN(9))
		for c := generic; c <= best(); c++ {
			clear(dst)
			distancesOn(c, dst, 0.25, norms, dots)
			for i, v := range dst {
				if want := float32(math.Max(0.25+norms[i]-2*dots[i], 0)); v != want {
					t.Fatalf("n %d: %s gives %g, want %g", n, c, v, want)
				}
			}
			if !around() {
				t.Fatalf("n %d: %s writes around", n, c)
			}
		}
	}
}

func TestDecide(t *testing.T) {
	const seed = 11
	rng := rand.New(rand.NewPCG(seed, 0))
	for round := range 60 {
		m := mixes[round%len(mixes)]
		k := kernels[rng.IntN(len(kernels))]
		dim, n, rows := 1+rng.IntN(8), 1+rng.IntN(120), rng.IntN(700)
		if round%10 == 0 {
			rows = 5000
			n = 3
		}
		p := randomPanels(rng, m, dim, rows)
		x, _ := guarded(n*dim, 3)
		m.fill(rng, x)
		_, coef := guarded64(rng, mixes[0], rng.IntN(rows+1))
		offset := []float64{0, 1, rng.NormFloat64(), math.Inf(1)}[rng.IntN(4)]
		want := make([]float64, n)
		values := make([]float32, len(coef))
		plus := make([]float64, len(coef))
		for r := range want {
			k.blockOn(generic, values, len(coef), x[r*dim:], 1, p, 0, len(coef))
			for j, v := range values {
				plus[j] = float64(v) + offset
			}
			want[r] = dot64On(generic, plus, coef)
		}
		for c := generic; c <= best(); c++ {
			got := make([]float64, n)
			k.decideOn(c, got, x, n, p, coef, offset)
			if !same64(got, want) {
				t.Fatalf("round %d, %+v: %s gives %v, want %v", round, k, c, got, want)
			}
			k.decideOn(c, got[:1], x, 1, p, coef, offset)
			if !same64(got, want) {
				t.Fatalf("round %d, %+v: %s gives %v for one row, want %v", round, k, c, got[0], want[0])
			}
		}
	}
}

func TestDecideAllocatesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 0))
	p := randomPanels(rng, mixes[0], 5, 100)
	x, coef, dst := make([]float32, 5), make([]float64, 100), make([]float64, 1)
	k := Kernel{Kind: RBF, Gamma: 1}
	k.Decide(dst, x, 1, p, coef, 0)
	if a := testing.AllocsPerRun(100, func() { k.Decide(dst, x, 1, p, coef, 0) }); a >= 1 {
		t.Errorf("%v allocations", a)
	}
	out := make([]float32, 100)
	if a := testing.AllocsPerRun(100, func() { k.Block(out, 100, x, 1, p, 3, 99) }); a > 0 {
		t.Errorf("Block: %v allocations", a)
	}
}

// TestExtremes draws from few numbers, so that equal ones, bounds that are met
// and special values are common.
func TestExtremes(t *testing.T) {
	const seed = 18
	rng := rand.New(rand.NewPCG(seed, 0))
	draw := func(n int) []float64 {
		all := []float64{0, 1, -1, 2, 0.5, math.Inf(1), math.Inf(-1), math.NaN(), math.Copysign(0, -1)}
		all = all[:2+rng.IntN(len(all)-1)]
		v := make([]float64, n+3)
		for i := range v {
			if v[i] = all[rng.IntN(len(all))]; rng.IntN(4) == 0 {
				v[i] = rng.NormFloat64()
			}
		}
		return v[1 : n+1]
	}
	for round := range 20000 {
		n := rng.IntN(100)
		g, a, lo, hi := draw(n), draw(n), draw(n), draw(n)
		up, down := -1, -1
		for i := range g {
			if a[i] < hi[i] && g[i] > math.Inf(-1) && (up < 0 || g[i] > g[up]) {
				up = i
			}
			if a[i] > lo[i] && g[i] < math.Inf(1) && (down < 0 || g[i] < g[down]) {
				down = i
			}
		}
		for c := generic; c <= best(); c++ {
			if u, d := extremesOn(c, g, a, lo, hi); u != up || d != down {
				t.Fatalf("round %d, n %d: %s gives %d and %d, want %d and %d", round, n, c, u, d, up, down)
			}
		}
	}
}
