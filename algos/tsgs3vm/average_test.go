package tsgs3vm

import (
	"math"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/internal/rff"
	"github.com/streamsvm/streamsvm/internal/rffmodel"
	ref "github.com/streamsvm/streamsvm/internal/testkit/oracle"
	"github.com/streamsvm/streamsvm/stream"
)

// Shares are exp(−score/(t·unit)) among the settings of the gamma that has most
// of them.
func TestAverageShares(t *testing.T) {
	at := func(gamma, a, wrong, far float64) candidate {
		return candidate{settings: settings{gamma: gamma, c: 1, cluster: cluster{weight: a}}, wrong: wrong, far: far}
	}
	all := []candidate{
		at(1, 0, 10.5, 0), // the best, but alone
		at(2, 0, 11, 0), at(2, 0, 11, 0.5), at(2, 3, 10.5, 0), at(2, 0, 40, 0),
		at(3, 0, 30, 0), at(3, 0, 30, 0),
	}
	const unit, temperature = 2., 0.5
	want := []float64{0, math.Exp(-1), math.Exp(-1.5), math.Exp(-1.5), 0, 0, 0}
	testShares(t, all, want, unit, temperature)
	slices.Reverse(all)
	slices.Reverse(want)
	testShares(t, all, want, unit, temperature)
}

func testShares(t *testing.T, all []candidate, want []float64, unit, temperature float64) {
	gamma := share(all, unit, temperature)
	sum := 0.0
	for _, v := range want {
		sum += v
	}
	if gamma != 2 {
		t.Errorf("gamma %g, want 2", gamma)
	}
	for i, v := range all {
		if math.Abs(v.share-want[i]/sum) > 1e-6 {
			t.Errorf("share %d is %g, want %g", i, v.share, want[i]/sum)
		}
	}
}

// What averaging adds to the best model makes it the mean of the models, each
// the optimum of its own SVM, computed here by another solver from kernel
// values.
func TestAverageMean(t *testing.T) {
	const n, marks, size, a = 40, 70, 128, 3.
	xs := algostest.Moons(n+marks, algos.Classify, 4)
	o := options{shared: shared{Kernel: "rbf", Features: size, Block: 32, Bias: 1, Cache: 16}}
	g := newGrid(xs[:n], o, 3, 0)
	g.marks = xs[n:]
	if err := g.setGamma(2); err != nil {
		t.Fatal(err)
	}
	all := []candidate{
		{settings: settings{gamma: 2, c: 0.5}, share: 0.5},
		{settings: settings{gamma: 2, c: 4}, share: 0.2},
		{settings: settings{gamma: 2, c: 4, cluster: cluster{weight: a}}, share: 0.3},
		{settings: settings{gamma: 2, c: 0.1, cluster: cluster{weight: a}}},
	}
	mean := g.mean(all, all[1].settings)[0]
	if math.Abs(mean.cluster-0.3*a) > 1e-12 {
		t.Errorf("mean weight of the cluster kernel %g, want %g", mean.cluster, 0.3*a)
	}

	feats, err := rff.New(rff.Gaussian, 2, 32, 3, 0)
	if err != nil {
		t.Fatal(err)
	}
	z := mapped(feats, size, xs)
	dot := func(i int, w []float64) (s float64) {
		for j, v := range w {
			s += 2. / size * float64(z[i*size+j]) * v
		}
		return s
	}
	row := func(i int) []float64 {
		w := make([]float64, size)
		for j := range w {
			w[j] = float64(z[i*size+j])
		}
		return w
	}
	walk := make([][]float64, n+marks) // less its mean over the landmarks
	for i := range walk {
		walk[i] = make([]float64, marks)
		m := 0.0
		for u := range marks {
			walk[i][u] = dot(i, row(n+u))
			m += walk[i][u] / marks
		}
		for u := range marks {
			walk[i][u] -= m
		}
	}
	steps := func(i, k int) (s float64) {
		for u := range marks {
			s += walk[i][u] * walk[k][u] / marks
		}
		return s
	}
	unit, diag, sum := 0.0, 0.0, 0.0
	for i := range n {
		unit += steps(i, i) / n
		diag += dot(i, row(i)) / n
		for k := range n {
			sum += dot(i, row(k)) / (n * n)
		}
	}
	unit /= diag - sum
	f := make([][]float64, len(all)) // decisions by candidate and point
	for c, v := range all {
		k := v.cluster.weight
		kernel := func(i, j int) float64 { return (dot(i, row(j))+k*steps(i, j)/unit)/(1+k) + 1 }
		q, y := make([][]float64, n), make([]float64, n)
		for i := range n {
			y[i] = xs[i].Y
			q[i] = make([]float64, n)
			for j := range n {
				q[i][j] = kernel(i, j)
			}
		}
		alpha := ref.Solve(q, y, 1/(v.c*n), 1e-6, 10000).Alpha
		f[c] = make([]float64, n+marks)
		for i := range f[c] {
			for j := range n {
				f[c][i] += alpha[j] * kernel(i, j)
			}
		}
	}
	for i := range n + marks {
		want := 0.5*f[0][i] + 0.2*f[1][i] + 0.3*f[2][i]
		got := f[1][i] + dot(i, mean.w) + mean.b
		if math.Abs(got-want) > 0.02 {
			t.Fatalf("decision %g on point %d, want %g; the best has %g", got, i, want, f[1][i])
		}
	}
}

// The mean is served, and fades as labels double without another choice.
func TestAverageServed(t *testing.T) {
	small := map[string]string{"features": "128", "block": "32", "rho": "0"}
	l := learned(t, Spec, small, algostest.Moons(400, algos.Classify, 5))
	d := l.solver.(*dual)
	if l.averages[0].w == nil || l.tuned == 0 {
		t.Fatal("nothing is averaged")
	}
	x := stream.Vec{Val: []float32{0.3, 0.2}}
	alone := (&rffmodel.Model{Feats: l.feats, Coef: d.arms[0].w, Scale: d.norm(), Offset: d.arms[0].b}).Decision(x)
	adds := (&rffmodel.Model{Feats: l.feats, Coef: l.averages[0].w, Scale: d.norm(), Offset: l.averages[0].b}).Decision(x)
	for _, c := range []struct{ more, share float64 }{{1, 1}, {1.5, 0.5}, {2, 0}, {5, 0}} {
		l.labelled = uint64(c.more * float64(l.tuned))
		share := 2 - float64(l.labelled)/float64(l.tuned) // an odd number does not halve
		if share = max(share, 0); math.Abs(share-c.share) > 0.02 {
			t.Fatalf("%d labels, %d at the choice", l.labelled, l.tuned)
		}
		l.model = nil
		if got, want := l.Model().Decision(x), alone+share*adds; math.Abs(got-want) > 1e-6*(1+math.Abs(want)) {
			t.Errorf("decision %g at %g times the labels, want %g (%g alone)", got, c.more, want, alone)
		}
	}
	small["average"] = "0"
	if l := learned(t, Spec, small, algostest.Moons(400, algos.Classify, 5)); l.averages[0].w != nil {
		t.Error("average=0 averages")
	}
}
