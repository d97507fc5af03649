package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// TestLearnersTakeWhatIsAdmitted: no learner refuses an example at its limits.
func TestLearnersTakeWhatIsAdmitted(t *testing.T) {
	below := math.Nextafter32(algos.TooLarge, 0)
	for _, spec := range registry.All {
		for _, task := range spec.Tasks {
			l, err := spec.New(algos.Env{Seed: 1, Task: task}, nil)
			if err != nil {
				t.Fatal(err)
			}
			features := 1 << 24
			if lim, ok := l.(algos.Limited); ok {
				features = lim.Limits().Features
			}
			y := 1.0
			if task == algos.Regress {
				y = float64(below)
			}
			for _, x := range []stream.Vec{{Val: []float32{below, -below}}, {Idx: []int32{0, int32(features - 1)}, Val: []float32{-below, below}}} {
				if _, err := l.Add(&stream.Example{X: x, Y: y, Labelled: true}); err != nil {
					t.Errorf("%s, %s: %v is refused: %v", spec.Name, task, x, err)
				}
			}
		}
	}
}

// The largest value that is admitted is one that learners take, and the next one is
// a dead letter: an error of the learner would end the run, and each run after it.
func TestAdmissionEndsWhereLearnersDo(t *testing.T) {
	limit := float32(algos.TooLarge)
	for _, hash := range []int{0, 4} {
		for v, dead := range map[float32]uint64{math.Nextafter32(limit, 0): 0, limit: 1, -limit: 1} {
			e := newEngine(t, Config{Spec: must(registry.Lookup("online")), Preset: "default", Scale: "none", HashDim: hash})
			items := fixedBits(10)
			for i := range items {
				items[i].Example.X = stream.Vec{Idx: []int32{0, 3}, Val: []float32{float32(i), 1}}
			}
			items[5].Example.X = stream.Vec{Idx: []int32{2}, Val: []float32{v}}
			if _, err := e.Consume(t.Context(), items); err != nil {
				t.Errorf("%g, hashed to %d: %v", v, hash, err)
			} else if err := e.Finish(t.Context()); err != nil || e.Counts().Dead != dead {
				t.Errorf("%g, hashed to %d: %v, %+v", v, hash, err, e.Counts())
			}
		}
	}
}

// text returns n records in libsvm's form, of 8 features.
func text(n int) (recs []stream.Record) {
	r := rand.New(rand.NewPCG(5, 5))
	for i := range n {
		j := 1 + r.IntN(4)
		v := r.NormFloat64()
		recs = append(recs, stream.Record{Topic: "t", Offset: int64(i), Value: fmt.Appendf(nil, "%+d %d:%.3f %d:%.3f", 1-2*(j%2), j, v, j+1+r.IntN(4), v*v)})
	}
	return recs
}

// TestOnlyTheLearnerRefuses: examples that are well formed, but that no learner
// can take, become dead letters, wherever they come; what is learned is what the
// other records alone give, however often the run is stopped and goes on.
func TestOnlyTheLearnerRefuses(t *testing.T) {
	lines, err := codec.New("libsvm", codec.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		learner string
		options map[string]string
		bad     string
		stage   stream.Stage
		reason  stream.Reason
	}{
		{"sbp", nil, "+1 1:1e19", stream.StageFeature, stream.ReasonNotFinite},
		{"online", nil, "+1 2:-1e30", stream.StageFeature, stream.ReasonNotFinite},
		{"l1smooth", map[string]string{"dim": "8"}, "+1 1:1 9:1", stream.StageLearn, stream.ReasonLimit},
		{"svrg-sd", map[string]string{"dims": "8"}, "-1 9:1", stream.StageLearn, stream.ReasonLimit},
		{"ridge", map[string]string{"dims": "8"}, "+1 3:1 70000:1", stream.StageLearn, stream.ReasonLimit},
	} {
		for _, scale := range []string{"none", "standard", "running"} {
			t.Run(c.learner+"/"+scale, func(t *testing.T) {
				cfg := config(t, c.learner)
				cfg.Options, cfg.Scale = c.options, scale
				good := text(1500)
				var mixed []stream.Record
				var want []int64
				for i := range good {
					r := good[i]
					// All eight features are known after the first hundred.
					if i == 100 || i == 199 || i%271 == 150 || i == len(good)-1 {
						want = append(want, int64(len(mixed)))
						mixed = append(mixed, stream.Record{Topic: "t", Offset: int64(len(mixed)), Value: []byte(c.bad)})
					}
					r.Offset = int64(len(mixed))
					mixed = append(mixed, r)
				}
				clean := newEngine(t, cfg)
				if _, err := Run(t.Context(), clean, RunConfig{Source: &memory{recs: good, r: rand.New(rand.NewPCG(1, 1))}, Decoder: lines}); err != nil {
					t.Fatal(err)
				}

				var hash uint64
				for seed := range uint64(2) {
					e, sent := stopAndGo(t, cfg, mixed, lines, seed)
					if seed == 0 {
						hash = hashOf(t, e)
					} else if h := hashOf(t, e); h != hash {
						t.Errorf("stopped: state %x, %x without", h, hash)
					}
					n := e.Counts()
					if n.Consumed != uint64(len(mixed)) || n.Dead != uint64(len(want)) || n.Learned+n.SampledOut != uint64(len(good)) {
						t.Errorf("fates %+v of %d good and %d bad", n, len(good), len(want))
					}
					slices.Sort(sent.offsets)
					if seed == 0 && !slices.Equal(sent.offsets, want) {
						t.Errorf("letters about %v, want %v", sent.offsets, want)
					}
					for _, why := range sent.why {
						if why.Stage != c.stage || why.Reason != c.reason {
							t.Errorf("%v: stage %s, reason %s", why, why.Stage, why.Reason)
						}
					}
					e.counts.Dead = 0
					a1, a2, a3, a4 := parts(t, clean)
					b1, b2, b3, b4 := parts(t, e)
					if !bytes.Equal(a1, b1) || !bytes.Equal(a2, b2) || !bytes.Equal(a3, b3) || !bytes.Equal(a4, b4) {
						t.Errorf("the state is not that of the good records: learner %v, model %v, counts %v, measures %v", bytes.Equal(a1, b1), bytes.Equal(a2, b2), bytes.Equal(a3, b3), bytes.Equal(a4, b4))
					}
				}

				e := newEngine(t, cfg)
				_, err := Run(t.Context(), e, RunConfig{Source: &memory{recs: mixed, r: rand.New(rand.NewPCG(1, 1))}, Decoder: lines})
				var re *stream.RecordError
				if !errors.As(err, &re) || re.Offset != want[0] || e.Counts().Consumed != uint64(want[0]) {
					t.Errorf("without tolerance: %v after %d records, want an error about %d", err, e.Counts().Consumed, want[0])
				}
			})
		}
	}
}

// reasons are letters that keep why they were sent.
type reasons struct {
	letters
	why []*stream.RecordError
}

func (l *reasons) Send(ctx context.Context, rec *stream.Record, why *stream.RecordError) error {
	l.why = append(l.why, why)
	return l.letters.Send(ctx, rec, why)
}

// stopAndGo runs recs to their end, with stops at places that seed determines;
// seed 0 has none.
func stopAndGo(t *testing.T, cfg Config, recs []stream.Record, dec stream.Decoder, seed uint64) (*Engine, *reasons) {
	t.Helper()
	store, r, sent := openStore(t, t.TempDir()), rand.New(rand.NewPCG(seed, 3)), &reasons{}
	for {
		snap, err := store.Load()
		if err != nil {
			t.Fatal(err)
		}
		e := newEngine(t, cfg)
		if snap != nil {
			restore(t, e, snap)
		}
		ctx, cancel := context.WithCancel(t.Context())
		src := &memory{recs: from(recs, e.Offsets()), r: r, calls: cancel}
		if seed > 0 {
			src.stop = 1 + r.IntN(700)
		}
		res, err := Run(ctx, e, RunConfig{Source: src, Decoder: dec, Store: store, DeadLetters: sent, Tolerance: TolerateData, CheckpointEvery: 100})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		if res.Ended {
			return e, sent
		}
	}
}

// TestHashingBeyondTheLearner: more hashed features than the learner takes is
// known before the first record; sums of hashed values stay below the limit.
func TestHashingBeyondTheLearner(t *testing.T) {
	cfg := config(t, "ridge")
	cfg.HashDim = 1024
	if _, err := NewEngine(cfg); err == nil || !strings.Contains(err.Error(), "1024") || !strings.Contains(err.Error(), "dims") {
		t.Errorf("error %v", err)
	}
	cfg.HashDim, cfg.Warmup, cfg.Scale = 2, 1, "none"
	e := newEngine(t, cfg)
	items := []Item{
		{Example: stream.Example{X: stream.Vec{Idx: []int32{5, 1 << 23}, Val: []float32{1, 2}}, Y: 1, Labelled: true}},
		{Offset: 1, Example: stream.Example{X: stream.Vec{Val: slices.Repeat([]float32{3e17}, 8)}, Y: 1, Labelled: true}},
	}
	consume(t, e, items)
	if items[0].Err != nil || items[1].Err == nil || items[1].Err.Field != "feature 4" {
		t.Errorf("%v, %v", items[0].Err, items[1].Err)
	}
}

// TestGateCounts compares the features that a gate has seen with those of all
// examples together.
func TestGateCounts(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for range 200 {
		g := admission{limits: algos.Limits{Distinct: 12, Option: "dims"}}
		there := map[int]bool{}
		dim := 1 + r.IntN(6)
		for range 30 {
			var x stream.Vec
			after := map[int]bool{}
			for j := range there {
				after[j] = true
			}
			if r.IntN(4) == 0 {
				x.Val = make([]float32, dim)
				for j := range dim {
					after[j] = true
				}
			} else {
				x.Idx = []int32{}
				for j := range 20 {
					if r.IntN(8) == 0 {
						x.Idx = append(x.Idx, int32(j))
						x.Val = append(x.Val, float32(r.IntN(2)))
						if x.Val[len(x.Val)-1] != 0 {
							after[j] = true
						}
					}
				}
			}
			if err := g.accept(&x); (err == nil) != (len(after) <= 12) {
				t.Fatalf("%v after %v: %v", x, there, err)
			} else if err == nil {
				there = after
			}
		}
	}
}
