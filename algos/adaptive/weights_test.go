package adaptive

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/internal/rff"
	"github.com/streamsvm/streamsvm/internal/rffmodel"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// few returns examples of which features 1 and 3 of 12 decide. Sparse ones leave out zeros.
func few(r *rand.Rand, n int, number, sparse bool) []*stream.Example {
	xs := make([]*stream.Example, n)
	for i := range xs {
		v := make([]float32, 12)
		for j := range v {
			if v[j] = float32(r.NormFloat64()); sparse && r.IntN(2) == 0 {
				v[j] = 0
			}
		}
		x := &stream.Example{X: stream.Vec{Val: v}, Labelled: true, Y: math.Sin(2*float64(v[1])) + float64(v[3]*v[1]) + .1*r.NormFloat64()}
		if !number {
			x.Y = math.Copysign(1, x.Y)
		}
		if sparse {
			x.X = stream.Vec{Idx: []int32{}}
			for j, u := range v {
				if u != 0 {
					x.X.Idx, x.X.Val = append(x.X.Idx, int32(j)), append(x.X.Val, u)
				}
			}
		}
		xs[i] = x
	}
	return xs
}

// TestSlopes: the derivatives by the features are those that differences of the function give.
func TestSlopes(t *testing.T) {
	for _, number := range []bool{false, true} {
		for _, sparse := range []bool{false, true} {
			for _, gamma := range []float64{0.1, 0} {
				if gamma == 0 && !number {
					continue // no classifier is linear
				}
				target := target{number: number}
				own := few(rand.New(rand.NewPCG(1, 2)), 300, number, sparse)
				s := scaling{examples: own, lanes: [][]float64{labelsOf(own)}, choice: choice{c: 4, gamma: gamma}}
				got := s.slopes(target)

				w := newWindow(200, 4, kernelOf(gamma), target)
				w.fill(own[:200])
				f := w.expansion()
				for j := range 12 {
					const h = 1e-2
					var sum float64
					for _, x := range own[:200] {
						up, down := make([]float32, 12), make([]float32, 12)
						for k, v := range x.X.Val {
							if at := index(x.X, k); at < 12 {
								up[at], down[at] = v, v
							}
						}
						up[j] += h
						down[j] -= h
						d := (f.Decision(stream.Vec{Val: up}) - f.Decision(stream.Vec{Val: down})) / (2 * h)
						sum += d * d
					}
					want := math.Sqrt(sum)
					if gamma > 0 {
						want /= 2 * gamma // slopes leaves out this factor
					}
					if math.Abs(got[j]-want) > 0.01*want {
						t.Errorf("number %v, sparse %v, gamma %v: feature %d: %v, by differences %v", number, sparse, gamma, j, got[j], want)
					}
				}
			}
		}
	}
}

// TestWeighted: features that decide nothing get small weights, and errors become fewer. A scale
// without weights stays as it is.
func TestWeighted(t *testing.T) {
	for _, number := range []bool{false, true} {
		r := rand.New(rand.NewPCG(3, 4))
		xs, test := few(r, 600, number, false), few(r, 2000, number, false)
		target := target{number: number}
		target.fit(xs)
		by, err := prep.Fit(xs, prep.Options{Scale: prep.Standard})
		if err != nil {
			t.Fatal(err)
		}
		plain := newScaling(xs, nil, by, target, 1)
		weighted := plain.weighted(xs, target, 1)
		factors, before := weighted.transform.Export().Factor, by.Export().Factor
		least, most := 1.0, 0.0 // weights of those that decide, and of the others
		for j := range 12 {
			w := factors[j] / before[j]
			if w > 1 || w < leastWeight*(1-1e-9) {
				t.Errorf("number %v: feature %d has weight %v", number, j, w)
			}
			if j == 1 || j == 3 {
				least = min(least, w)
			} else {
				most = max(most, w)
			}
		}
		if most > 0.2 || most >= least {
			t.Errorf("number %v: weights of features that decide are at least %v, of others up to %v", number, least, most)
		}
		a, b := loss(plain, xs, test, target), loss(weighted, xs, test, target)
		t.Logf("number %v: loss %.3f, weighted %.3f", number, a, b)
		if b > 0.6*a {
			t.Errorf("number %v: loss %.3f, weighted %.3f", number, a, b)
		}
		unit, _ := prep.Fit(xs, prep.Options{Scale: prep.Unit})
		if got := newScaling(xs, nil, unit, target, 1).weighted(xs, target, 1); got.transform != unit {
			t.Errorf("unit length became %v", got.transform)
		}
	}
}

// TestOrLaplacian: steps suit a Laplacian kernel, which predicts new examples better then; a
// smooth curve suits an RBF kernel, which stays.
func TestOrLaplacian(t *testing.T) {
	for i := range 4 {
		number, steps := i%2 == 1, i < 2
		xs := sums(1400, number, steps)
		xs, test := xs[:600], xs[600:]
		target := target{number: number}
		target.fit(xs)
		by, err := prep.Fit(xs, prep.Options{Scale: prep.Standard})
		if err != nil {
			t.Fatal(err)
		}
		rbf := newScaling(xs, nil, by, target, 1)
		got := rbf.orLaplacian(target, 1)
		a, b := loss(rbf, xs, test, target), loss(got, xs, test, target)
		t.Logf("number %v, steps %v: %+v %.4f, %+v %.4f", number, steps, rbf.choice, a, got.choice, b)
		switch {
		case !steps && got.choice != rbf.choice:
			t.Errorf("number %v: %+v for a smooth curve", number, got.choice)
		case steps && !(got.choice.gamma < 0 && got.loss < rbf.loss && b < 0.9*a):
			t.Errorf("number %v: %+v for steps, loss %.4f; of an RBF kernel %.4f", number, got.choice, b, a)
		}
	}
}

// sums draws examples of a sum over four features, of its sign or of the sum with noise.
func sums(n int, number, steps bool) []*stream.Example {
	r := rand.New(rand.NewPCG(5, 6))
	xs := make([]*stream.Example, n)
	for i := range xs {
		v, sum := make([]float32, 4), 0.0
		for j := range v {
			v[j] = r.Float32()
			at := float64(v[j])
			if steps {
				at = math.Floor(3 * at)
			}
			sum += math.Sin(2 * at)
		}
		xs[i] = &stream.Example{X: stream.Vec{Val: v}, Labelled: true, Y: math.Copysign(1, sum-1.7)}
		if number {
			xs[i].Y = 4*sum + r.NormFloat64()
		}
	}
	return xs
}

// TestGrownLaplacian: learner scs takes over with the Laplacian kernel that was chosen, keeps it when it
// is tuned again, and is restored with it.
func TestGrownLaplacian(t *testing.T) {
	xs, env, own := sums(1000, false, true), algos.Env{Seed: 1}, standard
	own.large = 500
	m := &kernelLearner{sizes: &own, growing: true}
	if err := m.choose(t.Context(), env, xs[:600], false, nil, 0); err != nil {
		t.Fatal(err)
	}
	if gamma, _ := strconv.ParseFloat(m.options["gamma"], 64); m.scs == nil || m.options["kernel"] != "laplacian" || gamma != -m.choice.gamma {
		t.Fatalf("%v, %+v", m.options, m.choice)
	}
	own.whole = 600
	if err := m.choose(t.Context(), env, xs[:600], true, nil, 0); err != nil { // wide ones, too
		t.Fatal(err)
	}
	if gamma, _ := strconv.ParseFloat(m.options["gamma"], 64); m.options["kernel"] != "laplacian" || gamma == -m.choice.gamma {
		t.Fatalf("tuned: %v, %+v", m.options, m.choice)
	}
	data, err := state.Append(nil, func(f *state.Fields) { m.fields(f, env) })
	if err != nil {
		t.Fatal(err)
	}
	again, wrong := &kernelLearner{sizes: &own, growing: true}, 0
	if err := state.Decode(data, func(f *state.Fields) { again.fields(f, env) }); err != nil {
		t.Fatal(err)
	}
	for _, x := range scaled(xs[600:], m.transform, m.target) {
		f := m.model().Decision(x.X)
		if g := again.model().Decision(x.X); g != f {
			t.Fatalf("%v, restored %v", f, g)
		}
		if f*x.Y <= 0 {
			wrong++
		}
	}
	if wrong > 20 { // of an RBF kernel 30
		t.Errorf("%d of 400 wrong", wrong)
	}
	for _, steps := range []bool{false, true} { // the random features are of the kernel chosen
		l := newPanel(t, nil)
		followed(t, l, sums(600, false, steps), func() int { return 100 })
		for _, e := range l.experts {
			if e, ok := e.expert.(*randomFeatures); ok {
				if kind := e.l.Model().(*rffmodel.Model).Feats.Kind(); (kind == rff.Laplacian) != steps {
					t.Errorf("steps %v: features of kernel %s", steps, kind)
				}
			}
		}
	}
}

// loss is the share of errors on test, or the mean squared error, after training on xs.
func loss(s scaling, xs, test []*stream.Example, target target) (sum float64) {
	w := newWindow(len(xs), s.choice.c, kernelOf(s.choice.gamma), target)
	w.fill(s.examples)
	w.ascend(1000, len(xs))
	own := scaled(test, s.transform, target)
	out := make([]float64, len(own))
	w.expansion().Decisions(out, samplers.Vecs(own))
	for i, x := range test {
		if target.number {
			sum += (out[i] - x.Y) * (out[i] - x.Y)
		} else if out[i]*x.Y <= 0 {
			sum++
		}
	}
	return sum / float64(len(test))
}
