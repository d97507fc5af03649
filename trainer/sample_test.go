package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/fileio"
	"github.com/streamsvm/streamsvm/trainer"
)

// slow is a topic to which a record is appended every now and then.
type slow struct {
	recs  []stream.Record
	every time.Duration
	lag   int64 // that it says it has
	start time.Time
	at    int
}

func (s *slow) Fetch(ctx context.Context, dst []stream.Record) ([]stream.Record, error) {
	if s.at == len(s.recs) {
		return dst, io.EOF
	}
	select {
	case <-time.After(time.Until(s.start.Add(time.Duration(s.at+1) * s.every))):
		s.at++
		return append(dst, s.recs[s.at-1]), nil
	case <-ctx.Done():
		return dst, ctx.Err()
	}
}

func (s *slow) Lag() map[stream.Partition]int64 {
	return map[stream.Partition]int64{{Topic: "tx"}: s.lag}
}

func (*slow) Close() error { return nil }

// records makes n records of values.
func records(n int, value func(i int) string) (recs []stream.Record) {
	for i := range n {
		recs = append(recs, stream.Record{Topic: "tx", Offset: int64(i), Value: []byte(value(i))})
	}
	return recs
}

func event(i int) string {
	return fmt.Sprintf(`{"amount":%d.5,"country":%q,"bad":%v}`, i*37%101, []string{"DE", "FR", "BR"}[i%3], i*37%101 > 50)
}

func discovery(t *testing.T, label string) *codec.Discovery {
	t.Helper()
	d, err := codec.NewDiscovery("json", codec.Options{Labels: codec.Auto, Events: codec.Auto, Label: label})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// sampled is a hook that keeps the largest number of records before learning began.
type sampled int

func (s *sampled) Discovering(_ stream.Source, records int) { *s = sampled(records) }

// TestSlowTopic: on a topic that gets a record every six seconds learning begins after
// 20 of them, and the recording gives the same state again, although a replay has all
// records at once. While a broker has more records, these are read first.
func TestSlowTopic(t *testing.T) {
	recs := records(300, event)
	path := filepath.Join(t.TempDir(), "run.ssr")
	run := func(t *testing.T, src stream.Source, recording string) (uint64, int) {
		t.Helper()
		var n sampled
		res, err := trainer.Run(t.Context(), trainer.Job{
			Options: trainer.Options{Learner: "online"}, Discovery: discovery(t, "bad"), Recording: recording, Hooks: []trainer.Hook{&n},
			Open: func(context.Context, stream.Offsets) (stream.Source, error) { return src, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		h, err := res.Hash()
		if err != nil || res.Counts().Learned != 300 {
			t.Fatalf("%+v, %v", res.Counts(), err)
		}
		return h, int(n)
	}
	var live, backlog uint64
	synctest.Test(t, func(t *testing.T) {
		n := 0
		if live, n = run(t, &slow{recs: recs, every: 6 * time.Second, start: time.Now()}, path); n != codec.LeastSample {
			t.Errorf("the schema comes from %d records, want %d", n, codec.LeastSample)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		n := 0
		if backlog, n = run(t, &slow{recs: recs, every: 6 * time.Second, lag: 1, start: time.Now()}, ""); n != 300 {
			t.Errorf("the schema of a backlog comes from %d records, want 300", n)
		}
	})
	src, err := fileio.Open([]string{path}, fileio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	replayed, _ := run(t, src, "")
	if replayed != live || live == backlog {
		t.Errorf("state %016x live, %016x replayed; %016x with the schema of all records", live, replayed, backlog)
	}
}

// TestUnreadableTopic: a stream of which nothing can be read is refused after 20 records,
// or after a few seconds, and the error names the first record.
func TestUnreadableTopic(t *testing.T) {
	for n, want := range map[int]int{6000: 20, 6: 6} {
		synctest.Test(t, func(t *testing.T) {
			src := &hanging{&slow{recs: records(n, func(int) string { return "+1 1:0.5 2:0.25" }), every: time.Millisecond, start: time.Now()}}
			_, _, err := trainer.Discover(t.Context(), src, discovery(t, ""), "")
			var refused *trainer.DiscoveryError
			var at *stream.RecordError
			if !errors.As(err, &refused) || !errors.As(err, &at) || !strings.Contains(err.Error(), fmt.Sprintf("none of the first %d records", want)) || string(refused.First.Value) != "+1 1:0.5 2:0.25" ||
				at.Topic != "tx" || at.Offset != 0 || at.Reason != stream.ReasonSyntax {
				t.Errorf("%v", err)
			}
		})
	}
}

// hanging is a topic that gets no further record.
type hanging struct{ *slow }

func (h *hanging) Fetch(ctx context.Context, dst []stream.Record) ([]stream.Record, error) {
	if h.at == len(h.recs) {
		<-ctx.Done()
		return dst, ctx.Err()
	}
	return h.slow.Fetch(ctx, dst)
}

// waiting counts how often it is told that no record has come.
type waiting int

func (w *waiting) Discovering(_ stream.Source, records int) {
	if records == 0 {
		*w++
	}
}

// TestEmptyTopic: while there is no record the hook is called by the clock.
func TestEmptyTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var n waiting
		_, err := trainer.Run(ctx, trainer.Job{
			Options: trainer.Options{Learner: "online"}, Discovery: discovery(t, ""), Hooks: []trainer.Hook{&n},
			Open: func(context.Context, stream.Offsets) (stream.Source, error) { return &hanging{new(slow)}, nil },
		})
		if !errors.Is(err, context.DeadlineExceeded) || n < 19 {
			t.Errorf("%v; called %d times", err, n)
		}
	})
}
