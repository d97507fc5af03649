package sbp

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize/convex/lp"
)

// waterLevel is the closed form: the least (V + sum of the k smallest)/k.
func waterLevel(c []float64, volume float64) float64 {
	c = slices.Clone(c)
	slices.Sort(c)
	best, sum := math.Inf(1), volume
	for k, v := range c {
		sum += v
		best = min(best, sum/float64(k+1))
	}
	return best
}

// size draws a number of examples of at least least, mostly a few, and some so
// many that the band has to be narrowed.
func size(r *rand.Rand, least, few int) int {
	if r.IntN(20) == 0 {
		return least + r.IntN(2000)
	}
	return least + r.IntN(few)
}

// responses draws n responses, with ties and on all scales.
func responses(r *rand.Rand, n int) (u, y []float64) {
	scale := math.Pow(10, float64(r.IntN(7)-3))
	for range n {
		v := r.NormFloat64()
		if r.IntN(3) == 0 {
			v = float64(r.IntN(3) - 1)
		}
		u = append(u, v*scale)
		y = append(y, float64(2*r.IntN(2)-1))
	}
	return u, y
}

func signed(u, y []float64, b float64) []float64 {
	c := make([]float64, len(u))
	for i := range u {
		c[i] = y[i]*u[i] + y[i]*b
	}
	return c
}

func water(c []float64, gamma float64) (sum float64) {
	for _, v := range c {
		sum += max(0, gamma-v)
	}
	return sum
}

func TestLevel(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		u, y := responses(r, size(r, 1, 60))
		var l level
		volume := []float64{0, 1e-9, .01, 1, 300}[r.IntN(5)] * float64(len(u))
		for step := range 6 {
			l.solve(u, y, volume, false)
			c := signed(u, y, 0)
			scale := math.Abs(slices.Max(c)) + math.Abs(slices.Min(c)) + volume
			want := waterLevel(c, volume)
			if math.Abs(l.gamma-want) > 1e-12*scale {
				t.Fatalf("seed %d, step %d: level %g, want %g", seed, step, l.gamma, want)
			}
			if w := water(c, l.gamma); math.Abs(w-volume) > 1e-12*scale*float64(len(u)) {
				t.Fatalf("seed %d, step %d: %g of water, want %g", seed, step, w, volume)
			}
			n := 0
			for i, v := range c {
				in := v < l.gamma
				if volume == 0 {
					in = v == slices.Min(c)
				}
				if l.has(i, u, y) != in {
					t.Fatalf("seed %d, step %d: example %d with %g: under water %v at level %g", seed, step, i, v, !in, l.gamma)
				}
				if in {
					n++
				}
			}
			if n != l.count[0] || n == 0 {
				t.Fatalf("seed %d, step %d: %d examples counted, %d there", seed, step, l.count[0], n)
			}
			// On from here with a warm start.
			for i := range u {
				u[i] += .1 * r.NormFloat64() * float64(r.IntN(2))
			}
			if r.IntN(3) == 0 {
				volume *= r.Float64() * 2
			}
		}
	}
}

// Values are compared by their bits, so there is one 0 only.
func TestValueHasOneZero(t *testing.T) {
	for _, u := range []float64{-1, math.Copysign(0, -1), 0, 1, 2.5} {
		for _, y := range []float64{-1, 1} {
			l := level{shift: -u}
			if v, sign := l.value(u, y); math.Float64bits(v) != 0 || (sign != 0) != (y < 0) {
				t.Errorf("%g(%g - %g) = %g", y, u, u, v)
			}
			l.shift = .5
			if v, _ := l.value(u, y); v != y*(u+.5) {
				t.Errorf("%g(%g + 0.5) = %g", y, u, v)
			}
		}
	}
}

// biasedLP solves max γ over b and ξ ≥ 0, c_i + y_i b + ξ_i ≥ γ, Σ ξ ≤ V, by
// the simplex method.
func biasedLP(t *testing.T, c, y []float64, volume float64) float64 {
	t.Helper()
	n := len(c)
	// Variables: γ⁺, γ⁻, b⁺, b⁻, ξ_i, surplus_i, slack; equalities.
	a := mat.NewDense(n+1, 5+2*n, nil)
	rhs := make([]float64, n+1)
	for i := range c {
		// ξ_i + y_i b − γ − surplus_i = −c_i
		a.Set(i, 0, -1)
		a.Set(i, 1, 1)
		a.Set(i, 2, y[i])
		a.Set(i, 3, -y[i])
		a.Set(i, 4+i, 1)
		a.Set(i, 4+n+i, -1)
		rhs[i] = -c[i]
		a.Set(n, 4+i, 1)
	}
	a.Set(n, 4+2*n, 1)
	rhs[n] = volume
	cost := make([]float64, 5+2*n)
	cost[0], cost[1] = -1, 1
	best, _, err := lp.Simplex(cost, a, rhs, 1e-10, nil)
	if err != nil {
		t.Fatal(err)
	}
	return -best
}

func TestLevelWithBias(t *testing.T) {
	solved := 0
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 2))
		u, y := responses(r, size(r, 2, 40))
		for i := range y {
			if seed%4 == 0 && r.IntN(8) > 0 { // a rare class
				y[i] = -1
			}
		}
		y[0], y[1] = 1, -1
		small := len(u) <= 12 && solved < 150
		var l level
		volume := []float64{0, 1e-9, .01, 1, 300}[r.IntN(5)] * float64(len(u))
		for step := range 6 {
			l.solve(u, y, volume, true)
			raw := signed(u, y, 0)
			scale := math.Abs(slices.Max(raw)) + math.Abs(slices.Min(raw)) + volume
			var pairs []float64
			var byClass [2][]float64
			for i, v := range raw {
				byClass[int(1-y[i])/2] = append(byClass[int(1-y[i])/2], v)
			}
			slices.Sort(byClass[0])
			slices.Sort(byClass[1])
			for j := range min(len(byClass[0]), len(byClass[1])) {
				pairs = append(pairs, byClass[0][j]+byClass[1][j])
			}
			if want := waterLevel(pairs, volume) / 2; math.Abs(l.gamma-want) > 1e-12*scale {
				t.Fatalf("seed %d, step %d: level %g, want %g", seed, step, l.gamma, want)
			}
			if small && volume > 1e-6 {
				solved++
				if want := biasedLP(t, raw, y, volume); math.Abs(l.gamma-want) > 1e-8*scale {
					t.Fatalf("seed %d, step %d: level %g, linear program %g", seed, step, l.gamma, want)
				}
			}
			// The bias attains it, and fills all the water in.
			c := signed(u, y, l.bias)
			if w := water(c, l.gamma); math.Abs(w-volume) > 1e-12*scale*float64(len(u)) {
				t.Fatalf("seed %d, step %d: %g of water, want %g", seed, step, w, volume)
			}
			var n [2]int
			low := l.lowest(u, y)
			for i := range u {
				class := int(1-y[i]) / 2
				if l.has(i, u, y) {
					n[class]++
					if raw[i]+y[i]*l.bias > l.gamma+1e-12*scale || !slices.Contains(low, int32(i)) {
						t.Fatalf("seed %d, step %d: a dry example may be drawn, or a wet one not", seed, step)
					}
				} else if raw[i]+y[i]*l.bias < l.gamma-1e-12*scale {
					t.Fatalf("seed %d, step %d: an example under water may not be drawn", seed, step)
				}
			}
			if n != l.count || n[0] != n[1] || n[0] == 0 {
				t.Fatalf("seed %d, step %d: %v to draw from, counted %v", seed, step, n, l.count)
			}
			for i := range u {
				u[i] += .1 * r.NormFloat64() * float64(r.IntN(2))
			}
			if r.IntN(3) == 0 {
				volume *= r.Float64() * 2
			}
		}
	}
	if solved < 100 {
		t.Errorf("only %d linear programs", solved)
	}
}

// The level rises with the water and with every response, moves along with
// them, and does not ask for their order.
func TestLevelLaws(t *testing.T) {
	level1 := func(u, y []float64, volume float64, biased bool) float64 {
		var l level
		l.solve(u, y, volume, biased)
		return l.gamma
	}
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 3))
		u, y := responses(r, size(r, 2, 80))
		y[0], y[1] = 1, -1
		for _, biased := range []bool{false, true} {
			volume := r.ExpFloat64() * float64(len(u))
			g := level1(u, y, volume, biased)
			tol := 1e-11 * (1 + volume + math.Abs(slices.Max(u)) + math.Abs(slices.Min(u)))
			if level1(u, y, volume*1.1, biased) < g-tol {
				t.Fatalf("seed %d: more water, lower level", seed)
			}
			more := slices.Clone(u)
			i := r.IntN(len(u))
			more[i] += y[i]
			if level1(more, y, volume, biased) < g-tol {
				t.Fatalf("seed %d: higher ground, lower level", seed)
			}
			for j := range u {
				more[j] = 3 * u[j]
			}
			if d := level1(more, y, 3*volume, biased) - 3*g; math.Abs(d) > 4*tol {
				t.Fatalf("seed %d: not homogeneous: %g", seed, d)
			}
			for j := range u {
				more[j] = u[j] + y[j]*7
			}
			if d := level1(more, y, volume, biased) - g - 7; math.Abs(d) > 10*tol {
				t.Fatalf("seed %d: not equivariant: %g", seed, d)
			}
			py := slices.Clone(y)
			copy(more, u)
			r.Shuffle(len(u), func(a, b int) { more[a], more[b], py[a], py[b] = more[b], more[a], py[b], py[a] })
			if d := level1(more, py, volume, biased) - g; math.Abs(d) > tol {
				t.Fatalf("seed %d: the order matters: %g", seed, d)
			}
		}
	}
}
