package trainer

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// encoded returns the records of a two-ring problem as c writes them; a few
// cannot be used.
func encoded(t *testing.T, c codec.Codec, n int, seed uint64) []stream.Record {
	t.Helper()
	var recs []stream.Record
	for _, it := range rings(n, seed, true) {
		var v []byte
		if it.Err == nil {
			var err error
			if v, err = c.Append(nil, &it.Example); err != nil {
				t.Fatal(err)
			}
		}
		recs = append(recs, stream.Record{Topic: it.Partition.Topic, Partition: it.Partition.ID, Offset: it.Offset, Value: v})
	}
	return recs
}

// TestIngestReusesNothingInUse compares a run, where batches are used again and
// examples share memory, with an engine that is given every example in memory
// of its own. Learners that hold examples back would notice.
func TestIngestReusesNothingInUse(t *testing.T) {
	const n = 5000
	for _, learner := range []string{"scs", "pegasos"} {
		for _, name := range []string{"libsvm", "json", "msgpack"} {
			c, err := codec.New(name, codec.Options{})
			if err != nil {
				t.Fatal(err)
			}
			recs := encoded(t, c, n, 11)
			want := newEngine(t, config(t, learner))
			for i := range recs {
				r := &recs[i]
				it := Item{Partition: stream.Partition{Topic: r.Topic, ID: r.Partition}, Offset: r.Offset}
				if err := c.Decode(r.Value, &it.Example); err != nil {
					it.Err = stream.At(r, err)
				}
				if _, err := want.Consume(t.Context(), []Item{it}); err != nil {
					t.Fatal(err)
				}
			}
			if err := want.Finish(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := newEngine(t, config(t, learner))
			src := &memory{recs: recs, r: rand.New(rand.NewPCG(1, 1))}
			_, err = Run(t.Context(), got, RunConfig{Source: src, Decoder: c, Tolerance: TolerateData, QueueRecords: 1})
			if err != nil {
				t.Fatal(err)
			}
			if g, w := hashOf(t, got), hashOf(t, want); g != w {
				t.Errorf("%s, %s: state %x, want %x", learner, name, g, w)
			}
		}
	}
}

// TestIngestAllocates checks that what ingest allocates for a record is a share
// of a block, not an object.
func TestIngestAllocates(t *testing.T) {
	const n = 100_000
	c, err := codec.New("libsvm", codec.Options{})
	if err != nil {
		t.Fatal(err)
	}
	recs := make([]stream.Record, n)
	for i := range recs {
		recs[i] = stream.Record{Topic: "t", Offset: int64(i), Value: fmt.Appendf(nil, "+1 1:%d 3:0.5 7:1.25", i)}
	}
	for _, keep := range []bool{false, true} {
		in := newIngest(&memory{recs: recs, r: rand.New(rand.NewPCG(2, 2))}, c, 8*batchSize, keep)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		go in.run(t.Context())
		next := int64(0)
		for b := range in.queue {
			if keep != (len(b.records) == len(b.items)) {
				t.Fatalf("%d items, %d records", len(b.items), len(b.records))
			}
			for i := range b.items {
				it := &b.items[i]
				if it.Offset != next || it.Err != nil || it.admitted || it.Example.X.Val[0] != float32(next) {
					t.Fatalf("item %d is %+v", next, it)
				}
				if keep && b.records[i].Offset != next {
					t.Fatalf("item %d comes with record %d", next, b.records[i].Offset)
				}
				it.admitted = true // must not be seen again
				next++
			}
			in.recycle(b)
		}
		runtime.ReadMemStats(&after)
		if in.err != io.EOF || next != n {
			t.Fatalf("%d records, %v", next, in.err)
		}
		if got := float64(after.Mallocs-before.Mallocs) / n; got > 0.05 {
			t.Errorf("keep %v: %.3f allocations for a record", keep, got)
		}
	}
}
