package engine

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

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
	const n = 800
	for _, of := range []struct{ learner, scale string }{{"scs", "standard"}, {"sbp", "standard"}, {"sbp", "none"}, {"online", "standard"}, {"online", "none"}, {"adaptive", "none"}} {
		cfg := config(t, of.learner)
		cfg.Scale = of.scale // without one, learners get what was decoded
		for _, name := range []string{"libsvm", "json", "msgpack"} {
			c, err := codec.New(name, codec.Options{})
			if err != nil {
				t.Fatal(err)
			}
			recs := encoded(t, c, n, 11)
			want := newEngine(t, cfg)
			for i := range recs {
				r := &recs[i]
				it := Item{Partition: stream.Partition{Topic: r.Topic, ID: r.Partition}, Offset: r.Offset}
				if err := c.Decode(r.Value, &it.Example); err != nil {
					it.Err = stream.At(r, err)
				}
				consume(t, want, []Item{it})
			}
			finish(t, want)
			for _, room := range []int64{7, 700} { // for one record at a time, and for several
				got := newEngine(t, cfg)
				src := &memory{recs: recs, r: rand.New(rand.NewPCG(1, 1))}
				_, err = Run(t.Context(), got, RunConfig{Source: src, Decoder: c, Tolerance: TolerateData, QueueRecords: 1, QueueBytes: room})
				if err != nil {
					t.Fatal(err)
				}
				if g, w := hashOf(t, got), hashOf(t, want); g != w {
					t.Errorf("%v, %s: state %x, want %x", of, name, g, w)
				}
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
		in := newIngest(&memory{recs: recs, r: rand.New(rand.NewPCG(2, 2))}, c, 8*batchSize, 1<<30, keep)
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
				if it.Offset != next || it.Err != nil || it.Key != "" || it.Example.X.Val[0] != float32(next) {
					t.Fatalf("item %d is %+v", next, it)
				}
				if keep && b.records[i].Offset != next {
					t.Fatalf("item %d comes with record %d", next, b.records[i].Offset)
				}
				it.Key = "used" // must not be seen again
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

// What is fetched and decoded ahead is bounded in bytes, however large records
// are; one that is larger than the bound passes, too.
func TestIngestBytes(t *testing.T) {
	const n, large, limit = 2000, 10_000, 1 << 17
	c, err := codec.New("libsvm", codec.Options{})
	if err != nil {
		t.Fatal(err)
	}
	recs := make([]stream.Record, n)
	for i := range recs {
		size := large
		if i == n/2 {
			size = 2 * limit
		}
		recs[i] = stream.Record{Topic: "t", Offset: int64(i), Value: fmt.Appendf(nil, "+1 1:%d%*s", i+1, size, " ")}
	}
	in := newIngest(&memory{recs: recs, r: rand.New(rand.NewPCG(2, 2))}, c, 65536, limit, false)
	go in.run(t.Context())
	next, most := 0, 0
	for next < n {
		// Let it run ahead until it stops.
		for depth := int64(-1); depth != in.depth.Load(); time.Sleep(time.Millisecond) {
			depth = in.depth.Load()
		}
		b := <-in.queue
		ahead := int(in.depth.Load())
		in.depth.Add(-int64(len(b.items)))
		most = max(most, ahead)
		if ahead > limit/large+1 {
			t.Fatalf("%d records of %d bytes are ahead, the limit is %d bytes", ahead, large, limit)
		}
		for i := range b.items {
			if it := &b.items[i]; it.Err != nil || it.Offset != int64(next) || it.Example.X.Val[0] != float32(next+1) {
				t.Fatalf("item %d is %+v", next, it)
			}
			next++
		}
		in.recycle(b)
	}
	if _, more := <-in.queue; more || in.err != io.EOF || most < 2 {
		t.Errorf("%v, %d records ahead at most", in.err, most)
	}
}
