package trainer

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/streamsvm/streamsvm/internal/remind"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// DiscoveryError says that the first records of a stream do not tell enough about
// its format.
type DiscoveryError struct{ Err error }

func (e *DiscoveryError) Error() string { return e.Err.Error() }

func (e *DiscoveryError) Unwrap() error { return e.Err }

// Discover reads records from src until d has seen enough or src ends. It returns
// them with the codec options that d has decided on. Records of the topic labels,
// if any, are labels.
func Discover(ctx context.Context, src stream.Source, d *codec.Discovery, labels string) ([]stream.Record, codec.Options, error) {
	return discover(ctx, src, d, labels, nil)
}

// mostBytes bounds the values of the records read by Discover. They stay in memory
// until they are learned from.
const mostBytes = 256 << 20

func discover(ctx context.Context, src stream.Source, d *codec.Discovery, labels string, told func(n int)) (recs []stream.Record, o codec.Options, err error) {
	bytes := 0
	for enough := false; !enough && bytes < mostBytes; {
		n := len(recs)
		if recs, err = src.Fetch(ctx, recs); errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, o, err
		}
		for i := range recs[n:] {
			r := &recs[n+i]
			bytes += len(r.Value)
			switch {
			case r.Value == nil || enough:
			case labels != "" && r.Topic == labels:
				enough, err = d.LookLabelRecord(ctx, r)
			default:
				enough, err = d.LookRecord(ctx, r)
			}
			if err != nil {
				return nil, o, err
			}
		}
		if told != nil {
			told(len(recs))
		}
	}
	if o, err = d.Decide(); err != nil {
		return nil, o, &DiscoveryError{err}
	}
	return recs, o, nil
}

// metaGiven is the name in a checkpoint's header for the options given for events.
const metaGiven = "events"

// discover finds out the format of the records if it is not known yet. The records
// it reads are learned from afterwards.
func (r *run) discover(ctx context.Context) error {
	if r.Discovery == nil || r.Decoder != nil {
		return nil
	}
	var again remind.Reminder
	recs, o, err := discover(ctx, r.run.Source, r.Discovery, r.Join.Topic, func(n int) {
		if again.Due(time.Now()) {
			r.Log.Warn("reading the first records to find out their format; learning begins afterwards", "records", n, "of", codec.SampleSize)
		}
	})
	if err != nil {
		return err
	}
	r.run.First = recs
	return r.decoders(o)
}

// decoders creates the decoders, and an engine for what they read.
func (r *run) decoders(o codec.Options) (err error) {
	if r.Decoder, err = r.Discovery.Codec(o); err != nil {
		return err
	}
	if given := r.Discovery.Given(); given != "" && o.Schema != "" {
		r.run.Meta = append(r.run.Meta, [2]string{metaGiven, given})
	}
	return r.makeEngine(o)
}
