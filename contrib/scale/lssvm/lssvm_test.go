package lssvm

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/contrib/ridge"
	"github.com/streamsvm/streamsvm/internal/rff"
	"github.com/streamsvm/streamsvm/stream"
)

func TestLSConformance(t *testing.T) {
	for _, c := range []struct {
		classes int
		options map[string]string
	}{
		{4, map[string]string{"features": "64", "gamma": "2", "half_life": "1000", "refresh": "0.2"}},
		{2, map[string]string{"features": "128", "kernel": "laplacian", "lambda": "0.001", "bias": "0"}},
		{2, map[string]string{"kernel": "linear", "features": "100"}},
		{4, map[string]string{"kernel": "linear", "features": "100"}},
	} {
		t.Run(fmt.Sprint(c.classes, c.options), func(t *testing.T) {
			opts := []algostest.Option{algostest.With(c.options), algostest.Accuracy(.9)}
			if c.classes > 2 {
				opts = append(opts, algostest.Classes(c.classes), algostest.Accuracy(.85))
			}
			if c.options["kernel"] == "linear" {
				opts = append(opts, algostest.Kind(algos.Linear), algostest.Accuracy(.8))
			}
			algostest.Run(t, Spec, opts...)
		})
	}
}

// The model is the solution of the normal equations, by another solver, whatever
// the weights, the classes and the half-life.
func TestLSSolution(t *testing.T) {
	const d, n, dim, bias = 96, 600, 3, 2.25
	for _, classes := range []int{0, 2, 3} {
		for _, half := range []float64{0, 200} {
			env := algos.Env{Seed: 5, Task: algos.Classify, Classes: classes}
			if classes == 0 {
				env.Task = algos.Regress
			}
			l, err := Spec.New(env, map[string]string{
				"features": "64", "gamma": "0.7", "lambda": "0.003", "bias": "2.25", "half_life": fmt.Sprint(half),
			})
			if err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(7, uint64(classes)))
			var xs []*stream.Example
			for i := range n {
				x := &stream.Example{Seq: uint64(i + 1), Labelled: true, Weight: float32(r.IntN(4)) / 2}
				for range dim {
					x.X.Val = append(x.X.Val, float32(r.NormFloat64()))
				}
				switch s := float64(x.X.Val[0] * x.X.Val[1]); {
				case classes == 0:
					x.Y = 3 + s + r.NormFloat64()
				case classes == 2:
					x.Y = math.Copysign(1, s+.3*r.NormFloat64())
				default:
					x.Y = float64(r.IntN(classes))
				}
				xs = append(xs, x)
			}
			algostest.Feed(t, l, xs...)
			report, err := l.Finish(t.Context())
			if err != nil {
				t.Fatal(err)
			}

			feats, err := rff.New(rff.Gaussian, .7, 64, 5, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			features := func(x stream.Vec) []float64 {
				var p rff.Points
				p.Pack([]stream.Vec{x})
				z, out := make([]float32, 64), []float64{1.5}
				feats.Map(z, 64, &p, 0)
				for _, v := range z {
					out = append(out, float64(v)*math.Sqrt(2./64))
				}
				return out
			}
			a, sum, objective := mat.NewDense(65, 65, nil), 0.0, 0.0
			weight := make([]float64, n)
			for i, x := range xs {
				weight[i] = x.Importance()
				if half > 0 {
					weight[i] *= math.Exp2(-float64(n/64-i/64) * 64 / half)
				}
				sum += weight[i]
				z := mat.NewVecDense(65, features(x.X))
				var outer mat.Dense
				outer.Outer(weight[i], z, z)
				a.Add(a, &outer)
			}
			a.Scale(1/sum, a)
			for j := range 65 {
				a.Set(j, j, a.At(j, j)+.003)
			}
			heads := max(1, classes)
			if classes == 2 {
				heads = 1
			}
			target := func(x *stream.Example, k int) float64 {
				switch {
				case heads == 1:
					return x.Y
				case int(x.Y) == k:
					return 1
				}
				return -1
			}
			want := make([]*mat.VecDense, heads)
			for k := range heads {
				b := mat.NewVecDense(65, nil)
				for i, x := range xs {
					b.AddScaledVec(b, weight[i]*target(x, k)/sum, mat.NewVecDense(65, features(x.X)))
				}
				want[k] = mat.NewVecDense(65, nil)
				if err := want[k].SolveVec(a, b); err != nil {
					t.Fatal(err)
				}
				for i, x := range xs {
					e := mat.Dot(want[k], mat.NewVecDense(65, features(x.X))) - target(x, k)
					objective += weight[i] * e * e / (2 * sum)
				}
				objective += .003 / 2 * mat.Dot(want[k], want[k])
			}
			got := make([]float64, heads)
			for _, x := range xs[:50] {
				if heads > 1 {
					l.Model().(algos.Scorer).Scores(got, []stream.Vec{x.X})
				} else {
					got[0] = l.Model().Decision(x.X)
				}
				for k := range heads {
					if f := mat.Dot(want[k], mat.NewVecDense(65, features(x.X))); math.Abs(f-got[k]) > 1e-9*(1+math.Abs(f)) {
						t.Fatalf("%d classes, half-life %g: f = %v, want %v", classes, half, got[k], f)
					}
				}
			}
			if math.Abs(report.Objective-objective) > 1e-9*objective || report.GradNorm > 1e-9 {
				t.Errorf("%d classes, half-life %g: objective %v, want %v; gradient %g", classes, half, report.Objective, objective, report.GradNorm)
			}
		}
	}
}

// Sums of parts, added, give what all examples together give, to rounding; added
// in the same order the same bits, wherever the parts were stored and restored.
func TestLSParts(t *testing.T) {
	for _, classes := range []int{2, 4} {
		r := rand.New(rand.NewPCG(1, 2))
		var xs []*stream.Example
		for i := range 1000 {
			x := &stream.Example{Seq: uint64(i + 1), Labelled: true, X: stream.Vec{Val: []float32{float32(r.NormFloat64()), float32(r.NormFloat64())}}}
			if x.Y = float64(r.IntN(classes)); classes == 2 {
				x.Y = 2*x.Y - 1
			}
			xs = append(xs, x)
		}
		learner := func() *leastSquares {
			l, err := Spec.New(algos.Env{Seed: 1, Classes: classes}, map[string]string{"features": "64", "gamma": "1"})
			if err != nil {
				t.Fatal(err)
			}
			return l.(*leastSquares)
		}
		all := learner()
		all.Sum(xs)
		var totals []*leastSquares
		for _, stores := range []int{0, 1, 7} {
			total := learner()
			for p := range 3 {
				part := learner()
				for i := p; i < len(xs); i += 3 {
					part.Sum(xs[i : i+1])
					if stores > 0 && r.IntN(100) < stores {
						again := learner()
						s, err := part.Sums().AppendBinary(nil)
						if err == nil {
							again.sums.Add(make([]float32, 65), 1, 1) // what was there before is of no meaning
							err = again.sums.UnmarshalBinary(s)
						}
						if err != nil {
							t.Fatal(err)
						}
						again.dim, part = part.dim, again
					}
				}
				if err := total.Sums().Merge(part.Sums()); err != nil {
					t.Fatal(err)
				}
			}
			totals = append(totals, total)
		}
		for _, total := range totals {
			a, b := algostest.Bytes(t, total.Sums()), algostest.Bytes(t, totals[0].Sums())
			if string(a) != string(b) {
				t.Errorf("%d classes: sums that were stored differ in their bits", classes)
			}
		}
		one, err := all.sums.Solve(all.ridge())
		if err != nil {
			t.Fatal(err)
		}
		other, err := totals[0].sums.Solve(totals[0].ridge())
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range one.X {
			if math.Abs(v-other.X[i]) > 1e-6*(1+math.Abs(v)) {
				t.Fatalf("%d classes: coefficient %d is %v, from parts %v", classes, i, v, other.X[i])
			}
		}
	}
}

// With the linear kernel the model is that of ridge, which keeps other sums of
// other coordinates, and sums of parts with different features are those of all.
func TestLSLinear(t *testing.T) {
	for _, task := range []algos.Task{algos.Classify, algos.Regress} {
		r := rand.New(rand.NewPCG(3, 4))
		var xs []*stream.Example
		for i := range 900 {
			x := &stream.Example{Seq: uint64(i + 1), Labelled: true, Weight: float32(1 + r.IntN(3))}
			x.X.Idx = []int32{int32(r.IntN(5)), int32(5 + r.IntN(1+i/30))} // new features come all the time
			x.X.Val = []float32{float32(r.NormFloat64()), float32(r.NormFloat64())}
			if x.Y = float64(x.X.Val[0]) + r.NormFloat64(); task == algos.Classify {
				x.Y = math.Copysign(1, x.Y)
			}
			xs = append(xs, x)
		}
		env, set := algos.Env{Seed: 1, Task: task, Classes: 2}, map[string]string{"c": "0.3", "bias": "2"}
		want, err := ridge.Spec.New(env, set)
		if err != nil {
			t.Fatal(err)
		}
		algostest.Feed(t, want, xs...)
		set["kernel"] = "linear"
		total, err := Spec.New(env, set)
		if err != nil {
			t.Fatal(err)
		}
		l := total.(*leastSquares)
		for k := range 3 {
			part, err := Spec.New(env, set)
			if err != nil {
				t.Fatal(err)
			}
			part.(*leastSquares).Sum(xs[600-300*k : 900-300*k])
			if err := l.Sums().Merge(part.(*leastSquares).Sums()); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Restore(l.Sums(), 34); err != nil {
			t.Fatal(err)
		}
		a, err := want.Finish(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b, err := l.Finish(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(a.Objective-b.Objective) > 1e-9*a.Objective || b.GradNorm > 1e-9 || l.Model().Info().Dim != want.Model().Info().Dim {
			t.Errorf("%s: objective %v, want %v; gradient %g; %+v", task, b.Objective, a.Objective, b.GradNorm, l.Model().Info())
		}
		for _, x := range xs {
			if f, g := l.Model().Decision(x.X), want.Model().Decision(x.X); math.Abs(f-g) > 1e-9 {
				t.Fatalf("%s: f = %v, want %v", task, f, g)
			}
		}
	}
}

// An example with more features than those of the solution does not change the model,
// here and in a learner that is restored.
func TestLSWidthOfTheSolution(t *testing.T) {
	options := map[string]string{"features": "64", "gamma": "1"}
	l, err := Spec.New(algos.Env{Task: algos.Classify, Classes: 2}, options)
	if err != nil {
		t.Fatal(err)
	}
	add := func(n int, val ...float32) {
		for i := range n {
			algostest.Feed(t, l, &stream.Example{X: stream.Vec{Val: val}, Y: float64(1 - i%2*2), Labelled: true, Weight: 1})
		}
	}
	add(100, .5, 1)
	before := algostest.Bytes(t, l.Model())
	add(1, .5, 1, 2)
	back, err := Spec.New(algos.Env{Task: algos.Classify, Classes: 2}, options)
	if err != nil {
		t.Fatal(err)
	}
	state := algostest.Bytes(t, l)
	if err := back.UnmarshalBinary(state); err != nil {
		t.Fatal(err)
	}
	if l.Report().Step == 0 || l.Model().Info().Dim != 2 || !bytes.Equal(before, algostest.Bytes(t, l.Model())) {
		t.Errorf("the model has %d features after %d solutions", l.Model().Info().Dim, l.Report().Step)
	}
	if !bytes.Equal(before, algostest.Bytes(t, back.Model())) || !bytes.Equal(state, algostest.Bytes(t, back)) {
		t.Error("a restart changes the model")
	}
}
