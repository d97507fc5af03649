package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/pipeline"
	"github.com/streamsvm/streamsvm/internal/promote"
	"github.com/streamsvm/streamsvm/stream"
)

// subscriber computes independently what a subscriber gets: it decodes each version
// that an engine of its own publishes, predicts each example when it arrives, and
// scores the prediction when the engine says that the label has come.
type subscriber struct {
	t        *testing.T
	e        *Engine
	version  *pipeline.Pipeline
	versions uint64
	arrived  []float64 // decisions by example, NaN without a version
	probs    []float64
	measures *eval.Prequential
}

func (s *subscriber) publish() []byte {
	s.t.Helper()
	if err := s.e.Settle(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	p := s.e.Predictor()
	if p == nil {
		return nil
	}
	data, err := p.Pack().AppendBinary(nil)
	if err == nil {
		s.version, err = pipeline.Decode(data)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	if m, ok := s.version.Model.(interface{ Compile() algos.Model }); ok {
		s.version.Model = m.Compile()
	}
	s.versions++
	return data
}

func (s *subscriber) arrive(x stream.Vec) {
	f, p := [1]float64{math.NaN()}, math.NaN()
	if s.version != nil {
		s.version.Decisions(f[:], []stream.Vec{x})
		if s.version.Probability != nil {
			p = s.version.Probability.Probability(f[0])
		}
	}
	s.arrived, s.probs = append(s.arrived, f[0]), append(s.probs, p)
}

func (s *subscriber) label(i int, y float64) {
	if f, p := s.arrived[i], s.probs[i]; f == f {
		s.measures.Add(f, y)
		if p == p {
			s.measures.AddProbability(p, y > 0)
		}
	}
}

// TestAsPublished compares what is measured with a subscriber, in replays and in live
// runs that are restored now and then, with labels that come with their examples, later,
// and on a topic of their own. The state is the same with and without measuring.
func TestAsPublished(t *testing.T) {
	const every, n, late = 300, 2100, 150
	for _, learner := range []string{"online", "adaptive"} {
		for _, labels := range []string{"with", "delay", "join"} {
			for _, live := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/live=%v", learner, labels, live), func(t *testing.T) {
					cfg := config(t, learner)
					switch labels {
					case "delay":
						cfg.Delay = late
					case "join":
						cfg.Join = Join{Topic: "labels", Window: 2 * late}
					}
					s := &subscriber{t: t, e: newEngine(t, cfg), measures: eval.New(false, 1000)}
					if !live {
						cfg.PublishEvery = every
					}
					measured := newEngine(t, cfg)
					var payload []byte
					adopt := func() {
						v, err := promote.NewVersion(s.versions, time.Time{}, payload)
						if err != nil {
							t.Fatal(err)
						}
						measured.adopt(v)
					}
					consume := func(it Item) {
						for _, e := range []*Engine{measured, s.e} {
							consume(t, e, []Item{it})
						}
					}
					r := rand.New(rand.NewPCG(1, 2))
					ys := make([]float64, n)
					records := 0
					before := func() { // a record
						due := records > 0 && records%every == 0
						if live {
							due = r.IntN(every) == 0
						}
						if due {
							if payload = s.publish(); payload != nil && live {
								adopt()
							}
						}
						if live && r.IntN(every/2) == 0 {
							snap := snapshot(t, measured)
							measured = newEngine(t, cfg)
							restore(t, measured, snap)
							if payload != nil {
								adopt() // as Republish does
							}
						}
						records++
					}
					offset := int64(0)
					for i := range n {
						y := float64(2*(r.IntN(2)) - 1)
						x := stream.Vec{Val: []float32{float32(y)*.3 + float32(r.NormFloat64()), float32(r.NormFloat64())}}
						if i > n/2 { // so that the age of a version matters
							x.Val[0] = -x.Val[0]
						}
						ys[i] = y
						before()
						it := Item{Partition: stream.Partition{Topic: "t"}, Offset: int64(i), Key: fmt.Sprint(i), Example: stream.Example{X: x, Y: y, Labelled: true}}
						if labels == "join" {
							it.Example.Y, it.Example.Labelled = 0, false
						}
						s.arrive(x)
						consume(it)
						switch {
						case labels == "with":
							s.label(i, y)
						case labels == "delay" && i >= late:
							s.label(i-late, ys[i-late])
						case labels == "join" && i >= late:
							before()
							consume(labelItem(fmt.Sprint(i-late), ys[i-late], offset))
							offset++
							s.label(i-late, ys[i-late])
						}
					}
					for _, e := range []*Engine{measured, s.e} {
						settle(t, e)
					}
					if a, b := hashOf(t, measured), hashOf(t, s.e); a != b {
						t.Errorf("state hash %x with measuring, %x without", a, b)
					}
					got, want := measured.AsPublished(), s.measures.Summary()
					if s.e.AsPublished() != nil || got == nil {
						t.Fatal("measured without being asked, or not")
					}
					if got.Versions != s.versions || got.Examples != s.measures.Examples() || got.Examples < n/2 {
						t.Errorf("%d versions and %d examples, want %d and %d", got.Versions, got.Examples, s.versions, s.measures.Examples())
					}
					near := func(name string, a, b eval.Number) {
						if math.Abs(float64(a-b)) > 1e-12 || a != a {
							t.Errorf("%s is %v, want %v", name, a, b)
						}
					}
					near("accuracy", got.Accuracy, want.Accuracy)
					near("AUC", got.AUC, want.AUC)
					near("log loss", got.LogLoss, want.LogLoss)
					near("Brier score", got.Brier, want.Brier)
					near("calibration error", got.ECE, want.ECE)
					near("windowed accuracy", got.Window.Accuracy, want.Window.Accuracy)
					total := uint64(0)
					for _, g := range got.ByAge {
						total += g.Examples
					}
					if total != got.Examples || got.ByAge[0].Examples == 0 || !live && got.ByAge[0].To != every/4 {
						t.Errorf("%d examples by age: %+v", total, got.ByAge)
					}
				})
			}
		}
	}
}

// halting is a source that goes on after its first records only when a version is in use.
type halting struct {
	memory
	first int
	inUse chan struct{}
}

func (h *halting) Fetch(ctx context.Context, dst []stream.Record) ([]stream.Record, error) {
	if h.sent >= h.first {
		select {
		case <-h.inUse:
		case <-ctx.Done():
			return dst, ctx.Err()
		}
	}
	return h.memory.Fetch(ctx, dst)
}

// Consumed implements ConsumedHook.
func (h *halting) Consumed(e *Engine, _ int64) {
	if p := e.AsPublished(); p != nil && p.Version > 0 {
		select {
		case <-h.inUse:
		default:
			close(h.inUse)
		}
	}
}

// TestLiveAsPublished: a run measures the versions that it publishes, publishes the
// measures with the next version, and goes on measuring after a restart. The state is
// that of a run that publishes nothing.
func TestLiveAsPublished(t *testing.T) {
	const n = 4000
	cfg := config(t, "online")
	plainRun := newEngine(t, cfg)
	if _, err := Run(t.Context(), plainRun, RunConfig{Source: &memory{recs: records(n, 4, false), r: rand.New(rand.NewPCG(1, 1))}, Decoder: plain{}}); err != nil {
		t.Fatal(err)
	}
	if plainRun.AsPublished() != nil {
		t.Error("measured without a publisher")
	}
	dir, pub := t.TempDir(), &topic{}
	var e *Engine
	for half := range 2 {
		store := openStore(t, dir)
		snap, err := store.Load()
		if err != nil {
			t.Fatal(err)
		}
		e = newEngine(t, cfg)
		rc := RunConfig{Decoder: plain{}, Store: store, Publisher: pub, CheckpointEvery: 500, Stop: half == 0}
		if snap != nil {
			restore(t, e, snap)
			rc.Version = snap.Header.ModelVersion
			if err := Republish(t.Context(), e, rc, snap.Header); err != nil {
				t.Fatal(err)
			}
			if p := e.AsPublished(); p == nil || p.Version != rc.Version || p.Examples == 0 {
				t.Fatalf("after a restart: %+v", p)
			}
		}
		recs := records(n, 4, false)
		if half == 0 {
			recs = recs[:n/2]
		}
		src := &halting{memory{recs: from(recs, e.Offsets()), r: rand.New(rand.NewPCG(2, uint64(half)))}, 800, make(chan struct{})}
		rc.Source, rc.Hooks = src, []any{src}
		if _, err := Run(t.Context(), e, rc); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := hashOf(t, e), hashOf(t, plainRun); a != b {
		t.Errorf("state hash %x, without publishing %x", a, b)
	}
	got := map[string]float64{}
	for _, m := range pub.updates[len(pub.updates)-1].Evaluation {
		got[m.Name] = m.Value
	}
	p := e.AsPublished()
	if got["published_examples"] < n/4 || got["published_accuracy"] != float64(p.Accuracy) || !(got["published_accuracy_window"] > .3) || got["prequential_examples"] < got["published_examples"] {
		t.Errorf("the last version was published with %v, the run ended with %+v", got, p)
	}
}
