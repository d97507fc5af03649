package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/stream"
)

// batch is a run of consecutive records, decoded. records is empty unless the raw
// bytes are needed for the recording or for dead letters.
type batch struct {
	items   []Item
	records []stream.Record
	bytes   int64     // capacity taken by the values of its records
	last    time.Time // time of its last record; zero if unknown

	// The features of the examples share blocks of memory. The blocks are reused if
	// the examples are only lent to the engine. Otherwise learners may keep
	// examples for as long as they like, and the garbage collector frees a block
	// with the last of its examples.
	arena stream.Arena
	lent  bool
}

// ingest fetches and decodes ahead of learning. One goroutine decodes, in order: it
// keeps up with any learner, and the source fetches ahead on goroutines of its own.
type ingest struct {
	src      stream.Source
	first    []stream.Record // first records of src, fetched already
	dec      stream.Decoder
	waits    bool           // dec or labels is a stream.RecordDecoder
	keep     bool           // keep the raw records in the batch
	join     bool           // read keys
	labels   stream.Decoder // decodes the records of labelsIn
	labelsIn string         // empty: labels are in later records
	keys     [2]JoinKey     // of examples and of labels
	skip     bool           // skip records without a value
	queue    chan *batch
	spare    chan *batch  // consumed batches, to be reused
	depth    atomic.Int64 // records in queue
	bytes    int64        // total capacity for the values of queued records
	capacity *semaphore.Weighted
	err      error          // why ingest ended; io.EOF at the end of the stream
	at       *stream.Record // record being decoded; nil if none
}

// A batch ends after batchSize records, or with the record that reaches batchBytes.
const (
	batchSize  = 512
	batchBytes = 1 << 20
	// keepBytes is the largest batch, in bytes of values, whose memory for features
	// is reused.
	keepBytes = 256 << 10
)

func newIngest(src stream.Source, dec stream.Decoder, queueRecords int, queueBytes int64, keep bool) *ingest {
	n := max(1, queueRecords/batchSize)
	in := &ingest{src: src, dec: dec, keep: keep, queue: make(chan *batch, n), spare: make(chan *batch, n)}
	in.bytes, in.capacity = queueBytes, semaphore.NewWeighted(queueBytes)
	_, in.waits = dec.(stream.RecordDecoder)
	return in
}

// joinLabels sets which records are labels and how they are decoded.
func (in *ingest) joinLabels(j Join, dec stream.Decoder) {
	in.join, in.labels, in.labelsIn = j.Used(), dec, j.Topic
	in.keys[0], in.keys[1] = j.Keys()
	_, waits := dec.(stream.RecordDecoder)
	in.waits = in.waits || waits
}

// run fetches until ctx ends, the stream ends or the source fails, then closes the
// queue. After a panic the queue stays open: closed, it would look like the end of
// the stream.
func (in *ingest) run(ctx context.Context) {
	defer crash.Recover(in.doing)
	in.read(ctx)
	close(in.queue)
}

// doing describes what ingest is doing, for a crash report; it runs on the
// goroutine of ingest.
func (in *ingest) doing() string {
	if r := in.at; r != nil {
		return fmt.Sprintf("decoding %v offset %d", stream.Partition{Topic: r.Topic, ID: r.Partition}, r.Offset)
	}
	return "reading the stream"
}

func (in *ingest) read(ctx context.Context) {
	if src, ok := in.src.(interface{ Lend() }); ok && !in.keep {
		src.Lend() // decoders keep nothing of a value
	}
	var recs []stream.Record
	for {
		var err error
		if len(in.first) > 0 {
			recs, in.first = in.first, nil
		} else {
			recs, err = in.src.Fetch(ctx, recs[:0])
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && ctx.Err() == nil {
				err = fmt.Errorf("reading the stream: %w", err)
			}
			in.err = err
			return
		}
		for rest := recs; len(rest) > 0; {
			cut := upTo(rest[:min(len(rest), batchSize)], min(batchBytes, in.bytes))
			if !in.send(ctx, rest[:cut]) {
				if in.err == nil {
					in.err = ctx.Err()
				}
				return
			}
			rest = rest[cut:]
		}
	}
}

// upTo returns how many records to take until their values reach limit bytes, at
// least one.
func upTo(recs []stream.Record, limit int64) int {
	for i := range recs {
		if limit -= int64(len(recs[i].Value)); limit <= 0 {
			return i + 1
		}
	}
	return len(recs)
}

func (in *ingest) send(ctx context.Context, recs []stream.Record) bool {
	b := in.empty(len(recs))
	for i := range recs {
		b.bytes += int64(len(recs[i].Value))
	}
	b.bytes, b.last = min(b.bytes, in.bytes), recs[len(recs)-1].Time
	// Reserve the bytes before decoding. Together with the length of the queue,
	// this is what stops reading when learning is slower. They are released once
	// the batch has been learned from.
	if in.capacity.Acquire(ctx, b.bytes) != nil {
		return false
	}
	b.items = slices.Grow(b.items, len(recs))[:len(recs)] // zeroed by recycle
	for i := range recs {
		r, it := &recs[i], &b.items[i]
		in.at = r
		it.Partition, it.Offset = stream.Partition{Topic: r.Topic, ID: r.Partition}, r.Offset
		if in.skip && r.Value == nil {
			it.Tombstone = true
			continue
		}
		if err := in.decode(ctx, b, r, &it.Example); err != nil {
			// A decoder that waits for a schema registry may fail without the
			// record being at fault. That ends the run: a dead letter would lose a
			// good record.
			if _, about := err.(*stream.FieldError); !about && in.waits {
				in.err = err
				return false
			}
			it.Err = stream.At(r, err)
		} else if err := it.Weigh(r); err != nil {
			it.Err = stream.At(r, err)
		}
		if in.join {
			from := &in.keys[0]
			if in.apart(r) {
				from = &in.keys[1]
			}
			it.Key = from.Of(r, &it.Example)
		}
	}
	in.at = nil
	if in.keep {
		b.records = append(b.records, recs...)
	}
	in.depth.Add(int64(len(recs)))
	select {
	case in.queue <- b:
		runtime.Gosched()
		return true
	case <-ctx.Done():
		return false
	}
}

// apart reports whether a record is of the topic of labels.
func (in *ingest) apart(r *stream.Record) bool { return in.labelsIn != "" && r.Topic == in.labelsIn }

func (in *ingest) decode(ctx context.Context, b *batch, r *stream.Record, x *stream.Example) error {
	dec := in.dec
	if in.apart(r) {
		dec = in.labels
	}
	return stream.DecodeRecord(ctx, dec, &b.arena, r, x)
}

// empty returns an empty batch, a spare one or a new one with capacity for n items.
// A source may always return fewer records at a time than a batch can hold, so n is
// not batchSize.
func (in *ingest) empty(n int) *batch {
	select {
	case b := <-in.spare:
		return b
	default:
		return &batch{items: make([]Item, 0, n)}
	}
}

// recycle takes back a batch that is no longer in use.
func (in *ingest) recycle(b *batch) {
	// Items are reused with zero values: decoders set only the fields that a record
	// has.
	clear(b.items) // otherwise they would keep what they point to alive
	clear(b.records)
	in.capacity.Release(b.bytes)
	if b.lent && b.bytes <= keepBytes {
		b.arena.Reset()
	} else {
		b.arena = stream.Arena{}
	}
	b.items, b.records, b.bytes, b.lent = b.items[:0], b.records[:0], 0, false
	select {
	case in.spare <- b:
	default:
	}
}
