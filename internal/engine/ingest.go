package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/stream"
)

// batch is a run of records with what became of their decoding. records is
// empty unless somebody downstream wants the raw bytes.
type batch struct {
	items   []Item
	records []stream.Record
	bytes   int64     // of room, taken up by the values of its records
	last    time.Time // of its last record; zero where unknown

	// The features of the examples share blocks of memory, which are used again
	// where examples are lent to the engine. Elsewhere learners may keep them for as
	// long as they like: a block goes when the last of its examples does.
	arena stream.Arena
	lent  bool
}

// ingest fetches and decodes ahead of learning. Decoding happens on its own
// goroutine, in order: one keeps up with any learner, and the source has
// goroutines of its own that fetch ahead.
type ingest struct {
	src      stream.Source
	first    []stream.Record // of src, read already
	dec      stream.Decoder
	waits    bool           // dec is a stream.RecordDecoder
	keep     bool           // hand the raw records on
	join     bool           // look for keys, and for labels
	labels   stream.Decoder // of the records of labelsIn
	labelsIn string
	skip     bool // records without a value
	queue    chan *batch
	spare    chan *batch  // consumed batches, to be filled again
	depth    atomic.Int64 // records in queue
	bytes    int64        // room for the values of records in queue
	room     *semaphore.Weighted
	err      error          // why ingest ended; io.EOF at the end of the stream
	at       *stream.Record // that is being decoded; nil without
}

// At most batchSize records travel through the queue together, and no more
// behind batchBytes.
const (
	batchSize  = 512
	batchBytes = 1 << 20
	// keepBytes bounds the values of batches whose memory for features is used again.
	keepBytes = 256 << 10
)

func newIngest(src stream.Source, dec stream.Decoder, queueRecords int, queueBytes int64, keep bool) *ingest {
	n := max(1, queueRecords/batchSize)
	in := &ingest{src: src, dec: dec, keep: keep, queue: make(chan *batch, n), spare: make(chan *batch, n)}
	in.bytes, in.room = queueBytes, semaphore.NewWeighted(queueBytes)
	_, in.waits = dec.(stream.RecordDecoder)
	return in
}

// run fetches until ctx ends, the stream ends or the source fails, then closes
// the queue. A panic leaves it open, or it would look like the end of the stream.
func (in *ingest) run(ctx context.Context) {
	defer crash.Recover(in.doing)
	in.read(ctx)
	close(in.queue)
}

// doing says what is being done, on the goroutine of ingest.
func (in *ingest) doing() string {
	if r := in.at; r != nil {
		return fmt.Sprintf("decoding %v offset %d", stream.Partition{Topic: r.Topic, ID: r.Partition}, r.Offset)
	}
	return "reading the stream"
}

func (in *ingest) read(ctx context.Context) {
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

// upTo returns how many records have so many bytes, the last one beginning
// before that.
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
	if in.room.Acquire(ctx, b.bytes) != nil {
		return false
	}
	b.items = slices.Grow(b.items, len(recs))[:len(recs)] // empty ones
	for i := range recs {
		r, it := &recs[i], &b.items[i]
		in.at = r
		it.Partition, it.Offset = stream.Partition{Topic: r.Topic, ID: r.Partition}, r.Offset
		if in.skip && r.Value == nil {
			it.Tombstone = true
			continue
		}
		if err := in.decode(ctx, b, r, &it.Example); err != nil {
			if _, about := err.(*stream.FieldError); !about && in.waits {
				in.err = err
				return false
			}
			it.Err = stream.At(r, err)
		} else if err := it.Weigh(r); err != nil {
			it.Err = stream.At(r, err)
		}
		if in.join {
			if it.Key = it.Example.ID; len(r.Key) > 0 {
				it.Key = string(r.Key)
			}
		}
	}
	in.at = nil
	if in.keep {
		b.records = append(b.records, recs...)
	}
	in.depth.Add(int64(len(recs)))
	select {
	case in.queue <- b:
		return true
	case <-ctx.Done():
		return false
	}
}

func (in *ingest) decode(ctx context.Context, b *batch, r *stream.Record, x *stream.Example) error {
	if in.join && r.Topic == in.labelsIn {
		return in.labels.Decode(r.Value, x)
	}
	return stream.DecodeRecord(ctx, in.dec, &b.arena, r, x)
}

// empty returns an empty batch, a new one with room for n items: a source may
// give fewer records at a time than a batch can take, always.
func (in *ingest) empty(n int) *batch {
	select {
	case b := <-in.spare:
		return b
	default:
		return &batch{items: make([]Item, 0, n)}
	}
}

// recycle takes back a batch of which nothing is used any more.
func (in *ingest) recycle(b *batch) {
	clear(b.items) // or what they point to would live on
	clear(b.records)
	in.room.Release(b.bytes)
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
