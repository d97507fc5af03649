package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/stream"
)

// labelled returns n records of one partition; y says what their labels are, 0
// is none.
func labelled(n int, y func(i int) float64) []stream.Record {
	r := rand.New(rand.NewPCG(5, 5))
	recs := make([]stream.Record, n)
	for i := range recs {
		var v []byte
		for _, f := range []float64{y(i), r.NormFloat64(), r.NormFloat64()} {
			v = binary.LittleEndian.AppendUint32(v, math.Float32bits(float32(f)))
		}
		recs[i] = stream.Record{Topic: "t", Offset: int64(i), Value: v}
	}
	return recs
}

// failures is a hook that keeps why runs could not go on.
type failures struct{ errs []error }

func (f *failures) Failed(err error) { f.errs = append(f.errs, err) }

// TestNothingPublishedBeforeTwoLabels: versions begin once a second label has
// come, however long that takes and whatever interrupts the run, and what is
// learned does not depend on it.
func TestNothingPublishedBeforeTwoLabels(t *testing.T) {
	const n, second = 2000, 1234
	for _, tc := range []struct {
		name, learner string
		task          algos.Task
		first, then   float64
	}{
		{"classes", "sbp", algos.Classify, 1, -1}, {"classes, the other way", "sbp", algos.Classify, -1, 1},
		{"targets", "ridge", algos.Regress, 7.5, 7.25}, {"unlabelled", "online", algos.Classify, 0, 1},
	} {
		recs := labelled(n, func(i int) float64 {
			switch {
			case i < second:
				return tc.first
			case i%2 == 0:
				return tc.then
			}
			return -tc.then
		})
		cfg := config(t, tc.learner)
		cfg.Task, cfg.Warmup = tc.task, 100
		run := func(lives int) (*Engine, *topic) {
			store, pub := openStore(t, t.TempDir()), &topic{}
			for life := range lives {
				e := newEngine(t, cfg)
				rc := RunConfig{Decoder: plain{}, Store: store, Publisher: pub, CheckpointEvery: 50, QueueRecords: 1024}
				if snap, err := store.Load(); err != nil {
					t.Fatal(err)
				} else if snap != nil {
					restore(t, e, snap)
					rc.Version = snap.Header.ModelVersion
					if err := Republish(t.Context(), e, rc, snap.Header); err != nil {
						t.Fatal(err)
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				src := &memory{recs: from(recs, e.Offsets()), r: rand.New(rand.NewPCG(1, uint64(life))), calls: cancel}
				if life < lives-1 {
					src.stop = 400
				}
				rc.Source = src
				res, err := Run(ctx, e, rc)
				cancel()
				if err != nil {
					t.Fatalf("%s: %v", tc.name, err)
				}
				if res.Ended {
					return e, pub
				}
			}
			t.Fatalf("%s: no end", tc.name)
			return nil, nil
		}
		plain, pub := run(1)
		for _, u := range pub.updates {
			if at := u.Offsets[stream.Partition{Topic: "t"}]; at <= second {
				t.Errorf("%s: version %d published after %d records, of one label", tc.name, u.Version, at)
			}
		}
		if len(pub.updates) == 0 || pub.updates[0].Version != 1 {
			t.Errorf("%s: %d versions published", tc.name, len(pub.updates))
		}
		cut, pub := run(5)
		if got, want := hashOf(t, cut), hashOf(t, plain); got != want {
			t.Errorf("%s: state %016x after interruptions, %016x without", tc.name, got, want)
		}
		for _, u := range pub.updates {
			if at := u.Offsets[stream.Partition{Topic: "t"}]; at <= second {
				t.Errorf("%s, interrupted: version %d published after %d records, of one label", tc.name, u.Version, at)
			}
		}
	}
}

// TestStreamOfOneLabelEndsWithError: nothing is published, the checkpoint is
// there, and what comes later is learned as if nothing had been said.
func TestStreamOfOneLabelEndsWithError(t *testing.T) {
	for _, tc := range []struct {
		learner, said string
		task          algos.Task
		n             int
		y             float64
	}{
		{"online", "there is no model: label +1 was seen 1500 times, label -1 never", algos.Classify, 1500, 1},
		{"sbp", "there is no model: label -1 was seen once, label +1 never", algos.Classify, 1, -1},
		{"tsgs3vm", "there is no model: none of 300 examples has a label", algos.Classify, 300, 0},
		{"ridge", "there is no model: the only target seen is 2.5, 700 times", algos.Regress, 700, 2.5},
	} {
		cfg := config(t, tc.learner)
		cfg.Task = tc.task
		recs := labelled(tc.n, func(int) float64 { return tc.y })
		store, pub, failed := openStore(t, t.TempDir()), &topic{}, &failures{}
		run := func(e *Engine, recs []stream.Record) (Result, error) {
			return Run(t.Context(), e, RunConfig{
				Source: &memory{recs: recs, r: rand.New(rand.NewPCG(1, 2))}, Decoder: plain{}, Store: store, Publisher: pub, Hooks: []any{failed}, CheckpointEvery: 100,
			})
		}
		e := newEngine(t, cfg)
		res, err := run(e, recs)
		var one *stream.OneLabelError
		if !errors.As(err, &one) || !strings.Contains(err.Error(), tc.said) || res.Ended || one.Examples != uint64(tc.n) {
			t.Errorf("%s: %v, %+v, want %s", tc.learner, err, res, tc.said)
		}
		if len(pub.updates) > 0 || e.Predictor() != nil || len(failed.errs) != 1 || !errors.As(failed.errs[0], &one) {
			t.Errorf("%s: %d versions published, a predictor: %v, hooks were told %v", tc.learner, len(pub.updates), e.Predictor() != nil, failed.errs)
		}
		snap, err := store.Load()
		if err != nil || snap == nil || snap.Header.Examples != uint64(tc.n) || snap.Header.ModelVersion != 0 {
			t.Fatalf("%s: checkpoint %+v, %v", tc.learner, snap, err)
		}
		e = newEngine(t, cfg)
		restore(t, e, snap)
		if _, err := run(e, nil); !errors.As(err, &one) || err.Error() != tc.said {
			t.Errorf("%s: again, with nothing new: %v", tc.learner, err)
		}
		e = newEngine(t, cfg)
		restore(t, e, snap)
		more := labelled(tc.n+600, func(i int) float64 {
			if i < tc.n {
				return tc.y
			}
			return float64(2*(i%2) - 1)
		})
		if _, err := run(e, more[tc.n:]); err != nil || len(pub.updates) == 0 {
			t.Errorf("%s: with other labels: %v, %d versions", tc.learner, err, len(pub.updates))
		}
		whole := newEngine(t, cfg)
		if _, err := Run(t.Context(), whole, RunConfig{Source: &memory{recs: more, r: rand.New(rand.NewPCG(1, 3))}, Decoder: plain{}}); err != nil {
			t.Fatal(err)
		}
		if got, want := hashOf(t, e), hashOf(t, whole); got != want {
			t.Errorf("%s: state %016x, of a stream that did not end in between %016x", tc.learner, got, want)
		}
	}
}

// TestLaterLabelsCount: a label that is joined makes the second one, also if it
// comes when the stream ends.
func TestLaterLabelsCount(t *testing.T) {
	cfg := config(t, "sbp")
	cfg.Join, cfg.Warmup = Join{Topic: "l", Window: 500}, 50
	e := newEngine(t, cfg)
	feed := func(items ...Item) {
		t.Helper()
		consume(t, e, items)
	}
	key := func(i int) string { return string(rune('a' + i)) }
	for i := range 90 {
		x := stream.Example{X: stream.Vec{Val: []float32{float32(i % 7), 1}}}
		feed(Item{Partition: stream.Partition{Topic: "t"}, Offset: int64(i), Example: x, Key: key(i)})
		if i != 0 {
			feed(Item{Partition: stream.Partition{Topic: "l"}, Offset: int64(i), Example: stream.Example{Y: 1, Labelled: true}, Key: key(i)})
		}
	}
	// The first example waits for its label, and all others with it.
	if one := e.OneLabel(); one != nil {
		t.Errorf("%v, while all examples wait", one)
	}
	feed(Item{Partition: stream.Partition{Topic: "l"}, Offset: 90, Example: stream.Example{Y: -1, Labelled: true}, Key: key(0)})
	if err := e.Finish(t.Context()); err != nil || e.Predictor() == nil {
		t.Errorf("%v, a predictor: %v", err, e.Predictor() != nil)
	}
}

// TestMaxDead: a run ends before the record that makes too many, wherever it was
// interrupted, and goes on with it, each letter sent once.
func TestMaxDead(t *testing.T) {
	cfg := config(t, "online")
	const n, from0, to0 = 4000, 1500, 2600
	recs := labelled(n, func(i int) float64 { return float64(2*(i%2) - 1) })
	for i := range recs {
		if i%10 == 3 || i >= from0 && i < to0 {
			recs[i].Value = append(recs[i].Value, 0)
		}
	}
	// By hand: of the last 1000 up to and with record k.
	stopAt := func(most float64) int {
		for k := range recs {
			of, dead := min(k+1, 1000), 0
			for i := k + 1 - of; i <= k; i++ {
				if len(recs[i].Value)%4 != 0 {
					dead++
				}
			}
			if len(recs[k].Value)%4 != 0 && float64(dead) > most*float64(max(of, 100)) {
				return k
			}
		}
		return n
	}
	type end struct {
		at   int
		hash uint64
	}
	ends := map[float64]end{}
	for seed := range uint64(6) {
		store, sent := openStore(t, t.TempDir()), &letters{}
		r := rand.New(rand.NewPCG(seed, 1))
		for _, most := range []float64{0.1, 0.5, 0, 0.9, 1} {
			var e *Engine
			var err error
			for try := 0; ; try++ {
				e = newEngine(t, cfg)
				snap, lerr := store.Load()
				if lerr != nil {
					t.Fatal(lerr)
				}
				if snap != nil {
					restore(t, e, snap)
				}
				ctx, cancel := context.WithCancel(t.Context())
				src := &memory{recs: from(recs, e.Offsets()), r: r, calls: cancel}
				if seed > 0 && try < 20 {
					src.stop = 1 + r.IntN(900)
				}
				var res Result
				res, err = Run(ctx, e, RunConfig{Source: src, Decoder: plain{}, Store: store, DeadLetters: sent, Tolerance: TolerateData, MaxDead: most, QueueRecords: 600})
				cancel()
				if err != nil || res.Ended {
					break
				}
			}
			bound := most
			if most == 0 {
				bound = DefaultMaxDead
			}
			at := stopAt(bound)
			var dead *stream.DeadError
			if at == n {
				if err != nil {
					t.Fatalf("seed %d, most %v: %v", seed, most, err)
				}
			} else if !errors.As(err, &dead) || dead.Records != min(at+1, 1000) || float64(dead.Dead) <= bound*float64(dead.Records) || dead.Example == nil || dead.Example.Topic != "t" || dead.Example.Field != "value" {
				t.Fatalf("seed %d, most %v: %v, want an end before record %d", seed, most, err, at)
			}
			if c := e.Counts(); c.Consumed != uint64(at) || c.Dead != uint64(len(sent.offsets)) || c.Learned+c.SampledOut+c.Dead+c.Pending != c.Consumed {
				t.Errorf("seed %d, most %v: %+v and %d letters at record %d", seed, most, c, len(sent.offsets), at)
			}
			got := end{at, hashOf(t, e)}
			if want, ok := ends[most]; ok && got != want {
				t.Errorf("seed %d, most %v: ended at %+v, before at %+v", seed, most, got, want)
			}
			ends[most] = got
		}
		if !slices.IsSorted(sent.offsets) || len(slices.Compact(slices.Clone(sent.offsets))) != len(sent.offsets) {
			t.Errorf("seed %d: letters %v", seed, sent.offsets)
		}
	}
	if ends[0.1].at >= ends[0.5].at || ends[0.5] != ends[0] || ends[0.5].at >= ends[0.9].at || ends[1].at != n {
		t.Errorf("ends %+v", ends)
	}
}

// TestAllDead: nothing but records that cannot be used is no stream to end well,
// however short.
func TestAllDead(t *testing.T) {
	for _, n := range []int{1, 30, 51, 3000} {
		recs := labelled(n, func(int) float64 { return 1 })
		for i := range recs {
			recs[i].Value = []byte("\x00\x00\x00\x00\x07Avro")[:5+i%3]
		}
		store, sent := openStore(t, t.TempDir()), &letters{}
		run := func(most float64) (*Engine, error) {
			e := newEngine(t, config(t, "sbp"))
			if snap, err := store.Load(); err != nil {
				t.Fatal(err)
			} else if snap != nil {
				restore(t, e, snap)
			}
			src := &memory{recs: from(recs, e.Offsets()), r: rand.New(rand.NewPCG(1, 1))}
			_, err := Run(t.Context(), e, RunConfig{Source: src, Decoder: plain{}, Store: store, DeadLetters: sent, Tolerance: TolerateData, MaxDead: most})
			return e, err
		}
		want := min(n, 50)
		for range 2 { // starting again changes nothing
			e, err := run(0)
			var dead *stream.DeadError
			if !errors.As(err, &dead) || dead.Dead != dead.Records || dead.Dead != min(n, 51) {
				t.Errorf("%d records: %v", n, err)
			}
			if e.Counts().Dead != uint64(want) || len(sent.offsets) != want || e.Started() {
				t.Errorf("%d records: %+v, %d letters, the warm-up has ended: %v", n, e.Counts(), len(sent.offsets), e.Started())
			}
		}
		if e, err := run(1); err != nil || e.Counts().Dead != uint64(n) || len(sent.offsets) != n {
			t.Errorf("%d records, no limit: %v, %+v, %d letters", n, err, e.Counts(), len(sent.offsets))
		}
	}
}

// TestTombstones: records without a value are passed over if that is wanted, and
// the learner is what it would be without them.
func TestTombstones(t *testing.T) {
	cfg := config(t, "sbp")
	good := labelled(1500, func(i int) float64 { return float64(2*(i%2) - 1) })
	var recs []stream.Record
	for i, r := range good {
		for range i % 4 { // more than half
			recs = append(recs, stream.Record{Topic: "t", Key: []byte("k")})
		}
		recs = append(recs, r)
	}
	recs = append(recs, stream.Record{Topic: "t", Value: []byte{}}) // has a value, if an empty one
	for i := range recs {
		recs[i].Offset = int64(3 * i)
	}
	run := func(recs []stream.Record, skip bool, tol Tolerance) (*Engine, error) {
		store, e := openStore(t, t.TempDir()), newEngine(t, cfg)
		for try := range 4 {
			ctx, cancel := context.WithCancel(t.Context())
			src := &memory{recs: from(recs, e.Offsets()), r: rand.New(rand.NewPCG(1, 1)), calls: cancel}
			if try < 3 {
				src.stop = 600
			}
			res, err := Run(ctx, e, RunConfig{Source: src, Decoder: plain{}, Store: store, Tolerance: tol, SkipTombstones: skip})
			cancel()
			if err != nil || res.Ended {
				return e, err
			}
			snap, err := store.Load()
			if err != nil {
				t.Fatal(err)
			}
			e = newEngine(t, cfg)
			restore(t, e, snap)
		}
		return e, nil
	}
	want, err := run(good, false, TolerateNone)
	if err != nil {
		t.Fatal(err)
	}
	e, err := run(recs, true, TolerateData)
	if err != nil {
		t.Fatal(err)
	}
	c := e.Counts()
	if c.Tombstones != uint64(len(recs)-len(good)-1) || c.Dead != 1 || c.Consumed != uint64(len(recs)) || c.Learned+c.SampledOut+c.Dead+c.Tombstones != c.Consumed {
		t.Errorf("%+v", c)
	}
	_, got, err1 := e.encode()
	_, plain, err2 := want.encode()
	if err := errors.Join(err1, err2); err != nil || string(got) != string(plain) {
		t.Errorf("the learner is another one than without tombstones, %v", err)
	}
	var refused *stream.RecordError
	if _, err := run(recs, false, TolerateNone); !errors.As(err, &refused) || refused.Offset != recs[1].Offset {
		t.Errorf("not skipped: %v, want one about offset %d", err, recs[1].Offset)
	}
	var dead *stream.DeadError
	if _, err := run(recs, false, TolerateData); !errors.As(err, &dead) {
		t.Errorf("not skipped, tolerated: %v", err)
	}
	only := []stream.Record{{Topic: "t"}, {Topic: "t", Offset: 1}}
	if e, err := run(only, true, TolerateNone); err != nil || e.Started() || e.Counts().Tombstones != 2 {
		t.Errorf("nothing else: %v, %+v", err, e.Counts())
	}
}
