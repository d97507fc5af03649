package hinge

import (
	"math"
	"testing"

	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/internal/testkit/oracle"
)

// optimum is the oracle's solution of p's problem.
func (p *Problem) optimum(t *testing.T, tol float64) oracle.Solution {
	t.Helper()
	g := p.gram()
	q := make([][]float64, len(g))
	for i := range g {
		for _, k := range g[i] {
			q[i] = append(q[i], float64(k))
		}
	}
	s := oracle.Solve(q, p.W, p.Lambda, tol, 20000)
	if s.Gap > max(tol*s.Objective, 1e-14) {
		t.Fatalf("the oracle stopped at a gap of %g", s.Gap)
	}
	return s
}

// TestClosedForm is P-1: for λ ≥ max_i w_i (Qw)_i/m the optimum is w/(λm), and
// the first direction points at it.
func TestClosedForm(t *testing.T) {
	for seed := range uint64(10) {
		p := newProblem(seed, 80, 1, 0)
		var crit float64
		for i, q := range p.Q { // all hinges are active at 0, so q = Qw
			crit = max(crit, p.W[i]*q/80)
		}
		p.Lambda = crit * (1 + rng.New(seed, "l").Float64())
		p.TurnRKHS(true)
		for i, d := range p.D {
			if want := p.W[i] / 80; math.Abs(d-want) > 1e-15 {
				t.Fatalf("seed %d: d[%d] = %g, want %g", seed, i, d, want)
			}
		}
		l := p.Line()
		step, _ := l.Exact(nil)
		p.Move(step)
		for i, a := range p.Alpha {
			if want := p.W[i] / (80 * p.Lambda); math.Abs(a-want) > 1e-9*math.Abs(want) {
				t.Fatalf("seed %d: α[%d] = %g, want %g", seed, i, a, want)
			}
		}
		if best := p.optimum(t, 1e-12).Objective; math.Abs(p.Objective()-best) > 1e-10 {
			t.Errorf("seed %d: f = %.12g, optimum %.12g", seed, p.Objective(), best)
		}
		p.Lambda = .5 * crit
		if best := p.optimum(t, 1e-10).Objective; p.Objective()-best < 1e-9 {
			t.Errorf("seed %d: below the critical λ the closed form should not be optimal", seed)
		}
	}
}

// TestDirectionsAreTheShortest: −d is the shortest vector between the last one and
// the subgradient, in the norm of the geometry, by sums over the whole matrix.
func TestDirectionsAreTheShortest(t *testing.T) {
	const m = 50
	for _, geometry := range []string{"rkhs", "alpha"} {
		inside := 0
		for seed := range uint64(4) {
			p := newProblem(seed, m, .02, 1<<20)
			q := p.gram()
			times := func(x []float64) []float64 {
				out := make([]float64, m)
				for i := range q {
					for j, k := range q[i] {
						out[i] += float64(k) * x[j]
					}
				}
				return out
			}
			inner := func(a, b []float64) (sum float64) {
				if geometry == "rkhs" {
					b = times(b)
				}
				for i := range a {
					sum += a[i] * b[i]
				}
				return sum
			}
			turn := p.TurnRKHS
			if geometry == "alpha" {
				turn = p.TurnAlpha
			}
			for k := range 20 {
				g := make([]float64, m) // in coefficients
				for i, a := range p.Alpha {
					g[i] = p.Lambda * a
					if p.W[i]*p.S[i] < 1 {
						g[i] -= p.W[i] / m
					}
				}
				if geometry == "alpha" {
					g = times(g)
				}
				// −d is g − θ(g + d).
				sum := make([]float64, m)
				for i, d := range p.D {
					sum[i] = g[i] + d
				}
				theta := 0.0
				if k > 0 {
					theta = min(max(inner(g, sum)/inner(sum, sum), 0), 1)
				}
				if theta > 0 && theta < 1 {
					inside++
				}
				norm := turn(k == 0)
				size := math.Sqrt(inner(g, g))
				for i, d := range p.D {
					if want := theta*sum[i] - g[i]; !(math.Abs(d-want) <= 1e-9*size) {
						t.Fatalf("%s, seed %d, turn %d: d[%d] = %g, want %g", geometry, seed, k, i, d, want)
					}
				}
				if want := math.Sqrt(inner(p.D, p.D)); !(math.Abs(norm-want) <= 1e-9*size) {
					t.Fatalf("%s, seed %d, turn %d: ‖d‖ = %g, want %g", geometry, seed, k, norm, want)
				}
				p.check(t, geometry)
				l := p.Line()
				step, _ := l.Exact(nil)
				p.Move(step)
			}
		}
		if inside < 20 {
			t.Errorf("%s: θ was between 0 and 1 in %d turns only", geometry, inside)
		}
	}
}

// TestSubgradientInequality is P-8, in both geometries, with finite differences.
func TestSubgradientInequality(t *testing.T) {
	for seed := range uint64(20) {
		p := newProblem(seed, 30, .05, 0)
		r := rng.New(seed, "points")
		set := func(a []float64) {
			copy(p.Alpha, a)
			p.Multiply(p.S, a)
			p.Refresh()
		}
		x, y := make([]float64, 30), make([]float64, 30)
		for i := range x {
			x[i], y[i] = r.NormFloat64(), r.NormFloat64()
		}
		set(y)
		fy, sy := p.Objective(), append([]float64(nil), p.S...)
		set(x)
		fx := p.Objective()
		var euclid, rkhs float64
		for i := range x {
			c, qc := p.CoefGrad(i)
			euclid += qc * (y[i] - x[i])
			rkhs += c * (sy[i] - p.S[i])
		}
		if math.Abs(euclid-rkhs) > 1e-6*max(1, math.Abs(rkhs)) {
			t.Errorf("seed %d: ⟨g,y−x⟩ = %g, ⟨c,y−x⟩_H = %g", seed, euclid, rkhs)
		}
		if fy < fx+euclid-1e-6 {
			t.Errorf("seed %d: f(y) = %g below the linear bound %g", seed, fy, fx+euclid)
		}
		copy(p.D, y)
		p.Multiply(p.P, y)
		l := p.Line()
		const h = 1e-7
		if fd, s := (l.Value(h)-l.Value(-h))/(2*h), l.Slope(0); math.Abs(fd-s) > 1e-4*max(1, math.Abs(s)) {
			t.Errorf("seed %d: slope %g, by differences %g", seed, s, fd)
		}
	}
}

// TestCertificates is P-9, and the same for the gap at a dual feasible point.
func TestCertificates(t *testing.T) {
	for seed := range uint64(6) {
		p := newProblem(seed, 60, .05, 0)
		best := p.optimum(t, 1e-11).Objective
		for k := range 30 {
			if gap, bound := p.Objective()-best, p.Certificate(); gap > bound+1e-9 {
				t.Fatalf("seed %d, iteration %d: f − f* = %g above the certificate %g", seed, k, gap, bound)
			}
			p.TurnRKHS(k == 0)
			l := p.Line()
			step, _ := l.Exact(nil)
			p.Move(step)
		}
		p.Clip()
		gap, ok := p.Gap()
		if !ok || p.Objective()-best > gap+1e-9 {
			t.Errorf("seed %d: f − f* = %g, gap %g, feasible %v", seed, p.Objective()-best, gap, ok)
		}
		p.Alpha[0] = 2 * p.box() * p.W[0]
		if _, ok := p.Gap(); ok {
			t.Errorf("seed %d: an infeasible point has a gap", seed)
		}
	}
}

// TestPadding is P-7: growth changes no score.
func TestPadding(t *testing.T) {
	p := newProblem(4, 50, .05, 1<<20)
	p.TurnRKHS(true)
	p.Move(1)
	ridge := p.Ridge()
	old := append([]float64(nil), p.S...)
	xs, w := moons(rng.New(9, "more"), 40)
	for _, x := range xs {
		p.Basis.Append(x)
	}
	p.Extend(w, nil)
	p.Refresh()
	for i, s := range old {
		if p.S[i] != s {
			t.Fatalf("score %d changed from %g to %g", i, s, p.S[i])
		}
	}
	if p.Ridge() != ridge {
		t.Errorf("ridge changed from %g to %g", ridge, p.Ridge())
	}
}

func TestDualAscentReachesTheOptimum(t *testing.T) {
	for seed := range uint64(2) {
		for _, lambda := range []float64{1, .1, .01, 1e-3} {
			for _, block := range []int{4, 16, 64} {
				p := newProblem(seed, 100, lambda, 1<<20)
				best := p.optimum(t, 1e-8).Objective
				d := Dual{Block: block, Tol: 1e-6, Rounds: 100000, Pairs: 20}
				blocks := d.Solve(p)
				gap, ok := p.Gap()
				if f := p.Objective(); !ok || f-best > 1e-6*best || f-best > gap+1e-9 || gap > 1e-5 {
					t.Errorf("seed %d, λ %g, block %d: f = %.10g after %d blocks, optimum %.10g, gap %g %v",
						seed, lambda, block, f, blocks, best, gap, ok)
				}
			}
		}
	}
}

// TestDualOfTheWhole: one ascent after another, over problems that grow and
// shrink, ends near the optimum of each.
func TestDualOfTheWhole(t *testing.T) {
	d := Dual{Tol: 1e-6, Pairs: 200}
	for i, n := range []int{30, 60, 20, 60} {
		p := newProblem(uint64(i), n, .05, 1<<20)
		d.Whole(p)
		best := p.optimum(t, 1e-8).Objective
		if gap, ok := p.Gap(); !ok || p.Objective()-best > .01*best || gap > .02*best {
			t.Errorf("%d points: f = %g, optimum %g, gap %g %v", n, p.Objective(), best, gap, ok)
		}
		p.Refresh()
		p.check(t, "whole")
	}
}
