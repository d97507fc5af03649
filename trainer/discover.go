package trainer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/fileio"
)

// DiscoveryError says that the format of a stream cannot be inferred from its first
// records.
type DiscoveryError struct {
	Err error
	// First is the first record if none can be read; then Err is about First.
	First *stream.Record
}

func (e *DiscoveryError) Error() string { return e.Err.Error() }

func (e *DiscoveryError) Unwrap() error { return e.Err }

// Discover reads records from src until d has seen enough or src ends. It returns
// them with the codec options that d has decided on. Records of the topic labels,
// if any, are labels. From a recording it reads as many records as the trainer that
// wrote it did.
//
// It fails with a *DiscoveryError if d cannot decide, or if none of the first 20 records
// can be read.
func Discover(ctx context.Context, src stream.Source, d *codec.Discovery, labels string) ([]stream.Record, codec.Options, error) {
	s := sample{src: src, d: d, labels: labels, mostRefused: mostRefused}
	o, err := s.read(ctx)
	return s.recs, o, err
}

// The sample that a codec.Discovery sees ends early at the end of a topic: once settle has
// passed since its first record, the records so far are used if they suffice. A topic with
// a record every few seconds would otherwise take an hour to fill codec.SampleSize. While
// a broker has more records, these are read, so the schema of a backlog does not depend
// on the clock.
const settle = 5 * time.Second

// A sample is limited to mostBytes of values, which stay in memory until they are learned
// from, and ends after mostRefused records if none of them can be read.
const (
	mostBytes   = 256 << 20
	mostRefused = 20
)

// poll is how often a sample looks at the clock while no record comes.
const poll = time.Second

// sample reads the first records of a stream.
type sample struct {
	src         stream.Source
	d           *codec.Discovery
	labels      string // topic of labels; "" if there is none
	mostRefused int
	waiting     func(records int) // called about every poll and after each fetch; may be nil

	recs  []stream.Record
	first *stream.Record // a copy of the first record of an example that d has seen
	short bool           // the sample ended before d had seen enough
}

// read reads the sample, and returns the options that d decides on.
func (s *sample) read(ctx context.Context) (o codec.Options, err error) {
	var began time.Time
	bytes := 0
	for enough := false; !enough && bytes < mostBytes; {
		n := len(s.recs)
		err = s.fetch(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return o, err
		}
		if n == 0 && len(s.recs) > 0 {
			began = time.Now()
		}
		size := recorded(s.src)
		for i := n; i < len(s.recs); i++ {
			bytes += len(s.recs[i].Value)
			if !enough {
				if enough, err = s.look(ctx, &s.recs[i]); err != nil {
					return o, err
				}
			}
			enough = enough || uint32(i+1) == size
		}
		if s.waiting != nil {
			s.waiting(len(s.recs))
		}
		if !enough && !began.IsZero() && time.Since(began) >= settle && s.atEnd() {
			// A tolerant run waits for records that it can read.
			if k, why := s.d.Refused(); k > 0 && s.mostRefused == mostRefused {
				return o, s.refused(k, why)
			}
			s.short = s.d.Usable()
			enough = s.short
		}
	}
	if o, err = s.d.Decide(); err != nil {
		return o, &DiscoveryError{Err: err}
	}
	return o, nil
}

// fetch appends the next records to s.recs. At the end of a topic it returns after poll
// without any.
func (s *sample) fetch(ctx context.Context) (err error) {
	wait := ctx
	if _, ok := s.src.(stream.Lagger); ok {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(ctx, poll)
		defer cancel()
	}
	s.recs, err = s.src.Fetch(wait, s.recs)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil
	}
	return err
}

// look shows a record to the Discovery, and reports whether it has seen enough.
func (s *sample) look(ctx context.Context, r *stream.Record) (enough bool, err error) {
	switch {
	case r.Value == nil:
		return false, nil
	case s.labels != "" && r.Topic == s.labels:
		return s.d.LookLabel(ctx, r)
	case s.first == nil:
		first := *r
		s.first = &first
	}
	if enough, err = s.d.LookRecord(ctx, r); err != nil {
		return false, err
	}
	if k, why := s.d.Refused(); k > 0 && k == s.mostRefused {
		return false, s.refused(k, why)
	}
	return enough, nil
}

func (s *sample) refused(records int, why error) error {
	return &DiscoveryError{fmt.Errorf("none of the first %d records can be read; the first one: %w", records, stream.At(s.first, why)), s.first}
}

// atEnd reports whether the source has delivered all existing records.
func (s *sample) atEnd() bool {
	l, ok := s.src.(stream.Lagger)
	if !ok {
		return false
	}
	for _, n := range l.Lag() {
		if n > 0 {
			return false
		}
	}
	return true
}

// recorded returns the number of records in the sample of the trainer that wrote the
// recording; 0 if src is no recording or the sample was not cut short.
func recorded(src stream.Source) uint32 {
	if f, ok := src.(*fileio.Source); ok {
		return f.Sample()
	}
	return 0
}

// metaGiven names the entry of a checkpoint's header with the options given for events.
const metaGiven = "events"

// discover infers the format of the records if it is not known yet. The records it
// reads are learned from afterwards.
func (r *run) discover(ctx context.Context) error {
	if r.Discovery == nil || r.Decoder != nil {
		return nil
	}
	s := sample{src: r.run.Source, d: r.Discovery, labels: r.Join.Topic, mostRefused: r.mostRefused()}
	s.waiting = func(n int) {
		for _, h := range r.Hooks {
			if h, ok := h.(HookDiscovery); ok {
				h.Discovering(s.src, n)
			}
		}
	}
	o, err := s.read(ctx)
	if err != nil {
		return err
	}
	if w, ok := r.run.Recorder.(*fileio.RecordWriter); ok {
		n := 0
		if s.short {
			n = len(s.recs)
		}
		if err := w.SetSample(uint32(n)); err != nil {
			return err
		}
	}
	r.run.First = s.recs
	return r.decoders(o)
}

// mostRefused returns the number of records after which the run ends if it cannot read
// any; 0 sets no limit. A tolerant run reads as many as MaxDead allows.
func (r *run) mostRefused() int {
	if r.Tolerance == "" || r.Tolerance == TolerateNone {
		return mostRefused
	}
	most := cmp.Or(r.MaxDead, engine.DefaultMaxDead)
	if most == 1 {
		return 0
	}
	return max(mostRefused+1, int(100*most))
}

// decoders creates the decoders, and an engine for the examples that they return.
func (r *run) decoders(o codec.Options) (err error) {
	if r.Decoder, err = r.Discovery.Codec(o); err != nil {
		return err
	}
	if given := r.Discovery.Given(); given != "" && o.Schema != "" {
		r.run.Meta = append(r.run.Meta, [2]string{metaGiven, given})
	}
	return r.makeEngine(o)
}
