package tsgs3vm

import (
	"bytes"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/algos/ovr"
	"github.com/streamsvm/streamsvm/internal/rffmodel"
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
		maps.Copy(c, map[string]string{"gamma": "0.5", "c": "2", "features": "128", "block": "64"})
		one, err := DSG.New(algos.Env{Seed: 1, Classes: 3}, c)
		if err != nil {
			t.Fatal(err)
		}
		each := apart(t, c)
		algostest.Feed(t, one, threeBlobs(700, 3)[:350]...)
		one.Model() // not what is served later
		algostest.Feed(t, one, threeBlobs(700, 3)[350:]...)
		algostest.Feed(t, each, threeBlobs(700, 3)...)
		hinge := 0.0
		for k := range 3 {
			b, err := DSG.New(algos.Env{Seed: 1, Against: 3}, c)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range threeBlobs(700, 3) {
				x.Y = (&arm{class: k + 1}).sign(x.Y)
				algostest.Feed(t, b, x)
			}
			hinge += b.(*Learner).hinge / 3
		}
		if got := one.(*either).ClassAdder.(*classes).hinge; math.Abs(got-hinge) > 1e-9 {
			t.Errorf("%v: mean loss %g, of independent classifiers %g", c, got, hinge)
		}
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
	xs := threeBlobs(700, 5)
	in := l.(*either).ClassAdder.(*classes)
	for in.tuned < 300 || in.tuned < in.Len() {
		algostest.Feed(t, l, xs[0])
		xs = xs[1:]
	}
	g, d := newGrid(in.Sample(), in.opt, 1, 3), in.solver.(*dual)
	if err := g.setGamma(in.gamma); err != nil {
		t.Fatal(err)
	}
	for k, alpha := range g.fit(in.c) {
		if !slices.Equal(alpha, d.arms[k].a) || slices.Max(alpha) == 0 {
			t.Errorf("class %d does not start from the optimum in kernel values", k)
		}
	}
	algostest.Feed(t, l, xs...)
	parts, _, ok := ovr.Parts(l.Model())
	if !ok || len(parts) != 3 || in.averages[0].w == nil {
		t.Fatalf("%d parts, tuned at %d", len(parts), in.tuned)
	}
	// A class's decision is that of its arm plus what is left of its own average.
	x := stream.Vec{Val: []float32{0.3, -0.2}}
	packed := l.Model().(interface{ Pack() algos.Model }).Pack()
	packedParts, _, _ := ovr.Parts(packed)
	for k, p := range parts {
		w, b := d.arms[k].model()
		of := func(w []float64, b float64) float64 {
			return (&rffmodel.Model{Feats: in.feats, Coef: w, Scale: d.norm(), Offset: b}).Decision(x)
		}
		want := of(w, b) + (2-float64(in.labelled)/float64(in.tuned))*of(in.averages[k].w, in.averages[k].b)
		if got := p.Decision(x); math.Abs(got-want) > 1e-6 {
			t.Errorf("class %d: decision %g, want %g", k, got, want)
		}
		if got := packedParts[k].Decision(x); math.Abs(got-want) > 1e-3 {
			t.Errorf("class %d: decision %g when packed, want %g", k, got, want)
		}
	}
	if full, small := algostest.Bytes(t, l.Model()), algostest.Bytes(t, packed); 3*len(small) > 2*len(full) {
		t.Errorf("%d bytes, packed %d", len(full), len(small))
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

	// Averages are those of a classifier with the class's own labels.
	one, two := settings{gamma: in.gamma, c: 0.1}, settings{gamma: in.gamma, c: 2}
	all := []candidate{{settings: one, share: 0.5}, {settings: two, share: 0.5}}
	for h, got := range g.mean(all, one) {
		alone := *g
		alone.signs = g.signs[h : h+1]
		if want := alone.mean(all, one)[0]; got.b != want.b || !slices.Equal(got.w, want.w) {
			t.Errorf("class %d: another average than alone", h)
		}
	}
	// An error is a wrong class, not a wrong sign.
	for k, y := range g.y {
		s := []float64{-3, -3, -3}
		if s[int(y)] = -2; !g.right(k, s) {
			t.Fatal("the largest decision is wrong")
		}
		if s[int(y+1)%3] = -1; g.right(k, s) {
			t.Fatal("another class's larger decision is right")
		}
	}
}

// Tuning needs two labels of two classes. A balanced sample needs independent classifiers.
func TestClassesNeed(t *testing.T) {
	ys := func(of ...float64) (xs []*stream.Example) {
		for _, y := range of {
			xs = append(xs, &stream.Example{X: stream.Vec{Val: []float32{float32(y)}}, Y: y, Labelled: true})
		}
		return xs
	}
	if newGrid(ys(0, 0, 0, 1, 2), options{}, 1, 3) != nil || newGrid(ys(0, 0, 1, 2, 2), options{}, 1, 3) == nil {
		t.Error("one class with more than one label, or two")
	}
	for keep, want := range map[string]bool{"balanced": false, "window": true} {
		l, err := DSG.New(algos.Env{Seed: 1, Classes: 3}, map[string]string{"keep": keep})
		if _, joint := l.(*either); joint != want || err != nil {
			t.Fatalf("%s: %T, %v", keep, l, err)
		}
		if _, blank, _ := ovr.Parts(l.Model().(interface{ Pack() algos.Model }).Pack()); !slices.Equal(blank, []bool{true, true, true}) {
			t.Errorf("%s, before the first step: blank %v", keep, blank)
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
