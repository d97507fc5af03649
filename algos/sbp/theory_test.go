package sbp

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/internal/testkit/oracle"
	"github.com/streamsvm/streamsvm/stream"
)

// meanHinge is the mean loss of the model on what the learner holds.
func meanHinge(l *Learner, xs []*stream.Example) (sum float64) {
	for _, x := range xs {
		sum += max(0, 1-x.Y*l.Model().Decision(x.X))
	}
	return sum / float64(len(xs))
}

// The mean hinge of the model is ν/γ, whatever the number of updates.
func TestHingeIdentity(t *testing.T) {
	for _, intercept := range []bool{false, true} {
		for _, nu := range []float64{.001, .05, 1} {
			xs := moons(300, .2, 4)
			l := filled(t, map[string]string{"gamma": "3", "nu": fmt.Sprint(nu), "intercept": fmt.Sprint(intercept)}, xs)
			checked := 0
			for _, n := range []int{1, 9, 90, 900, 3000} {
				l.update(n)
				l.settle()
				gamma := l.bar.gamma * l.barUnit
				if gamma <= 0 {
					continue
				}
				checked++
				if got, want := meanHinge(l, xs), nu/gamma; math.Abs(got-want) > 1e-6*(1+want) {
					t.Errorf("nu %g, intercept %v, step %d: mean hinge %g, ν/γ = %g", nu, intercept, l.step, got, want)
				}
				// Kernel values are float32 in the model; without them the
				// identity is exact.
				sum := 0.0
				for i, u := range l.sumU {
					sum += max(0, 1-l.y[i]*(u+l.bar.bias)/l.bar.gamma)
				}
				if got, want := sum/float64(len(xs)), nu/gamma; math.Abs(got-want) > 1e-12*(1+want) {
					t.Errorf("nu %g, intercept %v, step %d: mean hinge %.15g, ν/γ = %.15g", nu, intercept, l.step, got, want)
				}
			}
			if checked < 2 {
				t.Errorf("nu %g, intercept %v: γ was positive %d times", nu, intercept, checked)
			}
		}
	}
}

// value is f for the coefficients alpha, and p* as the learner has it.
func value(q [][]float64, y, alpha []float64, volume float64, biased bool) (f float64, p []float64) {
	n := len(y)
	u := make([]float64, n)
	for i := range u {
		for j := range u {
			u[i] += q[i][j] * alpha[j]
		}
		u[i] *= y[i]
	}
	var l level
	l.solve(u, y, volume, biased)
	p = make([]float64, n)
	for i := range p {
		if l.has(i, u, y) {
			p[i] = 1 / float64(l.under)
		}
	}
	return l.gamma, p
}

// f(α+v) ≤ f(α) + vᵀQp*, and f(w) = pᵀc + V max p at p*.
func TestSupergradient(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 5))
		biased := seed%2 == 0
		l := filled(t, map[string]string{"gamma": "1", "intercept": fmt.Sprint(biased), "buffer": "40"}, moons(40, .3, seed))
		q := l.gram()
		n := len(l.y)
		volume := []float64{0, .01, 1, 10}[r.IntN(4)]
		alpha := make([]float64, n)
		for i := range alpha {
			alpha[i] = r.ExpFloat64() * float64(r.IntN(2)) / 10
		}
		f, p := value(q, l.y, alpha, volume, biased)
		qp := make([]float64, n)
		var mass, balance, most, dual float64
		for i := range qp {
			for j := range qp {
				qp[i] += q[i][j] * p[j]
			}
			mass += p[i]
			balance += l.y[i] * p[i]
			most = max(most, p[i])
			dual += alpha[i] * qp[i]
		}
		if math.Abs(mass-1) > 1e-12 || biased && math.Abs(balance) > 1e-12 {
			t.Fatalf("seed %d: p* has mass %g and balance %g", seed, mass, balance)
		}
		if math.Abs(dual+volume*most-f) > 1e-10 {
			t.Fatalf("seed %d: pᵀc + V max p = %g, f = %g", seed, dual+volume*most, f)
		}
		for range 50 {
			v, next := make([]float64, n), make([]float64, n)
			slope := 0.0
			size := math.Pow(10, -4*r.Float64())
			for i := range v {
				v[i] = size * r.NormFloat64()
				next[i] = alpha[i] + v[i]
				slope += v[i] * qp[i]
			}
			if g, _ := value(q, l.y, next, volume, biased); g > f+slope+1e-10 {
				t.Fatalf("seed %d: f rises to %g, above %g", seed, g, f+slope)
			}
		}
	}
}

// Draws come from p*: each of its examples as often as the others of its class.
func TestDrawsAreUniform(t *testing.T) {
	for _, o := range []map[string]string{
		{"intercept": "false", "nu": "0.05"}, {"nu": "0.05", "classes": "coin"}, {"nu": "0.0001", "classes": "coin"},
		{"nu": "0.0001", "intercept": "false"},
	} {
		o["gamma"] = "2"
		l := filled(t, o, moons(500, .2, 6))
		l.update(300)
		l.cur.solve(l.u, l.y, l.volume()/l.scale, l.opt.Intercept)
		seen := make([]float64, len(l.y))
		const draws = 40000
		for range draws {
			seen[l.pick(l.rng, 0)]++
		}
		want := draws / float64(l.cur.under)
		var chi float64
		for i, n := range seen {
			if !l.cur.has(i, l.u, l.y) {
				if n > 0 {
					t.Fatalf("%v: example %d is dry but was drawn", o, i)
				}
				continue
			}
			chi += (n - want) * (n - want) / want
		}
		if d := float64(l.cur.under - 1); chi > d+6*math.Sqrt(2*d)+10 {
			t.Errorf("%v: χ² = %g with %g degrees of freedom", o, chi, d)
		}
	}
}

// With ν = L/‖w*‖ of the regularised optimum the value tends to 1/‖w*‖, at the
// rate 1/√T, never above it; ν adapted to λ tends to the same.
func TestReachesTheRegularisedOptimum(t *testing.T) {
	const n, lambda = 200, .002
	xs := moons(n, .3, 8)
	base := map[string]string{"gamma": "2", "intercept": "false", "lambda": fmt.Sprint(lambda)}
	probe := filled(t, base, xs)
	q := probe.gram()
	k := make([][]float64, n)
	for i := range k {
		k[i] = make([]float64, n)
		for j := range k[i] {
			k[i][j] = q[i][j] * xs[i].Y * xs[j].Y
		}
	}
	y := make([]float64, n)
	for i, x := range xs {
		y[i] = x.Y
	}
	opt := oracle.Solve(k, y, lambda, 1e-9, 20000)
	var norm2 float64
	for i, a := range opt.Alpha {
		for j, b := range opt.Alpha {
			norm2 += a * b * k[i][j]
		}
	}
	norm := math.Sqrt(norm2)
	nu := (opt.Objective - lambda/2*norm2) / norm
	for seed := range 3 {
		o := map[string]string{"gamma": "2", "intercept": "false", "nu": fmt.Sprint(nu)}
		l := filled(t, o, xs)
		for range seed {
			l.rng.Uint64()
		}
		done := 0
		for _, steps := range []int{200, 2000, 20000} {
			l.update(steps - done)
			done = steps
			l.settle()
			f := l.bar.gamma * l.barUnit
			short := 1/norm - f
			if short < -1e-9 || short*math.Sqrt(float64(steps)) > 3 {
				t.Errorf("seed %d: f = %g after %d steps, the supremum is %g", seed, f, steps, 1/norm)
			}
			if steps == 20000 && short > .02/norm {
				t.Errorf("seed %d: %g short of %g after %d steps", seed, short, 1/norm, steps)
			}
		}
	}
	l := filled(t, base, xs)
	for range 12 {
		l.update(2000)
		l.settle()
		l.restart(1, 0)
	}
	l.update(20000)
	l.settle()
	if math.Abs(l.nu-nu) > .1*nu {
		t.Errorf("ν adapted to λ is %g, the optimum has %g", l.nu, nu)
	}
	gamma := l.bar.gamma * l.barUnit
	risk := lambda/2/(gamma*gamma) + l.nu/gamma
	if risk < opt.Objective-1e-6 && l.weight == 0 || risk > 1.02*opt.Objective {
		t.Errorf("risk %g, the least is %g", risk, opt.Objective)
	}
}

// The ν of the best multiple of a fixed function, with the best bias for each
// multiple, against a search over a fine grid.
func TestNuOfAMultiple(t *testing.T) {
	found := 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 14))
		biased := seed%2 == 0
		l := filled(t, map[string]string{"gamma": "1", "intercept": fmt.Sprint(biased), "lambda": "0.01"}, moons(60, .4, seed))
		l.update(1 + r.IntN(80))
		l.settle()
		q := l.gram()
		var norm2 float64
		for i := range q {
			for j := range q {
				norm2 += l.coef(l.a[i], l.lag[i]) * q[i][j] * l.coef(l.a[j], l.lag[j])
			}
		}
		n := float64(len(l.y))
		best, want := math.Inf(1), math.NaN()
		var w level
		for v := 1e-6; v < 100; v *= 1.003 {
			w.solve(l.sumU, l.y, v*n*l.weight, biased)
			if gamma := w.gamma / l.weight; gamma > 0 {
				if risk := .01/2*norm2/(gamma*gamma) + v/gamma; risk < best {
					best, want = risk, v/math.Sqrt(norm2)
				}
			}
		}
		if want > 50 {
			continue
		}
		found++
		l.nu = want
		l.adapt()
		if math.Abs(l.nu-want) > .01*want {
			t.Errorf("seed %d: ν = %g, a grid says %g", seed, l.nu, want)
		}
	}
	if found < 20 {
		t.Errorf("only %d cases", found)
	}
}

// An update costs one kernel row, and no more support than one example.
func TestCost(t *testing.T) {
	xs := moons(400, .2, 9)
	l := filled(t, map[string]string{"gamma": "2", "nu": "0.02", "cache": "0"}, xs)
	for i := range 1000 {
		before := l.rows.Evals
		l.update(1) // alone, so that nothing is computed ahead
		if d := l.rows.Evals - before; d != 0 && d != int64(len(xs)) {
			t.Fatalf("update %d took %d kernel values", i, d)
		}
		if n := expansion.Nonzero(l.a); n > min(i+1, len(xs)) {
			t.Fatalf("%d support vectors after %d updates", n, i+1)
		}
	}
	small := filled(t, map[string]string{"gamma": "2", "nu": "0.02", "cache": "64"}, xs)
	small.update(1000)
	large := filled(t, map[string]string{"gamma": "2", "nu": "0.02", "cache": "0"}, xs)
	large.update(1000)
	for i := range l.a {
		if small.a[i] != large.a[i] || small.a[i] != l.a[i] || small.u[i] != l.u[i] {
			t.Fatal("the cache, or the look-ahead, changes the result")
		}
	}
	if small.rows.Evals > int64(len(xs)*len(xs)) {
		t.Errorf("%d kernel values of %d were computed, so some of them twice", small.rows.Evals, len(xs)*len(xs))
	}
}
