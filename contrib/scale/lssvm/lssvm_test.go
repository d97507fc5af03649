package lssvm

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/internal/rff"
	"github.com/streamsvm/streamsvm/stream"
)

func TestLSConformance(t *testing.T) {
	for _, c := range []struct {
		classes int
		options map[string]string
	}{
		{4, map[string]string{"features": "64", "gamma": "2", "refresh": "0.2"}},
		{2, map[string]string{"features": "128", "kernel": "laplacian", "lambda": "0.001", "loss": "hinge"}},
	} {
		t.Run(fmt.Sprint(c.classes, c.options), func(t *testing.T) {
			opts := []algostest.Option{algostest.With(c.options), algostest.Accuracy(.9)}
			if c.classes > 2 {
				opts = append(opts, algostest.Classes(c.classes), algostest.Accuracy(.85))
			}
			algostest.Run(t, Spec, opts...)
		})
	}
}

// examples returns n labelled examples, some of them with weights.
func examples(n, classes int) (xs []*stream.Example) {
	r := rand.New(rand.NewPCG(7, uint64(classes)))
	for i := range n {
		x := &stream.Example{Seq: uint64(i + 1), Labelled: true, Weight: float32(r.IntN(4)) / 2}
		for range 3 {
			x.X.Val = append(x.X.Val, float32(r.NormFloat64()))
		}
		if x.Y = float64(r.IntN(classes)); classes == 2 {
			x.Y = math.Copysign(1, float64(x.X.Val[0]*x.X.Val[1])+.3*r.NormFloat64())
		}
		xs = append(xs, x)
	}
	return xs
}

// rounded returns the constant and the features of x, in 12 bits.
func rounded(t *testing.T, x stream.Vec) *mat.VecDense {
	t.Helper()
	feats, err := rff.New(rff.Gaussian, .7, 64, 5, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	var p rff.Points
	p.Pack([]stream.Vec{x})
	z, out := make([]float32, 64), []float64{1}
	feats.Map(z, 64, &p, 0)
	for _, v := range z {
		out = append(out, math.RoundToEven(float64(v*2047))/2047)
	}
	return mat.NewVecDense(65, out)
}

// solution minimises the squares of the losses of the given examples, and returns the
// objective, of n examples. ridge is that of a feature.
func solution(t *testing.T, zs []*mat.VecDense, y, w []float64, n, lambda float64) (*mat.VecDense, float64) {
	t.Helper()
	a, b := mat.NewDense(65, 65, nil), mat.NewVecDense(65, nil)
	for i, z := range zs {
		var outer mat.Dense
		outer.Outer(w[i]/n, z, z)
		a.Add(a, &outer)
		b.AddScaledVec(b, w[i]*y[i]/n, z)
	}
	for j := range 65 {
		a.Set(j, j, a.At(j, j)+map[bool]float64{true: lambda, false: lambda * 32}[j == 0])
	}
	x := mat.NewVecDense(65, nil)
	if err := x.SolveVec(a, b); err != nil {
		t.Fatal(err)
	}
	return x, objective(zs, y, w, n, lambda, x, math.Inf(1))
}

// objective is the mean square loss, of examples whose margin is below most, and the
// ridge.
func objective(zs []*mat.VecDense, y, w []float64, n, lambda float64, x *mat.VecDense, most float64) float64 {
	sum := lambda / 2 * (32*mat.Dot(x, x) - 31*x.AtVec(0)*x.AtVec(0))
	for i, z := range zs {
		if m := y[i] * mat.Dot(x, z); m < most {
			sum += w[i] * (1 - m) * (1 - m) / (2 * n)
		}
	}
	return sum
}

var smallOptions = map[string]string{"features": "64", "gamma": "0.7", "lambda": "0.003"}

// The model is the solution of the normal equations, by another solver, whatever the
// weights and the classes.
func TestLSSolution(t *testing.T) {
	for _, classes := range []int{2, 3} {
		l, err := Spec.New(algos.Env{Seed: 5, Classes: classes}, smallOptions)
		if err != nil {
			t.Fatal(err)
		}
		xs := examples(600, classes)
		algostest.Feed(t, l, xs...)
		report, err := l.Finish(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		heads, n, want := l.(*leastSquares).sums.Heads(), 0.0, 0.0
		var zs []*mat.VecDense
		var w []float64
		for _, x := range xs {
			zs, w, n = append(zs, rounded(t, x.X)), append(w, x.Importance()), n+x.Importance()
		}
		for k := range heads {
			y := make([]float64, len(xs))
			for i, x := range xs {
				y[i] = target(x, k, heads)
			}
			x, f := solution(t, zs, y, w, n, .003)
			want += f
			got := l.(*leastSquares).sol.X[k*65:][:65]
			for j, v := range got {
				if math.Abs(v-x.AtVec(j)) > 1e-9*(1+math.Abs(v)) {
					t.Fatalf("%d classes: coefficient %d is %v, want %v", classes, j, v, x.AtVec(j))
				}
			}
		}
		if math.Abs(report.Objective-want) > 1e-9*want || report.GradNorm > 1e-9 {
			t.Errorf("%d classes: objective %v, want %v; gradient %g", classes, report.Objective, want, report.GradNorm)
		}
		if f, g := l.Model().Info(), report.Sample; f.Dim != 3 || g != 600 {
			t.Errorf("%+v of %d examples", f, g)
		}
	}
}

// With the loss hinge, the objective of the sums is the squared hinge of all examples at
// the model, and Newton takes a step that another solver takes. The classes of several
// are each against the others.
func TestHinge(t *testing.T) {
	for _, classes := range []int{2, 3} {
		xs, set := examples(600, classes), map[string]string{"loss": "hinge"}
		maps.Copy(set, smallOptions)
		learner := func() *leastSquares {
			l, err := Spec.New(algos.Env{Seed: 5, Classes: classes}, set)
			if err != nil {
				t.Fatal(err)
			}
			return l.(*leastSquares)
		}
		first := learner()
		algostest.Feed(t, first, xs[:50]...)
		if _, err := first.Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
		l := learner()
		if err := l.Fix(first.Model()); err != nil {
			t.Fatal(err)
		}
		l.Sum(xs)
		m, err := l.Newton(.5)
		if err != nil {
			t.Fatal(err)
		}
		after := learner()
		if err := after.Fix(m); err != nil {
			t.Fatal(err)
		}
		here, heads, n, want := l.Here(), l.sums.Heads(), 0.0, 0.0
		for _, x := range xs {
			n += x.Importance()
		}
		for k := range heads {
			from, to := l.sol.X[k*65:][:65], after.sol.X[k*65:][:65]
			x0 := mat.NewVecDense(65, from)
			var zs, active []*mat.VecDense
			var y, w, ya, wa []float64
			for _, x := range xs {
				z, t, v := rounded(t, x.X), target(x, k, heads), x.Importance()
				zs, y, w = append(zs, z), append(y, t), append(w, v)
				if t*mat.Dot(x0, z) < 1 {
					active, ya, wa = append(active, z), append(ya, t), append(wa, v)
				}
			}
			if len(active) == len(zs) || len(active) == 0 {
				t.Fatalf("%d of %d examples are inside the margin: this tests nothing", len(active), len(zs))
			}
			want += objective(zs, y, w, n, .003, x0, 1)
			x, _ := solution(t, active, ya, wa, n, .003)
			for j, v := range to {
				if step := (from[j] + x.AtVec(j)) / 2; math.Abs(v-step) > 1e-9*(1+math.Abs(v)) {
					t.Fatalf("%d classes: coefficient %d is %v, want %v", classes, j, v, step)
				}
			}
		}
		if math.Abs(here.Objective-want) > 1e-9*want {
			t.Errorf("%d classes: objective %v, want %v", classes, here.Objective, want)
		}
		// The gap is no less than how much is to be gained.
		after.Sum(xs)
		if there := after.Here(); there.Objective >= here.Objective || here.Objective-there.Objective > here.Gap {
			t.Errorf("%d classes: objective %v after %v, whose gap is %v", classes, there.Objective, here.Objective, here.Gap)
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
