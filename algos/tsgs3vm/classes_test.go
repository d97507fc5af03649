package tsgs3vm

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/algos/ovr"
	"github.com/streamsvm/streamsvm/stream"
)

func TestConformanceOfClasses(t *testing.T) {
	for _, keep := range []string{"reservoir", "window"} {
		t.Run(keep, func(t *testing.T) {
			algostest.Run(t, DSG, algostest.Classes(5), algostest.With(map[string]string{"features": "128", "block": "32", "labels": "300", "keep": keep}),
				algostest.Accuracy(0.9), algostest.Examples(450))
		})
	}
}

// threeBlobs returns n examples of three overlapping classes.
func threeBlobs(n int, seed uint64) []*stream.Example {
	r := rand.New(rand.NewPCG(seed, 1))
	xs := make([]*stream.Example, n)
	for i := range xs {
		k := r.IntN(3)
		x := [2]float64{r.NormFloat64(), r.NormFloat64()}
		x[k/2] += 2 * float64(k%2*2-1)
		xs[i] = &stream.Example{X: stream.Vec{Val: []float32{float32(x[0]), float32(x[1])}}, Y: float64(k), Labelled: true, Seq: uint64(i), Weight: 1 + float32(i%3)}
	}
	return xs
}

// apart returns dsg with independent classifiers of three classes.
func apart(t *testing.T, options map[string]string) algos.Learner {
	t.Helper()
	l, err := ovr.New(3, func() (algos.Learner, error) {
		return DSG.New(algos.Env{Seed: 1, Against: 3}, options)
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// With given gamma and c the classifiers have the bits of independent ones, for a sample that
// holds everything, that forgets, and that is a window.
func TestClassesAreEachAgainstTheRest(t *testing.T) {
	for _, c := range []map[string]string{{"labels": "1000"}, {"labels": "100"}, {"labels": "100", "keep": "window"}} {
		for k, v := range map[string]string{"gamma": "0.5", "c": "2", "features": "128", "block": "64"} {
			c[k] = v
		}
		one, err := DSG.New(algos.Env{Seed: 1, Classes: 3}, c)
		if err != nil {
			t.Fatal(err)
		}
		each := apart(t, c)
		algostest.Feed(t, one, threeBlobs(700, 3)...)
		algostest.Feed(t, each, threeBlobs(700, 3)...)
		test := threeBlobs(300, 4)
		var right int
		f, g := make([]float64, 3), make([]float64, 3)
		for _, x := range test {
			one.Model().(algos.Scorer).Scores(f, []stream.Vec{x.X})
			each.Model().(algos.Scorer).Scores(g, []stream.Vec{x.X})
			if [3]float64(f) != [3]float64(g) {
				t.Fatalf("%v: scores %v, of independent classifiers %v", c, f, g)
			}
			if algos.Largest(f) == int(x.Y) {
				right++
			}
		}
		if right < 240 {
			t.Errorf("%v: %d of %d right", c, right, len(test))
		}
	}
}

// gamma and c are chosen for all classes together.
func TestClassesTuned(t *testing.T) {
	options := map[string]string{"features": "256"}
	l, err := DSG.New(algos.Env{Seed: 1, Classes: 3}, options)
	if err != nil {
		t.Fatal(err)
	}
	algostest.Feed(t, l, threeBlobs(700, 5)...)
	parts, _, ok := ovr.Parts(l.Model())
	in := l.(*either).ClassAdder.(*classes)
	if !ok || len(parts) != 3 || in.tuned < 350 || in.averages[0].w == nil {
		t.Fatalf("%d parts, tuned at %d", len(parts), in.tuned)
	}
	g := newGrid(in.Sample()[:in.tuned], in.opt, 1, 3)
	if err := g.setGamma(in.gamma); err != nil {
		t.Fatal(err)
	}
	// What the arms restart from satisfies the KKT conditions of each classifier.
	const c = 0.1
	for h, alpha := range g.fit(c) {
		for i, y := range g.signs[h] {
			f := 0.0
			for j, a := range alpha {
				f += a * g.signs[h][j] * float64(g.gram[i*len(g.y)+j])
			}
			box := g.v.At(i) * c
			if m := y * f; m > 1.02 && alpha[i] > 0 || m < 0.98 && alpha[i] < box {
				t.Fatalf("class %d, point %d: margin %g, α %g of %g", h, i, m, alpha[i], box)
			}
		}
	}
}

// A state of an earlier version, with independent classifiers, is continued with them.
func TestClassesOfEarlierStates(t *testing.T) {
	options := map[string]string{"features": "128", "block": "64"}
	old, xs := apart(t, options), threeBlobs(500, 6)
	algostest.Feed(t, old, xs[:300]...)
	l, err := DSG.New(algos.Env{Seed: 1, Classes: 3}, options)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.UnmarshalBinary(algostest.Bytes(t, old)); err != nil {
		t.Fatal(err)
	}
	algostest.Feed(t, old, xs[300:]...)
	algostest.Feed(t, l, threeBlobs(500, 6)[300:]...)
	if !bytes.Equal(algostest.Bytes(t, l), algostest.Bytes(t, old)) {
		t.Fatal("states differ")
	}
	// The learner reads its own states after it has read another's.
	fresh, err := DSG.New(algos.Env{Seed: 1, Classes: 3}, options)
	if err != nil {
		t.Fatal(err)
	}
	algostest.Feed(t, fresh, threeBlobs(300, 7)...)
	if err := l.UnmarshalBinary(algostest.Bytes(t, fresh)); err != nil {
		t.Error(err)
	}
}
