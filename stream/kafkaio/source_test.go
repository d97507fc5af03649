package kafkaio

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	flag.Set("test.parallel", "8") // most tests wait for brokers
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"))
}

// quiet drops the log: tests provoke what it reports.
var quiet = slog.New(slog.DiscardHandler)

func config(brokers []string) Config { return Config{Brokers: brokers, Log: quiet} }

func open(t testing.TB, o SourceOptions) *Source {
	t.Helper()
	if o.Log == nil {
		o.Log = quiet
	}
	s, err := NewSource(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// take reads n records, or all up to io.EOF for n < 0. The bytes of everything
// read before are checked again by the caller's comparison, which comes last.
func take(t testing.TB, s *Source, n int) []stream.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var out, buf []stream.Record
	for n < 0 || len(out) < n {
		var err error
		buf, err = s.Fetch(ctx, buf[:0])
		if errors.Is(err, io.EOF) && n < 0 {
			return out
		}
		if err != nil {
			t.Fatalf("after %d records of %d: %v", len(out), n, err)
		}
		if len(buf) == 0 {
			t.Fatal("Fetch returned neither a record nor an error")
		}
		out = append(out, buf...)
	}
	return out
}

func rec(topic string, partition int32, ms int64, value string) stream.Record {
	return stream.Record{Topic: topic, Partition: partition, Time: time.UnixMilli(ms).UTC(), Value: []byte(value)}
}

// same compares what was read with what was written, in any order between
// partitions but in order inside them.
func same(t *testing.T, got, want []stream.Record) {
	t.Helper()
	split := func(rs []stream.Record) map[stream.Partition][]stream.Record {
		m := map[stream.Partition][]stream.Record{}
		for _, r := range rs {
			p := stream.Partition{Topic: r.Topic, ID: r.Partition}
			m[p] = append(m[p], r)
		}
		return m
	}
	g, w := split(got), split(want)
	for p := range w {
		for i := range max(len(g[p]), len(w[p])) {
			if i >= len(g[p]) || i >= len(w[p]) {
				t.Fatalf("%v: got %d records, want %d", p, len(g[p]), len(w[p]))
			}
			if a, b := fmt.Sprintf("%+v", g[p][i]), fmt.Sprintf("%+v", w[p][i]); a != b {
				t.Fatalf("%v record %d:\n got %s\nwant %s", p, i, a, b)
			}
		}
	}
	if len(got) != len(want) {
		t.Fatalf("got %d records, want %d", len(got), len(want))
	}
}

// fill writes n records to every partition of the topic, with keys, headers,
// empty and absent values among them, and returns them as a reader sees them.
func fill(t testing.TB, brokers []string, topic string, partitions, n int) []stream.Record {
	t.Helper()
	var recs []stream.Record
	for p := range partitions {
		for i := range n {
			r := rec(topic, int32(p), int64(1_700_000_000_000+i*10+p), fmt.Sprintf("value %d of %d", i, p))
			r.Offset = int64(i)
			switch i % 5 {
			case 1:
				r.Key = []byte(fmt.Sprint("key ", i))
			case 2:
				r.Key, r.Value = []byte{}, nil
			case 3:
				r.Value = []byte{}
			case 4:
				r.Headers = []stream.Header{{Key: "a", Value: []byte("1")}, {Key: "b", Value: []byte{}}}
			}
			recs = append(recs, r)
		}
	}
	kafkatest.Produce(t, brokers, recs...)
	return recs
}

func TestSourceReadsEverything(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	a := kafkatest.Topic(t, brokers, 3, nil)
	b := kafkatest.Topic(t, brokers, 1, nil)
	want := append(fill(t, brokers, a, 3, 700), fill(t, brokers, b, 1, 300)...)
	for _, merge := range []Merge{MergeArrival, MergeOrdered} {
		for _, size := range []int{1, 20_000, 0} {
			t.Run(fmt.Sprint(merge, size), func(t *testing.T) {
				s := open(t, SourceOptions{Config: config(brokers), Topics: []string{a, b}, Merge: merge, UntilEnd: true, FetchMaxBytes: size})
				if n := len(s.Start()); n != 4 {
					t.Errorf("Start has %d partitions, want 4", n)
				}
				same(t, take(t, s, -1), want)
				if _, err := s.Fetch(t.Context(), nil); err != io.EOF {
					t.Errorf("after the end: %v, want EOF", err)
				}
				for p, lag := range s.Lag() {
					if lag != 0 {
						t.Errorf("lag of %v at the end is %d", p, lag)
					}
				}
			})
		}
	}
}

func TestSourceStartPositions(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Topic(t, brokers, 2, nil)
	old := fill(t, brokers, topic, 2, 100)
	p0, p1 := stream.Partition{Topic: topic, ID: 0}, stream.Partition{Topic: topic, ID: 1}
	for _, c := range []struct {
		name string
		opt  SourceOptions
		want stream.Offsets
	}{
		{"earliest", SourceOptions{}, stream.Offsets{p0: 0, p1: 0}},
		{"latest", SourceOptions{Start: StartLatest}, stream.Offsets{p0: 100, p1: 100}},
		{"at time", SourceOptions{Start: StartTimestamp, StartTime: time.UnixMilli(1_700_000_000_500)}, stream.Offsets{p0: 50, p1: 50}},
		{"between times", SourceOptions{Start: StartTimestamp, StartTime: time.UnixMilli(1_700_000_000_501)}, stream.Offsets{p0: 51, p1: 50}},
		{"after all times", SourceOptions{Start: StartTimestamp, StartTime: time.UnixMilli(1_800_000_000_000)}, stream.Offsets{p0: 100, p1: 100}},
		{"checkpoint", SourceOptions{Start: StartLatest, Offsets: stream.Offsets{p0: 30, p1: 100}}, stream.Offsets{p0: 30, p1: 100}},
		{"added partition", SourceOptions{Start: StartLatest, Offsets: stream.Offsets{p1: 30}}, stream.Offsets{p0: 0, p1: 30}},
		{"subset", SourceOptions{Partitions: map[string][]int32{topic: {1}}}, stream.Offsets{p1: 0}},
		{"other topic's checkpoint", SourceOptions{Start: StartLatest, Offsets: stream.Offsets{{Topic: "x", ID: 0}: 5}}, stream.Offsets{p0: 100, p1: 100}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := c.opt
			o.Config, o.Topics, o.UntilEnd = config(brokers), []string{topic}, true
			s := open(t, o)
			if got := s.Start(); !maps.Equal(got, c.want) {
				t.Fatalf("Start() = %v, want %v", got, c.want)
			}
			want := slices.DeleteFunc(slices.Clone(old), func(r stream.Record) bool {
				next, ok := c.want[stream.Partition{Topic: topic, ID: r.Partition}]
				return !ok || r.Offset < next
			})
			var lag int64
			for _, n := range s.Lag() {
				lag += n
			}
			if lag != int64(len(want)) {
				t.Errorf("lag at the start is %d, want %d", lag, len(want))
			}
			got := take(t, s, -1)
			same(t, got, want)
			if max := uint64(200 - len(want)); s.Skipped() > max {
				t.Errorf("skipped %d records, there are only %d before the start", s.Skipped(), max)
			}
		})
	}
}

// A batch is stored as it was sent: a position in its middle makes the broker
// send the records before it too, and these are counted.
func TestSourceSkipsInsideBatch(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Topic(t, brokers, 1, nil)
	fill(t, brokers, topic, 1, 50)
	whole := open(t, SourceOptions{Config: config(brokers), Topics: []string{topic}, UntilEnd: true})
	all := take(t, whole, -1)
	if whole.Skipped() != 0 {
		t.Errorf("skipped %d from the beginning", whole.Skipped())
	}
	s := open(t, SourceOptions{Config: config(brokers), Topics: []string{topic}, UntilEnd: true, Offsets: stream.Offsets{{Topic: topic, ID: 0}: 49}})
	same(t, take(t, s, -1), all[49:])
	if s.Skipped() != 49 {
		t.Errorf("skipped %d, want the 49 of the batch", s.Skipped())
	}
}

func TestSourceStopAt(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Topic(t, brokers, 3, nil)
	recs := fill(t, brokers, topic, 3, 100)
	s := open(t, SourceOptions{Config: config(brokers), Topics: []string{topic}, StopAt: stream.Offsets{{Topic: topic, ID: 0}: 7, {Topic: topic, ID: 2}: 120}})
	kafkatest.Produce(t, brokers, recs[200:220]...) // the stream does not end before they are there
	got := take(t, s, -1)
	if len(got) != 7+120 {
		t.Fatalf("got %d records, want 7 of partition 0 and 120 of partition 2", len(got))
	}
	for _, r := range got {
		if r.Partition == 1 || r.Partition == 0 && r.Offset >= 7 {
			t.Fatalf("delivered partition %d offset %d", r.Partition, r.Offset)
		}
	}
}

func TestSourceOutOfRange(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Topic(t, brokers, 1, nil)
	recs := fill(t, brokers, topic, 1, 100)
	kafkatest.DeleteRecords(t, brokers, topic, 0, 40)
	p := stream.Partition{Topic: topic, ID: 0}
	for _, at := range []int64{39, 101} {
		_, err := NewSource(t.Context(), SourceOptions{Config: config(brokers), Topics: []string{topic}, Offsets: stream.Offsets{p: at}})
		var re *RangeError
		if !errors.As(err, &re) || *re != (RangeError{p, at, 40, 100}) {
			t.Fatalf("offset %d: %v (%+v)", at, err, re)
		}
		for _, part := range []string{topic, "partition 0", fmt.Sprint(at), "40", "100"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not name %s", err, part)
			}
		}
		for policy, want := range map[OutOfRange]int64{OutOfRangeEarliest: 40, OutOfRangeLatest: 100} {
			s := open(t, SourceOptions{Config: config(brokers), Topics: []string{topic}, Offsets: stream.Offsets{p: at}, OutOfRange: policy, UntilEnd: true})
			if got := s.Start()[p]; got != want {
				t.Errorf("offset %d, policy %s: starts at %d, want %d", at, policy, got, want)
			}
			same(t, take(t, s, -1), recs[want:])
		}
	}
	for _, at := range []int64{40, 100} {
		s := open(t, SourceOptions{Config: config(brokers), Topics: []string{topic}, Offsets: stream.Offsets{p: at}, UntilEnd: true})
		same(t, take(t, s, -1), recs[at:])
	}
}

// Records that are deleted while the reader is behind them are not passed over
// in silence.
func TestSourceOutOfRangeWhileReading(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	const cut = 900
	for _, policy := range []OutOfRange{OutOfRangeFail, OutOfRangeEarliest} {
		topic := kafkatest.Topic(t, brokers, 1, nil)
		for range 20 {
			fill(t, brokers, topic, 1, 50)
		}
		s := open(t, SourceOptions{Config: config(brokers), Topics: []string{topic}, FetchMaxBytes: 1, OutOfRange: policy, UntilEnd: true})
		// Not more than the answers in the queue have been fetched.
		got := take(t, s, 1)
		kafkatest.DeleteRecords(t, brokers, topic, 0, cut)
		ctx := t.Context()
		var err error
		for err == nil {
			var buf []stream.Record
			buf, err = s.Fetch(ctx, nil)
			got = append(got, buf...)
		}
		for i, r := range got[1:] {
			if gap := r.Offset != got[i].Offset+1; gap && (policy == OutOfRangeFail || r.Offset != cut) {
				t.Fatalf("%s: offset %d follows %d", policy, r.Offset, got[i].Offset)
			}
		}
		last := got[len(got)-1].Offset
		var re *RangeError
		switch {
		case policy == OutOfRangeFail && (!errors.As(err, &re) || re.Offset != last+1 || re.First != cut):
			t.Errorf("after offset %d: %v", last, err)
		case policy == OutOfRangeEarliest && (err != io.EOF || last != 999):
			t.Errorf("%v after offset %d", err, last)
		}
	}
}

func TestSourceTopicMadeAnew(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Topic(t, brokers, 1, nil)
	fill(t, brokers, topic, 1, 100)
	kafkatest.Delete(t, brokers, topic)
	kafkatest.Create(t, brokers, topic, 1, nil)
	fill(t, brokers, topic, 1, 10)
	p := stream.Partition{Topic: topic, ID: 0}
	_, err := NewSource(t.Context(), SourceOptions{Config: config(brokers), Topics: []string{topic}, Offsets: stream.Offsets{p: 100}})
	var re *RangeError
	if !errors.As(err, &re) || re.End != 10 || !strings.Contains(err.Error(), "created again") {
		t.Fatalf("%v", err)
	}
}

func TestSourceUnknownTopic(t *testing.T) {
	t.Parallel() // it waits
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Name(t, brokers)
	_, err := NewSource(t.Context(), SourceOptions{Config: config(brokers), Topics: []string{topic}})
	var ue *UnknownTopicError
	if !errors.As(err, &ue) || ue.Topic != topic || !strings.Contains(err.Error(), topic) {
		t.Fatalf("%v", err)
	}
	known := kafkatest.Topic(t, brokers, 2, nil)
	_, err = NewSource(t.Context(), SourceOptions{Config: config(brokers), Topics: []string{known}, Partitions: map[string][]int32{known: {0, 2}}})
	if !errors.As(err, &ue) || ue.Topic != known || ue.Partition != 2 {
		t.Fatalf("%v", err)
	}
	// With TopicWait it may come later.
	done := make(chan *Source)
	go func() {
		s, err := NewSource(t.Context(), SourceOptions{Config: config(brokers), Topics: []string{topic}, TopicWait: -1})
		if err != nil {
			t.Error(err)
		}
		done <- s
	}()
	kafkatest.Create(t, brokers, topic, 1, nil)
	want := fill(t, brokers, topic, 1, 5)
	if s := <-done; s != nil {
		defer s.Close()
		same(t, take(t, s, 5), want)
	}
}

func TestSourceCancel(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Topic(t, brokers, 1, nil)
	s := open(t, SourceOptions{Config: config(brokers), Topics: []string{topic}})
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(20*time.Millisecond, func() { cancel(nil) })
	if recs, err := s.Fetch(ctx, nil); !errors.Is(err, context.Canceled) || len(recs) != 0 {
		t.Fatalf("%v, %v", recs, err)
	}
	s.Close()
	s.Close()
	if _, err := s.Fetch(t.Context(), nil); err == nil || err == io.EOF {
		t.Fatalf("after Close: %v", err)
	}
}

func TestSourceAddedPartition(t *testing.T) {
	t.Parallel() // it waits
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Topic(t, brokers, 1, nil)
	old := fill(t, brokers, topic, 1, 5)
	s := open(t, SourceOptions{Config: config(brokers), Topics: []string{topic}, Start: StartLatest, Discover: 50 * time.Millisecond})
	kafkatest.AddPartitions(t, brokers, topic, 2)
	r := rec(topic, 1, 5, "in the added partition")
	kafkatest.Produce(t, brokers, r)
	same(t, take(t, s, 1), []stream.Record{r})
	_ = old
}

// A limited source delivers the same, not faster, and does not lose what was
// paid for to a reader that looks again and again.
func TestSourceRate(t *testing.T) {
	t.Parallel() // it waits
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Topic(t, brokers, 2, nil)
	fill(t, brokers, topic, 2, 20)
	for _, merge := range []Merge{MergeArrival, MergeOrdered} {
		o := SourceOptions{Config: config(brokers), Topics: []string{topic}, Merge: merge, UntilEnd: true}
		want := take(t, open(t, o), -1)
		o.Rate = 100
		s := open(t, o)
		start := time.Now()
		var got []stream.Record
		for {
			ctx, cancel := context.WithTimeout(t.Context(), 7*time.Millisecond)
			n := len(got)
			var err error
			got, err = s.Fetch(ctx, got)
			cancel()
			if len(got)-n > 10 {
				t.Fatalf("%d records at a time", len(got)-n)
			}
			if err == io.EOF {
				break
			}
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
		}
		if merge == MergeOrdered {
			same(t, got, want)
		}
		// The first ten come at once.
		if took := time.Since(start); len(got) != len(want) || took < time.Duration(len(want)-11)*10*time.Millisecond {
			t.Errorf("%s: %d of %d records in %v", merge, len(got), len(want), took)
		}
	}
}

func TestSourceCommit(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Topic(t, brokers, 2, nil)
	group := kafkatest.Name(t, brokers)
	s := open(t, SourceOptions{Config: config(brokers), Topics: []string{topic}, Group: group})
	want := stream.Offsets{{Topic: topic, ID: 0}: 3, {Topic: topic, ID: 1}: 4}
	// The first commit makes a real broker create its offsets topic.
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := s.Commit(ctx, want)
	for err != nil && ctx.Err() == nil {
		time.Sleep(50 * time.Millisecond)
		err = s.Commit(ctx, want)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := kafkatest.Committed(t, brokers, group, topic); !maps.Equal(got, want) {
		t.Fatalf("committed %v, want %v", got, want)
	}
}

func TestSourceOptionsValidate(t *testing.T) {
	ok := func() SourceOptions {
		return SourceOptions{Config: Config{Brokers: []string{"localhost:9092"}}, Topics: []string{"a"}}
	}
	o := ok()
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*SourceOptions){
		"no broker address":    func(o *SourceOptions) { o.Brokers = nil },
		"host:port":            func(o *SourceOptions) { o.Brokers = []string{"localhost"} },
		"no topic":             func(o *SourceOptions) { o.Topics = nil },
		"given twice":          func(o *SourceOptions) { o.Topics = []string{"a", "a"} },
		"partitions of topic":  func(o *SourceOptions) { o.Partitions = map[string][]int32{"b": {0}} },
		"is negative or given": func(o *SourceOptions) { o.Partitions = map[string][]int32{"a": {0, 0}} },
		"offset -1":            func(o *SourceOptions) { o.Offsets = stream.Offsets{{Topic: "a"}: -1} },
		"start":                func(o *SourceOptions) { o.Start = "middle" },
		"time is missing":      func(o *SourceOptions) { o.Start = StartTimestamp },
		"out of range":         func(o *SourceOptions) { o.OutOfRange = "ignore" },
		"merge":                func(o *SourceOptions) { o.Merge = "random" },
		"duration":             func(o *SourceOptions) { o.Lateness = -1 },
		"rate":                 func(o *SourceOptions) { o.Rate = math.NaN() },
		"a wait of":            func(o *SourceOptions) { o.MaxWait = 2 * time.Hour },
		"fetch size":           func(o *SourceOptions) { o.FetchMaxBytes = -1 },
	} {
		o := ok()
		spoil(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want an error about %q, got %v", name, err)
		}
	}
}
