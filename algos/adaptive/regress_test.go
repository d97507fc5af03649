package adaptive

import (
	"bytes"
	"log/slog"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/compare"
	"github.com/streamsvm/streamsvm/stream"
)

// friedman returns a stream whose features change their meaning after so many
// examples.
func friedman(t *testing.T, n int, block string) []*stream.Example {
	return generated(t, n, "friedman", 3, map[string]string{"block": block})
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
	const n = 5
	for _, absolute := range []bool{false, true} {
		r := rand.New(rand.NewPCG(5, 6))
		c := newAverage(absolute, uniform(n))
		var q [][]float64 // likelihoods
		for step := range 4 {
			scores := make([]float64, n)
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
			c.learn(scores, y, 1)
			l := make([]float64, n)
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
	n := len(q[0])
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
		return total(paths(uniform(n), alphas[i], like, step+1)) / total(paths(uniform(n), alphas[i], like, step))
	}, len(q))
	out := make([]float64, n)
	for i, v := range rates {
		w := paths(uniform(n), alphas[i], func(step, e int) float64 { return q[step][e] }, len(q))
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
	make := func() *Learner {
		l, err := Spec.New(algos.Env{Seed: 1, Task: algos.Regress}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return l.(*Learner)
	}
	whole, parts := make(), make()
	var sum float64
	each := map[string]float64{}
	var dst [1]float64
	for i, x := range xs {
		if _, _, err := whole.Follow(t.Context(), dst[:], xs[i:i+1]); err != nil {
			t.Fatal(err)
		}
		sum += (dst[0] - x.Y) * (dst[0] - x.Y)
		for e, s := range whole.scores[0] {
			each[whole.experts[e].name] += (s.f - x.Y) * (s.f - x.Y)
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
			compiled := m.(*ensemble).Compile()
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
			t.Errorf("mean squared error %.3f, that of %s %.3f", sum/n, e, s/n)
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

// TestSquares: the weights are those of the ridge regression that they are the recursion
// of, and one number far out moves them as one at 3σ does.
func TestSquares(t *testing.T) {
	const n, spread = 4, 0.5
	r := rand.New(rand.NewPCG(9, 10))
	s := newSquares(n, spread, 1, false)
	h, g := mat.NewSymDense(n, nil), mat.NewVecDense(n, nil) // in units of σ
	for i := range n {
		h.SetSym(i, i, 1/spread)
	}
	for step := range 60 {
		f := make([]float64, n)
		var mean float64
		for e := range f {
			f[e] = 5 + r.NormFloat64()
			mean += f[e] / n
		}
		y := 0.7*f[0] + 0.5*f[1] - 0.2*f[2] + 0.1*r.NormFloat64()
		if step == 30 {
			y += 1000
		}
		before := append([]float64(nil), s.w...)
		s.learn(f, y, 1)
		sigma := math.Sqrt(s.noise)
		x, fit := mat.NewVecDense(n, nil), 0.
		for e := range f {
			x.SetVec(e, (f[e]-mean)/sigma)
			fit += before[e] * x.AtVec(e)
		}
		target := fit + min(max((y-mean)/sigma-fit, -3), 3)
		h.SymRankOne(h, 1, x)
		g.AddScaledVec(g, target, x)
		var c mat.Cholesky
		var d mat.VecDense
		if !c.Factorize(h) {
			t.Fatal("singular")
		}
		if err := c.SolveVecTo(&d, g); err != nil {
			t.Fatal(err)
		}
		sum := 0.
		for e, w := range s.weights() {
			sum += w
			if want := 1./n + d.AtVec(e) - mat.Sum(&d)/n; math.Abs(w-want) > 1e-8 {
				t.Fatalf("step %d, weight %d: %g, want %g", step, e, w, want)
			}
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Fatalf("step %d: the sum of the weights is %g", step, sum)
		}
	}
}

// TestNumberScale: the origin and the scale of the numbers do not matter, to the trainer
// or to a subscriber.
func TestNumberScale(t *testing.T) {
	for _, loss := range []string{"squared", "absolute"} {
		a, b := newRegressor(t, loss, 250), newRegressor(t, loss, 250)
		for i, x := range friedman(t, 700, "300") {
			if i%50 == 49 { // one that is far out
				c := *x
				c.Y, x = 1e3, &c
			}
			c := *x
			c.Y = 1000*x.Y + 7
			f, g := followOne(t, a, x), followOne(t, b, &c)
			if i == 0 {
				continue
			}
			if f, g := 1000*f+7, g; math.Abs(f-g) > 1e-3*math.Abs(f) {
				t.Fatalf("%s loss, example %d: %g, want %g", loss, i, g, f)
			}
			if i%100 == 99 {
				f, g := 1000*a.Published().Decision(x.X)+7, b.Published().Decision(x.X)
				if math.Abs(f-g) > 1e-3*math.Abs(f) {
					t.Fatalf("%s loss, example %d as published: %g, want %g", loss, i, g, f)
				}
			}
		}
	}
}

func newRegressor(t *testing.T, loss string, every int) *Learner {
	t.Helper()
	l, err := Spec.New(algos.Env{Seed: 1, Task: algos.Regress, PublishEvery: every}, map[string]string{"loss": loss})
	if err != nil {
		t.Fatal(err)
	}
	return l.(*Learner)
}

func followOne(t *testing.T, r *Learner, x *stream.Example) float64 {
	t.Helper()
	var dst [1]float64
	if _, _, err := r.Follow(t.Context(), dst[:], []*stream.Example{x}); err != nil {
		t.Fatal(err)
	}
	return dst[0]
}

// TestNoWorseThanTheMean: where the numbers may take the opposite sign with each version,
// half of the versions are wrong about them, and what is published comes to predict the
// mean. What the trainer predicts for itself follows them.
func TestNoWorseThanTheMean(t *testing.T) {
	const every, versions = 100, 40
	r := rand.New(rand.NewPCG(11, 12))
	l := newRegressor(t, "squared", every)
	var own, published, constant, mean float64
	var m algos.Model
	var early uint64
	sign := 1.
	for i := range every * versions {
		x := &stream.Example{Seq: uint64(i + 1), Labelled: true, X: stream.Vec{Val: []float32{float32(r.NormFloat64()), float32(r.NormFloat64())}}}
		x.Y = 50 + 10*float64(x.X.Val[0])*sign
		if i%every == 0 && i > 0 {
			sign = float64(2*r.IntN(2) - 1)
			x.Y = 50 + 10*float64(x.X.Val[0])*sign
		}
		if i > 0 && (i%every == 0 || l.Early() > early) {
			early = l.Early()
			stored, err := Spec.DecodeModel(algostest.Bytes(t, l.Published()))
			if err != nil {
				t.Fatal(err)
			}
			m = stored
		}
		f := followOne(t, l, x)
		if i >= every*versions/2 {
			own += (f - x.Y) * (f - x.Y)
			published += math.Pow(m.Decision(x.X)-x.Y, 2)
			constant += (mean - x.Y) * (mean - x.Y)
		}
		mean += (x.Y - mean) / float64(i+1)
	}
	t.Logf("squared errors, of the mean's: own %.3f, published %.3f", own/constant, published/constant)
	if published > 1.1*constant || own > 0.6*constant {
		t.Errorf("squared errors: own %g, published %g, of the mean %g", own, published, constant)
	}
}

// TestFirstVersions: before versions have shown otherwise, what is published is nearly as good as
// the weights for the next example are by then: its mean error is at most a sixth larger.
func TestFirstVersions(t *testing.T) {
	const every, versions = 64, 3
	l := newRegressor(t, "squared", every)
	var published, own float64
	var now, next algos.Model
	r := rand.New(rand.NewPCG(13, 14))
	for i := range every * (versions + 1) {
		x := &stream.Example{Seq: uint64(i + 1), Labelled: true, X: stream.Vec{Val: []float32{float32(r.NormFloat64()), float32(r.NormFloat64())}}}
		x.Y = 50 + 3*float64(x.X.Val[0]) - float64(x.X.Val[1]) + 0.3*r.NormFloat64()
		if i > 0 && i%every == 0 {
			var err error
			if now, err = Spec.DecodeModel(algostest.Bytes(t, l.Published())); err != nil {
				t.Fatal(err)
			}
			if next, err = Spec.DecodeModel(algostest.Bytes(t, l.Model())); err != nil {
				t.Fatal(err)
			}
		}
		if now != nil {
			published += math.Pow(now.Decision(x.X)-x.Y, 2)
			own += math.Pow(next.Decision(x.X)-x.Y, 2)
		}
		followOne(t, l, x)
	}
	t.Logf("published %.4f, by the weights for the next example %.4f", published, own)
	if published > 1.35*own {
		t.Errorf("squared errors: published %g, by the weights for the next example %g", published, own)
	}
}

// TestNumbersStand: an example that stands for four counts as much for a version of 1,000
// examples as one that stands for itself does for a version of 250.
func TestNumbersStand(t *testing.T) {
	var y labels
	for _, v := range []float64{1, 2, 4} {
		y.learn(v)
	}
	weights := func(every int, stands float64) []float64 {
		m := newNumbers(every, 3, &y, false)
		m.startVersion(uint64(every), changes{})
		scores := []score{{1, true}, {2, true}, {5, true}}
		for range 5 {
			m.learn(scores, aged{scores, stands, nil}, 4.5, 1)
		}
		return append(m.agedShare.weights(), m.hedge.weights()...)
	}
	got := weights(1000, 4)
	if want := weights(250, 1); !slices.Equal(got, want) {
		t.Errorf("weights %v, want %v", got, want)
	}
	if same := weights(1000, 1); slices.Equal(got, same) {
		t.Errorf("weights %v do not depend on how many an example stands for", got)
	}
}

// TestUncutNumbers: of a regression, a cut keeps the old kernel learner if it has learned from more
// examples than k256, and if no older one is kept.
func TestUncutNumbers(t *testing.T) {
	l, err := newSized(algos.Env{Seed: 1, Task: algos.Regress, Log: slog.New(slog.DiscardHandler)}, options{Panel: "auto", Loss: "squared"}, &short)
	if err != nil {
		t.Fatal(err)
	}
	h, xs := l.(*Learner), friedman(t, 160, "0")
	var first *kernelLearner
	for _, tt := range []struct {
		examples int // before the cut
		kept     bool
	}{{32, false}, {64, true}, {64, true}} {
		if _, err := algos.Feed(t.Context(), l, xs[:tt.examples]...); err != nil {
			t.Fatal(err)
		}
		xs = xs[tt.examples:]
		if old := h.kernels[growing]; tt.kept && first == nil {
			first = old
		}
		h.cut(compare.ChangePoint{To: 16}, 0)
		if got := h.kernels[uncut]; got != first || first != nil && &got.small.box.Gram[0] == &h.kernels[growing].small.box.Gram[0] {
			t.Errorf("after %d examples: %p is kept, want %p", tt.examples, got, first)
		}
	}
}
