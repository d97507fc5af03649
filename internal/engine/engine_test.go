package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/algos/adaptive"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/checkpoint"
	_ "github.com/streamsvm/streamsvm/contrib/scale/lssvm"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
)

// rings returns n records of a two-ring problem in dim features; a few are
// unlabelled, a few cannot be used.
func rings(n int, seed uint64, bad bool) []Item {
	r := rand.New(rand.NewPCG(seed, 7))
	items := make([]Item, n)
	for i := range items {
		it := &items[i]
		it.Partition, it.Offset = stream.Partition{Topic: "t", ID: int32(i % 2)}, int64(i/2)
		x := []float32{float32(r.NormFloat64()), float32(r.NormFloat64()), float32(r.NormFloat64())}
		y := -1.0
		if x[0]*x[0]+x[1]*x[1] > 1.4 {
			y = 1
		}
		it.Example = stream.Example{X: stream.Vec{Val: x}, Y: y, Labelled: true}
		switch {
		case bad && r.IntN(50) == 0:
			it.Example.X.Val = x[:2]
		case bad && r.IntN(50) == 0:
			it.Err = &stream.RecordError{Topic: "t", Stage: stream.StageDecode, Err: fmt.Errorf("not a number")}
		case bad && r.IntN(20) == 0:
			it.Example.Labelled, it.Example.Y = false, 0
		}
	}
	return items
}

func config(t *testing.T, learner string) Config {
	t.Helper()
	spec, err := registry.Lookup(learner)
	if err != nil {
		t.Fatal(err)
	}
	if learner == "adaptive" {
		spec = adaptive.Short // which comes to all it does within some hundred examples
	}
	return Config{Spec: spec, Options: small(spec), Seed: 3, Scale: "standard", Warmup: 200}
}

func newEngine(t *testing.T, cfg Config) *Engine {
	t.Helper()
	e, err := NewEngine(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func consume(t *testing.T, e *Engine, items []Item) {
	t.Helper()
	if _, err := e.Consume(t.Context(), items); err != nil {
		t.Fatal(err)
	}
}

func settle(t *testing.T, e *Engine) {
	t.Helper()
	if err := e.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func finish(t *testing.T, e *Engine) {
	t.Helper()
	if err := e.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func snapshot(t *testing.T, e *Engine) *checkpoint.Snapshot {
	t.Helper()
	s, err := e.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func restore(t *testing.T, e *Engine, s *checkpoint.Snapshot) {
	t.Helper()
	if err := e.Restore(s); err != nil {
		t.Fatal(err)
	}
}

func hashOf(t *testing.T, e *Engine) uint64 {
	t.Helper()
	h, err := e.Hash()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// interrupted settles e, or stores it and goes on from that, or does neither, as
// r has it.
func interrupted(t *testing.T, e *Engine, cfg Config, r *rand.Rand) *Engine {
	t.Helper()
	switch r.IntN(3) {
	case 0:
		settle(t, e)
	case 1:
		snap := snapshot(t, e)
		e = newEngine(t, cfg)
		restore(t, e, snap)
		if h := hashOf(t, e); h != snap.Header.StateHash {
			t.Fatalf("a restored state encodes to %x, stored as %x", h, snap.Header.StateHash)
		}
	}
	return e
}

// TestStateIsAFunctionOfTheStream runs one stream under random cuts, random
// pauses, random stores and restores and different GOMAXPROCS: all must agree
// with the plain run to the bit.
func TestStateIsAFunctionOfTheStream(t *testing.T) {
	for _, spec := range registry.All {
		t.Run(spec.Name, func(t *testing.T) {
			cfg := config(t, spec.Name)
			const n = 1500
			ref := newEngine(t, cfg)
			consume(t, ref, rings(n, 1, true))
			settle(t, ref)
			stopped := hashOf(t, ref)
			finish(t, ref)
			finished := hashOf(t, ref)
			if stopped == finished {
				t.Fatal("Finish left no trace in the state")
			}
			for seed := range uint64(4) {
				runtime.GOMAXPROCS([]int{1, 2, 4, 2}[seed])
				r := rand.New(rand.NewPCG(seed, 1))
				e := newEngine(t, cfg)
				items := rings(n, 1, true)
				for len(items) > 0 {
					cut := min(len(items), 1+r.IntN(300))
					consume(t, e, items[:cut])
					items = items[cut:]
					e = interrupted(t, e, cfg, r)
				}
				settle(t, e)
				if h := hashOf(t, e); h != stopped {
					t.Errorf("seed %d: state %x before Finish, want %x", seed, h, stopped)
				}
				finish(t, e)
				if h := hashOf(t, e); h != finished {
					t.Errorf("seed %d: state %x after Finish, want %x", seed, h, finished)
				}
			}
			runtime.GOMAXPROCS(runtime.NumCPU())
		})
	}
}

// TestProcessorsLeaveNoTrace: the learners that cut their work into pieces have the
// same state at any GOMAXPROCS where there is enough of it to be cut, which the
// streams above are too small for.
func TestProcessorsLeaveNoTrace(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, name := range []string{"scs", "sbp", "dsg", "tsgs3vm", "l1smooth", "online"} {
		for _, sparse := range []bool{false, true} {
			if sparse && name != "scs" && name != "sbp" {
				continue // the others have no layout for it
			}
			t.Run(fmt.Sprintf("%s/sparse=%v", name, sparse), func(t *testing.T) {
				cfg := config(t, name)
				cfg.Options, cfg.Tune, cfg.Warmup = nil, true, 500
				var want uint64
				for _, processors := range []int{1, 4} {
					runtime.GOMAXPROCS(processors)
					e := newEngine(t, cfg)
					consume(t, e, manyFeatures(4000, sparse))
					finish(t, e)
					if h := hashOf(t, e); processors == 1 {
						want = h
					} else if h != want {
						t.Errorf("state %x with %d processors, %x with one", h, processors, want)
					}
				}
			})
		}
	}
}

// manyFeatures are rings, of which some have no label, with 21 features more.
func manyFeatures(n int, sparse bool) []Item {
	items := rings(n, 5, false)
	r := rand.New(rand.NewPCG(5, 8))
	for i := range items {
		x := &items[i].Example
		if x.Labelled = i < 1000 || i%4 > 0; !x.Labelled {
			x.Y = 0
		}
		for range 21 {
			x.X.Val = append(x.X.Val, r.Float32()/4)
		}
		if sparse {
			for k := range x.X.Val {
				x.X.Idx = append(x.X.Idx, int32(100*k+r.IntN(1+30*min(k/3, 1))))
			}
		}
	}
	return items
}

func TestFatesAddUp(t *testing.T) {
	e := newEngine(t, config(t, "sbp"))
	items := rings(3000, 2, true)
	for i := range items {
		consume(t, e, items[i:i+1])
		if i%97 != 0 {
			continue
		}
		if i%2 == 0 {
			settle(t, e)
		}
		c := e.Counts()
		if sum := c.Learned + c.SampledOut + c.Dead + c.Pending; sum != c.Consumed || c.Consumed != uint64(i+1) {
			t.Fatalf("after %d records the fates add up to %d: %+v", i+1, sum, c)
		}
	}
	finish(t, e)
	c := e.Counts()
	if c.Learned+c.SampledOut+c.Dead != 3000 || c.Pending != 0 || c.Dead == 0 || c.SampledOut == 0 {
		t.Errorf("at the end: %+v", c)
	}
	for p, next := range e.Offsets() {
		if next != 1500 {
			t.Errorf("%v stands at %d, want 1500", p, next)
		}
	}
}

func TestWrongDimensionNamesPlace(t *testing.T) {
	e := newEngine(t, config(t, "sbp"))
	items := rings(2, 1, false)
	items[1].Example.X.Val = items[1].Example.X.Val[:2]
	items[1].Offset = 41
	consume(t, e, items)
	if items[1].Err == nil {
		t.Fatal("an example of 2 features was taken into a stream of 3")
	}
	for _, want := range []string{"t/1", "41", "2 features", "3"} {
		if !strings.Contains(items[1].Err.Error(), want) {
			t.Errorf("error %q does not name %q", items[1].Err, want)
		}
	}
}

// TestOtherConfigurationIsRefused changes one setting at a time: a state must
// not go on under another configuration.
func TestOtherConfigurationIsRefused(t *testing.T) {
	cfg := config(t, "sbp")
	e := newEngine(t, cfg)
	consume(t, e, rings(500, 1, false))
	snap := snapshot(t, e)
	for name, change := range map[string]func(*Config){
		"seed":   func(c *Config) { c.Seed++ },
		"scale":  func(c *Config) { c.Scale = "minmax" },
		"set":    func(c *Config) { c.Options = map[string]string{"gamma": "0.5"} },
		"window": func(c *Config) { c.Window = 10 },
		"warmup": func(c *Config) { c.Warmup = 100 },
	} {
		other := cfg
		change(&other)
		err := newEngine(t, other).Restore(snap)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s changed: error %v does not name it", name, err)
		}
	}
}

// TestFixedOptionOfAnOldState: a state with an option that has become a constant
// continues if the option had the constant's value, and is refused otherwise.
func TestFixedOptionOfAnOldState(t *testing.T) {
	spec, err := registry.Lookup("ridge")
	if err != nil {
		t.Fatal(err)
	}
	now := Config{Spec: spec, Options: map[string]string{"c": "2"}, Seed: 3, Scale: "standard", Warmup: 200}
	for value, ok := range map[string]bool{"1": true, "0.5": false} {
		before := now
		before.Options = map[string]string{"c": "2", "bias": value}
		e := newEngine(t, before)
		consume(t, e, rings(500, 1, false))
		snap := snapshot(t, e)
		resumed := newEngine(t, now)
		switch err := resumed.Restore(snap); {
		case ok && err != nil:
			t.Errorf("bias = %s, the constant: %v", value, err)
		case !ok && (err == nil || !strings.Contains(err.Error(), "bias=0.5, which can no longer be set: it is 1 now")):
			t.Errorf("bias = %s: got %v", value, err)
		}
		other := now
		other.Options = map[string]string{"c": "3"}
		if err := newEngine(t, other).Restore(snap); err == nil {
			t.Errorf("bias = %s: c changed, and the state was taken", value)
		}
	}
}

func TestPredictorTravels(t *testing.T) {
	e := newEngine(t, config(t, "sbp"))
	items := rings(2000, 5, false)
	consume(t, e, items)
	finish(t, e)
	checkTravel(t, e, rings(500, 6, false))
}

// checkTravel encodes the engine's predictor, decodes it and compares decisions
// on the raw examples, to the bit.
func checkTravel(t *testing.T, e *Engine, items []Item) {
	t.Helper()
	p := e.Predictor()
	data, err := p.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	q, err := predictor.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	right := 0
	for i := range items {
		x := items[i].Example
		var one [1]float64
		p.Decisions(one[:], []stream.Vec{x.X})
		a, b := one[0], q.Decision(x.X)
		if a != b {
			t.Fatalf("example %d: decision %v, after travelling %v", i, a, b)
		}
		if q.Predict(x.X) == x.Y {
			right++
		}
	}
	if share := float64(right) / float64(len(items)); share < 0.85 {
		t.Errorf("accuracy %.3f on rings that a kernel separates", share)
	}
	data[len(data)/2] ^= 1
	if _, err := predictor.Decode(data); err == nil {
		t.Error("a flipped bit was not noticed")
	}
}

// TestLearnerFromBefore: the state of a learner as an older version wrote it is
// refused, with a way out. The file is what adaptive had after eight examples
// when its panel had ten experts.
func TestLearnerFromBefore(t *testing.T) {
	cfg := config(t, "adaptive")
	e := newEngine(t, cfg)
	consume(t, e, rings(500, 1, false))
	snap := snapshot(t, e)
	old, err := os.ReadFile("testdata/adaptive.before")
	if err != nil {
		t.Fatal(err)
	}
	for i := range snap.Sections {
		if snap.Sections[i].Name == sectionLearner {
			snap.Sections[i].Data = old
		}
	}
	err = newEngine(t, cfg).Restore(snap)
	if !errors.Is(err, ErrOldState) || !strings.Contains(err.Error(), "learner adaptive") || !strings.Contains(err.Error(), "train again") {
		t.Error(err)
	}
}
