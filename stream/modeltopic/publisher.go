// Package modeltopic publishes models to a compacted Kafka topic, follows them,
// and describes what such a topic holds. docs/formats/model-topic.md describes the
// records byte by byte; that format has a version.
//
// The API may change.
package modeltopic

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/segmentio/kafka-go"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// PublisherOptions of NewPublisher.
type PublisherOptions struct {
	kafkaio.Config
	// Topic is the model topic. It is created, compacted, if it does not exist.
	Topic string
	// Model is the name of the model; every update published must carry it.
	Model string
	// Replication of a topic that is created; 0 is the broker's default.
	Replication int
	// MaxRecordBytes bounds a record; 0 is 900 KiB, which fits the default of
	// message.max.bytes with room to spare.
	MaxRecordBytes int
	// DeltaRing is the number of slots for deltas, no less than there are
	// between two fulls; 0 is DefaultDeltaRing.
	DeltaRing int
	// MaxModelBytes bounds a payload; 0 is 1 GiB. Subscribers have the same
	// limit.
	MaxModelBytes int64
	// MaxDown is as in kafkaio.SourceOptions.
	MaxDown time.Duration
	// SigningKey, if not nil, signs every update.
	SigningKey ed25519.PrivateKey
	// Writer, if not nil, is what the Publisher writes with, under TransactionalID;
	// others write with it too. It is not closed.
	Writer kafkaio.TakeWriter
}

// DefaultDeltaRing is the number of slots for deltas where none is given.
const DefaultDeltaRing = 64

// Claim says who writes a model.
type Claim struct {
	// Epoch is larger than those of the claims before. 0: nobody.
	Epoch uint64
	// Owner is the identity of what the model comes from, such as a directory of
	// checkpoints. It is empty where the claim has been given up, or the model
	// published by a version that made no claims.
	Owner string
	// By names the process, At is when it began.
	By string
	At time.Time
}

// Foreign reports whether a model so claimed comes from something else than
// owner, whose epochs up to epoch are its own: another owner, or a copy of it
// that has gone on.
func (c Claim) Foreign(owner string, epoch uint64) bool {
	return c.Owner != "" && (c.Owner != owner || c.Epoch > epoch)
}

// FencedError says that somebody else writes the model.
type FencedError struct {
	Topic, Model string
	Claim        Claim  // the one in force
	Own          uint64 // epoch; 0: none has been claimed
}

func (e *FencedError) Error() string {
	own := ""
	if e.Own > 0 {
		own = fmt.Sprintf(", this is epoch %d", e.Own)
	}
	return fmt.Sprintf("another trainer has taken over model %s on topic %s: %s, epoch %d, since %s%s", e.Model, e.Topic, e.Claim.By, e.Claim.Epoch,
		e.Claim.At.Format(time.RFC3339), own)
}

// Publisher writes the updates of one model to a model topic. It implements
// stream.Publisher and is used by one goroutine at a time.
//
// A model has one writer: the Publisher whose claim is the newest in the topic.
// It writes under a transactional id that all Publishers of the model share, so
// that the brokers refuse what another one writes, and looks for a newer claim
// whenever the id has been taken from it. Each update is one transaction.
type Publisher struct {
	opt       PublisherOptions
	t         kafkaio.TakeWriter
	close     func() error
	read      func(ctx context.Context, from stream.Offsets, take func(*stream.Record)) (stream.Offsets, error)
	partition int32
	by        string
	own       Claim
	// What the topic held when it was looked at last, up to next, and what has
	// been written since.
	next    stream.Offsets
	claim   Claim // the newest
	version uint64
	fulls   uint64              // chunks of the largest full
	old     map[string]struct{} // keys of format 1 before claims
	seen    written             // the update looked for, and whether it is there
}

// written is an update and whether a topic has it.
type written struct {
	epoch, version uint64
	kind           stream.UpdateKind
	found          bool
}

var _ stream.Publisher = (*Publisher)(nil)

// Compacted describes a topic that keeps the newest record of each key, in one
// partition.
func Compacted(name string, maxDown time.Duration) kafkaio.TopicSpec {
	return kafkaio.TopicSpec{Name: name, Partitions: 1, Config: compacted, MaxDown: maxDown}
}

// compacted keeps segments small enough that compaction, which leaves
// the newest one alone, has something to work on, and tombstones no longer than
// a subscriber needs that is reading just now.
var compacted = map[string]string{
	"cleanup.policy":            "compact",
	"segment.bytes":             strconv.Itoa(64 << 20),
	"segment.ms":                strconv.Itoa(10 * 60 * 1000),
	"min.cleanable.dirty.ratio": "0.1",
	"delete.retention.ms":       strconv.Itoa(60 * 60 * 1000),
}

// NewPublisher opens the topic, creating it if need be, and reads what it
// holds of the model.
func NewPublisher(ctx context.Context, o PublisherOptions) (*Publisher, error) {
	if err := CheckModel(o.Model); err != nil {
		return nil, err
	}
	if o.Topic == "" {
		return nil, errors.New("kafka publisher: no topic given")
	}
	if err := checkKeys(o.SigningKey, nil); err != nil {
		return nil, err
	}
	if o.MaxRecordBytes < 0 || o.DeltaRing < 0 || o.MaxModelBytes < 0 {
		return nil, errors.New("kafka publisher: an option is negative")
	}
	if o.MaxRecordBytes == 0 {
		o.MaxRecordBytes = 900 << 10
	}
	if o.DeltaRing == 0 {
		o.DeltaRing = DefaultDeltaRing
	}
	if o.MaxModelBytes == 0 {
		o.MaxModelBytes = 1 << 30
	}
	p := &Publisher{opt: o, by: process(), next: stream.Offsets{}, old: map[string]struct{}{}}
	if err := p.open(ctx); err != nil {
		return nil, err
	}
	p.read = p.readTopic
	if err := p.survey(ctx); err != nil {
		return nil, err
	}
	if o.Writer != nil {
		p.t, p.close = o.Writer, func() error { return nil }
		return p, nil
	}
	t, err := kafkaio.NewTransactor(kafkaio.TransactorOptions{
		Config: o.Config, ID: TransactionalID(o.Topic, o.Model), MaxDown: o.MaxDown,
		BatchBytes: o.MaxRecordBytes, // one record a batch, or little more
		Gzip:       true,             // of points with few features, or the same ones, a seventh remains
	})
	if err != nil {
		return nil, err
	}
	p.t, p.close = t, t.Close
	return p, nil
}

// TransactionalID is the id under which the updates of a model are written.
func TransactionalID(topic, model string) string { return "streamsvm.model." + topic + "." + model }

// process names this process to people.
func process() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s process %d", host, os.Getpid())
}

// appear is how long a topic that has just been created may be missing in what
// brokers tell.
const appear = 4 * time.Second

// open creates or checks the topic and finds the model's partition.
func (p *Publisher) open(ctx context.Context) error {
	o := &p.opt
	spec := Compacted(o.Topic, o.MaxDown)
	spec.Replication = o.Replication
	created, err := kafkaio.CreateTopic(ctx, o.Config, spec)
	// Who may not create topics may still write to one.
	if err != nil && !errors.Is(err, kafka.TopicAuthorizationFailed) && !errors.Is(err, kafka.ClusterAuthorizationFailed) {
		return err
	}
	found, err := kafkaio.Partitions(ctx, o.Config, []string{o.Topic}, appear, o.MaxDown)
	if err != nil {
		return err
	}
	p.partition = modelPartition(o.Model, len(found))
	if created {
		return nil
	}
	config, err := kafkaio.TopicConfig(ctx, o.Config, o.Topic)
	if policy := config["cleanup.policy"]; err != nil {
		logOf(o.Config).Warn("kafka: cannot check the settings of the model topic", "topic", o.Topic, "error", err)
	} else if policy != "compact" {
		logOf(o.Config).Warn("kafka: the model topic is not (only) compacted: it grows forever, or loses the model after a while",
			"topic", o.Topic, "cleanup.policy", policy)
	}
	return nil
}

// modelPartition is the partition that a model is written to. Subscribers read
// all, so that it does not matter if partitions are added.
func modelPartition(model string, partitions int) int32 {
	if partitions <= 1 {
		return 0
	}
	return int32(xxhash.Sum64String(model) % uint64(partitions))
}

// readTopic gives take the records from the offsets given, or the first, up to
// the present ends, and returns these. While the id is held it waits until all
// transactions are over that are open there now. Before, one of them may be that
// of a writer that died, which taking the id undoes: nobody waits for it.
func (p *Publisher) readTopic(ctx context.Context, from stream.Offsets, take func(*stream.Record)) (stream.Offsets, error) {
	o := &p.opt
	_, ends, err := kafkaio.ReadAll(ctx, kafkaio.SourceOptions{
		Config: o.Config, Topics: []string{o.Topic}, Offsets: from, TopicWait: appear, MaxDown: o.MaxDown,
		UntilEnd: p.t == nil || !p.t.Held(),
	}, take)
	return ends, err
}

// survey looks at what has been added to the topic since it was looked at last.
func (p *Publisher) survey(ctx context.Context) error {
	next, err := p.read(ctx, p.next, func(r *stream.Record) {
		if r.Value == nil {
			delete(p.old, string(r.Key))
			return
		}
		p.note(r)
	})
	if err == nil {
		p.next = next
	}
	return err
}

// note takes note of a record of the topic.
func (p *Publisher) note(r *stream.Record) {
	e, err := decodeEnvelope(r.Value, uint64(p.opt.MaxModelBytes))
	if err != nil || e.Model != p.opt.Model {
		return // subscribers drop it
	}
	switch {
	case e.Kind == claim && e.Epoch >= p.claim.Epoch:
		p.claim = Claim{e.Epoch, e.owner, e.by, e.Created}
	case e.Kind != claim && e.Epoch > p.claim.Epoch:
		p.claim = Claim{Epoch: e.Epoch, By: "a version of streamsvm that makes no claims", At: e.Created}
	}
	if e.Kind == claim {
		return
	}
	if e.Epoch == p.claim.Epoch {
		p.version = e.Version
	}
	if e.Kind == stream.Full {
		p.fulls = max(p.fulls, e.chunks)
	}
	if key := string(r.Key); strings.HasPrefix(key, p.opt.Model+"/f/") || strings.HasPrefix(key, p.opt.Model+"/d/") {
		p.old[key] = struct{}{}
	}
	if s := &p.seen; e.Epoch == s.epoch && e.Version == s.version && e.Kind == s.kind {
		s.found = true
	}
}

// Last returns the newest claim on the model, and the version published last;
// both are zero where there is none.
func (p *Publisher) Last() (Claim, uint64) { return p.claim, p.version }

// Claim makes this Publisher the one that writes the model, which comes from
// owner, under an epoch that must be larger than that of Last. It fails with a
// *FencedError if somebody else has claimed the model since the Publisher looked.
func (p *Publisher) Claim(ctx context.Context, owner string, epoch uint64) error {
	if epoch <= p.claim.Epoch {
		return fmt.Errorf("kafka: model %s has been claimed in epoch %d, which is not smaller than %d", p.opt.Model, p.claim.Epoch, epoch)
	}
	if owner == "" {
		return errors.New("kafka: a claim without an owner")
	}
	c := Claim{epoch, owner, p.by, time.Now().UTC().Truncate(time.Millisecond)}
	rec, err := p.claimRecord(c)
	if err != nil {
		return err
	}
	before := p.claim
	look := func(ctx context.Context) (bool, error) {
		if err := p.survey(ctx); err != nil {
			return false, err
		}
		givenUp := p.claim.Owner == "" && p.version == 0
		switch {
		case p.claim == c:
			return true, nil
		case p.claim == before, p.claim.Epoch < epoch && (p.claim.Owner == owner || givenUp):
			return false, nil // one that goes on from the same, and began earlier, is replaced
		case givenUp:
			return false, fmt.Errorf("kafka: model %s has been claimed in epoch %d, and given up, since it was looked at", p.opt.Model, p.claim.Epoch)
		}
		return false, &FencedError{Topic: p.opt.Topic, Model: p.opt.Model, Claim: p.claim}
	}
	if p.opt.Writer != nil { // the id may be held already, since before the Publisher looked
		if _, err := look(ctx); err != nil {
			return err
		}
	}
	if err := kafkaio.Once(ctx, p.t, look, rec); err != nil {
		return err
	}
	p.claim, p.own = c, c
	return nil
}

func (p *Publisher) claimRecord(c Claim) (stream.Record, error) {
	e := envelope{Update: stream.Update{Kind: claim, Model: p.opt.Model, Epoch: c.Epoch, Created: c.At}, owner: c.Owner, by: c.By}
	value, err := e.encode()
	return p.record("claim", value, c.At), err
}

// Release gives up a claim under which nothing has been published, so that it
// keeps nobody else from the model. Where the model has versions it only waits
// until the last one can be read: brokers answer a moment before.
func (p *Publisher) Release(ctx context.Context) error {
	if p.own.Epoch == 0 {
		return nil
	}
	if p.version > 0 {
		if p.t.Held() {
			_ = p.survey(ctx) // it is there, whatever the error
		}
		return nil
	}
	c := p.own
	c.Owner = ""
	rec, err := p.claimRecord(c)
	if err != nil {
		return err
	}
	look := func(ctx context.Context) (bool, error) {
		err := p.survey(ctx)
		return p.claim != p.own, err // another one's, or given up
	}
	return kafkaio.Once(ctx, p.t, look, rec)
}

// Publish implements stream.Publisher. It fails with a *FencedError if somebody
// else has claimed the model.
func (p *Publisher) Publish(ctx context.Context, u *stream.Update) error {
	recs, look, err := p.Prepare(u)
	if err != nil {
		return err
	}
	if err := kafkaio.Once(ctx, p.t, look, recs...); err != nil {
		return err
	}
	p.Published(u, recs)
	return nil
}

// Prepare returns the records of an update, for somebody who writes them together
// with others and with PublisherOptions.Writer, and look for kafkaio.Once. Published
// says that they are written.
func (p *Publisher) Prepare(u *stream.Update) (recs []stream.Record, look func(context.Context) (bool, error), err error) {
	recs, err = p.records(u)
	p.seen = written{epoch: u.Epoch, version: u.Version, kind: u.Kind}
	return recs, p.look, err
}

// Published takes note that the records of an update have been written.
func (p *Publisher) Published(u *stream.Update, recs []stream.Record) {
	p.version = u.Version
	if u.Kind == stream.Full {
		clear(p.old)
		p.fulls = 0
		for i := range recs {
			if recs[i].Value != nil {
				p.fulls++
			}
		}
	}
}

// Check fails with a *FencedError if somebody else has claimed the model, as far
// as that can be told without reading the topic. It changes nothing.
func (p *Publisher) Check(ctx context.Context) error {
	lost, err := p.t.Lost(ctx)
	if err != nil || !lost {
		return err
	}
	_, err = p.look(ctx)
	return err
}

// look reports whether the update sought is in the topic. It fails if this
// Publisher must not write it.
func (p *Publisher) look(ctx context.Context) (bool, error) {
	if err := p.survey(ctx); err != nil {
		return false, err
	}
	if p.claim != p.own {
		return false, &FencedError{Topic: p.opt.Topic, Model: p.opt.Model, Claim: p.claim, Own: p.own.Epoch}
	}
	return p.seen.found, nil
}

// record returns a record of the model.
func (p *Publisher) record(key string, value []byte, at time.Time) stream.Record {
	r := stream.Record{Topic: p.opt.Topic, Partition: p.partition, Time: at, Key: []byte(p.opt.Model + "/" + key), Value: value}
	if value != nil {
		r.Headers = []stream.Header{
			{Key: headerType, Value: []byte(contentType)},
			{Key: headerVersion, Value: []byte(strconv.Itoa(formatVersion))},
		}
	}
	return r
}

// records returns the update's chunks, the first with the headers given in
// addition, and after those of a full, tombstones for what it replaces.
func (p *Publisher) records(u *stream.Update, about ...stream.Header) ([]stream.Record, error) {
	if u.Model != p.opt.Model {
		return nil, fmt.Errorf("kafka: update of model %q given to the publisher of %q", u.Model, p.opt.Model)
	}
	if u.Epoch != p.own.Epoch {
		return nil, fmt.Errorf("kafka: update of epoch %d given to a publisher that has claimed epoch %d", u.Epoch, p.own.Epoch)
	}
	if int64(len(u.Payload)) > p.opt.MaxModelBytes {
		return nil, fmt.Errorf("kafka: model %s version %d has %d bytes, more than the limit of %d", u.Model, u.Version, len(u.Payload), p.opt.MaxModelBytes)
	}
	if sum := xxhash.Sum64(u.Payload); u.Hash != sum {
		return nil, fmt.Errorf("kafka: model %s version %d: the payload's hash is %016x, not %016x", u.Model, u.Version, sum, u.Hash)
	}
	e := envelope{Update: *u, size: uint64(len(u.Payload)), chunks: 1 << 30, chunk: 1 << 30, chunkHash: 1 << 63}
	head, err := e.encode()
	if err != nil {
		return nil, err
	}
	if p.opt.SigningKey != nil {
		signature, err := e.sign(u.Payload, p.opt.SigningKey)
		if err != nil {
			return nil, err
		}
		about = append(about, stream.Header{Key: headerSignature, Value: []byte(signature)})
	}
	// Besides the envelope, a record has its key, headers and a few lengths, and
	// the batch around it has a header.
	room := p.opt.MaxRecordBytes - len(head) - len(p.opt.Model) - 256
	for _, h := range about {
		room -= len(h.Key) + len(h.Value) + 8
	}
	if room < 1 {
		return nil, fmt.Errorf("kafka: model %s: records of %d bytes leave no room for the payload", u.Model, p.opt.MaxRecordBytes)
	}
	e.chunks = uint64(max(1, (len(u.Payload)+room-1)/room))
	recs := make([]stream.Record, e.chunks)
	for i := range recs {
		e.chunk = uint64(i)
		e.data = u.Payload[i*room : min((i+1)*room, len(u.Payload))]
		e.chunkHash = xxhash.Sum64(e.data)
		value, err := e.encode()
		if err != nil {
			return nil, err
		}
		if i == 0 {
			if _, err := decodeEnvelope(value, uint64(p.opt.MaxModelBytes)); err != nil {
				return nil, fmt.Errorf("kafka: model %s version %d cannot be published: %w", u.Model, u.Version, err)
			}
		}
		key := fmt.Sprintf("full/%d", i)
		if u.Kind == stream.Delta {
			key = fmt.Sprintf("delta/%d", u.Version%uint64(p.opt.DeltaRing))
			if i > 0 {
				key = fmt.Sprintf("%s/%d", key, i)
			}
		}
		recs[i] = p.record(key, value, u.Created)
	}
	recs[0].Headers = append(recs[0].Headers, about...)
	if u.Kind == stream.Full {
		for i := e.chunks; i < p.fulls; i++ {
			recs = append(recs, p.record(fmt.Sprintf("full/%d", i), nil, u.Created))
		}
		for _, key := range slices.Sorted(maps.Keys(p.old)) {
			recs = append(recs, p.record(strings.TrimPrefix(key, p.opt.Model+"/"), nil, u.Created))
		}
	}
	return recs, nil
}

// Close implements stream.Publisher.
func (p *Publisher) Close() error { return p.close() }
