package tsgs3vm

import (
	"math"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	ref "github.com/streamsvm/streamsvm/internal/testkit/oracle"
	"github.com/streamsvm/streamsvm/stream"
)

func learned(t *testing.T, spec algos.Spec, options map[string]string, xs []*stream.Example) *Learner {
	t.Helper()
	l, err := spec.New(algos.Env{Seed: 2}, options)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := algos.Feed(t.Context(), l, xs...); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l.(*Learner)
}

// With a cluster kernel the model is the optimum of the SVM with that kernel,
// which is computed here from its definition: kernel values between points and
// landmarks, no rows m.
func TestClusterOptimum(t *testing.T) {
	const c, size, a = 20., 128, 3.
	l := learned(t, Spec, map[string]string{
		"gamma": "2", "c": "20", "features": "128", "block": "32", "cluster": "3", "rho": "0",
	}, algostest.Moons(300, algos.Classify, 5))
	d := l.solver.(*dual)
	n, u := len(d.z), len(l.cluster.points)
	if l.cluster.weight != a || u < leastLandmarks {
		t.Fatalf("weight %g, %d landmarks", l.cluster.weight, u)
	}
	dot := func(x, z []float32) float64 {
		s := 0.0
		for j := range x {
			s += 2. / size * float64(x[j]) * float64(z[j])
		}
		return s
	}
	marks := mapped(l.feats, size, l.cluster.points)
	walk := make([][]float64, n)
	for i := range n {
		walk[i] = make([]float64, u)
		mean := 0.0
		for j := range u {
			walk[i][j] = dot(d.z[i], marks[j*size:(j+1)*size])
			mean += walk[i][j] / float64(u)
		}
		for j := range u {
			walk[i][j] -= mean
		}
	}
	step := func(i, k int) float64 {
		s := 0.0
		for j := range u {
			s += walk[i][j] * walk[k][j] / float64(u)
		}
		return s
	}
	steps, diag, all := 0.0, 0.0, 0.0
	for i := range n {
		steps += step(i, i) / float64(n)
		diag += dot(d.z[i], d.z[i]) / float64(n)
		for k := range n {
			all += dot(d.z[i], d.z[k]) / float64(n*n)
		}
	}
	q, y := make([][]float64, n), make([]float64, n)
	for i := range n {
		y[i] = l.Sample()[i].Y
		q[i] = make([]float64, n)
		for k := range n {
			q[i][k] = (dot(d.z[i], d.z[k])+a*step(i, k)*(diag-all)/steps)/(1+a) + 1
		}
	}
	best := ref.Solve(q, y, 1/(c*float64(n)), 1e-5, 10000)
	// The dual objective of the learner's coefficients, from the same matrix.
	got := 0.0
	for i := range n {
		got += d.arms[0].a[i]
		for k := range n {
			got -= d.arms[0].a[i] * y[i] * d.arms[0].a[k] * y[k] * q[i][k] / 2
		}
	}
	got /= c * float64(n)
	if got > best.Objective*(1+1e-6) || got < best.Objective*0.99 {
		t.Errorf("dual objective %g, optimum %g (gap %g)", got, best.Objective, best.Gap)
	}
	// And the decisions are those of these coefficients.
	for i := range n {
		f := 0.0
		for k := range n {
			f += d.arms[0].a[k] * y[k] * q[i][k]
		}
		if v := l.Model().Decision(l.Sample()[i].X); math.Abs(v-f) > 1e-3*(1+math.Abs(f)) {
			t.Fatalf("decision %g on label %d, want %g", v, i, f)
		}
	}
}

// blobs returns points of two classes in noise of 100 coordinates, which have
// their mean and most of their variance in the first: what unlabelled examples
// tell. One in every has a label.
func blobs(n, every int, seed uint64) []*stream.Example {
	state := seed
	next := func() float64 { // about normal
		s := 0.0
		for range 12 {
			state = state*6364136223846793005 + 1442695040888963407
			s += float64(state>>40) / (1 << 24)
		}
		return s - 6
	}
	xs := make([]*stream.Example, n)
	for i := range xs {
		y := 1.0
		if next() < 0 {
			y = -1
		}
		val := make([]float32, 100)
		for j := range val {
			val[j] = float32(0.7 * next())
		}
		val[0] += float32(1.2 * y)
		xs[i] = &stream.Example{X: stream.Vec{Val: val}, Y: y, Labelled: i%every == 0, Seq: uint64(i)}
		if !xs[i].Labelled {
			xs[i].Y = 0
		}
	}
	return xs
}

// Where clusters are classes, the cluster kernel is chosen, and there are fewer
// errors than without; where there are no unlabelled examples, it has no part.
func TestClusterChosen(t *testing.T) {
	errors := func(m algos.Model) (wrong int) {
		for _, x := range blobs(2000, 1, 99) {
			if (m.Decision(x.X) >= 0) != (x.Y > 0) {
				wrong++
			}
		}
		return wrong
	}
	small := map[string]string{"features": "2048", "block": "64", "batch-unlabelled": "64"}
	xs := blobs(1200, 12, 3)
	with := learned(t, Spec, small, xs)
	plain, err := DSG.New(algos.Env{Seed: 2}, map[string]string{"features": "2048", "block": "64"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := algos.Feed(t.Context(), plain, xs...); err != nil {
		t.Fatal(err)
	}
	if _, err := plain.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a, b := errors(with.Model()), errors(plain.Model()); a*10 > b*9 || with.cluster.weight == 0 {
		t.Errorf("weight %g: %d errors, %d without unlabelled examples", with.cluster.weight, a, b)
	}
	var labels []*stream.Example
	for _, x := range xs {
		if x.Labelled {
			labels = append(labels, x)
		}
	}
	if l := learned(t, Spec, small, labels); l.cluster.weight != 0 {
		t.Errorf("weight %g without unlabelled examples", l.cluster.weight)
	}
}

// The cluster kernel is given up where labels are more than it is meant for.
func TestClusterDropped(t *testing.T) {
	l := learned(t, Spec, map[string]string{
		"features": "64", "block": "64", "gamma": "1", "c": "5", "cluster": "3", "rho": "0", "tuning": "40",
	}, algostest.Moons(400, algos.Classify, 1))
	if l.labelled <= 40 {
		t.Fatalf("%d labels", l.labelled)
	}
	if l.cluster.weight != 0 || len(l.cluster.points) != 0 {
		t.Errorf("weight %g after %d labels", l.cluster.weight, l.labelled)
	}
	for i, z := range l.solver.(*dual).z {
		if &z[0] != &l.solver.(*dual).m[i][0] {
			t.Fatal("rows are still those of a cluster kernel")
		}
	}
}
