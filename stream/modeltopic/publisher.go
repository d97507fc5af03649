// Package modeltopic publishes models to a compacted Kafka topic, follows them,
// and describes the contents of such a topic. docs/formats/model-topic.md describes the
// records byte by byte; that format has a version.
//
// The API may change.
package modeltopic

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/topiclog"
)

// PublisherOptions are the options of NewPublisher.
type PublisherOptions struct {
	kafkaio.Config
	// Topic is the model topic. It is created, compacted, if it does not exist.
	Topic string
	// Model is the name of the model; every update published must carry it.
	Model string
	// MaxRecordBytes bounds a record; 0 is 900 KiB, which fits the default of
	// message.max.bytes with room to spare.
	MaxRecordBytes int
	// DeltaRing is the number of slots for deltas, at least the number of deltas
	// between two fulls; 0 is DefaultDeltaRing.
	DeltaRing int
	// MaxDown is as in kafkaio.SourceOptions.
	MaxDown time.Duration
	// SigningKey, if not nil, signs every update.
	SigningKey ed25519.PrivateKey
	// Writer, if not nil, is used for writing, under TransactionalID. It may be shared
	// with other writers. The Publisher does not close it.
	Writer topiclog.Writer
}

// DefaultDeltaRing is the default number of slots for deltas.
const DefaultDeltaRing = 64

// Claim names the writer of a model; Owner is the identity of its checkpoints.
type Claim = topiclog.Claim

// Publisher writes the updates of one model to a model topic, each in one transaction.
// It implements stream.Publisher. Only one goroutine may use it at a time. Package
// topiclog describes how a model gets a single writer.
type Publisher struct {
	opt   PublisherOptions
	log   topiclog.Log
	enc   encoder
	by    string
	close func() error
	// The content of the topic, as far as it has been scanned, including later
	// writes.
	version uint64
	sought  written
}

// written is an update and whether it has been found in the topic.
type written struct {
	epoch, version uint64
	kind           stream.UpdateKind
	found          bool
}

var _ stream.Publisher = (*Publisher)(nil)

// NewPublisher opens the topic, creating it if need be, and reads the records of the
// model.
func NewPublisher(ctx context.Context, o PublisherOptions) (*Publisher, error) {
	if err := errors.Join(CheckModel(o.Model), checkKeys(o.SigningKey, nil)); err != nil {
		return nil, err
	}
	if o.Topic == "" || o.MaxRecordBytes < 0 || o.DeltaRing < 0 {
		return nil, errors.New("kafka publisher: no topic given, or a negative limit")
	}
	o.MaxRecordBytes = cmp.Or(o.MaxRecordBytes, 900<<10)
	o.DeltaRing = cmp.Or(o.DeltaRing, DefaultDeltaRing)
	partitions, config, err := topiclog.Create(ctx, o.Config, o.Topic, o.MaxDown)
	if err != nil {
		return nil, err
	}
	if policy, known := config["cleanup.policy"]; known && policy != "compact" {
		logOf(o.Config).Warn("kafka: the model topic is not (only) compacted: it grows forever, or loses the model after a while",
			"topic", o.Topic, "cleanup.policy", policy)
	}
	p := newPublisher(o, partitions)
	if o.Writer == nil {
		p.log.Writer, err = topiclog.NewWriter(kafkaio.TransactorOptions{
			Config: o.Config, ID: TransactionalID(o.Topic, o.Model), MaxDown: o.MaxDown,
			BatchBytes: o.MaxRecordBytes, // one record a batch, or little more
			Gzip:       true,             // points with few features, or with the same ones, shrink to a seventh
		})
		if err != nil {
			return nil, err
		}
		p.close = p.log.Writer.Close
	}
	if err := p.log.Scan(ctx); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func newPublisher(o PublisherOptions, partitions int) *Publisher {
	p := &Publisher{opt: o, by: topiclog.Process(), close: func() error { return nil }}
	p.log = topiclog.Log{Topics: []string{o.Topic}, Name: "model " + o.Model, Writer: o.Writer, Fold: p.fold}
	p.enc = newEncoder(o.Topic, o.Model, partitions, o.MaxRecordBytes)
	p.enc.deltaRing, p.enc.key = o.DeltaRing, o.SigningKey
	return p
}

// TransactionalID is the id under which the updates of a model are written.
func TransactionalID(topic, model string) string { return "streamsvm.model." + topic + "." + model }

// fold processes a record of the topic. It drops unreadable records, as subscribers
// do.
func (p *Publisher) fold(r *stream.Record) bool {
	own := strings.HasPrefix(string(r.Key), p.opt.Model+"/")
	if r.Value == nil {
		if deletes(r, p.opt.Model) {
			p.version = 0
		}
		return own
	}
	e, err := decodeEnvelope(r.Value, maxPayload)
	if err != nil || e.Model != p.opt.Model {
		return own
	}
	switch newest := p.log.Newest().Epoch; {
	case e.Kind == claim && e.Epoch >= newest:
		p.log.Saw(e.claim(), nil)
	case e.Kind != claim && e.Epoch > newest:
		p.log.Saw(Claim{Epoch: e.Epoch, By: "a version of streamsvm that makes no claims", At: e.Created}, nil)
	}
	if e.Kind == claim {
		return own
	}
	if e.Epoch == p.log.Newest().Epoch {
		p.version = e.Version
	}
	if s := &p.sought; e.Epoch == s.epoch && e.Version == s.version && e.Kind == s.kind {
		s.found = true
	}
	return own
}

// Last returns the newest claim on the model, and the version published last;
// both are zero if there is none.
func (p *Publisher) Last() (Claim, uint64) { return p.log.Newest(), p.version }

// ErrGivenUp says that another process has claimed the model, in a later epoch, and
// given it up again while this one was starting. A new start gets a later epoch.
var ErrGivenUp = errors.New("was claimed and given up by another process just now; start again")

// Claim makes this Publisher the writer of the model, on behalf of owner, under an
// epoch that must be larger than the epoch of Last. It fails with a
// *topiclog.FencedError if another process has claimed the model since the
// Publisher last looked.
func (p *Publisher) Claim(ctx context.Context, owner string, epoch uint64) error {
	if newest := p.log.Newest(); epoch <= newest.Epoch {
		return fmt.Errorf("kafka: model %s has been claimed in epoch %d, which is not smaller than %d", p.opt.Model, newest.Epoch, epoch)
	}
	if owner == "" {
		return errors.New("kafka: a claim without an owner")
	}
	c := Claim{Epoch: epoch, Owner: owner, By: p.by, At: time.Now().UTC().Truncate(time.Millisecond)}
	rec, err := p.enc.claim(c)
	if err != nil {
		return err
	}
	return p.log.Claim(ctx, c, rec, func() error {
		newest := p.log.Newest()
		givenUp := newest.Owner == "" && p.version == 0
		switch {
		case newest.Epoch < epoch && (newest.Owner == owner || givenUp):
			return nil // an earlier process with the same checkpoints is replaced
		case givenUp:
			return fmt.Errorf("kafka: model %s %w: epoch %d", p.opt.Model, ErrGivenUp, newest.Epoch)
		}
		return p.log.Fenced()
	})
}

// Release gives up a claim under which nothing has been published, so that it does
// not block others from the model. If the model has versions it only waits until
// the last one is readable: brokers acknowledge a moment before that.
func (p *Publisher) Release(ctx context.Context) error {
	c := p.log.Own()
	if c.Epoch == 0 {
		return nil
	}
	if p.version > 0 {
		if p.log.Writer.Held() {
			_ = p.log.Scan(ctx) // the record is there, whatever the error
		}
		return nil
	}
	c.Owner = ""
	rec, err := p.enc.claim(c)
	if err != nil {
		return err
	}
	return topiclog.Append(ctx, topiclog.Entry{Log: &p.log, Records: []stream.Record{rec}, Check: func() (bool, error) {
		return p.log.Fenced() != nil, nil // claimed by another process, or given up
	}})
}

// Delete deletes all versions of the model, whoever has published them. It leaves a
// claim that is given up, which fences a trainer that still runs and makes followers
// accept the next model as newer. They keep their present version until then.
func (p *Publisher) Delete(ctx context.Context) error {
	if err := p.log.Writer.Take(ctx); err != nil { // nothing more can come from others
		return err
	}
	if err := p.log.Scan(ctx); err != nil {
		return err
	}
	c := Claim{Epoch: p.log.Newest().Epoch + 1, By: p.by, At: time.Now().UTC().Truncate(time.Millisecond)}
	rec, err := p.enc.claim(c)
	if err != nil {
		return err
	}
	return topiclog.Append(ctx, topiclog.Entry{
		Log: &p.log, Records: p.log.Replace([]stream.Record{rec}, p.opt.Model+"/"),
		Check: func() (bool, error) { return p.log.Newest() == c, nil },
	})
}

// Publish implements stream.Publisher. It fails with a *topiclog.FencedError if
// another process has claimed the model.
func (p *Publisher) Publish(ctx context.Context, u *stream.Update) error {
	e, err := p.Prepare(u)
	if err != nil {
		return err
	}
	return topiclog.Append(ctx, e)
}

// Prepare returns the entry that Publish appends, for a caller that appends it together
// with other entries through PublisherOptions.Writer.
func (p *Publisher) Prepare(u *stream.Update) (topiclog.Entry, error) {
	var none topiclog.Entry
	if u.Model != p.opt.Model {
		return none, fmt.Errorf("kafka: update of model %q given to the publisher of %q", u.Model, p.opt.Model)
	}
	if own := p.log.Own().Epoch; u.Epoch != own {
		return none, fmt.Errorf("kafka: update of epoch %d given to a publisher that has claimed epoch %d", u.Epoch, own)
	}
	recs, err := p.enc.update(u)
	if err != nil {
		return none, err
	}
	if u.Kind == stream.Full {
		recs = p.log.Replace(recs, p.enc.replaced()...)
	}
	p.sought = written{epoch: u.Epoch, version: u.Version, kind: u.Kind}
	return topiclog.Entry{
		Log: &p.log, Records: recs, Check: func() (bool, error) {
			if err := p.log.Fenced(); err != nil {
				return false, err
			}
			return p.sought.found, nil
		},
		Done: func() { p.version = u.Version },
	}, nil
}

// Check fails with a *topiclog.FencedError if another process has claimed the model, see
// topiclog.Log.Check.
func (p *Publisher) Check(ctx context.Context) error { return p.log.Check(ctx) }

// Close implements stream.Publisher.
func (p *Publisher) Close() error { return p.close() }
