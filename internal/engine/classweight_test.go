package engine

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// Weights come where a class is rare beyond doubt, go where it is not any more,
// and stay where the counts hardly change.
func TestClassWeightRule(t *testing.T) {
	for _, c := range []struct {
		counts, old, want []float64
	}{
		{[]float64{990, 10}, nil, []float64{1, 10}},
		{[]float64{30, 970}, nil, []float64{6, 1}},
		{[]float64{64, 0}, nil, []float64{1, 8}},
		{[]float64{30, 0}, nil, []float64{1, 5}},
		{[]float64{903, 97}, nil, nil}, // as ijcnn1, mnist8
		{[]float64{760, 240}, nil, nil},
		{[]float64{63, 1}, nil, nil}, // 1 of 64, which may be chance
		{[]float64{950, 50}, []float64{1, 5}, []float64{1, 5}},
		{[]float64{950, 50}, []float64{1, 10}, []float64{1, 4}},
		{[]float64{800, 200}, []float64{1, 5}, nil},
		{[]float64{500, 300, 190, 8, 2}, nil, []float64{1, 1, 1, 1, 10}},
		{[]float64{200, 200, 200, 200, 200}, nil, nil},
	} {
		k := classWeights{auto: true, w: c.old}
		if k.update(c.counts); !slices.Equal(k.w, c.want) {
			t.Errorf("counts %v after weights %v give %v, want %v", c.counts, c.old, k.w, c.want)
		}
	}
}

// consumed returns an engine that has taken the items in calls of so many, and its
// hash. Between the calls its state is stored and restored if resume is set.
func consumed(t *testing.T, cfg Config, items []Item, size int, resume bool) (*Engine, string) {
	t.Helper()
	e, err := NewEngine(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(items); at += size {
		part := slices.Clone(items[at:min(at+size, len(items))])
		if _, err := e.Consume(context.Background(), part); err != nil {
			t.Fatal(err)
		}
		if resume {
			if err := e.Settle(context.Background()); err != nil {
				t.Fatal(err)
			}
			own, learner, err := e.encode()
			if err != nil {
				t.Fatal(err)
			}
			again, err := NewEngine(e.cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := again.decode(own, learner); err != nil {
				t.Fatal(err)
			}
			e = again
		}
	}
	if err := e.Settle(context.Background()); err != nil {
		t.Fatal(err)
	}
	h, err := e.Hash()
	if err != nil {
		t.Fatal(err)
	}
	return e, fmt.Sprint(h)
}

// What is learned of a rare class does not depend on how the stream is cut into
// calls, nor on whether a state was restored; and balanced classes have no weight.
func TestClassWeightStream(t *testing.T) {
	spec, err := registry.Lookup("online")
	if err != nil {
		t.Fatal(err)
	}
	items := fixedBits(3000)
	for i := range items {
		x := &items[i].Example
		if x.Y > 0 && i%40 != 0 {
			x.Y = -1
		}
	}
	run := func(weights string, size int, resume bool) (*Engine, string) {
		return consumed(t, Config{Spec: spec, Preset: "default", Seed: 1, ClassWeight: weights, Warmup: 300}, items, size, resume)
	}
	e, whole := run("auto", len(items), false)
	if e.weights.w == nil || e.weights.w[1] < 6 {
		t.Fatalf("weights %v", e.weights.w)
	}
	for _, size := range []int{1, 7, 100, 301} {
		if _, got := run("auto", size, size > 7); got != whole {
			t.Errorf("in calls of %d the state is another one", size)
		}
	}
	if _, none := run("none", len(items), false); none == whole {
		t.Error("without weights the state is the same")
	}
	if e, _ := run("1=3,-1=0.5", len(items), false); !slices.Equal(e.weights.w, []float64{0.5, 3}) {
		t.Errorf("weights %v were given", e.weights.w)
	}
}

// The same where the window of the measures, in which the newest labels are, is
// smaller than the block, and the shares of the classes change.
func TestClassWeightWindow(t *testing.T) {
	for _, several := range []bool{false, true} {
		cfg := Config{Spec: must(registry.Lookup("online")), Preset: "default", Seed: 1, Window: 50, Warmup: 50}
		items := fixedBits(700)
		if several {
			cfg.Signature.Labels = "0,1,2"
		}
		for i := range items {
			x := &items[i].Example
			if rare := i%60 == 0 || i >= 300 && i%2 == 0; several {
				x.Y = float64(i % 2)
				if rare {
					x.Y = 2
				}
			} else if x.Y = -1; rare {
				x.Y = 1
			}
		}
		_, whole := consumed(t, cfg, items, len(items), false)
		for _, size := range []int{1, 37, 100} {
			if _, got := consumed(t, cfg, items, size, size > 1); got != whole {
				t.Errorf("%v: in calls of %d the state is another one", several, size)
			}
		}
		cfg.ClassWeight = "none"
		if _, none := consumed(t, cfg, items, len(items), false); none == whole {
			t.Error("without weights the state is the same")
		}
	}
}

// The same with several classes, one of which is found later, where labels come with
// their examples and where they come later.
func TestClassWeightOfSeveral(t *testing.T) {
	items := quarters(fixedBits(6000))
	for i := range items {
		x := &items[i].Example
		if i%20 != 0 && (x.Class != "" || x.Y == 1) {
			x.Y, x.Class = 0, ""
		}
	}
	cfg := Config{
		Spec: must(registry.Lookup("online")), Preset: "default", Seed: 1, Warmup: 300,
		Signature: codec.Signature{Labels: "0,1,2,3"},
	}
	for _, delay := range []int{0, 70} {
		cfg.Delay, cfg.ClassWeight = delay, "auto"
		e, whole := consumed(t, cfg, items, len(items), false)
		if w := e.weights.w; len(w) != 5 || w[0] != 1 || w[1] < 3 || w[2] != 1 || w[3] != 1 || w[4] < 3 {
			t.Errorf("weights %v", w)
		}
		for _, size := range []int{1, 7, 100, 301} {
			if _, got := consumed(t, cfg, items, size, size > 7); got != whole {
				t.Errorf("labels %d later, in calls of %d: the state is another one", delay, size)
			}
		}
		cfg.ClassWeight = "none"
		if _, none := consumed(t, cfg, items, len(items), false); none == whole {
			t.Error("without weights the state is the same")
		}
	}
	cfg.Signature.Labels, cfg.ClassWeight = `"a","b c","d"`, "b c=3"
	if e := must(NewEngine(cfg)); !slices.Equal(e.weights.w, []float64{1, 3, 1}) || e.weights.of(3) != 1 {
		t.Errorf("weights %v were given", e.weights.w)
	}
	cfg.ClassWeight = "e=2"
	if _, err := NewEngine(cfg); err == nil {
		t.Error("a label that there is not is taken")
	}
}

// The default learner's classes have no weights, unless they are given or a state has them.
func TestClassWeightOfAdaptive(t *testing.T) {
	items := quarters(fixedBits(700))
	for i := range items {
		if x := &items[i].Example; i%20 != 0 && (x.Class != "" || x.Y == 1) {
			x.Y, x.Class = 0, ""
		}
	}
	cfg := Config{Spec: must(registry.Lookup("adaptive")), Preset: "default", Seed: 1, Signature: codec.Signature{Labels: "0,1,2,3"}}
	for _, before := range []bool{false, true} {
		e := must(NewEngine(cfg))
		e.weights.auto = before
		must(e.Consume(t.Context(), slices.Clone(items)))
		if err := e.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		own, learner, err := e.encode()
		if err != nil {
			t.Fatal(err)
		}
		again := must(NewEngine(cfg))
		if err := again.decode(own, learner); err != nil {
			t.Fatal(err)
		}
		if w := again.weights; before != (w.w != nil) || before != w.auto || !slices.Equal(w.w, e.weights.w) {
			t.Errorf("weights %v, then %v", e.weights.w, w)
		}
	}
}

func TestClassWeightErrors(t *testing.T) {
	for _, s := range []string{"a", "=1", "a=0", "a=-1", "a=x", "a=NaN", "a=Inf", "a=1,a=2", "a=1,"} {
		if _, _, err := ParseClassWeights(s); err == nil {
			t.Errorf("%q is taken", s)
		}
	}
	online, sbp := must(registry.Lookup("online")), must(registry.Lookup("sbp"))
	for _, c := range []Config{
		{Spec: online, ClassWeight: "spam=2"},
		{Spec: online, Task: "regress", ClassWeight: "1=2"},
		{Spec: sbp, ClassWeight: "1=2"},
	} {
		c.Preset = "default"
		if _, err := NewEngine(c); err == nil {
			t.Errorf("%s, %s, %s is taken", c.Spec.Name, c.Task, c.ClassWeight)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
