package main

import (
	"context"
	"errors"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// reading is the result of decoding a record.
type reading struct {
	ex  stream.Example
	err error
}

// chunk is a run of records; readings has one element for each record with a value.
type chunk struct {
	recs     []stream.Record
	readings []reading
}

// share is one reader's view of a stream that several read together: after a few
// chunks, each waits for the slowest. It is a source, and decodes.
type share struct {
	chunks chan *chunk
	left   chan struct{} // closed when the reader needs no more
	err    error         // why there are no more chunks, once they are closed
	ahead  []reading     // of fetched records that decode has not returned
}

// Fetch implements stream.Source.
func (s *share) Fetch(ctx context.Context, dst []stream.Record) ([]stream.Record, error) {
	select {
	case c, ok := <-s.chunks:
		if !ok {
			return dst, s.err
		}
		s.ahead = append(s.ahead, c.readings...)
		return append(dst, c.recs...), nil
	case <-ctx.Done():
		return dst, ctx.Err()
	}
}

// Close implements stream.Source.
func (s *share) Close() error { return nil }

// decode returns the reading of the next record. The vector is a copy, which a
// learner may change.
func (s *share) decode(ex *stream.Example) error {
	o := s.ahead[0]
	s.ahead = s.ahead[1:]
	if o.err != nil {
		return o.err
	}
	*ex = o.ex
	ex.X = o.ex.X.Clone()
	return nil
}

// onePass reads and decodes src once for n readers, which run at the same time.
func onePass(ctx context.Context, src stream.Source, dec stream.Decoder, n int, read func(ctx context.Context, i int, src stream.Source, dec stream.Decoder) error) error {
	shares := make([]*share, n)
	g, ctx := errgroup.WithContext(ctx)
	for i := range shares {
		s := &share{chunks: make(chan *chunk, 4), left: make(chan struct{})}
		shares[i] = s
		g.Go(crash.Task(func() error {
			err := read(ctx, i, s, codec.Decoded(dec, s.decode))
			close(s.left)
			return err
		}))
	}
	g.Go(crash.Task(func() error {
		var arena stream.Arena
		var err error
		for err == nil {
			c := &chunk{}
			c.recs, err = src.Fetch(ctx, nil)
			for i := range c.recs {
				if c.recs[i].Value == nil {
					continue
				}
				var o reading
				o.err = stream.DecodeRecord(ctx, dec, &arena, &c.recs[i], &o.ex)
				c.readings = append(c.readings, o)
			}
			for _, s := range shares {
				select {
				case s.chunks <- c:
				case <-s.left:
				}
			}
		}
		for _, s := range shares {
			s.err = err
			close(s.chunks)
		}
		if errors.Is(err, io.EOF) || ctx.Err() != nil {
			return nil
		}
		return err
	}))
	return g.Wait()
}
