package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/internal/trainer"
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
func labelMask(ctx context.Context, src stream.Source, admit func(*stream.Record) *trainer.Item, keep int, seed uint64) (func(i uint64) bool, error) {
	// The engine numbers the examples that it admits.
	var labelled []uint64
	var n uint64
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
			if it.Example.Labelled {
				labelled = append(labelled, n)
			}
			n++
		}
	}
	if keep > len(labelled) {
		return nil, fmt.Errorf("%d labels are to be kept, there are %d", keep, len(labelled))
	}
	if keep == len(labelled) {
		return nil, nil
	}
	r := rng.New(seed, "labelled")
	r.Shuffle(len(labelled), func(i, j int) { labelled[i], labelled[j] = labelled[j], labelled[i] })
	kept := make([]bool, n)
	for _, i := range labelled[:keep] {
		kept[i] = true
	}
	return func(i uint64) bool { return n > 0 && kept[i%n] }, nil
}
