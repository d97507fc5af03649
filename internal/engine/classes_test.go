package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/pipeline"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// sectors returns n records of five classes, each a blob on a circle. The labels a,
// b and c are listed; d comes in the warm-up of 200 examples, and e, which is
// class 5, after half of the stream.
func sectors(n int, seed uint64, bad bool) []Item {
	r := rand.New(rand.NewPCG(seed, 8))
	items := rings(n, seed, bad)
	for i := range items {
		k := r.IntN(5)
		if i < 30 {
			k %= 3
		} else if i < n/2 {
			k %= 4
		}
		x := &items[i].Example
		if len(x.X.Val) == 0 {
			continue
		}
		a := 2 * math.Pi * float64(k) / 5
		x.X.Val[0], x.X.Val[1] = float32(2*math.Cos(a)+.4*r.NormFloat64()), float32(2*math.Sin(a)+.4*r.NormFloat64())
		if !x.Labelled {
			continue
		}
		if x.Y = float64(k); k > 2 {
			x.Y, x.Class = 0, string(rune('a'+k))
		}
	}
	return items
}

func configOfClasses(t *testing.T, learner string) Config {
	t.Helper()
	cfg := config(t, learner)
	cfg.Task = algos.Classify
	cfg.Signature = codec.Signature{Codec: "json", Labels: `"a","b","c"`, MaxFeatures: codec.DefaultMaxFeatures}
	return cfg
}

// TestClasses: the state is a function of the stream with classes that are found,
// however it is cut, stored and restored, at any GOMAXPROCS, whether labels come
// with their examples, later, or on a topic of their own.
func TestClasses(t *testing.T) {
	// Learners that keep a model a class themselves; the others share one wrapper.
	for _, learner := range []string{"adaptive", "scs", "online", "sbp", "tsgs3vm"} {
		for _, way := range []string{"with", "delay", "join"} {
			if way != "with" && (learner == "sbp" || learner == "tsgs3vm") {
				continue
			}
			t.Run(learner+"/"+way, func(t *testing.T) {
				cfg := configOfClasses(t, learner)
				const n = 1200
				source := func() []Item { return sectors(n, 1, true) }
				switch way {
				case "delay":
					cfg.Delay = 40
				case "join":
					cfg.Join = Join{Topic: "labels", Window: 60}
					source = func() []Item { return apart(sectors(n, 1, true), rand.New(rand.NewPCG(2, 3)), 50, 5) }
				}
				run := func(r *rand.Rand) *Engine {
					e := newEngine(t, cfg)
					for items := source(); len(items) > 0; {
						cut := len(items)
						if r != nil {
							cut = min(cut, 1+r.IntN(300))
						}
						consume(t, e, items[:cut])
						if items = items[cut:]; r != nil {
							e = interrupted(t, e, cfg, r)
						}
					}
					finish(t, e)
					return e
				}
				e := run(nil)
				want := hashOf(t, e)
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
				for seed := range uint64(2) {
					runtime.GOMAXPROCS(1 + int(seed))
					if h := hashOf(t, run(rand.New(rand.NewPCG(seed, 1)))); h != want {
						t.Errorf("seed %d: state %x, want %x", seed, h, want)
					}
				}
				if got := e.Classes(); !slices.Equal(got, []string{"a", "b", "c", "d", "e"}) {
					t.Fatalf("classes %q", got)
				}
				data, err := e.Predictor().AppendBinary(nil)
				if err != nil {
					t.Fatal(err)
				}
				p, err := pipeline.Decode(data)
				if err != nil || p.Signature.Labels != `"a","b","c","d","e"` || p.Classes() != 5 {
					t.Fatalf("%+v, %v", p, err)
				}
				right, all := 0., 0.
				for _, it := range sectors(1000, 9, false)[500:] {
					name := it.Example.Class
					if name == "" {
						name = p.Signature.Label(it.Example.Y).(string)
					}
					f := make([]float64, 1)
					p.Decisions(f, []stream.Vec{it.Example.X})
					if all++; p.Signature.Label(f[0]) == name {
						right++
					}
				}
				if right < .7*all {
					t.Errorf("%.3f of the classes are told", right/all)
				}
				s := e.Prequential().Summary()
				if len(s.Classes) != 5 || s.Classes[4].Examples == 0 || s.Accuracy < .6 || len(s.Window.Confusion) != 5 {
					t.Errorf("measures %+v", s)
				}
			})
		}
	}
}

// TestMaxClasses: one class too many is refused as a label, and leaves no trace.
func TestMaxClasses(t *testing.T) {
	cfg := configOfClasses(t, "online")
	cfg.MaxClasses = 4
	e := newEngine(t, cfg)
	items := sectors(600, 1, false)
	refused := 0
	for i := range items {
		consume(t, e, items[i:i+1])
		if why := items[i].Err; why != nil {
			refused++
			if why.Stage != stream.StageLabel || !strings.Contains(why.Error(), "the label e would be class 5, at most 4") {
				t.Fatal(why)
			}
		}
	}
	if c := e.Counts(); refused == 0 || c.Dead != uint64(refused) || len(e.Classes()) != 4 {
		t.Errorf("%d refused, %+v, classes %q", refused, c, e.Classes())
	}
	for _, y := range []float64{-1, .5, 4} {
		it := Item{Example: stream.Example{X: stream.Vec{Val: []float32{1, 2, 3}}, Labelled: true, Y: y}}
		if e.Admit(&it); it.Err == nil {
			t.Errorf("class %v is admitted", y)
		}
	}
	cfg.MaxClasses = 2
	if _, err := NewEngine(cfg); err == nil {
		t.Error("three labels are listed where two classes are allowed")
	}
	snap := snapshot(t, e)
	plain := config(t, "online")
	plain.Signature = codec.Signature{}
	if err := newEngine(t, plain).Restore(snap); err != nil {
		t.Errorf("a configuration that does not know the stream: %v", err)
	}
	other := configOfClasses(t, "online")
	other.Signature.Labels = `"a","c","b"`
	if err := newEngine(t, other).Restore(snap); err == nil || !strings.Contains(fmt.Sprint(err), "labels are") {
		t.Errorf("other labels: %v", err)
	}
}
