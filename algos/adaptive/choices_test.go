package adaptive

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// TestChoices: the kernel learners of all classes take what has the least sum of losses, which windows
// of one class each give. The classes of the examples are known after a restart, also those before a
// class was added.
func TestChoices(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	l, err := Spec.New(algos.Env{Seed: 1, Classes: 3}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := l.(*classes)
	follow := func(n int) {
		for range n {
			a, b := r.NormFloat64(), r.NormFloat64()
			y := math.Floor((math.Atan2(a, b)/math.Pi + 1) / 2 * float64(len(c.heads)))
			x := &stream.Example{Labelled: true, Y: y, X: stream.Vec{Val: []float32{float32(a), float32(b)}}}
			if _, _, err := c.Follow(t.Context(), make([]float64, len(c.heads)), []*stream.Example{x}); err != nil {
				t.Fatal(err)
			}
		}
	}
	follow(512)
	m := c.heads[0].kernels[growing]
	for k, h := range c.heads {
		if got := h.kernels[growing]; got.choice != m.choice || got.tuned != 512 {
			t.Errorf("class %d: %+v with %d examples, class 0: %+v", k, got.choice, got.tuned, m.choice)
		}
	}
	var least float64
	var want choice
	all := scaled(c.heads[0].detector.Newest(512), m.transform, target{})
	for _, laplacian := range []bool{false, true} {
		fit, _ := split(all, target{})
		for _, gamma := range gammasOf(fit, 1, laplacian, 1./4, 1, 4, 16) {
			sums := map[float64]float64{}
			for _, h := range c.heads {
				fit, test := split(scaled(h.detector.Newest(512), m.transform, target{}), target{})
				w := newWindow(len(fit), 0.5, kernelOf(gamma), target{})
				w.fill(fit)
				for _, w.c = range []float64{0.5, 4, 32} {
					w.rebound()
					w.ascend(pairsAll, len(fit))
					w.model = nil
					f := make([]float64, len(test))
					w.expansion().Decisions(f, samplers.Vecs(test))
					sums[w.c] += lossOf(f, labelsOf(test), test)
				}
			}
			for c, sum := range sums {
				if least == 0 || sum < least {
					least, want = sum, choice{c, gamma}
				}
			}
		}
	}
	if m.choice != want {
		t.Errorf("%+v, the least sum of losses, %v, has %+v", m.choice, least, want)
	}

	follow(700)
	if err := c.AddClass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(c.choices.made); n > 0 {
		t.Errorf("%d choices for all classes are made for the one added late", n)
	}
	follow(100)
	restored, err := Spec.New(algos.Env{Seed: 1, Classes: 3}, nil)
	if err == nil {
		err = restored.UnmarshalBinary(algostest.Bytes(t, l))
	}
	if err != nil {
		t.Fatal(err)
	}
	a, b := &c.choices, &restored.(*classes).choices
	if a.seen != 1312 || b.seen != a.seen || b.classes != 4 || b.keep != a.keep || !slices.Equal(a.class, b.class) {
		t.Errorf("of %d classes, %d of %d examples are known after a restart, of %d", b.classes, len(b.class), b.seen, a.seen)
	}
	for k, h := range restored.(*classes).heads {
		if h.before != c.heads[k].before || (h.before > 0) != (k == 3) {
			t.Errorf("class %d was added after %d examples, restored %d", k, c.heads[k].before, h.before)
		}
	}
	// The class added late chooses by itself, and with many examples each does.
	late, sizes := c.heads[3], standard
	sizes.whole = 1024
	for _, of := range []*choices{nil, {}} {
		own := &kernelLearner{sizes: &sizes, growing: true}
		if err := own.choose(t.Context(), late.env, late.detector.Newest(1124)[:1024], false, of, 1024); err != nil {
			t.Fatal(err)
		}
		got := late.kernels[growing]
		if got.tuned != 1024 || got.choice != own.choice || !slices.Equal(got.transform.Export().Factor, own.transform.Export().Factor) {
			t.Errorf("added late, with %d examples: %+v, by itself %+v", got.tuned, got.choice, own.choice)
		}
	}
	heads := slices.Clone(c.heads)
	slices.Reverse(heads)
	if b.restore(heads) == nil {
		t.Error("the first class has fewer examples than another")
	}

	few := choices{classes: 7, keep: 3}
	for i := range 50 {
		few.add([]*stream.Example{{Y: float64(i % 7)}})
		if n := len(few.class); n > 7 {
			t.Fatalf("the classes of %d examples are kept", n)
		}
		rows := min(i, 3) // before the newest
		for k, y := range few.lanes(choiceOf{seen: uint64(i), rows: rows}) {
			for j, v := range y {
				if (v > 0) != ((i-rows+j)%7 == k) || v*v != 1 {
					t.Fatalf("class %d, example %d: %v", k, i-rows+j, v)
				}
			}
		}
	}
}
