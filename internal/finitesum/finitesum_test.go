package finitesum

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/streamsvm/streamsvm/stream"
)

// generate returns n rows of d features and unit length, ill-conditioned if
// dense, with the given share of features in sparse ones.
func generate(n, d int, density float64, seed uint64) *Problem {
	r := rand.New(rand.NewPCG(seed, 0x7672))
	p := &Problem{Loss: Loss{Width: 1}}
	w := make([]float64, d)
	for j := range w {
		if r.IntN(3) > 0 {
			w[j] = r.NormFloat64()
		}
	}
	for range n {
		var x stream.Vec
		norm, z := 0.0, 0.0
		if density < 1 {
			x.Idx = []int32{}
		}
		for j := range d {
			if density < 1 && r.Float64() >= density {
				continue
			}
			v := r.NormFloat64()
			if density == 1 {
				v *= math.Pow(.8, float64(j%20))
			}
			if density < 1 {
				x.Idx = append(x.Idx, int32(j))
			}
			x.Val = append(x.Val, float32(v))
			norm += v * v
		}
		for k := range x.Val {
			x.Val[k] /= float32(math.Sqrt(norm))
			j := k
			if x.Idx != nil {
				j = int(x.Idx[k])
			}
			z += float64(x.Val[k]) * w[j]
		}
		b := 1.0
		if z+.3*r.NormFloat64() < 0 {
			b = -1
		}
		p.Append(x, b)
	}
	p.Widen(d)
	return p
}

// with returns p with other weights; the rows are shared.
func (p *Problem) with(kind Kind, ridge, lasso, bias float64) *Problem {
	q := &Problem{Loss: Loss{Kind: kind, Width: .5}, Ridge: ridge, Lasso: lasso, Bias: bias}
	for i, x := range p.rows {
		q.Append(x, p.b[i])
	}
	q.Widen(p.Dim() + q.first() - p.first())
	return q
}

// byGram asks solver for a Gram matrix.
const byGram Rule = 99

// solver returns a solver with the usual settings where par has none.
func solver(p *Problem, par Params) *Solver {
	if par.Method == nil {
		par.Method = SVRGSD
	}
	if par.Sigma == 0 {
		par.Sigma = .5
	}
	if par.Delta == 0 {
		par.Delta = .1
	}
	gram := par.Theta == byGram
	if gram {
		par.Theta = AtStart
	}
	s := NewSolver(p, par)
	if gram && p.Loss.Kind == Squared {
		g := new(Gram)
		g.Rebuild(p)
		s.UseGram(g)
	}
	return s
}

// lipschitz returns a bound on the curvature of every summand.
func lipschitz(p *Problem) float64 { return p.Loss.Curvature()*slices.Max(p.norm2) + p.Ridge }

func run(t *testing.T, s *Solver, epochs int) {
	t.Helper()
	for range epochs {
		if err := s.Epoch(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// ridgeOptimum solves the normal equations with gonum.
func ridgeOptimum(t *testing.T, p *Problem) []float64 {
	t.Helper()
	n, d := p.Len(), p.Dim()
	a, row := mat.NewDense(n, d, nil), make([]float64, d)
	for i := range n {
		clear(row)
		p.axpy(1, i, row)
		a.SetRow(i, row)
	}
	var g mat.Dense
	g.Mul(a.T(), a)
	g.Scale(1/float64(n), &g)
	for j := range d {
		g.Set(j, j, g.At(j, j)+p.Ridge)
	}
	var h, x mat.VecDense
	h.MulVec(a.T(), mat.NewVecDense(n, p.b))
	h.ScaleVec(1/float64(n), &h)
	if err := x.SolveVec(&g, &h); err != nil {
		t.Fatal(err)
	}
	return x.RawVector().Data
}

func largest(a, b []float64) float64 {
	m := 0.0
	for j := range a {
		m = max(m, math.Abs(a[j]-b[j]))
	}
	return m
}

var methods = []*Method{SVRGSD, SAGASD}

// Every method finds the minimum of the ridge problem that the normal
// equations give, on dense and on sparse rows, with and without a bias.
func TestRidgeOptimum(t *testing.T) {
	for _, density := range []float64{1, .05} {
		base := generate(250, 60, density, 1)
		for _, bias := range []float64{0, .5} {
			p := base.with(Squared, .02, 0, bias)
			want := ridgeOptimum(t, p)
			var g Gram
			g.Rebuild(p)
			direct, err := g.Ridge(p.Ridge)
			if err != nil {
				t.Fatal(err)
			}
			if e := largest(direct, want); e > 1e-12 {
				t.Errorf("density %g, bias %g: the direct solution is off by %g", density, bias, e)
			}
			best := p.Objective(want)
			for k, rule := range []Rule{byGram, AtStart, byPass} {
				m := methods[k%2]
				s := solver(p, Params{Method: m, Decrease: .01, Theta: rule, Seed: 3})
				run(t, s, 150)
				if e := largest(s.X(), want); e > 1e-10 {
					t.Errorf("%s, density %g, bias %g: off by %g", m, density, bias, e)
				}
				if norm, gap := s.Gap(); norm > 1e-10 || gap < s.Value()-best-1e-15 {
					t.Errorf("%s: norm %g, bound %g, gap %g", m, norm, gap, s.Value()-best)
				}
			}
		}
	}
}

// In the first epochs the bound must bind, too, and not be absurd.
func TestBoundIsAbove(t *testing.T) {
	p := generate(300, 20, 1, 2).with(Squared, .01, .002, 1)
	for _, m := range methods {
		far := solver(p, Params{Method: m, Seed: 9})
		run(t, far, 200)
		best := far.Value()
		s := solver(p, Params{Method: m, Seed: 5})
		for k := range 12 {
			_, bound := s.Gap()
			if gap := s.Value() - best; !(bound >= gap-1e-13) {
				t.Errorf("%s: bound %g below the gap %g after %d epochs", m, bound, gap, k)
			}
			run(t, s, 1)
		}
	}
}

// kkt checks the optimality conditions coordinate by coordinate, computed from
// the definition.
func kkt(t *testing.T, name string, p *Problem, x []float64, tol float64) {
	t.Helper()
	g := make([]float64, p.Dim())
	for i := range p.Len() {
		row := make([]float64, p.Dim())
		p.axpy(1, i, row)
		z := 0.0
		for j, a := range row {
			z += a * x[j]
		}
		const h = 1e-5 // for the losses: derivatives are checked by themselves
		d := p.Loss.deriv(z, p.b[i])
		if slope := (p.Loss.value(z+h, p.b[i]) - p.Loss.value(z-h, p.b[i])) / (2 * h); math.Abs(slope-d) > 1e-4 {
			t.Fatalf("derivative %g, differences %g", d, slope)
		}
		for j, a := range row {
			g[j] += a * d / float64(p.Len())
		}
	}
	zeros := 0
	for j, v := range x {
		e := g[j] + p.Ridge*v
		lasso := p.Lasso
		if p.Bias != 0 && j == 0 {
			lasso = 0
		}
		switch {
		case v > 0:
			e += lasso
		case v < 0:
			e -= lasso
		default:
			zeros++
			e = max(math.Abs(e)-lasso, 0)
		}
		if math.Abs(e) > tol {
			t.Errorf("%s: coordinate %d = %g has residual %g", name, j, v, e)
		}
	}
	if p.Lasso > 0 && (zeros == 0 || zeros == len(x)) {
		t.Errorf("%s: %d of %d coordinates are 0: the problem does not test the prox", name, zeros, len(x))
	}
}

func TestLassoAndElasticNet(t *testing.T) {
	for _, density := range []float64{1, .08} {
		base := generate(120, 40, density, 4)
		for _, w := range []struct{ ridge, lasso, bias float64 }{{0, .01, 0}, {0, .01, 1}, {.01, .01, 0}, {.01, .005, 1}} {
			p := base.with(Squared, w.ridge, w.lasso, w.bias)
			for _, par := range []Params{
				{Method: SVRGSD, Decrease: .001, Theta: byGram}, {Method: SVRGSD, Decrease: .05, Theta: AtStart}, {Method: SVRGSD},
				{Method: SAGASD, Decrease: .01, Theta: byPass},
			} {
				par.Seed = 8
				s := solver(p, par)
				run(t, s, 250)
				kkt(t, fmt.Sprintf("%s %+v density %g rule %d", par.Method, w, density, par.Theta), p, s.Output(), 1e-10)
			}
		}
	}
}

func TestMarginLosses(t *testing.T) {
	base := generate(100, 12, 1, 6)
	for _, kind := range []Kind{Hinge, Logistic} {
		for _, lasso := range []float64{0, .01} {
			p := base.with(kind, .02, lasso, 1)
			for _, m := range methods {
				s := solver(p, Params{Method: m, Decrease: .02, Theta: byPass, Seed: 2})
				run(t, s, 150)
				kkt(t, fmt.Sprint(m, kind, lasso), p, s.Output(), 1e-10)
			}
		}
	}
}

// Lazy updates are the dense ones but for rounding.
func TestLazyIsDense(t *testing.T) {
	base := generate(260, 120, .03, 7)
	// Features that are rare, or never occur, and rows without any.
	for i := range 30 {
		base.Set(i, stream.Vec{Idx: []int32{}, Val: []float32{}}, base.b[i])
	}
	base.Set(40, stream.Vec{Idx: []int32{7, 150}, Val: []float32{.5, -.5}}, 1)
	base.Set(41, stream.Vec{Val: []float32{.25, 0, .5}}, -1)
	for _, w := range []struct{ ridge, lasso, bias float64 }{{.01, 0, 0}, {1e-4, 0, 1}, {0, .004, 1}, {.003, .002, 0}, {.5, .001, 1}} {
		p, spelt := base.with(Squared, w.ridge, w.lasso, w.bias), base.with(Squared, w.ridge, w.lasso, w.bias)
		spelt.nnz = math.MaxInt / 8 // taken for dense
		for _, m := range methods {
			for _, decrease := range []float64{0, .01} {
				for _, inner := range []float64{0, 9} { // longer than a leap
					own := *m
					own.inner = cmp.Or(inner, m.inner)
					par := Params{Method: &own, Decrease: decrease, Theta: byPass, Seed: 11}
					lazy, dense := solver(p, par), solver(spelt, par)
					if !p.sparse() || spelt.sparse() {
						t.Fatal("the test does not compare what it should")
					}
					for e := range 6 {
						run(t, lazy, 1)
						run(t, dense, 1)
						for _, c := range [][2][]float64{{lazy.snap, dense.snap}, {lazy.y, dense.y}, {lazy.mean, dense.mean}} {
							if d := largest(c[0], c[1]); !(d < 1e-10) {
								t.Fatalf("%s %+v decrease %g epoch %d: %g apart", m, w, decrease, e, d)
							}
						}
					}
				}
			}
		}
	}
}

// log1p agrees with the standard library's.
func TestLog1p(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 200000 {
		u := r.Float64() * math.Pow(2, -float64(r.IntN(60)))
		if want := math.Log1p(u); math.Abs(log1p(u)-want) > 5e-16*want {
			t.Fatalf("log1p(%g) = %g, want %g", u, log1p(u), want)
		}
	}
	if log1p(0) != 0 || math.Abs(log1p(1)-math.Ln2) > 1e-16 {
		t.Error("exact values")
	}
}

func TestLossDerivatives(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for _, l := range []Loss{{Squared, 1}, {Hinge, 1}, {Hinge, .1}, {Logistic, 1}} {
		for range 3000 {
			z, b := 4*r.NormFloat64(), float64(2*r.IntN(2)-1)
			const h = 1e-4
			if m := z * b; l.Kind == Hinge && (math.Abs(m-1) < h || math.Abs(m-1+l.Width) < h) {
				continue
			}
			up, mid, down := l.value(z+h, b), l.value(z, b), l.value(z-h, b)
			if d := (up - down) / (2 * h); math.Abs(d-l.deriv(z, b)) > 1e-7 {
				t.Fatalf("%+v at %g, %g: derivative %g, differences %g", l, z, b, l.deriv(z, b), d)
			}
			if d := (up - 2*mid + down) / (h * h); math.Abs(d-l.second(z, b)) > 1e-5 {
				t.Fatalf("%+v at %g, %g: second derivative %g, differences %g", l, z, b, l.second(z, b), d)
			}
			if l.second(z, b) > l.Curvature() || mid < 0 {
				t.Fatalf("%+v: bound on the curvature", l)
			}
		}
		for _, z := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			if v := l.value(z, 1) + l.deriv(z, 1); z != z && v == v {
				t.Errorf("%+v hides a NaN", l)
			}
		}
	}
}

// A cancelled epoch leaves the solver as it was.
func TestCancel(t *testing.T) {
	p := generate(3000, 10, 1, 1).with(Squared, 1e-3, 1e-4, 0)
	for _, m := range methods {
		a, b := solver(p, Params{Method: m, Seed: 1, Decrease: .001, Theta: byGram}), solver(p, Params{Method: m, Seed: 1, Decrease: .001, Theta: byGram})
		for range 4 {
			for asks := 1; ; asks++ {
				ctx := &countdown{t.Context(), asks}
				if err := a.Epoch(ctx); err == nil {
					break
				}
			}
			run(t, b, 1)
			if !slices.Equal(a.X(), b.X()) || !slices.Equal(a.table, b.table) || !slices.Equal(a.y, b.y) || a.epoch != b.epoch {
				t.Fatalf("%s: a cancelled epoch left something behind", m)
			}
		}
	}
}

type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// With a step that is far too long the guard goes back and halves it until
// the method converges.
func TestGuard(t *testing.T) {
	p := generate(400, 10, 1, 3).with(Squared, 1e-2, 0, 0)
	best := p.Objective(ridgeOptimum(t, p))
	for _, m := range methods {
		s := solver(p, Params{Method: m, Rate: 64, Seed: 4})
		for range 400 {
			before, value := slices.Clone(s.X()), s.Value()
			run(t, s, 1)
			s.Guard(before, value)
			if v := s.Value(); !(v <= 10*max(value, p.AtZero())) {
				t.Fatalf("%s: F = %g got past the guard", m, v)
			}
		}
		if s.Halvings() == 0 || s.Halvings() > 12 || s.Value()-best > 1e-9 {
			t.Errorf("%s: %d halvings, gap %g", m, s.Halvings(), s.Value()-best)
		}
	}
}
