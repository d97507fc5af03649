package main

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
)

// memory is a bounded stream held in memory, for orders that a file cannot be
// read in. Record i of pass p, both from 0, has offset p·n+i of one partition.
type memory struct {
	recs         []stream.Record
	topic        string
	pass, passes int
	pos          int
}

// readAll reads src to its end.
func readAll(ctx context.Context, src stream.Source) ([]stream.Record, error) {
	var recs []stream.Record
	for {
		var err error
		recs, err = src.Fetch(ctx, recs)
		if errors.Is(err, io.EOF) {
			return recs, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// shuffle puts recs into an order that depends on seed alone.
func shuffle(recs []stream.Record, seed uint64) {
	rng.New(seed, "shuffle").Shuffle(len(recs), func(i, j int) { recs[i], recs[j] = recs[j], recs[i] })
}

// newMemory returns a stream of recs, passes times over, from offset start on.
func newMemory(recs []stream.Record, topic string, passes int, start stream.Offsets) *memory {
	m := &memory{recs: recs, topic: topic, passes: passes}
	if n := int64(len(recs)); n > 0 {
		next := start[stream.Partition{Topic: topic}]
		m.pass, m.pos = int(next/n), int(next%n)
	}
	return m
}

// Fetch implements stream.Source.
func (m *memory) Fetch(ctx context.Context, dst []stream.Record) ([]stream.Record, error) {
	if err := ctx.Err(); err != nil {
		return dst, err
	}
	if m.pos == len(m.recs) {
		m.pos, m.pass = 0, m.pass+1
	}
	if m.pass >= m.passes || len(m.recs) == 0 {
		return dst, io.EOF
	}
	n := min(len(m.recs)-m.pos, 4096)
	for i := range n {
		r := m.recs[m.pos+i]
		r.Topic, r.Partition = m.topic, 0
		r.Offset = int64(m.pass)*int64(len(m.recs)) + int64(m.pos+i)
		dst = append(dst, r)
	}
	m.pos += n
	return dst, nil
}

// Close implements stream.Source.
func (m *memory) Close() error { return nil }

// labelMask returns which examples keep their labels where exactly keep of the
// labelled ones in src do, chosen by seed. src is one pass of the stream, admit
// decodes a record as the engine that the mask is for does. The function is nil
// if all labels are kept.
func labelMask(ctx context.Context, src stream.Source, admit func(*stream.Record) *engine.Item, keep int, seed uint64) (func(i uint64) bool, error) {
	// The engine numbers the examples that it admits. A bit says whether one is
	// labelled, in the end whether it stays so: a byte for eight examples is all
	// that grows with the stream while it is learned from.
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
			it := admit(&recs[i])
			if it.Err != nil {
				continue
			}
			if n%64 == 0 {
				bits = append(bits, 0)
			}
			if it.Example.Labelled {
				bits[n/64] |= 1 << (n % 64)
				labels++
			}
			n++
		}
	}
	if keep > labels {
		return nil, fmt.Errorf("%d labels are to be kept, there are %d", keep, labels)
	}
	if keep == labels {
		return nil, nil
	}
	if uint64(labels) > math.MaxUint32 {
		return nil, fmt.Errorf("%d labels are more than can be chosen from, %d", labels, uint32(math.MaxUint32))
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
