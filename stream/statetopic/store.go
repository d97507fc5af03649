// Package statetopic keeps the snapshots of training runs in a compacted Kafka
// topic, for trainers without a disk. docs/formats/state-topic.md describes the
// records byte by byte.
//
// A [Store] does what a checkpoint.Store does on a directory: [Store.Claim] makes
// the caller the only writer and fences off any earlier one, wherever it runs;
// [Store.Load] returns the newest snapshot that is whole; [Store.Save] adds one,
// and [Store.SaveAndPublish] one with the model made of it, all or nothing.
//
// The API may change.
package statetopic

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"
	"github.com/segmentio/kafka-go"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// scheme is what the name of a topic has before it where a directory could stand.
const scheme = "kafka://"

// URL returns kafka://TOPIC.
func URL(topic string) string { return scheme + topic }

// Topic returns the topic of kafka://TOPIC; ok is false where place is something
// else, such as a directory.
func Topic(place string) (topic string, ok bool) { return strings.CutPrefix(place, scheme) }

// Options of Open.
type Options struct {
	kafkaio.Config
	// Topic is the state topic. It is created, compacted and with one partition, if
	// it does not exist.
	Topic string
	// Name of the state: several can share a topic. It is that of a model.
	Name string
	// ID is the transactional id; empty is one of topic and name. All who may write
	// the state at the same time share it. With a model topic it is that of the
	// model, see modeltopic.TransactionalID.
	ID string
	// MaxRecordBytes bounds a record; 0 is 900 KiB.
	MaxRecordBytes int
	// MaxDown is as in kafkaio.SourceOptions.
	MaxDown time.Duration
	// Now is the clock for Header.Created; nil means time.Now.
	Now func() time.Time
}

// TransactionalID is the id under which the snapshots of a state are written that
// has no model topic.
func TransactionalID(topic, name string) string { return "streamsvm.state." + topic + "." + name }

// TopicError says why a topic cannot keep state.
type TopicError struct{ Topic, Why string }

func (e *TopicError) Error() string { return fmt.Sprintf("state topic %s: %s", e.Topic, e.Why) }

// SizeError says that a snapshot is too large for a topic.
type SizeError struct {
	Topic         string
	Bytes, Packed int
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("state topic %s: the state has %d bytes, %d compressed, more than the %d that are kept in a topic: use a directory on a volume, or a learner or buffer that keeps less",
		e.Topic, e.Bytes, e.Packed, maxPacked)
}

// FencedError says that somebody else writes the state. It is
// checkpoint.ErrFenced.
type FencedError struct {
	Topic, Name string
	Epoch, Own  uint64
	By          string
	At          time.Time
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("another trainer has taken over the state %s on topic %s: %s, epoch %d, since %s, this is epoch %d", e.Name, e.Topic, e.By, e.Epoch,
		e.At.Format(time.RFC3339), e.Own)
}

// Is implements the interface of errors.Is.
func (e *FencedError) Is(target error) bool { return target == checkpoint.ErrFenced }

// Store is a state in a topic. Its methods are safe for concurrent use.
type Store struct {
	opt    Options
	log    *slog.Logger
	t      kafkaio.TakeWriter
	close  func() error
	read   func(ctx context.Context, from stream.Offsets, take func(*stream.Record)) (stream.Offsets, error)
	pack   *zstd.Encoder
	limit  int // bytes of a compressed snapshot
	models *modeltopic.Publisher
	epoch  atomic.Uint64

	mu   lock // guards what is below, and t
	next stream.Offsets
	held contents
	own  claim
	seq  uint64 // of the snapshot written last
	slot int    // for the next one
	// warned: that it grows too large.
	warned bool
}

// lock is a mutex for which one can wait within a context: a Save holds it for as long
// as brokers do not answer.
type lock chan struct{}

func (l lock) Lock()   { l <- struct{}{} }
func (l lock) Unlock() { <-l }

// Open opens the topic, creating it if need be, and reads what it holds of the
// state.
func Open(ctx context.Context, o Options) (*Store, error) {
	if err := modeltopic.CheckModel(o.Name); err != nil {
		return nil, err
	}
	if o.MaxRecordBytes < 0 {
		return nil, errors.New("state topic: MaxRecordBytes is negative")
	}
	o.MaxRecordBytes = cmp.Or(o.MaxRecordBytes, 900<<10)
	o.ID = cmp.Or(o.ID, TransactionalID(o.Topic, o.Name))
	if o.Now == nil {
		o.Now = time.Now
	}
	pack, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	s := &Store{opt: o, log: cmp.Or(o.Log, slog.Default()), pack: pack, limit: maxPacked, next: stream.Offsets{}, mu: make(lock, 1), held: contents{topic: o.Topic, name: o.Name, keep: true}}
	s.read = s.readTopic
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	t, err := s.transactor(o.ID)
	if err != nil {
		return nil, err
	}
	s.t, s.close = t, t.Close
	return s, s.survey(ctx)
}

func (s *Store) transactor(id string) (*kafkaio.Transactor, error) {
	return kafkaio.NewTransactor(kafkaio.TransactorOptions{Config: s.opt.Config, ID: id, MaxDown: s.opt.MaxDown, BatchBytes: s.opt.MaxRecordBytes})
}

// open creates or checks the topic.
func (s *Store) open(ctx context.Context) error {
	o := &s.opt
	created, err := kafkaio.CreateTopic(ctx, o.Config, modeltopic.Compacted(o.Topic, o.MaxDown))
	// Who may not create topics may still write to one.
	if err != nil && !errors.Is(err, kafka.TopicAuthorizationFailed) && !errors.Is(err, kafka.ClusterAuthorizationFailed) {
		return err
	}
	found, err := kafkaio.Partitions(ctx, o.Config, []string{o.Topic}, appear, o.MaxDown)
	if err != nil || created {
		return err
	}
	config, err := kafkaio.TopicConfig(ctx, o.Config, o.Topic)
	if err != nil {
		s.log.Warn("kafka: cannot check the settings of the state topic", "topic", o.Topic, "error", err)
	}
	if why, _ := Unfit(len(found), config, o.MaxRecordBytes); why != "" {
		return &TopicError{o.Topic, why}
	}
	return nil
}

// appear is how long a topic that has just been created may be missing in what
// brokers tell.
const appear = 4 * time.Second

// batchOverhead is more than key, headers and framing add to a record.
const batchOverhead = 4 << 10

// Unfit says why a topic with so many partitions and these settings cannot keep
// state in records of up to maxRecordBytes, and which setting would change that, if
// one would; "": it can. Settings that are not known are taken to be right.
func Unfit(partitions int, config map[string]string, maxRecordBytes int) (why, setting string) {
	if partitions != 1 {
		return fmt.Sprintf("it has %d partitions, and must have 1", partitions), ""
	}
	if p, ok := config["cleanup.policy"]; ok && p != "compact" {
		return fmt.Sprintf("its cleanup.policy is %s, and must be compact: the state would be deleted after a while, or the topic grow forever", p), "cleanup.policy=compact"
	}
	least := int64(maxRecordBytes) + batchOverhead
	if n, err := strconv.ParseInt(config["max.message.bytes"], 10, 64); err == nil && n < least {
		return fmt.Sprintf("its max.message.bytes is %d, and must be %d for records of %d bytes and a header", n, least, maxRecordBytes), fmt.Sprintf("max.message.bytes=%d", least)
	}
	return "", ""
}

// readTopic gives take the records from the offsets given, or the first, up to
// the present end. While the id is held it waits until all transactions are over
// that are open there now. Before, one of them may be that of a writer that died,
// which taking the id undoes.
func (s *Store) readTopic(ctx context.Context, from stream.Offsets, take func(*stream.Record)) (stream.Offsets, error) {
	o := &s.opt
	_, ends, err := kafkaio.ReadAll(ctx, kafkaio.SourceOptions{
		Config: o.Config, Topics: []string{o.Topic}, Offsets: from, TopicWait: appear, MaxDown: o.MaxDown,
		UntilEnd: s.t == nil || !s.t.Held(),
	}, take)
	return ends, err
}

// survey looks at what has been added to the topic since it was looked at last. It
// fails where the newest claim cannot be read.
func (s *Store) survey(ctx context.Context) error {
	next, err := s.read(ctx, s.next, s.held.note)
	if err != nil {
		return err
	}
	s.next = next
	return s.held.bad
}

// Share returns what the Store writes with, so that a Publisher can write with it
// too.
func (s *Store) Share() kafkaio.TakeWriter { return shared{s.t, s} }

// shared is the writer of a Store, in the hands of a Publisher.
type shared struct {
	kafkaio.TakeWriter
	s *Store
}

// Take takes the id again, after a failure, and fails if somebody else has claimed the
// state in the meantime. The Publisher reads the claims on its model only, and whoever
// has claimed the state may not have come to claim that yet. The Store would go on
// saving: it reads the claims only where it takes the id itself.
func (w shared) Take(ctx context.Context) error {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if err := w.TakeWriter.Take(ctx); err != nil || w.s.own.epoch == 0 {
		return err
	}
	return w.s.look(ctx)
}

// Join makes SaveAndPublish possible with a Publisher that writes with what Share
// has returned.
func (s *Store) Join(p *modeltopic.Publisher) { s.models = p }

// Last returns the identity of the state and the epoch claimed last, by whatever
// process, as far as the topic has been read. They are "" and 0 where nobody has
// claimed it.
func (s *Store) Last() (id string, epoch uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held.claim.id, s.held.claim.epoch, nil
}

// Epoch returns the epoch claimed, or 0. It never waits for a Save.
func (s *Store) Epoch() uint64 { return s.epoch.Load() }

// ID returns the identity of the state, or "" before Claim.
func (s *Store) ID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own.id
}

// Claim makes this Store the only one that can save the state, and returns the
// new epoch. From then on Save fails in every Store that claimed it before.
// Claim first, then Load.
func (s *Store) Claim(ctx context.Context) (uint64, error) { return s.ClaimAbove(ctx, 0) }

// ClaimAbove is a Claim whose epoch is larger than above.
func (s *Store) ClaimAbove(ctx context.Context, above uint64) (uint64, error) {
	if above == math.MaxUint64 {
		return 0, fmt.Errorf("state topic: there is no epoch above %d", above)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.survey(ctx); err != nil {
		return 0, err
	}
	if err := s.takeFormer(ctx, s.held.claim.writer); err != nil {
		return 0, err
	}
	if err := s.t.Take(ctx); err != nil {
		return 0, err
	}
	if err := s.survey(ctx); err != nil { // now nothing more comes from those before
		return 0, err
	}
	before := s.held.claim
	c := claim{
		epoch: max(before.epoch, above), token: rand.Text(), id: cmp.Or(before.id, rand.Text()), writer: s.opt.ID, by: process(), at: s.now(),
	}
	for i := range s.held.slot {
		if h := s.held.slot[i].head; h != nil {
			c.epoch = max(c.epoch, h.epoch)
		}
	}
	c.epoch++
	rec, err := s.record(claimKey(s.opt.Name), c.fields, c.at)
	if err != nil {
		return 0, err
	}
	err = kafkaio.Once(ctx, s.t, func(ctx context.Context) (bool, error) {
		if err := s.survey(ctx); err != nil {
			return false, err
		}
		switch s.held.claim {
		case c:
			return true, nil
		case before:
			return false, nil
		}
		return false, s.fenced(c.epoch)
	}, rec)
	if err != nil {
		return 0, err
	}
	s.held.claim, s.own = c, c
	// It may have taken its id again before it could see the claim.
	if before.writer != s.opt.ID {
		if err := s.takeFormer(ctx, before.writer); err != nil {
			return 0, err
		}
		if err := s.look(ctx); err != nil {
			return 0, err
		}
	}
	for i := range s.held.slot {
		if h := s.held.slot[i].head; h != nil {
			s.seq = max(s.seq, h.seq)
		}
	}
	s.epoch.Store(c.epoch)
	return c.epoch, nil
}

// takeFormer takes the transactional id of the writer before, if that is another
// one: of a trainer with another model topic. It ends the transaction of that
// writer, which has to look at the claims before it can write again.
func (s *Store) takeFormer(ctx context.Context, id string) error {
	if id == "" || id == s.opt.ID {
		return nil
	}
	t, err := s.transactor(id)
	if err != nil {
		return err
	}
	return errors.Join(t.Take(ctx), t.Close())
}

func (s *Store) now() time.Time { return s.opt.Now().Truncate(time.Millisecond).UTC() }

// process names this process to people.
func process() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s process %d", host, os.Getpid())
}

func (s *Store) fenced(own uint64) error {
	c := &s.held.claim
	return &FencedError{Topic: s.opt.Topic, Name: s.opt.Name, Epoch: c.epoch, Own: own, By: c.by, At: c.at}
}

// look fails if somebody else has claimed the state.
func (s *Store) look(ctx context.Context) error {
	if err := s.survey(ctx); err != nil {
		return err
	}
	if s.held.claim != s.own {
		return s.fenced(s.own.epoch)
	}
	return nil
}

// Check returns an error that is checkpoint.ErrFenced if somebody else has
// claimed the state since Claim. It waits for a Save under way, and then takes 10 s at
// most.
func (s *Store) Check(ctx context.Context) error {
	select {
	case s.mu <- struct{}{}:
		defer s.mu.Unlock()
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, checkFor)
	defer cancel()
	if s.own.epoch == 0 {
		return checkpoint.ErrNotClaimed
	}
	if lost, err := s.t.Lost(ctx); err == nil && !lost {
		return nil
	}
	return s.look(ctx)
}

// checkFor bounds a Check.
const checkFor = 10 * time.Second

// Load returns the newest snapshot that is whole, nil where there is none, and an
// error wrapping checkpoint.ErrNoValid where there is some but none is valid. It
// is called once, after Claim.
func (s *Store) Load() (*checkpoint.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { // they are not needed again
		s.held.keep = false
		for i := range s.held.slot {
			for k := range s.held.slot[i].parts {
				s.held.slot[i].parts[k] = nil
			}
		}
	}()
	var first error
	for _, slot := range s.held.order() {
		snap, err := s.held.read(slot)
		if err == nil {
			s.slot = (slot + 1) % slots
			return snap, nil
		}
		s.log.Warn("snapshot skipped", "reason", err)
		first = cmp.Or(first, err)
	}
	if first != nil {
		return nil, fmt.Errorf("%w in topic %s; the newest: %w", checkpoint.ErrNoValid, s.opt.Topic, first)
	}
	return nil, nil
}

// Save adds a snapshot, in place of the one before the newest, and returns where
// it is, once it is durable. It sets Format, Epoch, Seq and, if zero, Created in
// snap.Header, and snap.Bytes, to what is written.
//
// It returns an error that is checkpoint.ErrFenced if somebody else has claimed
// the state since, and a *SizeError if it is too large. Else it waits until the
// brokers have taken it, or ctx ends.
func (s *Store) Save(ctx context.Context, snap *checkpoint.Snapshot) (place string, err error) {
	return s.save(ctx, snap, nil, nil)
}

// SaveAndPublish is a Save that publishes an update of the model with the
// snapshot, in one transaction. It fails as Save and Publish do.
func (s *Store) SaveAndPublish(ctx context.Context, snap *checkpoint.Snapshot, u *stream.Update) (place string, err error) {
	recs, look, err := s.models.Prepare(u)
	if err != nil {
		return "", err
	}
	if place, err = s.save(ctx, snap, recs, look); err == nil {
		s.models.Published(u, recs)
	}
	return place, err
}

// save saves a snapshot with other records, about which look tells whether they
// are there.
func (s *Store) save(ctx context.Context, snap *checkpoint.Snapshot, others []stream.Record, look func(context.Context) (bool, error)) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own.epoch == 0 {
		return "", checkpoint.ErrNotClaimed
	}
	if s.held.claim != s.own { // seen when a Publisher took the id
		return "", s.fenced(s.own.epoch)
	}
	s.seq++ // a number is used once, even if it is not known whether it is there
	h := &snap.Header
	if h.Created.IsZero() {
		h.Created = s.now()
	}
	h.Created = h.Created.Truncate(time.Millisecond).UTC()
	h.Format, h.Epoch, h.Seq = checkpoint.Format, s.own.epoch, s.seq
	slot := s.slot
	recs, err := s.records(slot, snap)
	if err != nil {
		return "", err
	}
	err = kafkaio.Once(ctx, s.t, func(ctx context.Context) (bool, error) {
		if err := s.look(ctx); err != nil {
			return false, err
		}
		there := s.held.slot[slot].head != nil && s.held.slot[slot].head.seq == h.Seq
		if look == nil {
			return there, nil
		}
		// Both are there or none, but a broker that does not keep that promise
		// costs no more than writing them again.
		also, err := look(ctx)
		return there && also, err
	}, append(recs, others...)...)
	if err != nil {
		return "", err
	}
	for i := range recs[:len(recs)-1] { // what has been written, without reading it
		s.held.note(&recs[i])
	}
	s.slot = (slot + 1) % slots
	return s.held.place(slot), nil
}

// records returns the chunks of a snapshot, tombstones for what is left of the
// one that it replaces, and its head.
func (s *Store) records(slot int, snap *checkpoint.Snapshot) ([]stream.Record, error) {
	raw, err := snap.AppendBinary(nil)
	if err != nil {
		return nil, err
	}
	packed := s.pack.EncodeAll(raw, nil)
	if len(packed) > s.limit || len(raw) > maxRaw {
		return nil, &SizeError{s.opt.Topic, len(raw), len(packed)}
	}
	if half := s.limit / 2; len(packed) > half && !s.warned {
		s.warned = true
		s.log.Warn("the state is more than half as large as may be in a topic", "topic", s.opt.Topic, "bytes", len(packed), "limit", s.limit)
	}
	room := s.opt.MaxRecordBytes - len(s.opt.Name) - 256
	if room < 1 {
		return nil, fmt.Errorf("state topic %s: records of %d bytes leave no room for the state", s.opt.Topic, s.opt.MaxRecordBytes)
	}
	at := snap.Header.Created
	h := head{
		epoch: snap.Header.Epoch, seq: snap.Header.Seq, examples: snap.Header.Examples, at: at,
		size: uint64(len(raw)), hash: xxhash.Sum64(raw), packed: uint64(len(packed)), chunks: uint64((len(packed) + room - 1) / room),
	}
	var recs []stream.Record
	chunk := func(i int, value []byte) {
		recs = append(recs, stream.Record{Topic: s.opt.Topic, Time: at, Key: []byte(chunkKey(s.opt.Name, slot, i)), Value: value})
	}
	for i := range int(h.chunks) {
		chunk(i, packed[i*room:min((i+1)*room, len(packed))])
	}
	for i := int(h.chunks); i < s.held.slot[slot].chunks(); i++ {
		chunk(i, nil)
	}
	last, err := s.record(headKey(s.opt.Name, slot), h.fields, at)
	snap.Bytes = int64(len(packed))
	return append(recs, last), err
}

func (s *Store) record(key string, fields func(*state.Fields), at time.Time) (stream.Record, error) {
	value, err := state.Append(nil, fields)
	return stream.Record{Topic: s.opt.Topic, Time: at, Key: []byte(key), Value: value}, err
}

// Close gives up what the Store holds. The claim stays.
func (s *Store) Close() error { return s.close() }
