package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/fileio"
)

// set is a list of examples.
type set []*stream.Example

// read reads a data file.
func read(ctx context.Context, path string, limit int, scale float32) (set, error) {
	name, ok := codec.ByFileName(path)
	if !ok {
		return nil, fmt.Errorf("%s: the name does not say what form it has", path)
	}
	dec, err := codec.New(name, codec.Options{})
	if err != nil {
		return nil, err
	}
	src, err := fileio.Open([]string{path}, fileio.Options{Limit: uint64(limit)})
	if err != nil {
		return nil, err
	}
	defer src.Close()
	var all set
	var recs []stream.Record
	for {
		recs, err = src.Fetch(ctx, recs[:0])
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		for _, r := range recs {
			x := new(stream.Example)
			if err := dec.Decode(r.Value, x); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			if !x.Labelled {
				continue
			}
			for i := range x.X.Val {
				x.X.Val[i] *= scale
			}
			x.Seq = uint64(len(all) + 1)
			all = append(all, x)
		}
	}
}

// split sets a share of the examples aside, drawn by a fixed seed.
func (s set) split(share float64) (rest, held set) {
	s = s.shuffled(rng.New(1, "curves.holdout"))
	n := int(share * float64(len(s)))
	return s[n:], s[:n]
}

// shuffled returns the examples in another order, numbered by it.
func (s set) shuffled(r *rng.Source) set {
	out := make(set, len(s))
	for i, j := range r.Perm(len(s)) {
		x := *s[j]
		x.Seq = uint64(i + 1)
		out[i] = &x
	}
	return out
}

// errorRate returns the share of examples that m classifies wrongly.
func (s set) errorRate(m algos.Model) float64 {
	xs := make([]stream.Vec, len(s))
	for i, x := range s {
		xs[i] = x.X
	}
	f := make([]float64, len(s))
	m.Decisions(f, xs)
	wrong := 0
	for i, x := range s {
		if (f[i] >= 0) != (x.Y > 0) {
			wrong++
		}
	}
	return float64(wrong) / float64(max(len(s), 1))
}
