// Package modeltopic publishes models to a compacted Kafka topic, follows them,
// and describes what such a topic holds. docs/formats/model-topic.md describes the
// records byte by byte; that format has a version.
//
// The API may change.
package modeltopic

import (
	"context"
	"errors"
	"fmt"
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
}

// DefaultDeltaRing is the number of slots for deltas where none is given.
const DefaultDeltaRing = 64

// FencedError says that a newer trainer has published this model.
type FencedError struct {
	Model      string
	Epoch, Own uint64
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("kafka: model %s has been published by epoch %d, this is epoch %d: another trainer has taken over", e.Model, e.Epoch, e.Own)
}

// Publisher writes the updates of one model to a model topic. It implements
// stream.Publisher and is used by one goroutine at a time.
type Publisher struct {
	opt       PublisherOptions
	p         *kafkaio.Producer
	partition int32
	// What the topic holds of the model.
	epoch uint64    // largest
	last  uint64    // version of the newest update of that epoch
	bank  uint64    // slots of the newest complete full: 2i+bank
	used  [2]uint64 // chunks that bank 0 and 1 hold
}

var _ stream.Publisher = (*Publisher)(nil)

// modelTopicConfig keeps segments small enough that compaction, which leaves
// the newest one alone, has something to work on, and tombstones no longer than
// a subscriber needs that is reading just now.
var modelTopicConfig = map[string]string{
	"cleanup.policy":            "compact",
	"segment.bytes":             strconv.Itoa(64 << 20),
	"segment.ms":                strconv.Itoa(10 * 60 * 1000),
	"min.cleanable.dirty.ratio": "0.1",
	"delete.retention.ms":       strconv.Itoa(60 * 60 * 1000),
}

// NewPublisher opens the topic, creating it if need be, and reads what it
// holds of the model.
func NewPublisher(ctx context.Context, o PublisherOptions) (*Publisher, error) {
	if err := checkName(o.Model); err != nil {
		return nil, err
	}
	if o.Topic == "" {
		return nil, errors.New("kafka publisher: no topic given")
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
	p := &Publisher{opt: o, bank: 1} // the first full gets slots 0, 2, 4…
	if err := p.open(ctx); err != nil {
		return nil, err
	}
	if err := p.survey(ctx); err != nil {
		return nil, err
	}
	var err error
	// One record a batch, however large records are.
	p.p, err = kafkaio.NewProducer(ctx, kafkaio.ProducerOptions{Config: o.Config, Partition: kafkaio.Explicit, BatchBytes: 1, MaxDown: o.MaxDown})
	return p, err
}

// appear is how long a topic that has just been created may be missing in what
// brokers tell.
const appear = 4 * time.Second

// open creates or checks the topic and finds the model's partition.
func (p *Publisher) open(ctx context.Context) error {
	o := &p.opt
	created, err := kafkaio.CreateTopic(ctx, o.Config, kafkaio.TopicSpec{
		Name: o.Topic, Partitions: 1, Replication: o.Replication, Config: modelTopicConfig, MaxDown: o.MaxDown,
	})
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

// survey reads the topic to its end, to learn which slots are in use and
// whether a newer trainer is at work.
func (p *Publisher) survey(ctx context.Context) error {
	a := assembler{model: p.opt.Model, limit: uint64(p.opt.MaxModelBytes)}
	o := kafkaio.SourceOptions{Config: p.opt.Config, Topics: []string{p.opt.Topic}, MaxDown: p.opt.MaxDown}
	_, _, err := readAll(ctx, o, func(r *stream.Record) {
		slot, full := p.fullSlot(r.Key)
		if full && r.Value != nil {
			p.used[slot%2] = max(p.used[slot%2], slot/2+1)
		}
		done, err := a.add(r)
		if err != nil {
			return // subscribers drop it
		}
		p.epoch = max(p.epoch, a.epoch)
		if done {
			p.last = a.cur.Version
		}
		if full && done {
			p.bank = slot % 2
		}
	})
	return err
}

// fullSlot returns the slot that a key of a full of this model names.
func (p *Publisher) fullSlot(key []byte) (uint64, bool) {
	s, ok := strings.CutPrefix(string(key), p.opt.Model+"/f/")
	if !ok {
		return 0, false
	}
	slot, err := strconv.ParseUint(s, 10, 31)
	return slot, err == nil
}

// Last returns the largest epoch that has published the model to the topic, and
// the version of the newest complete update; both are 0 where there is none.
func (p *Publisher) Last() (epoch, version uint64) { return p.epoch, p.last }

// Publish implements stream.Publisher. It fails with a *FencedError if the
// topic has held an update of a larger epoch when the Publisher was made.
func (p *Publisher) Publish(ctx context.Context, u *stream.Update) error {
	recs, err := p.records(u)
	if err != nil {
		return err
	}
	if err := p.p.Produce(ctx, recs...); err != nil {
		return err
	}
	if err := p.p.Flush(ctx); err != nil {
		return err
	}
	p.epoch, p.last = u.Epoch, u.Version
	if u.Kind == stream.Delta {
		return nil
	}
	bank := 1 - p.bank
	n := uint64(len(recs))
	old := p.used[bank]
	p.bank, p.used[bank] = bank, n
	// What a larger full has left behind in these slots cannot be taken for
	// part of this one, but it takes space.
	var stale []stream.Record
	for i := n; i < old; i++ {
		stale = append(stale, stream.Record{Topic: p.opt.Topic, Partition: p.partition, Time: u.Created, Key: p.fullKey(2*i + bank)})
	}
	if len(stale) == 0 {
		return nil
	}
	if err := p.p.Produce(ctx, stale...); err != nil {
		return err
	}
	return p.p.Flush(ctx)
}

func (p *Publisher) fullKey(slot uint64) []byte {
	return fmt.Appendf(nil, "%s/f/%d", p.opt.Model, slot)
}

// records returns the update's chunks.
func (p *Publisher) records(u *stream.Update) ([]stream.Record, error) {
	if u.Model != p.opt.Model {
		return nil, fmt.Errorf("kafka: update of model %q given to the publisher of %q", u.Model, p.opt.Model)
	}
	if u.Epoch < p.epoch {
		return nil, &FencedError{Model: u.Model, Epoch: p.epoch, Own: u.Epoch}
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
	// Besides the envelope, a record has its key, headers and a few lengths, and
	// the batch around it has a header.
	room := p.opt.MaxRecordBytes - len(head) - len(p.opt.Model) - 256
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
		key := p.fullKey(2*e.chunk + 1 - p.bank)
		if u.Kind == stream.Delta {
			key = fmt.Appendf(nil, "%s/d/%d", u.Model, u.Version%uint64(p.opt.DeltaRing))
			if i > 0 {
				key = fmt.Appendf(key, "/%d", i)
			}
		}
		recs[i] = stream.Record{Topic: p.opt.Topic, Partition: p.partition, Time: u.Created, Key: key, Value: value, Headers: []stream.Header{
			{Key: headerType, Value: []byte(contentType)},
			{Key: headerVersion, Value: []byte(strconv.Itoa(formatVersion))},
		}}
	}
	return recs, nil
}

// Close implements stream.Publisher.
func (p *Publisher) Close() error { return p.p.Close() }
