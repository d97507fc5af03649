package synth

import (
	"context"
	"io"

	"github.com/streamsvm/streamsvm/stream"
)

// Source delivers the examples of a generator as records of one partition, in a
// wire format. It implements stream.Source.
type Source struct {
	g   *Generator
	enc stream.Encoder
	end uint64
}

// NewSource returns a source of the examples of g from its position up to the one
// with number end; 0 is no end. The source takes ownership of g.
func NewSource(g *Generator, enc stream.Encoder, end uint64) *Source {
	return &Source{g: g, enc: enc, end: end}
}

// Fetch implements stream.Source.
func (s *Source) Fetch(ctx context.Context, dst []stream.Record) ([]stream.Record, error) {
	if err := ctx.Err(); err != nil {
		return dst, err
	}
	n := uint64(500)
	if s.end > 0 {
		if n = min(n, s.end-min(s.end, s.g.Position())); n == 0 {
			return dst, io.EOF
		}
	}
	for ; n > 0; n-- {
		rec := stream.Record{Topic: s.g.Name(), Offset: int64(s.g.Position())}
		var ex stream.Example
		s.g.Next(&ex)
		var err error
		if rec.Value, err = s.enc.Append(nil, &ex); err != nil {
			return dst, err
		}
		dst = append(dst, rec)
	}
	return dst, nil
}

// Close implements stream.Source.
func (s *Source) Close() error { return nil }
