package doctor

import (
	"context"
	"errors"
	"fmt"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// registry asks the schema registry whether it answers.
func (d *checkup) registry(ctx context.Context) bool {
	if d.Registry == nil {
		return true
	}
	if err := d.Registry(ctx); err != nil {
		d.fail(cli.Unavailable, "schema registry", err.Error(), "look at --schema-registry, and at user and password: train waits until it answers")
		return false
	}
	d.ok("schema registry", "it answers")
	return true
}

// written reads records of schemas as train would.
func (s *study) written(ctx context.Context) {
	format := s.format
	format.Task = string(s.task)
	dead := 0
	d, err := codec.NewDiscovery(s.codec, format)
	for i := range s.recs {
		if s.recs[i].Value == nil && s.SkipTombstones {
			dead++
		} else if err == nil {
			_, err = d.LookRecord(ctx, &s.recs[i])
		}
	}
	var found codec.Options
	if err == nil {
		found, err = d.Decide()
	}
	var dec codec.Codec
	if err == nil {
		dec, err = d.Codec(found)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		s.fail(cli.Unavailable, "records", "the schema registry did not give their schemas in time", "")
		return
	}
	if err != nil {
		s.unsupported(err.Error(), "")
		return
	}
	bad, features, first := 0, 0, ""
	for i := range s.recs {
		r := &s.recs[i]
		if r.Value == nil && s.SkipTombstones {
			continue
		}
		var ex stream.Example
		if err := stream.DecodeRecord(ctx, dec, nil, r, &ex); err != nil {
			if bad++; bad == 1 {
				first = stream.At(r, err).Error()
			}
			continue
		}
		features = max(features, ex.X.Dim())
	}
	if bad > 0 && (!s.Tolerant || !few(bad, len(s.recs)-dead)) {
		s.fail(cli.Data, "records", fmt.Sprintf("%s cannot be read, the first: %s", s.share(bad), first), "")
		return
	}
	s.ok("records", "%s are events that codec %s reads: %d features", s.share(len(s.recs)-dead-bad), s.codec, features)
}
