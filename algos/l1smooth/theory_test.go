package l1smooth

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"

	"github.com/streamsvm/streamsvm/internal/linear"
)

// TestSmooth is T1, and compares with arithmetic of 400 bits.
func TestSmooth(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	big400 := func(x float64) *big.Float { return new(big.Float).SetPrec(400).SetFloat64(x) }
	new400 := func() *big.Float { return new(big.Float).SetPrec(400) }
	for range 3000 {
		alpha := math.Pow(10, -10*r.Float64()+2)
		u := r.NormFloat64() * math.Pow(10, 8*r.Float64()-6)
		p := phi(u, math.Sqrt(u*u+alpha*alpha), alpha*alpha)
		d1, d2 := smoothSlopes(u, alpha*alpha)
		U, A2 := big400(u), big400(alpha*alpha)
		root := new400().Sqrt(new400().Add(new400().Mul(U, U), A2))
		half := new400().Quo(new400().Add(U, root), big400(2))
		want, _ := half.Float64()
		want1, _ := new400().Quo(half, root).Float64()
		cube := new400().Mul(root, new400().Mul(root, root))
		want2, _ := new400().Quo(A2, new400().Mul(big400(2), cube)).Float64()
		for k, c := range [][2]float64{{p, want}, {d1, want1}, {d2, want2}} {
			if math.Abs(c[0]-c[1]) > 1e-14*c[1] {
				t.Fatalf("u = %g, alpha = %g: derivative %d is %g, want %g", u, alpha, k, c[0], c[1])
			}
		}
		excess := p - max(u, 0)
		if want := alpha * alpha / (2 * (math.Hypot(u, alpha) + math.Abs(u))); math.Abs(excess-want) > 1e-15*math.Abs(u)+1e-14*want || excess < 0 || excess > alpha/2 {
			t.Fatalf("u = %g, alpha = %g: %g above the hinge, want %g", u, alpha, excess, want)
		}
		delta := r.NormFloat64() * math.Pow(10, 6*r.Float64()-7)
		v := new400().Add(U, big400(delta))
		v.SetPrec(53) // as the code rounds it
		v.SetPrec(400)
		root2 := new400().Sqrt(new400().Add(new400().Mul(v, v), A2))
		change := new400().Sub(new400().Quo(new400().Add(v, root2), big400(2)), half)
		want, _ = change.Float64()
		if got := rise(u, delta, alpha*alpha); math.Abs(got-want) > 1e-12*math.Abs(want)+2.3e-16*math.Abs(u) {
			t.Fatalf("u = %g, delta = %g, alpha = %g: rise %g, want %g", u, delta, alpha, got, want)
		}
	}
	if d1, d2 := smoothSlopes(0, 4); d1 != 0.5 || d2 != 0.25 {
		t.Errorf("at 0: %g %g", d1, d2)
	}
	// ∫ φ'' = 1.
	sum, h := 0.0, 1e-3
	for u := -200.0; u < 200; u += h {
		_, d2 := smoothSlopes(u+h/2, 1)
		sum += h * d2
	}
	if math.Abs(sum-1) > 2e-5 {
		t.Errorf("the second derivative integrates to %g", sum)
	}
}

// forms runs f on the problem in dense form, sparse form and with features
// that are all 1.
func forms(t *testing.T, f func(t *testing.T, l *Learner, p *problem)) {
	for name, zeros := range map[string]float64{"dense": 0.1, "sparse": 0.8, "unit": 0.7} {
		t.Run(name, func(t *testing.T) {
			xs := random(rand.New(rand.NewPCG(5, 2)), 700, 12, 0.3, zeros)
			if name == "unit" {
				for _, x := range xs {
					for j, v := range x.X.Val {
						if v != 0 {
							x.X.Val[j] = 1
						}
					}
				}
			}
			l, p := ready(t, xs, map[string]string{"lambda": "0.01", "mu": "0.005", "alpha0": "0.1"})
			if b := l.s.blocks[0]; (b.width > 0) != (name == "dense") || (b.val == nil) != (name == "unit") {
				t.Fatalf("the block is %d wide with %d values", b.width, len(b.val))
			}
			f(t, l, p)
		})
	}
}

// TestDerivatives is T2.
func TestDerivatives(t *testing.T) {
	forms(t, func(t *testing.T, l *Learner, p *problem) {
		r := rand.New(rand.NewPCG(6, 1))
		s, m := &l.s, l.s.size()
		const alpha = 0.1
		w := make([]float64, m)
		for j := range w {
			w[j] = r.NormFloat64()
		}
		var pt point
		s.evaluate(&pt, w, alpha, false)
		want := p.gradient(w, alpha)
		for j := range w {
			if got := pt.grad[j] + p.lambda*w[j]; math.Abs(got-want[j]) > 1e-12 {
				t.Fatalf("gradient %d is %g, want %g", j, got, want[j])
			}
			const h = 1e-5
			up, down := append([]float64(nil), w...), append([]float64(nil), w...)
			up[j] += h
			down[j] -= h
			plain := *p
			plain.mu = 0
			if fd := (plain.value(up, alpha) - plain.value(down, alpha)) / (2 * h); math.Abs(fd-want[j]) > 1e-6*(1+math.Abs(fd)) {
				t.Fatalf("gradient %d is %g, by differences %g", j, want[j], fd)
			}
		}
		// All coordinates but one.
		var set []int32
		for j := range m {
			if j != 3 {
				set = append(set, int32(j))
			}
		}
		H := make(linear.Lower, linear.Triangle(len(set)))
		s.hessian(H, set, pt.h, 0)
		at := func(a, b int) float64 { return H.Row(max(a, b))[min(a, b)] }
		for b, j := range set {
			const h = 1e-5
			up, down := append([]float64(nil), w...), append([]float64(nil), w...)
			up[j] += h
			down[j] -= h
			gu, gd := p.gradient(up, alpha), p.gradient(down, alpha)
			for a, i := range set {
				got := at(a, b)
				if i == j {
					got += p.lambda
				}
				if fd := (gu[i] - gd[i]) / (2 * h); math.Abs(got-fd) > 1e-6*(1+math.Abs(fd)) {
					t.Fatalf("H[%d][%d] = %g, by differences %g", i, j, got, fd)
				}
			}
		}
		// 0 ≤ v'(H−λI)v ≤ |Xv|²/(2Nα), and the product without forming H.
		for range 20 {
			v, out := make([]float64, m), make([]float64, m)
			for _, j := range set {
				v[j] = r.NormFloat64()
			}
			s.times(out, v, pt.h, 0)
			var quad, most float64
			for a, i := range set {
				sum := 0.0
				for b, j := range set {
					sum += at(a, b) * v[j]
				}
				if math.Abs(sum-out[i]) > 1e-12*(1+math.Abs(sum)) {
					t.Fatalf("(Hv)[%d] = %g, times says %g", i, sum, out[i])
				}
				quad += v[i] * sum
			}
			for _, z := range p.z {
				e := plainDot(z, v)
				most += e * e / (2 * float64(len(p.z)) * alpha)
			}
			if quad < 0 || quad > most*(1+1e-12) {
				t.Fatalf("v'Hv = %g is not in [0, %g]", quad, most)
			}
		}
		diag := make([]float64, m)
		s.diagonal(diag, pt.h, 0)
		for a, j := range set {
			if math.Abs(diag[j]-at(a, a)) > 1e-13 {
				t.Fatalf("diagonal %d is %g, want %g", j, diag[j], at(a, a))
			}
		}
	})
}

// TestZero is T6: w = 0 is the solution just when μ ≥ ‖1/N Σ z_i‖_∞.
func TestZero(t *testing.T) {
	xs := random(rand.New(rand.NewPCG(7, 1)), 300, 8, 0, 0)
	_, p := ready(t, xs, nil)
	most := 0.0
	for j := range p.z[0] {
		sum := 0.0
		for _, z := range p.z {
			sum += z[j]
		}
		most = max(most, math.Abs(sum)/float64(len(p.z)))
	}
	for _, factor := range []float64{0.99, 1.01} {
		l, _ := ready(t, xs, map[string]string{
			"lambda": "0", "mu": strconv.FormatFloat(factor*most, 'g', -1, 64), "alpha_min": "1e-7",
		})
		for l.solving {
			l.iterate()
			if factor > 1 && l.s.support() > 0 {
				t.Fatalf("mu = %g of the bound: w is not 0", factor)
			}
		}
		if factor < 1 && l.s.support() == 0 {
			t.Errorf("mu = %g of the bound: w is 0", factor)
		}
	}
}

// TestOpening is T7: for large α one step lands on the solution for φ' = 1/2.
func TestOpening(t *testing.T) {
	for _, mu := range []float64{0, 0.05} {
		last := math.Inf(1)
		for _, alpha := range []float64{1e2, 1e3, 1e4} {
			l, p := ready(t, random(rand.New(rand.NewPCG(8, 1)), 500, 6, 0, 0), map[string]string{
				"lambda": "0.01", "mu": fmt.Sprint(mu), "alpha0": fmt.Sprint(alpha), "eta": "1e-6", "search": "halve",
			})
			if mu == 0 { // from any w
				for j := range l.s.w {
					l.s.w[j] = float64(j) - 2
				}
			}
			if !l.s.newton() {
				t.Fatal("no step")
			}
			worst := 0.0
			for j, w := range l.s.w {
				want := 0.0
				for _, z := range p.z {
					want += z[j] / (2 * float64(len(p.z)))
				}
				want = math.Copysign(max(math.Abs(want)-mu, 0), want) / p.lambda
				worst = max(worst, math.Abs(w-want))
			}
			if worst > 0.2*last || worst > 4000/alpha {
				t.Errorf("mu = %g, alpha = %g: error %g after %g", mu, alpha, worst, last)
			}
			last = worst
		}
	}
}

// TestKKT is T8 and E8: with final every weight obeys the conditions of
// TestLimited: a solution that was stopped by the number of iterations, and no
// other, counts as one that was.
func TestLimited(t *testing.T) {
	stopped := 0
	xs := random(rand.New(rand.NewPCG(3, 9)), 200, 20, 0.3, 0)
	for limit := 1; ; limit++ {
		l, _ := ready(t, xs, map[string]string{"lambda": "1e-3", "mu": "0.01", "iterations": strconv.Itoa(limit)})
		n := 0
		for ; l.solving; n++ {
			l.iterate()
		}
		if l.settled == (l.limited == 1) || n > limit {
			t.Fatalf("%d of %d iterations: settled %v, %d limited", n, limit, l.settled, l.limited)
		}
		if l.settled {
			break
		}
		stopped++
	}
	if stopped < 5 {
		t.Errorf("solved in %d iterations", stopped+1)
	}
}

// optimality; as printed, activating once a level, some do not.
func TestKKT(t *testing.T) {
	violations := map[string]int{}
	for _, kkt := range []string{"final", "faithful"} {
		for seed := range uint64(12) {
			l, p := ready(t, random(rand.New(rand.NewPCG(seed, 9)), 200, 60, 0.5, 0), map[string]string{
				"lambda": "1e-4", "mu": "0.02", "alpha_min": "1e-2", "eta": "1e-9", "kkt": kkt, "search": "halve",
			})
			for l.solving {
				l.iterate()
			}
			if l.limited > 0 {
				t.Fatalf("seed %d: not solved", seed)
			}
			g := p.gradient(l.s.w, l.s.alphas[l.s.k-1])
			for j, w := range l.s.w {
				if w != 0 && math.Abs(g[j]+math.Copysign(p.mu, w)) > 1e-4 {
					t.Errorf("%s, seed %d: weight %d is %g, but its gradient is %g", kkt, seed, j, w, g[j])
				}
				if w == 0 && math.Abs(g[j]) > p.mu+1e-7 {
					violations[kkt]++
				}
			}
		}
	}
	if violations["final"] > 0 || violations["faithful"] == 0 {
		t.Errorf("weights at 0 that should not be: %v", violations)
	}
}

// TestOptimum compares with optima found outside, to 1e-8, and checks T9 and
// T10 on the way: the certificate is never wrong.
func TestOptimum(t *testing.T) {
	for i, o := range optima(t) {
		for _, options := range []map[string]string{
			{}, {"direct": "0"}, {"kkt": "faithful", "search": "halve"},
		} {
			for _, deep := range []bool{true, false} {
				options["lambda"] = strconv.FormatFloat(o.Lam, 'g', -1, 64)
				options["mu"] = strconv.FormatFloat(o.Mu, 'g', -1, 64)
				options["alpha_min"], options["beta"], options["eta"] = "1e-3", "0.1", "0.1"
				if deep {
					options["alpha_min"], options["beta"], options["eta"] = "1e-9", "0.5", "1e-6"
				}
				l, p := ready(t, o.examples(), options)
				if v := p.value(o.W, 0); math.Abs(v-o.Objective) > 1e-12 || o.Gap > 1e-11 {
					t.Fatalf("problem %d: the reference says %g, its weights %g", i, o.Objective, v)
				}
				for l.solving {
					l.iterate()
					if f := p.value(l.s.w, 0); math.Abs(f-l.s.objective) > 1e-12*(1+f) {
						t.Fatalf("problem %d: objective %g, reported %g", i, f, l.s.objective)
					}
					if l.s.objective-l.s.gap > o.Objective+1e-12 {
						t.Fatalf("problem %d: the certificate says f* ≥ %g, but it is %g", i, l.s.objective-l.s.gap, o.Objective)
					}
				}
				tolerance := 10 * l.s.alphas[l.s.levels-1]
				if deep {
					tolerance = 1e-8
					if math.IsNaN(l.s.gap) && o.Mu > 0 && l.s.failures == 0 {
						t.Errorf("problem %d: no certificate", i)
					}
				}
				f := p.value(l.s.w, 0)
				if f < o.Objective-1e-11 || f > o.Objective+tolerance {
					t.Errorf("problem %d, %v: f − f* = %g after %d steps", i, options, f-o.Objective, l.s.steps)
				}
			}
		}
	}
}

// TestProcessors is T14: the bits do not depend on the number of processors.
func TestProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for name, zeros := range map[string]float64{"dense": 0, "sparse": 0.8} {
		for _, direct := range []string{"1000", "0"} {
			var first []byte
			for _, processors := range []int{1, 2, 3, 8} {
				l, _ := ready(t, random(rand.New(rand.NewPCG(10, 1)), 6000, 40, 0.2, zeros), map[string]string{"direct": direct})
				if g := min(l.s.nnz/(4*l.s.size()), len(l.s.blocks)); g < 4 {
					t.Fatalf("%d groups", g)
				}
				runtime.GOMAXPROCS(processors)
				for l.solving {
					l.iterate()
				}
				got, err := l.AppendBinary(nil)
				if err != nil {
					t.Fatal(err)
				}
				if first == nil {
					first = got
				}
				if !bytes.Equal(first, got) {
					t.Errorf("%s, direct %s: another state with %d processors", name, direct, processors)
				}
			}
		}
	}
}

// TestCost is T13: the Hessian has the size of the active set.
func TestCost(t *testing.T) {
	l, p := ready(t, random(rand.New(rand.NewPCG(11, 1)), 400, 900, 0, 0.9), map[string]string{"lambda": "1e-3", "mu": "0.03"})
	for l.solving {
		l.iterate()
		if n := len(l.s.set); cap(l.s.H) > 100*101/2 {
			t.Fatalf("a Hessian of %d numbers for %d active weights of %d", cap(l.s.H), n, len(p.z[0]))
		}
	}
	if n := l.s.support(); n < 5 || n > 100 {
		t.Errorf("%d weights are not 0", n)
	}
}

// TestLadder is E12: levels are counted, and rounding makes no further one.
func TestLadder(t *testing.T) {
	for _, c := range []struct {
		min, beta float64
		n         int
	}{{1e-6, 0.1, 7}, {1e-5, 0.1, 6}, {1e-6, 0.5, 21}, {1, 0.1, 1}, {0.3, 0.1, 2}} {
		if l := ladder(1, c.min, c.beta); len(l) != c.n {
			t.Errorf("%d levels down to %g by %g, want %d", len(l), c.min, c.beta, c.n)
		}
	}
}

// TestTallCertificate: with a weak ridge, Newton steps go on from alpha_min until the
// gap is at most a thousandth; the paper, and a solve that is not the last, do not.
func TestTallCertificate(t *testing.T) {
	xs := random(rand.New(rand.NewPCG(12, 1)), 1500, 60, 0.5, 0)
	for _, o := range []map[string]string{{"c": "10", "l1": "0.1"}, {"c": "100", "l1": "1"}, {"lambda": "1e-8", "mu": "0.005"}, {"c": "100", "l1": "1", "kkt": "faithful"}} {
		l, p := ready(t, xs, o)
		for l.solving {
			l.iterate()
		}
		f := p.value(l.s.w, 0)
		if paper := o["kkt"] != ""; paper == (l.s.gap <= 1e-3*f) || !l.settled {
			t.Errorf("%v: level %d of %d, settled %v, gap %g of %g", o, l.s.k, l.s.levels, l.settled, l.s.gap, f)
		}
		o["alpha_min"], o["beta"], o["eta"] = "1e-8", "0.5", "1e-5"
		best, _ := ready(t, xs, o)
		for best.solving {
			best.iterate()
		}
		if least := p.value(best.s.w, 0); f-l.s.gap > least+1e-12 || f < least-1e-9 {
			t.Errorf("%v: f = %g, gap %g; the optimum is at most %g", o, f, l.s.gap, least)
		}
	}
}
