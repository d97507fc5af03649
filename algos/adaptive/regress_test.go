package adaptive

import (
	"bytes"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/contrib/synth"
	"github.com/streamsvm/streamsvm/stream"
)

// friedman returns a stream whose features change their meaning after so many
// examples.
func friedman(t *testing.T, n int, block string) []*stream.Example {
	t.Helper()
	g, err := synth.New("friedman", 3, map[string]string{"block": block})
	if err != nil {
		t.Fatal(err)
	}
	xs := make([]*stream.Example, n)
	for i := range xs {
		xs[i] = new(stream.Example)
		g.Next(xs[i])
	}
	return xs
}

// What a window has learned as examples come and go is kernel ridge regression
// on those that are left.
func TestKernelRidge(t *testing.T) {
	const size, c = 128, 100
	r := rand.New(rand.NewPCG(1, 2))
	draw := func() *stream.Example {
		x := []float32{float32(r.NormFloat64()), float32(r.NormFloat64())}
		return &stream.Example{Labelled: true, X: stream.Vec{Val: x}, Y: math.Sin(float64(x[0])) + float64(x[1]) + .1*r.NormFloat64()}
	}
	for _, gamma := range []float64{0, .3} {
		w := newWindow(size, c, kernelOf(gamma), target{number: true, center: 7})
		xs := []*stream.Example{draw()}
		w.fill(xs)
		for i := range 400 {
			x := draw()
			xs = append(xs, x)
			w.add(x)
			if i%tick != tick-1 {
				continue
			}
			w.step()
			in := xs[max(0, len(xs)-size):]
			k := func(a, b stream.Vec) float64 {
				var dot, dist float64
				for j := range a.Val {
					d := float64(a.Val[j]) - float64(b.Val[j])
					dot, dist = dot+float64(a.Val[j])*float64(b.Val[j]), dist+d*d
				}
				if gamma == 0 {
					return 1 + dot
				}
				return 1 + math.Exp(-gamma*dist)
			}
			n := len(in)
			gram, y := mat.NewSymDense(n, nil), mat.NewVecDense(n, nil)
			for i, a := range in {
				for j, b := range in[:i+1] {
					gram.SetSym(i, j, k(a.X, b.X))
				}
				gram.SetSym(i, i, k(a.X, a.X)+1./c)
				y.SetVec(i, a.Y)
			}
			var factor mat.Cholesky
			var coef mat.VecDense
			if !factor.Factorize(gram) {
				t.Fatal("singular")
			}
			if err := factor.SolveVecTo(&coef, y); err != nil {
				t.Fatal(err)
			}
			for range 20 {
				p, want := draw().X, 7.
				for i, a := range in {
					want += coef.AtVec(i) * k(a.X, p)
				}
				if got := w.expansion().Decision(p); math.Abs(got-want) > .01 {
					t.Fatalf("gamma %g, %d examples: %g, want %g", gamma, len(xs), got, want)
				}
			}
		}
	}
}

// Weights are the probabilities of a hidden Markov model: which expert is the
// best one changes at one of several rates, and so does the rate. The reference
// adds up all paths.
func TestAverage(t *testing.T) {
	for _, absolute := range []bool{false, true} {
		r := rand.New(rand.NewPCG(5, 6))
		c := newAverage(absolute)
		var q [][]float64 // likelihoods
		for step := range 4 {
			scores := make([]float64, numGuessers)
			for e := range scores {
				scores[e] = 3 * r.NormFloat64()
			}
			y := r.NormFloat64()
			if step > 0 {
				want := slowWeights(q)
				for e, w := range c.weights() {
					if math.Abs(w-want[e]) > 1e-12 {
						t.Fatalf("absolute %v, step %d, expert %d: weight %g, want %g", absolute, step, e, w, want[e])
					}
				}
			}
			f := weighted(c.weights(), scores)
			c.learn(scores, f, y)
			if step == 0 {
				continue
			}
			l := make([]float64, numGuessers)
			for e, s := range scores {
				if absolute {
					l[e] = math.Exp(-min(math.Abs(s-y)/c.loss, 16) / 2)
				} else {
					l[e] = math.Exp(-min((s-y)*(s-y)/c.loss, 16) / 4)
				}
			}
			q = append(q, l)
		}
	}
}

// slowWeights returns the weights after the likelihoods q.
func slowWeights(q [][]float64) []float64 {
	// paths returns the weight of all paths of states after so many steps by their
	// last state, each state kept with probability 1 − rate or drawn anew
	// from the prior.
	paths := func(prior []float64, rate float64, like func(step, state int) float64, steps int) []float64 {
		out := make([]float64, len(prior))
		var walk func(step, state int, weight float64)
		walk = func(step, state int, weight float64) {
			if step == steps {
				out[state] += weight
				return
			}
			weight *= like(step, state)
			for next := range prior {
				p := rate * prior[next]
				if next == state {
					p += 1 - rate
				}
				walk(step+1, next, weight*p)
			}
		}
		for state, p := range prior {
			walk(0, state, p)
		}
		return out
	}
	total := func(v []float64) (s float64) {
		for _, x := range v {
			s += x
		}
		return s
	}
	rates := paths(uniform(len(alphas)), metaRate, func(step, i int) float64 {
		like := func(step, e int) float64 { return q[step][e] }
		return total(paths(priors(numGuessers), alphas[i], like, step+1)) / total(paths(priors(numGuessers), alphas[i], like, step))
	}, len(q))
	out := make([]float64, numGuessers)
	for i, v := range rates {
		w := paths(priors(numGuessers), alphas[i], func(step, e int) float64 { return q[step][e] }, len(q))
		for e := range out {
			out[e] += v / total(rates) * w[e] / total(w)
		}
	}
	return out
}

// TestRegression: on a stream that changes, the panel is better than each of its
// experts, it cuts, and it is the same however it is fed, stored and restored.
func TestRegression(t *testing.T) {
	const n, change = 2600, 1500
	xs := friedman(t, n, "1500")
	make := func() *regressor {
		l, err := Spec.New(algos.Env{Seed: 1, Task: algos.Regress}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return l.(*regressor)
	}
	whole, parts := make(), make()
	var sum float64
	var each [numGuessers]float64
	var dst [1]float64
	for i, x := range xs {
		if _, _, err := whole.Follow(t.Context(), dst[:], xs[i:i+1]); err != nil {
			t.Fatal(err)
		}
		sum += (dst[0] - x.Y) * (dst[0] - x.Y)
		for e, f := range whole.scores {
			each[e] += (f - x.Y) * (f - x.Y)
		}
		if i == n/2 {
			runtime.GOMAXPROCS(1)
			defer runtime.GOMAXPROCS(runtime.NumCPU())
		}
		if i%97 == 0 {
			m := parts.Model()
			stored, err := Spec.DecodeModel(algostest.Bytes(t, m))
			if err != nil {
				t.Fatal(err)
			}
			compiled := m.(*guesser).Compile()
			for _, f := range []float64{m.Decision(x.X), stored.Decision(x.X)} {
				if f != dst[0] {
					t.Fatalf("example %d: %g by the model, %g live", i, f, dst[0])
				}
			}
			if f := compiled.Decision(x.X); math.Abs(f-dst[0]) > .01 {
				t.Fatalf("example %d: %g by the compiled model, %g live", i, f, dst[0])
			}
		}
		algostest.Feed(t, parts, x)
		if i%487 == 0 {
			data := algostest.Bytes(t, parts)
			parts = make()
			if err := parts.UnmarshalBinary(data); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !bytes.Equal(algostest.Bytes(t, whole), algostest.Bytes(t, parts)) {
		t.Error("the states differ")
	}
	for e, s := range each {
		if sum > s {
			t.Errorf("mean squared error %.3f, that of %s %.3f", sum/n, guesserNames[e], s/n)
		}
	}
	cuts, latest := whole.ChangePoints()
	if cuts == 0 || latest[0].At < change || latest[0].At > change+300 {
		t.Errorf("%d cuts: %+v", cuts, latest)
	}
}

// TestAbsoluteLoss: with the absolute loss a few numbers that are far out do less
// harm.
func TestAbsoluteLoss(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	errors := map[string]float64{"squared": 0, "absolute": 0}
	clean := friedman(t, 1200, "0")
	xs := make([]*stream.Example, len(clean))
	for i, x := range clean {
		c := *x
		if r.IntN(20) == 0 {
			c.Y += 200 * r.NormFloat64()
		}
		xs[i] = &c
	}
	for loss := range errors {
		l, err := Spec.New(algos.Env{Seed: 1, Task: algos.Regress}, map[string]string{"loss": loss})
		if err != nil {
			t.Fatal(err)
		}
		dst := make([]float64, len(xs))
		if _, _, err := l.(algos.Sequential).Follow(t.Context(), dst, xs); err != nil {
			t.Fatal(err)
		}
		for i, x := range clean[600:] {
			errors[loss] += math.Abs(dst[600+i]-x.Y) / 600
		}
	}
	t.Log(errors)
	if !(errors["absolute"] < errors["squared"]) {
		t.Errorf("mean absolute errors: %v", errors)
	}
}

func uniform(n int) []float64 {
	p := make([]float64, n)
	for e := range p {
		p[e] = 1 / float64(n)
	}
	return p
}
