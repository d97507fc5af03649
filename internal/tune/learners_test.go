package tune_test

import (
	"math/rand/v2"
	"reflect"
	"runtime"
	"strconv"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/algos/registry"
	_ "github.com/streamsvm/streamsvm/contrib/scale/lssvm"
	"github.com/streamsvm/streamsvm/internal/tune"
	"github.com/streamsvm/streamsvm/stream"
)

// named returns learners: one of each kind is enough for the tuner.
func named(t *testing.T, names ...string) (specs []algos.Spec) {
	t.Helper()
	for _, name := range names {
		spec, err := registry.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		specs = append(specs, spec)
	}
	return specs
}

// The outcome depends neither on the number of workers nor on anything else
// but the arguments.
func TestDeterministic(t *testing.T) {
	for _, spec := range named(t, "scs", "online", "tsgs3vm") {
		xs := algostest.Moons(300, spec.Tasks[0], 2)
		var first tune.Result
		for i, workers := range []int{1, 4} {
			before := runtime.GOMAXPROCS(workers)
			res, err := tune.Run(t.Context(), spec, algos.Env{Seed: 5}, nil, xs, nil)
			runtime.GOMAXPROCS(before)
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				first = res
			} else if !reflect.DeepEqual(first, res) {
				t.Errorf("%s: another outcome with %d workers", spec.Name, workers)
			}
		}
		for i, x := range algostest.Moons(300, spec.Tasks[0], 2) {
			if !reflect.DeepEqual(x, xs[i]) {
				t.Fatalf("%s: example %d was changed", spec.Name, i)
			}
		}
	}
}

// The values of gamma for a Laplacian kernel are around 2/median l1 distance, which may be far
// from the median squared distance.
func TestLaplacianGamma(t *testing.T) {
	xs := algostest.Moons(300, algos.Classify, 2)
	for _, x := range xs {
		for j := range x.X.Val {
			x.X.Val[j] *= 1000
		}
	}
	for kernel, unit := range map[string]float64{"rbf": 1e-6, "laplacian": 1e-3} {
		res, err := tune.Run(t.Context(), named(t, "scs")[0], algos.Env{Seed: 5}, map[string]string{"kernel": kernel}, xs, nil)
		if err != nil {
			t.Fatal(err)
		}
		if gamma, _ := strconv.ParseFloat(res.Options["gamma"], 64); gamma < unit/20 || gamma > 100*unit {
			t.Errorf("%s: gamma %v for distances of 1/%v", kernel, gamma, unit)
		}
	}
}

// Tuning a learner on two moons does not make it worse than its defaults, and
// finds a narrow kernel where one is needed.
func TestTunesLearners(t *testing.T) {
	board := func(n int, seed uint64) []*stream.Example {
		r := rand.New(rand.NewPCG(seed, 1))
		xs := make([]*stream.Example, n)
		for i := range xs {
			u, v := 4*r.Float64(), 4*r.Float64()
			x := &stream.Example{Seq: uint64(i + 1), Labelled: true, Y: 1}
			if (int(u)+int(v))%2 == 0 {
				x.Y = -1
			}
			x.X.Val = []float32{float32(u), float32(v)}
			xs[i] = x
		}
		return xs
	}
	train, test := board(1600, 1), board(1000, 2)
	for _, spec := range named(t, "scs", "sbp", "sbp") {
		res, err := tune.Run(t.Context(), spec, algos.Env{Seed: 1}, nil, train, nil)
		if err != nil {
			t.Fatal(err)
		}
		accuracy := func(options map[string]string) float64 {
			share, err := tune.Accuracy(t.Context(), spec, algos.Env{Seed: 1, Task: algos.Classify}, options, train, test)
			if err != nil {
				t.Fatal(err)
			}
			return share
		}
		before, after := accuracy(nil), accuracy(res.Options)
		if after < .9 || after < before {
			t.Errorf("%s on a checkerboard: %.3f by default, %.3f with %v", spec.Name, before, after, res.Options)
		}
	}
}
