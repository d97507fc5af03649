package trainer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// KeepLabels returns a function for Labels that keeps n of the labels in a stream,
// chosen by the seed, and hides the others, for experiments in semi-supervised
// learning. src is one pass of the stream. The function is nil if the stream has
// exactly n labels.
func (o Options) KeepLabels(ctx context.Context, src stream.Source, dec stream.Decoder, n int) (func(i uint64) bool, error) {
	e, err := o.engine(codec.SignatureOf(dec))
	if err != nil {
		return nil, err
	}
	return keepLabels(ctx, src, n, o.Seed, func(rec *stream.Record) (labelled, ok bool) {
		var it engine.Item
		if dec.Decode(rec.Value, &it.Example) != nil {
			return false, false
		}
		e.Admit(&it)
		return it.Example.Labelled, it.Err == nil
	})
}

// keepLabels implements KeepLabels; admit says which records are examples.
func keepLabels(ctx context.Context, src stream.Source, keep int, seed uint64, admit func(*stream.Record) (labelled, ok bool)) (func(i uint64) bool, error) {
	// The engine numbers the examples that it admits. A bit per example says whether
	// it is labelled, and in the end whether it stays so. Only these bits grow with
	// the stream.
	var bits []uint64
	var n uint64
	labels := 0
	var recs []stream.Record
	for {
		var err error
		recs, err = src.Fetch(ctx, recs[:0])
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		for i := range recs {
			labelled, ok := admit(&recs[i])
			if !ok {
				continue
			}
			if n%64 == 0 {
				bits = append(bits, 0)
			}
			if labelled {
				bits[n/64] |= 1 << (n % 64)
				labels++
			}
			n++
		}
	}
	if keep > labels {
		return nil, fmt.Errorf("cannot keep %d labels, there are only %d", keep, labels)
	}
	if keep == labels {
		return nil, nil
	}
	if uint64(labels) > math.MaxUint32 {
		return nil, fmt.Errorf("cannot choose from %d labels, the limit is %d", labels, uint32(math.MaxUint32))
	}
	order := make([]uint32, labels)
	for i := range order {
		order[i] = uint32(i)
	}
	rng.New(seed, "labelled").Shuffle(labels, func(i, j int) { order[i], order[j] = order[j], order[i] })
	order = order[:keep]
	slices.Sort(order)
	labels = 0
	for i := range n {
		if bits[i/64]>>(i%64)&1 == 0 {
			continue
		}
		if len(order) > 0 && int(order[0]) == labels {
			order = order[1:]
		} else {
			bits[i/64] &^= 1 << (i % 64)
		}
		labels++
	}
	return func(i uint64) bool { i %= n; return bits[i/64]>>(i%64)&1 != 0 }, nil
}
