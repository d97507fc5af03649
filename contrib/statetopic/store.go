// Package statetopic keeps the snapshots of training runs in a compacted Kafka
// topic, for trainers without a disk. docs/formats/state-topic.md describes the
// records byte by byte.
//
// A [Store] is the counterpart of a checkpoint.Store on a directory: [Store.Claim]
// makes the caller the only writer and fences off any earlier one, wherever it runs;
// [Store.Load] returns the newest complete snapshot; [Store.Save] adds one, and
// [Store.SaveWith] adds one together with the model made of it, all or nothing.
//
// A program that imports it can pass kafka://TOPIC to trainer.Job as the place of
// checkpoints. The API may change.
package statetopic

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
	"github.com/streamsvm/streamsvm/topiclog"
)

// Options of Open.
type Options = topiclog.StateOptions

func init() {
	topiclog.OpenStates = func(ctx context.Context, o Options) (topiclog.States, error) {
		s, err := Open(ctx, o)
		if err != nil {
			return nil, err // a nil *Store would not be a nil interface
		}
		return s, nil
	}
}

// TransactionalID is the id under which the snapshots of a state without a model topic
// are written.
func TransactionalID(topic, name string) string { return "streamsvm.state." + topic + "." + name }

// TopicError says why a topic cannot keep state.
type TopicError struct{ Topic, Why string }

func (e *TopicError) Error() string { return fmt.Sprintf("state topic %s: %s", e.Topic, e.Why) }

// Is makes the error match topiclog.ErrUnfit.
func (*TopicError) Is(target error) bool { return target == topiclog.ErrUnfit }

// SizeError says that a snapshot is too large for a topic.
type SizeError struct {
	Topic         string
	Bytes, Packed int
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("state topic %s: the state has %d bytes, %d compressed, more than the %d that are kept in a topic: use a directory on a volume, or a learner or buffer that keeps less",
		e.Topic, e.Bytes, e.Packed, maxPacked)
}

// Is makes the error match topiclog.ErrUnfit.
func (*SizeError) Is(target error) bool { return target == topiclog.ErrUnfit }

// Store is a state in a topic. Its methods are safe for concurrent use. Package topiclog
// describes how a state gets a single writer.
type Store struct {
	opt   Options
	log   *slog.Logger
	pack  *zstd.Encoder
	limit int // bytes of a compressed snapshot
	epoch atomic.Uint64

	mu       lock // guards the fields below
	topic    topiclog.Log
	contents contents
	seq      uint64 // of the snapshot written last
	slot     int    // for the next one
	warned   bool   // a warning about its size has been logged
}

// lock is a mutex whose waiters can stop when a context ends: it is held as long as
// brokers do not answer.
type lock chan struct{}

func (l lock) Lock()   { l <- struct{}{} }
func (l lock) Unlock() { <-l }

// within locks l. It returns the error of ctx if ctx ends first.
func (l lock) within(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Open opens the topic, creating it if need be, and reads the records of the
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
	partitions, config, err := topiclog.Create(ctx, o.Config, o.Topic, o.MaxDown)
	if err != nil {
		return nil, err
	}
	if why, _ := Unfit(partitions, config, o.MaxRecordBytes); why != "" {
		return nil, &TopicError{o.Topic, why}
	}
	s := &Store{opt: o, log: cmp.Or(o.Log, slog.Default()), pack: pack, limit: maxPacked, mu: make(lock, 1), contents: contents{topic: o.Topic, name: o.Name, keep: true}}
	s.topic = topiclog.Log{Topics: []string{o.Topic}, Name: "the state " + o.Name, Fold: s.fold}
	if s.topic.Writer, err = s.writer(o.ID); err != nil {
		return nil, err
	}
	if err := s.topic.Scan(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) writer(id string) (topiclog.Writer, error) {
	return topiclog.NewWriter(kafkaio.TransactorOptions{Config: s.opt.Config, ID: id, MaxDown: s.opt.MaxDown, BatchBytes: s.opt.MaxRecordBytes})
}

// fold processes a record of the topic. Only chunks may be left over from a larger
// snapshot.
func (s *Store) fold(r *stream.Record) bool {
	k := s.contents.fold(r)
	if k == isClaim {
		s.topic.Saw(s.contents.claim, s.contents.bad)
	}
	return k == isChunk
}

// Unfit returns the reason why a topic with this number of partitions and these settings
// cannot keep state in records of up to maxRecordBytes, and the setting that would fix it,
// if any. It returns "" if the topic can. Unknown settings are assumed to be right.
func Unfit(partitions int, config map[string]string, maxRecordBytes int) (why, setting string) {
	if partitions != 1 {
		return fmt.Sprintf("it has %d partitions, and must have 1", partitions), ""
	}
	return topiclog.Unfit(config, maxRecordBytes)
}

// Writer returns the Writer of the Store, so that a Publisher can share it.
func (s *Store) Writer() topiclog.Writer { return shared{s.topic.Writer, s} }

// shared is the Writer of a Store as used by a Publisher.
type shared struct {
	topiclog.Writer
	s *Store
}

// Take takes the id again after a failure. It fails if another process has claimed the
// state in the meantime: the Publisher scans only the claims on its model, and a process
// that has claimed the state may not have claimed the model yet. The Store scans the claims
// only when it takes the id itself, and would go on saving.
func (w shared) Take(ctx context.Context) error {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if err := w.Writer.Take(ctx); err != nil || w.s.topic.Own().Epoch == 0 {
		return err
	}
	return cmp.Or(w.s.topic.Scan(ctx), w.s.topic.Fenced())
}

// Last returns the identity of the state and the epoch of the newest claim by any
// process, as far as the topic has been read. They are "" and 0 if there is none.
func (s *Store) Last() (id string, epoch uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.topic.Newest()
	return c.Owner, c.Epoch, nil
}

// Epoch returns the epoch claimed, or 0. It never waits for a Save.
func (s *Store) Epoch() uint64 { return s.epoch.Load() }

// ID returns the identity of the state, or "" before Claim.
func (s *Store) ID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.topic.Own().Owner
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
	if err := s.topic.Scan(ctx); err != nil {
		return 0, err
	}
	if err := s.takeFormer(ctx, s.topic.Newest().Writer); err != nil {
		return 0, err
	}
	if err := s.topic.Writer.Take(ctx); err != nil {
		return 0, err
	}
	if err := s.topic.Scan(ctx); err != nil { // nothing more can come from earlier writers
		return 0, err
	}
	before := s.topic.Newest()
	c := topiclog.Claim{
		Epoch: max(before.Epoch, above), Owner: cmp.Or(before.Owner, rand.Text()), By: topiclog.Process(), At: s.now(),
		Token: rand.Text(), Writer: s.opt.ID,
	}
	for i := range s.contents.slot {
		if h := s.contents.slot[i].head; h != nil {
			c.Epoch = max(c.Epoch, h.epoch)
		}
	}
	c.Epoch++
	rec, err := s.record(claimKey(s.opt.Name), claimFields(&c), c.At)
	if err != nil {
		return 0, err
	}
	if err := s.topic.Claim(ctx, c, rec, nil); err != nil {
		return 0, err
	}
	// The previous writer may have taken its own id again before it could see the claim,
	// and saved once more.
	if before.Writer != s.opt.ID {
		if err := s.takeFormer(ctx, before.Writer); err != nil {
			return 0, err
		}
		if err := cmp.Or(s.topic.Scan(ctx), s.topic.Fenced()); err != nil {
			return 0, err
		}
	}
	for i := range s.contents.slot {
		if h := s.contents.slot[i].head; h != nil {
			s.seq = max(s.seq, h.seq)
		}
	}
	s.epoch.Store(c.Epoch)
	return c.Epoch, nil
}

// takeFormer takes the transactional id of the previous writer, if it differs, as for a
// trainer with another model topic. That aborts the writer's transaction, and the writer
// has to read the claims before it can write again.
func (s *Store) takeFormer(ctx context.Context, id string) error {
	if id == "" || id == s.opt.ID {
		return nil
	}
	t, err := s.writer(id)
	if err != nil {
		return err
	}
	return errors.Join(t.Take(ctx), t.Close())
}

func (s *Store) now() time.Time { return s.opt.Now().Truncate(time.Millisecond).UTC() }

// Check returns an error that is checkpoint.ErrFenced if another process has
// claimed the state since Claim, see topiclog.Log.Check. It waits for a Save under way.
func (s *Store) Check(ctx context.Context) error {
	if err := s.mu.within(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if s.topic.Own().Epoch == 0 {
		return checkpoint.ErrNotClaimed
	}
	return s.topic.Check(ctx)
}

// Load returns the newest valid snapshot, nil if there is none at all, and an error that
// wraps checkpoint.ErrNoValid if there are some but none is valid. It is called once,
// after Claim.
func (s *Store) Load() (*checkpoint.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { // chunks are not needed again
		s.contents.keep = false
		for i := range s.contents.slot {
			s.contents.slot[i].chunks = nil
		}
	}()
	var first error
	for _, slot := range s.contents.order() {
		snap, err := s.contents.read(slot)
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

// Save writes a snapshot in place of the second newest and, once it is durable, returns its
// place. It sets Format, Epoch, Seq and, if zero, Created in snap.Header, and snap.Bytes,
// to the written values.
//
// It returns an error that is checkpoint.ErrFenced if another process has claimed the
// state since, and a *SizeError if the snapshot is too large. Otherwise it waits until
// the brokers have stored it or ctx ends.
func (s *Store) Save(ctx context.Context, snap *checkpoint.Snapshot) (place string, err error) {
	return s.SaveWith(ctx, snap, nil)
}

// SaveWith is a Save that writes more in the same transaction: the records in along to
// topics without a log, and other entries, such as the version of the model that is made
// of the snapshot. The logs of these entries must share Writer.
func (s *Store) SaveWith(ctx context.Context, snap *checkpoint.Snapshot, along []stream.Record, others ...topiclog.Entry) (place string, err error) {
	if err := s.mu.within(ctx); err != nil {
		return "", err
	}
	defer s.mu.Unlock()
	own := s.topic.Own().Epoch
	if own == 0 {
		return "", checkpoint.ErrNotClaimed
	}
	if err := s.topic.Fenced(); err != nil { // seen when a Publisher took the id
		return "", err
	}
	s.seq++ // a number is never reused, even if it is unknown whether it was written
	h := &snap.Header
	if h.Created.IsZero() {
		h.Created = s.now()
	}
	h.Created = h.Created.Truncate(time.Millisecond).UTC()
	h.Format, h.Epoch, h.Seq = checkpoint.Format, own, s.seq
	slot := s.slot
	recs, err := s.records(slot, snap)
	if err != nil {
		return "", err
	}
	e := topiclog.Entry{Log: &s.topic, Records: recs, Along: along, Check: func() (bool, error) {
		if err := s.topic.Fenced(); err != nil {
			return false, err
		}
		there := s.contents.slot[slot].head
		return there != nil && there.seq == h.Seq, nil
	}}
	if err := topiclog.Append(ctx, append([]topiclog.Entry{e}, others...)...); err != nil {
		return "", err
	}
	s.slot = (slot + 1) % slots
	return s.contents.place(slot), nil
}

// records returns the chunks of a snapshot, tombstones for surplus chunks of the
// snapshot that it replaces, and its head.
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
	for chunk := range slices.Chunk(packed, room) {
		recs = append(recs, stream.Record{Topic: s.opt.Topic, Time: at, Key: []byte(chunkKey(s.opt.Name, slot, len(recs))), Value: chunk})
	}
	recs = s.topic.Replace(recs, chunkPrefix(s.opt.Name, slot))
	last, err := s.record(headKey(s.opt.Name, slot), h.fields, at)
	snap.Bytes = int64(len(packed))
	return append(recs, last), err
}

func (s *Store) record(key string, fields func(*state.Fields), at time.Time) (stream.Record, error) {
	value, err := state.Append(nil, fields)
	return stream.Record{Topic: s.opt.Topic, Time: at, Key: []byte(key), Value: value}, err
}

// Close closes connections. The claim stays.
func (s *Store) Close() error { return s.topic.Writer.Close() }
