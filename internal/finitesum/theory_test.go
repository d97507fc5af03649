package finitesum

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/internal/rng"
)

// objective is F by the definition, for one purpose after the other.
func objective(p *Problem, x []float64) float64 {
	s := 0.0
	for i := range p.Len() {
		row := make([]float64, p.Dim())
		p.axpy(1, i, row)
		z := 0.0
		for j, a := range row {
			z += a * x[j]
		}
		s += p.Loss.value(z, p.b[i]) / float64(p.Len())
	}
	for j, v := range x {
		s += p.Ridge / 2 * v * v
		if p.Bias == 0 || j > 0 {
			s += p.Lasso * math.Abs(v)
		}
	}
	return s
}

// observe runs so many epochs as Epoch does, and calls f after each step with x_k, x^_k,
// θ and u = c a_i, for a row drawn a second time.
func observe(s *Solver, epochs int, f func(k int, x, hat, u []float64, theta float64)) {
	for range epochs {
		if s.sample.n == 0 {
			s.sample.prepare(s.prob, s.par.Weighted)
		}
		m := max(int(math.Round(s.par.Method.inner*float64(s.prob.Len()))), 2)
		s.begin(m)
		w, d, rows := &s.walk, &s.decrease, s.draws("vr.row")
		for k := range m {
			d.lo, d.hi = math.Inf(1), math.Inf(-1)
			u := make([]float64, len(w.x))
			i, weight := w.sample.next(rows)
			c := weight * (s.prob.Loss.deriv(s.prob.dot(w.x, i), s.prob.b[i]) - w.known[i])
			s.prob.axpy(c, i, u)
			s.inner(k)
			theta := 1.0
			if d.lo == d.hi {
				theta = d.lo
			}
			f(k, w.x, w.hat, u, theta)
		}
		s.end()
		s.epoch++
		s.valid = nothing
	}
}

func times(c float64, x []float64) []float64 {
	out := make([]float64, len(x))
	for j, v := range x {
		out[j] = c * v
	}
	return out
}

// Property 1: F(θx) ≤ F(x) − ζ (1−θ)² ‖p‖²/2 in every step, and θ is the
// minimum along the ray, for each problem with its exact rules.
func TestProperty1(t *testing.T) {
	base := generate(60, 12, 1, 1)
	steps, away := 0, 0
	for _, c := range []struct {
		kind               Kind
		ridge, lasso, bias float64
		rules              []Rule
	}{
		{Squared, .01, 0, 0, []Rule{byGram, byPass, AtStart}},
		{Squared, 0, .01, 0, []Rule{byGram, byPass, AtStart}},
		{Squared, .01, .01, 1, []Rule{byGram, byPass, AtStart}},
		{Hinge, .01, .002, 1, []Rule{byPass, AtStart}},
		{Logistic, .001, .002, 0, []Rule{byPass, AtStart}},
	} {
		p := base.with(c.kind, c.ridge, c.lasso, c.bias)
		for _, rule := range c.rules {
			for _, m := range []*Method{SVRGSD, SAGASD} {
				for seed := range uint64(3) {
					par := Params{Method: m, Theta: rule, Decrease: 1, Seed: seed}
					if m == SAGASD {
						par.Rate = .25
					}
					s := solver(p, par)
					before := make([]float64, p.Dim())
					last := -1
					observe(s, 4, func(k int, x, xh, u []float64, theta float64) {
						switch {
						case k > 0:
						case s.convex():
							copy(before, s.y)
						default:
							copy(before, s.snap)
						}
						last = k
						if rule != AtStart || k == 0 {
							steps++
							pp := 0.0
							for j, v := range u {
								if m == SVRGSD {
									v += p.Ridge * (before[j] - s.snap[j])
								}
								pp += v * v
							}
							pen := func(th float64) float64 { return s.decrease.zeta * (1 - th) * (1 - th) * pp / 2 }
							fx, ft := objective(p, before), objective(p, times(theta, before))
							tol := 1e-13 * (1 + fx)
							if ft+pen(theta) > fx+tol {
								t.Fatalf("%s, %+v, rule %d, seed %d, step %d: θ = %g takes F from %g to %g", m, c, rule, seed, k, theta, fx, ft)
							}
							if math.Abs(theta-1) > 1e-3 {
								away++
							}
							// For the squared loss θ is the minimum.
							for _, th := range []float64{0, theta - 1e-3, theta + 1e-3, .5 * theta, -theta} {
								if f := objective(p, times(th, before)) + pen(th); c.kind == Squared && f < ft+pen(theta)-tol {
									t.Fatalf("%s, %+v, rule %d, step %d: θ = %g has %g, but %g has %g", m, c, rule, k, theta, ft+pen(theta), th, f)
								}
							}
							if !slices.Equal(xh, times(theta, before)) {
								t.Fatal("x^ is not θ x")
							}
						}
						copy(before, x)
					})
					if last < 0 {
						t.Fatal("nothing was observed")
					}
				}
			}
		}
	}
	if steps < 4000 || away < steps/50 {
		t.Errorf("%d steps, %d of them with θ away from 1: too few to tell", steps, away)
	}
}

// The line search for θ comes close to the minimum that golden sections find.
func TestThetaSearch(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for _, kind := range []Kind{Squared, Hinge, Logistic} {
		p := generate(60, 5, 1, 2).with(kind, .01, .01, 0)
		for range 50 {
			x := make([]float64, p.Dim())
			for j := range x {
				x[j] = 3 * r.NormFloat64()
			}
			ray := ray{p: p, z: make([]float64, p.Len()), zeta: .1, pp: r.Float64()}
			p.Margins(ray.z, x)
			ray.two, ray.one = p.norms(x)
			lo, hi := -2.0, 4.0
			for range 200 {
				a, b := lo+.382*(hi-lo), hi-.382*(hi-lo)
				fa, _, _ := ray.at(a)
				fb, _, _ := ray.at(b)
				if fa < fb {
					hi = b
				} else {
					lo = a
				}
			}
			want, _, _ := ray.at(lo)
			one, _, _ := ray.at(1)
			got, _, _ := ray.at(ray.search())
			if got > one || got-want > .02*(one-want)+1e-6 {
				t.Errorf("loss %d: search ends at %g, the minimum is %g, F(x) %g", kind, got, want, one)
			}
			if kind == Squared {
				var q, h float64
				for i, z := range ray.z {
					q += z * z / float64(p.Len())
					h += z * p.b[i] / float64(p.Len())
				}
				if exact, _, _ := ray.at(ray.quadratic(q, h)); exact > want+1e-12 {
					t.Errorf("closed form %g, minimum %g", exact, want)
				}
			}
		}
	}
}

// θ is 1 where the ray says nothing.
func TestThetaDegenerate(t *testing.T) {
	p := generate(10, 3, 1, 1).with(Squared, 0, .1, 0)
	for _, r := range []ray{{p: p}, {p: p, zeta: math.Inf(1), pp: 1}, {p: p, zeta: math.NaN(), pp: 1}} {
		if th := r.quadratic(0, 0); th != 1 {
			t.Errorf("θ = %g", th)
		}
	}
}

// T3: with z_k = (x_k − (1−σ) x^_k)/σ, y_k = σ z_k + (1−σ) x^_{k−1}; an
// epoch of a convex problem starts at the z at which the one before ended.
func TestZForm(t *testing.T) {
	p := generate(100, 8, 1, 3).with(Squared, 0, .01, 0)
	s := solver(p, Params{Decrease: .1, Theta: byGram, Seed: 2})
	var x, xh, z []float64
	for epoch := range 5 {
		if epoch > 0 && largest(z, s.y) > 1e-15 {
			t.Fatalf("y~ is not the last z: %g apart", largest(z, s.y))
		}
		observe(s, 1, func(k int, xn, xhn, u []float64, theta float64) {
			sigma := s.par.Sigma
			if k == 0 {
				x, xh = slices.Clone(s.y), slices.Clone(s.y)
				z0 := make([]float64, len(x))
				for j := range z0 {
					z0[j] = (x[j] - (1-sigma)*xh[j]) / sigma
				}
				if largest(z0, s.y) > 1e-14 {
					t.Fatalf("z_0 is not y~")
				}
			}
			z = make([]float64, len(xn))
			for j := range z {
				y := soft(x[j]-s.eta*(u[j]+s.grad[j]+p.Ridge*x[j]), s.eta*p.Lasso)
				z[j] = (xn[j] - (1-sigma)*xhn[j]) / sigma
				if e := y - (sigma*z[j] + (1-sigma)*xh[j]); math.Abs(e) > 1e-13 {
					t.Fatalf("step %d: y differs from σz + (1−σ)x^ by %g", k, e)
				}
				// T4: (x−y)/η − (p+μ~) is in the subdifferential of λ2|.|.
				sub := (x[j]-y)/s.eta - (u[j] + s.grad[j] + p.Ridge*x[j])
				if y != 0 && math.Abs(sub-math.Copysign(p.Lasso, y)) > 1e-12 || math.Abs(sub) > p.Lasso+1e-12 {
					t.Fatalf("step %d: y = %g with %g for a subgradient of %g|.|", k, y, sub, p.Lasso)
				}
			}
			x, xh = slices.Clone(xn), slices.Clone(xhn)
		})
	}
}

// proxSVRG is an epoch of Prox-SVRG as its paper has it, and nothing else. It
// returns x_0 … x_m.
func proxSVRG(p *Problem, snap []float64, eta float64, m int, r *rng.Source) [][]float64 {
	mu, x := p.Gradient(snap), slices.Clone(snap)
	iterates := [][]float64{snap}
	for range m {
		i := r.IntN(p.Len())
		c := p.Loss.deriv(p.dot(x, i), p.b[i]) - p.Loss.deriv(p.dot(snap, i), p.b[i])
		a := make([]float64, p.Dim())
		p.axpy(1, i, a)
		for j := range x {
			g := c*a[j] + mu[j] + p.Ridge*x[j]
			x[j] = soft(x[j]-eta*g, eta*p.Lasso)
		}
		iterates = append(iterates, slices.Clone(x))
	}
	return iterates
}

func mean(xs [][]float64) []float64 {
	out := make([]float64, len(xs[0]))
	for _, x := range xs {
		for j, v := range x {
			out[j] += v
		}
	}
	for j := range out {
		out[j] /= float64(len(xs))
	}
	return out
}

// T5: with σ = 1 SVRG-SD takes the steps of Prox-SVRG, bit for bit, with and without
// decrease steps, and ends an epoch at the mean of the points before each step.
func TestReductions(t *testing.T) {
	for _, w := range []struct{ ridge, lasso float64 }{{.01, 0}, {.01, .01}} {
		p := generate(90, 9, 1, 5).with(Squared, w.ridge, w.lasso, 0)
		par := Params{Method: SVRGSD, Sigma: 1, Rate: .3, Seed: 77}
		sd := solver(p, par)
		par.Decrease, par.Theta = .2, byPass
		scaled := solver(p, par)
		for epoch := range 4 {
			want := proxSVRG(p, slices.Clone(sd.X()), .3/lipschitz(p), 2*p.Len(), sd.draws("vr.row"))
			k := 0
			same := func(_ int, x, _, _ []float64, _ float64) {
				if k++; !slices.Equal(x, want[k]) {
					t.Fatalf("%+v: step %d of epoch %d differs", w, k, epoch)
				}
			}
			if epoch == 0 { // later ones begin where θ took the mean
				observe(scaled, 1, same)
				k = 0
			}
			observe(sd, 1, same)
			if m := len(want) - 1; k != m || !slices.Equal(sd.X(), mean(want[:m])) {
				t.Fatalf("%+v: %d steps, snapshots %g apart", w, k, largest(sd.X(), mean(want[:m])))
			}
		}
	}
}

// At the optimum all stands still.
func TestFixedPoint(t *testing.T) {
	p := generate(100, 6, 1, 8).with(Squared, .05, 0, 0)
	opt := ridgeOptimum(t, p)
	for _, m := range methods {
		s := solver(p, Params{Method: m, Decrease: .05, Theta: byGram, Seed: 1})
		copy(s.snap, opt)
		s.Restart()
		if m.table {
			s.table = s.table[:0]
			s.Changed()
		}
		run(t, s, 3)
		if e := largest(s.X(), opt); e > 1e-14 {
			t.Errorf("%s moved by %g from the optimum", m, e)
		}
	}
}

// E1: the penalty is finite and not negative at any step size.
func TestPenaltyIsClamped(t *testing.T) {
	p := generate(50, 4, 1, 1).with(Squared, .01, 0, 0)
	l := lipschitz(p)
	for _, rate := range []float64{.1, .5, .95, 1, 1.01, 10} {
		s := solver(p, Params{Rate: rate, Seed: 1})
		if err := s.Epoch(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := .1 * rate / l / max(1-rate, .1)
		if math.Abs(s.decrease.zeta-want) > 1e-12*want {
			t.Errorf("rate %g: ζ = %g, want %g", rate, s.decrease.zeta, want)
		}
	}
}

// The generators of rows and of decrease steps are apart, a fraction of 1/m
// still makes one decrease step, and every position is as likely.
func TestPlaces(t *testing.T) {
	p := generate(50, 4, 1, 1)
	s := solver(p, Params{Decrease: .1, Theta: byPass, Seed: 3})
	hits := make([]int, 100)
	for s.epoch = range 5000 {
		at := s.places(100)
		if len(at) != 10 || !slices.IsSorted(at) || len(slices.Compact(slices.Clone(at))) != 10 {
			t.Fatalf("epoch %d: %v", s.epoch, at)
		}
		for _, k := range at {
			hits[k]++
		}
	}
	for k, n := range hits {
		if n < 380 || n > 620 { // 500 ± 5.6 standard deviations
			t.Errorf("position %d was chosen %d times of 500 expected", k, n)
		}
	}
	s.par.Decrease = 1e-9
	if n := len(s.places(100)); n != 1 {
		t.Errorf("%d steps", n)
	}
	s.par.Decrease = 1
	if n := len(s.places(100)); n != 100 {
		t.Errorf("%d of 100 steps", n)
	}
}
