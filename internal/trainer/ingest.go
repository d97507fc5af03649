package trainer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/streamsvm/streamsvm/stream"
)

// batch is a run of records with what became of their decoding. records is nil
// unless somebody downstream wants the raw bytes.
type batch struct {
	items   []Item
	records []stream.Record
}

// ingest fetches and decodes ahead of learning. Decoding happens on its own
// goroutine, in order.
type ingest struct {
	src     stream.Source
	dec     stream.Decoder
	keep    bool // hand the raw records on
	queue   chan *batch
	depth   atomic.Int64 // records in queue
	err     error        // why ingest ended; io.EOF at the end of the stream
	limit   uint64       // deliver at most so many records, 0: all
	skipped uint64
}

// batchSize is how many records travel through the queue together.
const batchSize = 512

func newIngest(src stream.Source, dec stream.Decoder, queueRecords int, keep bool) *ingest {
	return &ingest{src: src, dec: dec, keep: keep, queue: make(chan *batch, max(1, queueRecords/batchSize))}
}

// run fetches until ctx ends, the stream ends or the source fails, then closes
// the queue.
func (in *ingest) run(ctx context.Context) {
	defer close(in.queue)
	var recs []stream.Record
	var n uint64
	for {
		var err error
		recs, err = in.src.Fetch(ctx, recs[:0])
		if err != nil {
			if !errors.Is(err, io.EOF) && ctx.Err() == nil {
				err = fmt.Errorf("reading the stream: %w", err)
			}
			in.err = err
			return
		}
		for rest := recs; len(rest) > 0; {
			cut := min(len(rest), batchSize)
			if in.limit > 0 {
				cut = min(cut, int(in.limit-n))
			}
			if !in.send(ctx, rest[:cut]) {
				in.err = ctx.Err()
				return
			}
			rest, n = rest[cut:], n+uint64(cut)
			if in.limit > 0 && n >= in.limit {
				in.err = io.EOF
				return
			}
		}
	}
}

func (in *ingest) send(ctx context.Context, recs []stream.Record) bool {
	b := &batch{items: make([]Item, len(recs))}
	for i := range recs {
		r, it := &recs[i], &b.items[i]
		it.Partition, it.Offset = stream.Partition{Topic: r.Topic, ID: r.Partition}, r.Offset
		if err := in.dec.Decode(r.Value, &it.Example); err != nil {
			it.Err = stream.At(r, err)
		}
	}
	if in.keep {
		b.records = append([]stream.Record(nil), recs...)
	}
	in.depth.Add(int64(len(recs)))
	select {
	case in.queue <- b:
		return true
	case <-ctx.Done():
		return false
	}
}
