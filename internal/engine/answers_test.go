package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/stream"
)

// TestAnswers: every record but labels and tombstones is answered once, in order, with
// the prediction that the prequential measures score. Neither answers nor state depend
// on how the stream is cut, settled, stored and restored.
func TestAnswers(t *testing.T) {
	// The long variant cuts the stream in more ways.
	n, learners, cuts := 1500, []string{"online", "adaptive", "classes"}, uint64(2)
	if os.Getenv("STREAMSVM_LONG") != "" {
		learners, cuts = append(learners, "scs"), 4
	}
	type answered struct {
		offset int64
		f, p   string
		scores int
		err    string
	}
	for _, learner := range learners {
		for _, way := range []string{"with", "delay", "join"} {
			if learner == "adaptive" && way != "join" && cuts == 2 {
				continue // the ways of the others are the engine's
			}
			t.Run(learner+"/"+way, func(t *testing.T) {
				cfg, source := config(t, "online"), func() []Item { return rings(n, 7, true) }
				if learner == "classes" {
					cfg, source = configOfClasses(t, "scs"), func() []Item { return sectors(n, 1, true) }
				} else {
					cfg = config(t, learner)
				}
				items := source
				switch way {
				case "delay":
					cfg.Delay = 40
				case "join":
					cfg.Join = Join{Topic: "labels", Window: 100}
					items = func() []Item { // the last label cannot be used
						return append(apart(source(), rand.New(rand.NewPCG(5, 5)), 60, 5), labelItem("", 1, 1<<40))
					}
				}
				run := func(seed uint64, ask bool) (list []answered, scored []float64, hash uint64) {
					r := rand.New(rand.NewPCG(seed, 3))
					e := newEngine(t, cfg)
					take := func() {
						for _, a := range e.takeAnswers() {
							v := answered{offset: a.Record.Offset, f: fmt.Sprint(a.Decision), p: fmt.Sprint(a.Probability, a.Probabilities), scores: len(a.Scores)}
							if a.Err != nil {
								v.err = a.Err.Error()
							}
							list = append(list, v)
						}
					}
					for rest := items(); len(rest) > 0; {
						e.scored = func(decision, _, _ float64) { scored = append(scored, decision) }
						k := min(len(rest), 1+r.IntN(300))
						if ask {
							e.answers.of = func(i int) stream.Record {
								return stream.Record{Topic: rest[i].Partition.Topic, Partition: rest[i].Partition.ID, Offset: rest[i].Offset}
							}
						}
						consume(t, e, rest[:k])
						e.answers.of = nil
						rest = rest[k:]
						if seed == 0 {
							continue
						}
						take()
						if r.IntN(2) == 0 {
							settle(t, e)
							take()
							if len(e.answers.list) > 0 {
								t.Fatalf("%d records without an answer", len(e.answers.list))
							}
							e = interrupted(t, e, cfg, r)
						}
					}
					settle(t, e)
					take()
					return list, scored, hashOf(t, e)
				}
				want, scored, hash := run(0, true)
				if _, _, plain := run(0, false); plain != hash {
					t.Errorf("state %x with answers, %x without", hash, plain)
				}
				for seed := range cuts {
					got, _, h := run(seed+1, true)
					if h != hash || !slices.Equal(got, want) {
						for i := range got {
							if i < len(want) && got[i] != want[i] {
								t.Errorf("answer %d is %+v, was %+v", i, got[i], want[i])
								break
							}
						}
						t.Fatalf("cut otherwise: %d answers, were %d; state %x, was %x", len(got), len(want), h, hash)
					}
				}
				// Of the examples that have been scored, each was answered so.
				var offsets, expected []int64
				answers := map[int]answered{} // of labelled examples
				var order []int
				next, left := 0, released(t, cfg, items())
				for _, it := range items() {
					if it.Partition.Topic == "labels" {
						continue
					}
					expected = append(expected, it.Offset)
					a := want[min(next, len(want)-1)]
					next++
					offsets = append(offsets, a.offset)
					if it.Err != nil && a.err == "" {
						t.Errorf("record %v is answered with %+v", it.Offset, a)
					}
					labelled := it.Example.Labelled || way == "join" && source()[next-1].Example.Labelled
					if a.err == "" || a.err == errWarmUp.Error() {
						order = append(order, next-1)
						if labelled {
							answers[next-1] = a
						}
					}
				}
				if !slices.Equal(offsets, expected) || next != len(want) {
					t.Errorf("%d answers to %d records, or in another order", len(want), next)
				}
				if way == "join" {
					order, left = learned(items(), cfg.Join.Window)
				}
				// With late labels some examples of the warm-up are scored too.
				for _, i := range slices.Backward(order[:min(left, len(order))]) {
					a, ok := answers[i]
					if !ok || len(scored) == 0 && a.err != "" {
						continue
					}
					if last := max(0, len(scored)-1); a.err == "" && fmt.Sprint(scored[last:]) != "["+a.f+"]" {
						t.Fatalf("example %d is answered with %v, scored with %v", i, a.f, scored[last:])
					}
					scored = scored[:len(scored)-1]
				}
				if len(scored) > 0 || len(answers) < n/2 {
					t.Errorf("%d scores more than the %d answers to labelled examples", len(scored), len(answers))
				}
				known := 0
				for _, a := range want {
					if a.err == "" && (a.p != fmt.Sprint(math.NaN(), []float64(nil)) || a.scores > 0) {
						known++
					}
				}
				if known < n/3 {
					t.Errorf("%d probabilities or scores", known)
				}
			})
		}
	}
}

// released returns how many examples have been learned from, in order of arrival.
func released(t *testing.T, cfg Config, items []Item) int {
	t.Helper()
	e := newEngine(t, cfg)
	consume(t, e, items)
	settle(t, e)
	if e.join == nil {
		return math.MaxInt
	}
	return int(e.join.examples.popped)
}

// TestAnswersAreBounded: with many answers a checkpoint is due, whatever the interval,
// and learning waits for the one before. Without a store that takes them, a run that
// answers does not begin.
func TestAnswersAreBounded(t *testing.T) {
	const n, size = 2000, 32 << 10
	cfg := config(t, "online")
	most, total := 0, 0
	rc := RunConfig{
		Source: &memory{recs: records(n, 4, false), r: rand.New(rand.NewPCG(1, 1))}, Decoder: plain{}, Store: &keeper{Store: openStore(t, t.TempDir())},
		Answer: func(*Answer, uint64) (stream.Record, error) { return stream.Record{Value: make([]byte, size)}, nil },
		SaveAndPublish: func(_ context.Context, _ *checkpoint.Snapshot, _ *stream.Update, recs []stream.Record) (string, error) {
			most, total = max(most, len(recs)), total+len(recs)
			return "", nil
		},
	}
	rc.Source = &drip{rc.Source.(*memory)}
	if _, err := Run(t.Context(), newEngine(t, cfg), rc); err != nil {
		t.Fatal(err)
	}
	if total != n || most*size > maxAnswerBytes+(8+blockSize)*size {
		t.Errorf("%d answers, up to %d with a checkpoint", total, most)
	}
	rc.SaveAndPublish = nil
	if _, err := Run(t.Context(), newEngine(t, cfg), rc); err == nil {
		t.Error("answers without checkpoints that take them")
	}
}

// drip is a source of a few records at a time.
type drip struct{ *memory }

func (s *drip) Fetch(ctx context.Context, dst []stream.Record) ([]stream.Record, error) {
	rest := s.recs
	s.recs = rest[:min(8, len(rest))]
	dst, err := s.memory.Fetch(ctx, dst)
	s.recs = rest[min(8, len(rest))-len(s.recs):]
	return dst, err
}
