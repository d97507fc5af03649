package modeltopic

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// SubscriberOptions are the options of NewSubscriber.
type SubscriberOptions struct {
	kafkaio.Config
	// Topic is the model topic.
	Topic string
	// Model is the name of the model to follow. With an Alias, the version that it stands
	// for is followed, as with the Model MODEL@ALIAS. If Model is empty, it is the first
	// model in the topic with this Alias, or without Alias the first model.
	Model, Alias string
	// TrustedKeys, if not empty, drops updates that are not signed with one of
	// them.
	TrustedKeys []ed25519.PublicKey
	// TopicWait is how long to wait for a topic that does not exist, and then for a
	// complete model in the topic; 0 is not at all, negative forever. While it waits,
	// the Subscriber logs the contents of the topic, at growing intervals.
	TopicWait time.Duration
	// MaxDown is as in kafkaio.SourceOptions.
	MaxDown time.Duration
}

// Subscriber follows a model on its topic. It implements stream.Subscriber. Only one
// goroutine may use it at a time.
//
// It reads the topic from its beginning, so it can start at any time. It delivers an
// update once all chunks are there and have the right hashes, and never one that is
// older than the last, by epoch and then by version. It drops unusable updates and
// waits for the next full.
type Subscriber struct {
	src      *kafkaio.Source
	a        *assembler
	recs     []stream.Record
	fresh    bool     // a.cur has not been delivered
	none     *waiting // until the first update
	start    waiting  // the initial value of none
	foreign  uint64   // records of no model
	damaged  uint64   // unusable records of a model
	rejected atomic.Uint64
	refused  atomic.Uint64 // updates among them without a trusted signature
	received Received
	log      *slog.Logger
}

var _ stream.Subscriber = (*Subscriber)(nil)

// NewSubscriber starts reading the topic. Its errors are the errors of
// kafkaio.NewSource.
func NewSubscriber(ctx context.Context, o SubscriberOptions) (*Subscriber, error) {
	if o.Model != "" {
		switch _, alias := SplitName(o.Model); {
		case alias == "" && o.Alias != "":
			o.Model = AliasName(o.Model, o.Alias)
		case alias != "" && o.Alias != "" && alias != o.Alias:
			return nil, fmt.Errorf("kafka subscriber: model %q has another alias than %q", o.Model, o.Alias)
		}
		if err := CheckName(o.Model); err != nil {
			return nil, err
		}
	}
	if o.Topic == "" {
		return nil, errors.New("kafka subscriber: no topic given")
	}
	if err := checkKeys(nil, o.TrustedKeys); err != nil {
		return nil, err
	}
	so := kafkaio.SourceOptions{Config: o.Config, Topics: []string{o.Topic}, OutOfRange: kafkaio.OutOfRangeEarliest, TopicWait: o.TopicWait, MaxDown: o.MaxDown}
	src, err := kafkaio.NewSource(ctx, so)
	if err != nil {
		return nil, err
	}
	start := waiting{topic: o.Topic, model: o.Model, alias: o.Alias, wait: o.TopicWait, log: logOf(o.Config)}
	none := start
	return &Subscriber{
		src: src, a: &assembler{model: o.Model, alias: o.Alias, limit: maxPayload, deltas: true, keys: o.TrustedKeys}, log: logOf(o.Config),
		none: &none, start: start,
	}, nil
}

// settle is how long Next, once it has an update, waits for records that the broker
// already holds and that may give a newer one.
const settle = time.Second

// Next implements stream.Subscriber. It reads to the end of the topic before
// it returns an update, so a late joiner gets the newest one first. If there is
// no update at all within TopicWait it fails with a *NoModelError.
func (s *Subscriber) Next(ctx context.Context) (*stream.Update, error) {
	for {
		if s.fresh && s.behind() == 0 {
			return s.deliver(), nil
		}
		fctx, cancel := ctx, context.CancelFunc(func() {})
		if s.fresh {
			fctx, cancel = context.WithTimeout(ctx, settle)
		} else if s.none != nil {
			look, err := s.none.look(time.Now(), s.behind() == 0)
			if err != nil {
				return nil, err
			}
			fctx, cancel = context.WithTimeout(ctx, look)
		}
		var err error
		s.recs, err = s.src.Fetch(fctx, s.recs[:0])
		cancel()
		switch {
		case err == nil:
		case ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
			return nil, err
		case s.fresh:
			return s.deliver(), nil
		}
		for i := range s.recs {
			s.take(&s.recs[i])
		}
		clear(s.recs)
	}
}

// behind returns how many records of the topic have not been read, as far as brokers
// have reported its end.
func (s *Subscriber) behind() (n int64) {
	for _, lag := range s.src.Lag() {
		n += lag
	}
	return n
}

func (s *Subscriber) take(r *stream.Record) {
	done, err := s.a.add(r)
	if err != nil || s.none != nil {
		e, _ := peek(r.Value)
		if s.none != nil {
			s.none.saw(r, e)
		}
		if err != nil {
			s.reject(r, e, err)
		}
	}
	if !done {
		if s.fresh && s.a.cur == nil { // deleted before it was delivered
			start := s.start
			s.fresh, s.none = false, &start
		}
		return
	}
	s.fresh, s.none = true, nil
	s.received.Bytes += s.a.size
	if s.a.kind == stream.Delta {
		s.received.Deltas++
	} else {
		s.received.Fulls++
	}
}

// reject counts a dropped record, and logs the 1st, 2nd, 4th, 8th and so on of its
// kind. While there is no model, the message about that covers records of no
// model.
func (s *Subscriber) reject(r *stream.Record, e *envelope, err error) {
	s.rejected.Add(1)
	if _, ok := errors.AsType[*UntrustedError](err); ok {
		s.refused.Add(1)
		if s.none != nil {
			s.none.refused = err
		}
	}
	count, text := &s.damaged, "kafka: record of the model topic dropped"
	if e == nil {
		count, text = &s.foreign, "kafka: record in the model topic that is of no model dropped"
	}
	if *count++; *count&(*count-1) == 0 && (e != nil || s.none == nil) {
		s.log.Warn(text, "so_far", *count, "topic", r.Topic, "partition", r.Partition, "offset", r.Offset,
			"key", fmt.Sprintf("%.64q", r.Key), "error", err)
	}
}

// Received counts the updates that gave a newer model, by their form.
type Received struct {
	Fulls  uint64 `json:"fulls"`
	Deltas uint64 `json:"deltas"`
	// Bytes is the length of their payloads.
	Bytes uint64 `json:"bytes"`
}

// Sub returns the counts since before.
func (r Received) Sub(before Received) Received {
	return Received{r.Fulls - before.Fulls, r.Deltas - before.Deltas, r.Bytes - before.Bytes}
}

// Received returns the counts up to the last call of Next.
func (s *Subscriber) Received() Received { return s.received }

// deliver returns a copy of the current update. They share the payload, which the
// assembler needs as the base of deltas.
func (s *Subscriber) deliver() *stream.Update {
	s.fresh = false
	u := *s.a.cur
	return &u
}

// Rejected returns how many records were dropped because they, or the update
// they completed, were malformed, corrupt or too large. It may be called from
// any goroutine.
func (s *Subscriber) Rejected() uint64 { return s.rejected.Load() }

// Untrusted returns how many updates were dropped because no trusted key has signed
// them. It may be called from any goroutine.
func (s *Subscriber) Untrusted() uint64 { return s.refused.Load() }

// Promotion returns the promotion of the update that Next returned last, and its time; ok
// is false if the update is not an alias.
func (s *Subscriber) Promotion() (p stream.Promotion, at time.Time, ok bool) {
	return s.a.about.promotion, s.a.about.at, s.a.about.promoted
}

// Close implements stream.Subscriber.
func (s *Subscriber) Close() error { return s.src.Close() }

func logOf(c kafkaio.Config) *slog.Logger { return cmp.Or(c.Log, slog.Default()) }
