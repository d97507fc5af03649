package synth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/streamsvm/streamsvm/stream"
)

// SourceOptions say how a generated stream is delivered as records. The zero
// value of each field selects its default.
type SourceOptions struct {
	// Topic is the records' topic, by default the generator's name.
	Topic string
	// Partitions is the number of partitions, which take turns: example i, from
	// 0, has partition i mod Partitions and offset i div Partitions. Default 1.
	Partitions int
	// Start is where to begin; partitions it does not hold start at offset 0.
	Start stream.Offsets
	// Limit is the number of examples after which the stream ends, counted from
	// the beginning of the stream, not from Start: 0 is no limit.
	Limit uint64
}

// Source delivers a generator's examples as records. It implements
// stream.Source and stream.Skipper.
type Source struct {
	g       *Generator
	enc     stream.Encoder
	o       SourceOptions
	start   []int64 // per partition
	skipped atomic.Uint64
	buf     []byte
	err     error
}

var (
	_ stream.Source  = (*Source)(nil)
	_ stream.Skipper = (*Source)(nil)
)

// batch is how many records a Fetch returns at most.
const batch = 256

// NewSource returns a source of the examples of g, which must be at its first
// example and belongs to the source from now on, in the wire form of enc.
func NewSource(g *Generator, enc stream.Encoder, o SourceOptions) (*Source, error) {
	if g.Position() != 0 {
		return nil, fmt.Errorf("synth: the generator is at example %d, want 0", g.Position())
	}
	if o.Topic == "" {
		o.Topic = g.Name()
	}
	if o.Partitions == 0 {
		o.Partitions = 1
	}
	if o.Partitions < 1 || o.Partitions > 1<<20 {
		return nil, fmt.Errorf("synth: Partitions is %d, want 1 to %d", o.Partitions, 1<<20)
	}
	s := &Source{g: g, enc: enc, o: o, start: make([]int64, o.Partitions)}
	// Everything before the earliest position of all need not be generated.
	first := int64(-1)
	for p := range s.start {
		at := max(o.Start[stream.Partition{Topic: o.Topic, ID: int32(p)}], 0)
		s.start[p] = at
		if first < 0 || at < first {
			first = at
		}
	}
	n := uint64(first) * uint64(o.Partitions)
	if o.Limit > 0 {
		n = min(n, o.Limit)
	}
	g.Skip(n)
	s.skipped.Store(n)
	return s, nil
}

// Fetch implements stream.Source.
func (s *Source) Fetch(ctx context.Context, dst []stream.Record) ([]stream.Record, error) {
	n := len(dst)
	s.buf = s.buf[:0]
	var ends [batch]int
	parts := uint64(s.o.Partitions)
	for k := 0; k < batch; {
		if s.err == nil && s.o.Limit > 0 && s.g.Position() >= s.o.Limit {
			s.err = io.EOF
		}
		if s.err != nil {
			break
		}
		if err := ctx.Err(); err != nil {
			if k > 0 {
				break
			}
			return dst, err
		}
		i := s.g.Position()
		p, offset := i%parts, int64(i/parts)
		if offset < s.start[p] {
			s.g.Skip(1)
			s.skipped.Add(1)
			continue
		}
		var ex stream.Example
		s.g.Next(&ex)
		b, err := s.enc.Append(s.buf, &ex)
		if err != nil {
			s.err = fmt.Errorf("synth: %s/%d offset %d: %w", s.o.Topic, p, offset, err)
			break
		}
		s.buf = b
		ends[k] = len(b)
		k++
		dst = append(dst, stream.Record{Topic: s.o.Topic, Partition: int32(p), Offset: offset})
	}
	if len(dst) == n {
		return dst, s.err
	}
	// One block for all values: theirs from now on, while buf is used again.
	block := append([]byte(nil), s.buf...)
	at := 0
	for k := range dst[n:] {
		dst[n+k].Value = block[at:ends[k]:ends[k]]
		at = ends[k]
	}
	return dst, nil
}

// Skipped implements stream.Skipper.
func (s *Source) Skipped() uint64 { return s.skipped.Load() }

// Close implements stream.Source.
func (s *Source) Close() error {
	if s.err == nil {
		s.err = errors.New("synth: the source is closed")
	}
	return nil
}
