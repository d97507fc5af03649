package pegasos

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats/scalar"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// moons draws n points of two interleaved half circles with noise.
func moons(n int, noise float64, seed uint64) []*stream.Example {
	r := rand.New(rand.NewPCG(seed, 2))
	xs := make([]*stream.Example, n)
	for i := range xs {
		a := r.Float64() * math.Pi
		x := &stream.Example{Seq: uint64(i + 1), Labelled: true, Y: float64(2*r.IntN(2) - 1)}
		u, v := math.Cos(a), math.Sin(a)
		if x.Y < 0 {
			u, v = 1-u, .5-v
		}
		x.X.Val = []float32{float32(u + noise*r.NormFloat64()), float32(v + noise*r.NormFloat64())}
		xs[i] = x
	}
	return xs
}

func learner(t *testing.T, options map[string]string) *Learner {
	t.Helper()
	l, err := Spec.New(algos.Env{Seed: 7}, options)
	if err != nil {
		t.Fatal(err)
	}
	return l.(*Learner)
}

func feed(t *testing.T, l algos.Learner, xs []*stream.Example) {
	t.Helper()
	for _, x := range xs {
		if _, err := l.Add(x); err != nil {
			t.Fatal(err)
		}
		for n := l.Need(); n.Fresh == 0; n = l.Need() {
			for range n.Steps {
				if _, err := l.Step(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// k is the kernel, straight from its definition.
func k(gamma, bias float64, x, z *stream.Example) float64 {
	var d float64
	for j, v := range x.X.Val {
		e := float64(v) - float64(z.X.Val[j])
		d += e * e
	}
	return math.Exp(-gamma*d) + bias
}

// With λ ≥ 1 and K(x,x) ≤ 1 no margin exceeds 1, so every example is a
// violator and one pass over distinct points gives α = y/(λ m): the optimum.
func TestOnePassIsExactForLargeLambda(t *testing.T) {
	const m = 304
	xs := moons(m, .3, 1)
	for _, lambda := range []float64{1, 1.7, 12} {
		for _, batch := range []int{1, 2, 8} {
			l := learner(t, map[string]string{
				"lambda": fmt.Sprint(lambda), "bias": "0", "gamma": "2", "average": "none", "batch": fmt.Sprint(batch),
			})
			feed(t, l, xs)
			e := l.Model()
			if n := e.Info().Support; n != m {
				t.Fatalf("lambda %g: %d of %d points are support vectors", lambda, n, m)
			}
			for _, x := range moons(50, .3, 2) {
				var f float64
				for _, s := range xs {
					f += s.Y / (lambda * m) * k(2, 0, s, x)
				}
				if got := e.Decision(x.X); !scalar.EqualWithinAbs(got, f, 1e-7) {
					t.Errorf("lambda %g, batch %d: f(x) = %g, want %g", lambda, batch, got, f)
				}
			}
			for j, a := range l.coef {
				if got, want := a*l.scale*lambda*m, xs[j].Y; !scalar.EqualWithinAbs(got, want, 4e-16) {
					t.Fatalf("lambda %g, batch %d: λ m α_%d = %g, want %g", lambda, batch, j, got, want)
				}
			}
		}
	}
}

// naive is the same algorithm without any bookkeeping: w is a list of
// coefficients over all examples, rescaled in full at each step, and every
// iterate is kept for the averages.
type naive struct {
	o      options
	xs     []*stream.Example
	kk     [][]float64
	w      []float64
	iter   [][]float64 // w_2, w_3, …
	t, n   int
	weight []float64 // of iter
	came   float64
	// Effective numbers of steps and examples, and λ t as of the last step.
	steps, seen, before float64
	buffer              *samplers.Buffer
	rng                 *rng.Source
}

func newNaive(o options, xs []*stream.Example) *naive {
	r := &naive{o: o, xs: xs, w: make([]float64, len(xs)), kk: make([][]float64, len(xs))}
	for i := range xs {
		for j := range xs {
			r.kk[i] = append(r.kk[i], k(o.Gamma, o.Bias, xs[i], xs[j]))
		}
	}
	r.buffer, _ = samplers.New(samplers.Options{Policy: samplers.Uniform, Size: o.Buffer, Hold: true, Seed: 7, Every: 1})
	r.rng = rng.New(7, "pegasos.draw")
	return r
}

func (r *naive) score(w []float64, i int) (f float64) {
	for j, c := range w {
		f += c * r.kk[j][i]
	}
	return f
}

func (r *naive) add(batch []int) {
	r.n += len(batch)
	r.seen += float64(len(batch))
	r.step(batch)
	if r.o.Passes == 1 {
		return
	}
	for _, i := range batch {
		if _, err := r.buffer.Add(r.xs[i]); err != nil {
			panic(err)
		}
	}
	r.buffer.Take()
	for range r.o.Passes - 1 {
		var draw []int
		for range batch {
			draw = append(draw, int(r.buffer.Seq(r.rng.IntN(r.buffer.Len())))-1)
		}
		r.step(draw)
	}
}

func (r *naive) step(batch []int) {
	r.t++
	r.steps++
	lambda := r.o.Lambda
	if math.IsNaN(lambda) {
		// The counts, not w, are what is kept when λ changes.
		lambda = 1 / (r.o.C * r.seen)
	}
	old := r.w
	r.w = make([]float64, len(old))
	for j, c := range old {
		r.w[j] = c * r.before / (lambda * r.steps)
	}
	for _, i := range batch {
		if r.xs[i].Y*r.score(old, i) < 1 {
			if r.w[i] == 0 {
				r.came++
			}
			r.w[i] += r.xs[i].Y / (lambda * r.steps * float64(len(batch)))
		}
	}
	if most := float64(r.o.Budget) / 8; r.o.Removal == "fade" && r.came > most {
		g := most / r.came
		r.came, r.steps, r.seen = most, g*r.steps, g*r.seen
		for t := range r.weight {
			r.weight[t] *= g
		}
		if math.IsNaN(r.o.Lambda) { // then λ grows
			lambda /= g
			for j := range r.w {
				r.w[j] *= g
			}
		}
	}
	for r.support() > r.o.Budget {
		best := -1
		for j, c := range r.w {
			size := func(i int) float64 { return math.Abs(r.w[i]) }
			if c != 0 && (best < 0 || r.o.Removal != "oldest" && size(j) < size(best)*(1-1e-9)) {
				best = j
			}
		}
		r.w[best] = 0
		for _, w := range r.iter {
			w[best] = 0 // an example that has been dropped leaves the average, too
		}
	}
	if r.o.Project {
		if norm := r.norm(); norm > 1/math.Sqrt(lambda) {
			for j := range r.w {
				r.w[j] /= norm * math.Sqrt(lambda)
			}
		}
	}
	r.before = lambda * r.steps
	weight := 1.0
	if r.o.Average == "linear" {
		weight = r.steps
	}
	r.iter, r.weight = append(r.iter, append([]float64(nil), r.w...)), append(r.weight, weight)
}

func (r *naive) support() (n int) {
	for _, c := range r.w {
		if c != 0 {
			n++
		}
	}
	return n
}

func (r *naive) norm() float64 {
	var sum float64
	for i, c := range r.w {
		sum += c * r.score(r.w, i)
	}
	return math.Sqrt(sum)
}

func (r *naive) model() []float64 {
	out := make([]float64, len(r.w))
	switch r.o.Average {
	case "none":
		copy(out, r.w)
	default:
		var total float64
		for t, w := range r.iter {
			total += r.weight[t]
			for j, c := range w {
				out[j] += r.weight[t] * c
			}
		}
		for j := range out {
			out[j] /= total
		}
	}
	return out
}

func TestAgainstNaive(t *testing.T) {
	const m = 120
	xs := moons(m, .2, 3)
	for seed := range uint64(120) {
		r := rand.New(rand.NewPCG(seed, 4))
		o := map[string]string{
			"gamma": "1.5", "bias": []string{"0", "1"}[r.IntN(2)], "batch": []string{"1", "3", "8"}[r.IntN(3)],
			"passes": []string{"1", "1", "3"}[r.IntN(3)], "buffer": []string{"1000", "20"}[r.IntN(2)],
			"project": fmt.Sprint(r.IntN(2) == 0), "average": []string{"none", "uniform", "linear"}[r.IntN(3)],
			"budget": []string{"100000", "25"}[r.IntN(2)], "removal": []string{"fade", "smallest", "oldest"}[r.IntN(3)],
		}
		if o["budget"] == "25" {
			o["buffer"] = "1000" // else an example could come back after its removal
		}
		if o["budget"] == "25" && o["average"] != "none" && o["passes"] != "1" {
			o["passes"] = "1" // likewise
		}
		if r.IntN(2) == 0 {
			o["lambda"] = []string{"1", "0.1", "0.003"}[r.IntN(3)]
		} else {
			o["c"] = []string{"0.5", "8"}[r.IntN(2)]
		}
		l := learner(t, o)
		ref := newNaive(l.opt, xs)
		for i := 0; i+l.opt.Batch <= m; i += l.opt.Batch {
			feed(t, l, xs[i:i+l.opt.Batch])
			var batch []int
			for j := range l.opt.Batch {
				batch = append(batch, i+j)
			}
			ref.add(batch)
			if int(l.step) != ref.t || len(l.coef) != ref.support() {
				t.Fatalf("seed %d, %v: step %d with %d support vectors, want %d with %d", seed, o, l.step, len(l.coef), ref.t, ref.support())
			}
			if l.opt.Project {
				if norm, bound := ref.norm(), 1/math.Sqrt(l.lambda()); norm > bound*(1+1e-9) {
					t.Fatalf("seed %d: the reference is outside its ball: %g > %g", seed, norm, bound)
				}
				if got, want := l.scale*math.Sqrt(l.sq), ref.norm(); !scalar.EqualWithinRel(got, want, 1e-5) {
					t.Fatalf("seed %d, %v: norm %g at step %d, want %g", seed, o, got, l.step, want)
				}
			}
			if i%10 > 0 {
				continue
			}
			w := ref.model()
			for q := range xs {
				got, want := l.Model().Decision(xs[q].X), ref.score(w, q)
				if !scalar.EqualWithinAbsOrRel(got, want, 1e-5, 1e-5) {
					t.Fatalf("seed %d, %v: step %d: f = %g, want %g", seed, o, l.step, got, want)
				}
			}
		}
	}
}

// optimum returns the minimum of λ/2 wᵀw + mean hinge over the examples, by
// dual coordinate ascent down to a duality gap of 1e-9.
func optimum(t *testing.T, lambda, gamma float64, xs []*stream.Example) float64 {
	t.Helper()
	m := float64(len(xs))
	c, s := make([]float64, len(xs)), make([]float64, len(xs))
	for epoch := range 200000 {
		for i, x := range xs {
			next := min(max(c[i]+lambda*(1-x.Y*s[i])/k(gamma, 0, x, x), 0), 1/m)
			if d := next - c[i]; d != 0 {
				c[i] = next
				for j, z := range xs {
					s[j] += d * x.Y / lambda * k(gamma, 0, x, z)
				}
			}
		}
		if epoch%5 != 4 {
			continue
		}
		primal, dual := 0.0, 0.0
		for i, x := range xs {
			ridge := c[i] * x.Y * s[i] / 2
			primal += ridge + max(0, 1-x.Y*s[i])/m
			dual += c[i] - ridge
		}
		if primal-dual < 1e-9 {
			return primal
		}
	}
	t.Fatal("the oracle did not converge")
	return 0
}

func objective(m algos.Model, w []float64, lambda, gamma float64, support, xs []*stream.Example) float64 {
	var ridge, loss float64
	for i, x := range support {
		for j, z := range support {
			ridge += w[i] * w[j] * k(gamma, 0, x, z)
		}
	}
	for _, x := range xs {
		loss += max(0, 1-x.Y*m.Decision(x.X))
	}
	return lambda/2*ridge + loss/float64(len(xs))
}

// Draws with replacement from a fixed sample: the excess over the exact
// optimum stays below 84 r² log T/(λ T)·log(1/δ), and far below in practice.
func TestExcessBound(t *testing.T) {
	const m, gamma = 80, 2
	xs := moons(m, .3, 5)
	for _, lambda := range []float64{1, .1, .01} {
		best := optimum(t, lambda, gamma, xs)
		for _, average := range []string{"none", "linear"} {
			var last float64
			for _, steps := range []int{200, 2000} {
				l := learner(t, map[string]string{"lambda": fmt.Sprint(lambda), "gamma": fmt.Sprint(gamma), "bias": "0", "average": average})
				r := rand.New(rand.NewPCG(9, 9))
				for i := range steps {
					x := *xs[r.IntN(m)]
					x.Seq = uint64(i + 1)
					feed(t, l, []*stream.Example{&x})
				}
				var support []*stream.Example
				for j := range l.coef {
					support = append(support, &stream.Example{X: l.basis.Row(j)})
				}
				l.Model()
				w := l.model.Coef()
				excess := objective(l.Model(), w, lambda, gamma, support, xs) - best
				n := float64(steps)
				if bound := 84 * math.Log(n) / (lambda * n) * math.Log(20); excess < -1e-6 || excess > bound {
					t.Errorf("lambda %g, %s, T = %d: excess %g, bound %g", lambda, average, steps, excess, bound)
				}
				// Tenfold steps give about a tenth of the excess; a third is
				// asked for.
				if steps == 2000 && excess > last/3 {
					t.Errorf("lambda %g, %s: excess %g after 200 steps, %g after 2000", lambda, average, last, excess)
				}
				last = excess
			}
		}
	}
}

func TestWarmupSetsGamma(t *testing.T) {
	xs := moons(400, .1, 6)
	l := learner(t, nil)
	if n := l.Need(); n.Fresh != kernel.Warmup {
		t.Fatalf("needs %d examples first, want %d", n.Fresh, kernel.Warmup)
	}
	feed(t, l, xs)
	var ds []float64
	for i := range kernel.Warmup {
		for j := range i {
			ds = append(ds, -math.Log(k(1, 0, xs[i], xs[j])))
		}
	}
	below := 0
	for _, d := range ds {
		if d < 1/float64(l.basis.Func.Gamma) {
			below++
		}
	}
	if share := float64(below) / float64(len(ds)); share < .49 || share > .51 {
		t.Errorf("1/gamma is the %.3f quantile of the squared distances", share)
	}
	right := 0
	for _, x := range moons(1000, .1, 8) {
		if x.Y*l.Model().Decision(x.X) > 0 {
			right++
		}
	}
	if right < 970 {
		t.Errorf("%d of 1000 right", right)
	}
	// A stream that ends before the warm-up does is learned by Finish.
	l = learner(t, nil)
	feed(t, l, xs[:50])
	if l.step != 0 {
		t.Fatal("a step before the warm-up was over")
	}
	if _, err := l.Finish(t.Context()); err != nil || l.step != 50 || !l.Ready() {
		t.Fatalf("after Finish: %d steps, error %v", l.step, err)
	}
}

func TestAddRefuses(t *testing.T) {
	l := learner(t, nil)
	for want, x := range map[string]*stream.Example{
		"label 3":    {Labelled: true, Y: 3},
		"label NaN":  {Labelled: true, Y: math.NaN()},
		"not finite": {Labelled: true, Y: 1, X: stream.Vec{Val: []float32{1, float32(math.Inf(1))}}},
	} {
		if _, err := l.Add(x); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
	if len(l.Pending()) > 0 {
		t.Error("a refused example was kept")
	}
	if fate, err := l.Add(&stream.Example{}); fate != algos.SampledOut || err != nil {
		t.Errorf("unlabelled: fate %d, error %v", fate, err)
	}
}

func TestConformance(t *testing.T) {
	for _, options := range []map[string]string{
		{"radius": "20", "gamma": "2", "batch": "3"},
		{"batch": "7", "passes": "3", "buffer": "50", "project": "true", "average": "uniform", "c": "10"},
		{"gamma": "1", "budget": "60", "average": "none", "kernel": "laplacian", "lambda": "0.003"},
		{"kernel": "poly", "gamma": "1", "project": "true", "budget": "80", "removal": "oldest", "average": "linear"},
	} {
		t.Run(fmt.Sprint(options), func(t *testing.T) {
			algostest.Run(t, Spec, algostest.With(options), algostest.Accuracy(.85), algostest.Examples(450))
		})
	}
}
