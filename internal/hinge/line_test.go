package hinge

import (
	"math"
	"testing"

	"github.com/streamsvm/streamsvm/internal/rng"
)

// randomLine is f along a random direction of a random small problem.
func randomLine(r *rng.Source, n int) Line {
	l := Line{Lambda: math.Exp(-6 * r.Float64()), Count: float64(n)}
	for range n {
		l.W = append(l.W, float64(2*r.IntN(2)-1))
		l.S = append(l.S, 1.5*r.NormFloat64())
		l.P = append(l.P, r.NormFloat64())
	}
	// Any positive semidefinite quadratic part will do.
	a, b := r.NormFloat64(), r.NormFloat64()
	l.A, l.B, l.D = a*a, a*b, b*b+.01
	return l
}

// descent returns a line along −g of a random problem, as the learner has it.
func descent(seed uint64, n int) (*Problem, Line, float64) {
	p := newProblem(seed, n, math.Exp(-5*rng.New(seed, "lambda").Float64()), 0)
	r := rng.New(seed, "walk")
	for range r.IntN(4) {
		p.TurnRKHS(true)
		line := p.Line()
		t, _ := line.Exact(nil)
		p.Move(t * (.3 + r.Float64()))
	}
	norm := p.TurnRKHS(true)
	return p, p.Line(), norm
}

func TestExactSearchFindsTheMinimum(t *testing.T) {
	r := rng.New(7, "exact")
	var scratch []Break
	for trial := range 3000 {
		l := randomLine(r, 1+r.IntN(40))
		var at float64
		at, scratch = l.Exact(scratch)
		best := l.Value(at)
		// φ is convex, so a minimum among neighbours is a minimum on t ≥ 0.
		for _, d := range []float64{1e-9, 1e-6, 1e-3, .1, 1, 10} {
			for _, u := range []float64{at + d, max(0, at-d)} {
				if v := l.Value(u); v < best-1e-11*max(1, math.Abs(best)) {
					t.Fatalf("trial %d: φ(%g) = %.15g, but φ(%g) = %.15g", trial, at, best, u, v)
				}
			}
		}
	}
}

func TestLineValueIsTheObjective(t *testing.T) {
	for seed := range uint64(20) {
		p, l, _ := descent(seed, 30)
		for _, step := range []float64{0, .1, 1, 3} {
			want := l.Value(step)
			p.Move(step)
			if got := p.Objective(); math.Abs(got-want) > 1e-10*max(1, want) {
				t.Fatalf("seed %d, step %g: f = %g, φ = %g", seed, step, got, want)
			}
			p.Move(-step)
		}
	}
}

// TestWolfeProperties is P-4 of the specification of the method.
func TestWolfeProperties(t *testing.T) {
	w := Wolfe{C1: .25, C2: .45, N: 4}
	seen := map[Outcome]int{}
	for seed := range uint64(400) {
		_, l, norm := descent(seed, 3+int(seed%40))
		for _, radius := range []float64{1e-3, .1, 1, 30} {
			step, out := w.Search(&l, norm, radius)
			seen[out]++
			if step == 0 {
				if out != Null {
					t.Fatalf("seed %d: no step, outcome %d", seed, out)
				}
				continue
			}
			if length := step * norm; length < radius/w.N*(1-1e-12) || length > radius*(1+1e-12) {
				t.Fatalf("seed %d: length %g outside [%g, %g]", seed, length, radius/w.N, radius)
			}
			if l.Value(step)-l.Value(0) > -w.C1*norm*norm*step {
				t.Fatalf("seed %d: step %g is not in L", seed, step)
			}
			inR := l.Slope(step) >= -w.C2*norm*norm
			if out == Found && !inR || out == Radius && 2*step*norm <= radius {
				t.Fatalf("seed %d: step %g, outcome %d, in R: %v", seed, step, out, inR)
			}
		}
	}
	if seen[Found] == 0 || seen[Radius] == 0 || seen[Null] == 0 || seen[Capped] > 0 {
		t.Errorf("outcomes %v", seen)
	}
}

// TestMinNorm is P-2.
func TestMinNorm(t *testing.T) {
	r := rng.New(2, "nr")
	for trial := range 2000 {
		x := [3]float64{r.NormFloat64(), r.NormFloat64(), r.NormFloat64()}
		y := [3]float64{r.NormFloat64(), r.NormFloat64(), r.NormFloat64()}
		if trial%7 == 0 {
			y = x
		}
		dot := func(a, b [3]float64) float64 { return a[0]*b[0] + a[1]*b[1] + a[2]*b[2] }
		at := func(th float64) (z [3]float64) {
			for i := range z {
				z[i] = th*x[i] + (1-th)*y[i]
			}
			return z
		}
		th := MinNorm2(dot(x, x), dot(x, y), dot(y, y))
		if th < 0 || th > 1 {
			t.Fatalf("trial %d: weight %g", trial, th)
		}
		z := at(th)
		for k := range 1001 {
			if v := at(float64(k) / 1000); dot(v, v) < dot(z, z)-1e-12 {
				t.Fatalf("trial %d: weight %g beats %g", trial, float64(k)/1000, th)
			}
		}
		if n := dot(z, z); dot(z, x) < n-1e-12 || dot(z, y) < n-1e-12 || n > min(dot(x, x), dot(y, y))+1e-12 {
			t.Fatalf("trial %d: not the point of least norm", trial)
		}
	}
}
