package statetopic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/contrib/broker"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/internal/testkit/simkit"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
	"github.com/streamsvm/streamsvm/topiclog"
)

var compacted = map[string]string{"cleanup.policy": "compact"}

func options(brokers []string, topic string) Options {
	return Options{Config: kafkaio.Config{Brokers: brokers, Log: slog.New(slog.DiscardHandler)}, Topic: topic, Name: "m", MaxRecordBytes: 4000}
}

func open(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func claimed(t *testing.T, o Options) *Store {
	t.Helper()
	s := open(t, o)
	if _, err := s.Claim(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// snapshot returns one of n bytes that do not compress.
func snapshot(examples uint64, n int) *checkpoint.Snapshot {
	data := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(examples), byte(examples >> 8)})
	_, _ = r.Read(data)
	return &checkpoint.Snapshot{
		Header:   checkpoint.Header{StreamSVM: "v1", Learner: "l", Examples: examples, Offsets: stream.Offsets{{Topic: "t", ID: 1}: int64(examples)}, Meta: [][2]string{{"k", "v"}}},
		Sections: []checkpoint.Section{{Name: "engine", Data: []byte("abc")}, {Name: "learner", Data: data}},
	}
}

func save(t *testing.T, s *Store, snap *checkpoint.Snapshot) {
	t.Helper()
	if _, err := s.Save(t.Context(), snap); err != nil {
		t.Fatal(err)
	}
}

// load claims the state anew and returns the newest snapshot.
func load(t *testing.T, o Options) *checkpoint.Snapshot {
	t.Helper()
	snap, err := claimed(t, o).Load()
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

func same(t *testing.T, got, want *checkpoint.Snapshot) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got.Header, want.Header)
	}
}

// view is what compaction keeps: the newest record of each key.
func view(t *testing.T, brokers []string, topic string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for _, r := range kafkatest.ReadAll(t, brokers, topic, kgo.FetchIsolationLevel(kgo.ReadCommitted())) {
		if out[string(r.Key)] = r.Value; r.Value == nil {
			delete(out, string(r.Key))
		}
	}
	return out
}

// Snapshots of any size come back as they were, the newest of them, and what
// compaction leaves is no more than the two newest need.
func TestSaveLoad(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	o := options(brokers, kafkatest.Name(t, brokers))
	if snap := load(t, o); snap != nil {
		t.Fatalf("an empty topic holds %+v", snap.Header)
	}
	var snap *checkpoint.Snapshot
	chunks := map[int]int{}
	for i, n := range []int{0, 30_000, 5, 12_000, 50_000, 900, 40_000, 1} {
		s := claimed(t, o)
		if old, err := s.Load(); err != nil {
			t.Fatal(err)
		} else if i > 0 {
			same(t, old, snap)
		}
		snap = snapshot(uint64(i+1), n)
		save(t, s, snap)
		if h := snap.Header; h.Seq != uint64(i+1) || h.Epoch != uint64(i+2) {
			t.Errorf("snapshot %d is number %d of epoch %d", i, h.Seq, h.Epoch)
		}
		room := int64(o.MaxRecordBytes - len(o.Name) - 256)
		chunks[i%2] = int((snap.Bytes + room - 1) / room)
		if got, want := len(view(t, brokers, o.Topic)), 1+len(chunks)+chunks[0]+chunks[1]; got != want {
			t.Errorf("snapshot %d: compaction keeps %d records, want %d", i, got, want)
		}
	}
	config, err := kafkaio.TopicConfig(t.Context(), o.Config, o.Topic)
	if err != nil {
		t.Fatal(err)
	}
	if why, _ := Unfit(1, config, o.MaxRecordBytes); why != "" {
		t.Errorf("the topic made is unfit: %s", why)
	}
}

// Of two who write one state the later one wins, whether they share the
// transactional id or not, and the other has written nothing since.
func TestFenced(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	for _, id := range []string{"", "another"} {
		o := options(brokers, kafkatest.Name(t, brokers))
		a := claimed(t, o)
		save(t, a, snapshot(1, 5000))
		o.ID = id
		b := claimed(t, o)
		if snap, err := b.Load(); err != nil || snap.Header.Examples != 1 {
			t.Fatal(snap, err)
		}
		if a.ID() != b.ID() || a.ID() == "" || b.Epoch() != 2 {
			t.Errorf("identity %s, then %s in epoch %d", a.ID(), b.ID(), b.Epoch())
		}
		if id == "" {
			if err := a.Check(t.Context()); !errors.Is(err, checkpoint.ErrFenced) {
				t.Errorf("Check says %v", err)
			}
		}
		_, err := a.Save(t.Context(), snapshot(2, 5000))
		if want := (*topiclog.FencedError)(nil); !errors.Is(err, checkpoint.ErrFenced) || !errors.As(err, &want) || want.Claim.Epoch != 2 || want.Own != 1 {
			t.Errorf("Save says %v", err)
		}
		if err := a.Check(t.Context()); !errors.Is(err, checkpoint.ErrFenced) {
			t.Errorf("Check says %v", err)
		}
		if err := b.Check(t.Context()); err != nil {
			t.Errorf("the new owner's Check says %v", err)
		}
		save(t, b, snapshot(3, 5000))
		var epochs []uint64
		for _, r := range kafkatest.ReadAll(t, brokers, o.Topic, kgo.FetchIsolationLevel(kgo.ReadCommitted())) {
			var h head
			if k, _, _ := parseKey(r.Key, "m"); k == isHead {
				if err := state.Decode(r.Value, h.fields); err != nil {
					t.Fatal(err)
				}
				epochs = append(epochs, h.epoch)
			}
		}
		if fmt.Sprint(epochs) != "[1 2]" {
			t.Errorf("snapshots of epochs %v have been committed", epochs)
		}
	}
}

// The brokers give a transaction up that takes too long, or somebody takes the id and
// claims nothing: nothing is lost.
func TestGivenUp(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	o := options(brokers, kafkatest.Name(t, brokers))
	s := claimed(t, o)
	save(t, s, snapshot(1, 9000))
	for i := range uint64(3) {
		other, err := kafkaio.NewTransactor(kafkaio.TransactorOptions{Config: o.Config, ID: TransactionalID(o.Topic, o.Name)})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(other.Take(t.Context()), other.Close(), s.Check(t.Context())); err != nil {
			t.Fatal(err)
		}
		save(t, s, snapshot(2+i, 9000))
	}
	if snap := load(t, o); snap.Header.Examples != 4 {
		t.Errorf("%d examples", snap.Header.Examples)
	}
}

// A writer with another id that looks, and takes its id again, just before the claim
// of its successor, is fenced nevertheless, and what it has written then is not lost.
func TestFormerWrites(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	o := options(brokers, kafkatest.Name(t, brokers))
	a := claimed(t, o)
	save(t, a, snapshot(1, 9000))
	o.ID = "another"
	b := open(t, o)
	b.topic.Writer = meanwhile{b.topic.Writer, func() { save(t, a, snapshot(2, 9000)) }}
	if _, err := b.Claim(t.Context()); err != nil {
		t.Fatal(err)
	}
	snap, err := b.Load()
	if err != nil || snap.Header.Examples != 2 {
		t.Error(snap, err)
	}
	if _, err := a.Save(t.Context(), snapshot(3, 9000)); !errors.Is(err, checkpoint.ErrFenced) {
		t.Errorf("error %v", err)
	}
}

// meanwhile is a Writer that does something before each Write.
type meanwhile struct {
	topiclog.Writer
	do func()
}

func (m meanwhile) Write(ctx context.Context, recs ...stream.Record) error {
	m.do()
	return m.Writer.Write(ctx, recs...)
}

// Epochs grow beyond what a model topic has seen.
func TestClaimAbove(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	s := open(t, options(brokers, kafkatest.Name(t, brokers)))
	if _, err := s.Save(t.Context(), snapshot(1, 1)); !errors.Is(err, checkpoint.ErrNotClaimed) {
		t.Errorf("Save without a claim: %v", err)
	}
	for _, above := range []uint64{0, 41, 7} {
		before := s.Epoch()
		if e, err := s.ClaimAbove(t.Context(), above); err != nil || e != max(before, above)+1 {
			t.Errorf("epoch %d above %d after %d, %v", e, above, before, err)
		}
	}
	if _, err := s.ClaimAbove(t.Context(), ^uint64(0)); err == nil {
		t.Error("there is an epoch above the last")
	}
}

// A writer that dies in a transaction leaves what there was, at once.
func TestInterrupted(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	o := options(brokers, kafkatest.Name(t, brokers))
	s := claimed(t, o)
	want := snapshot(1, 9000)
	save(t, s, want)
	save(t, s, snapshot(2, 9000))

	k, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.TransactionalID(o.ID+TransactionalID(o.Topic, o.Name)), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	if err := k.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{chunkKey("m", 1, 0), headKey("m", 1)} {
		if err := k.ProduceSync(t.Context(), &kgo.Record{Topic: o.Topic, Key: []byte(key), Value: []byte("half")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	k.Close()
	start := time.Now()
	if snap := load(t, o); snap.Header.Examples != 2 {
		t.Errorf("%d examples", snap.Header.Examples)
	}
	if d := time.Since(start); d > 30*time.Second {
		t.Errorf("the successor has taken %v", d)
	}
}

// What is wrong in a topic is named, and the snapshot before is used.
func TestDamage(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	newer, err := state.Append(nil, func(f *state.Fields) {
		v := uint64(formatVersion + 1)
		f.Uint64("format", &v)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, key string
		value     []byte
		both      string // key in the other slot
		examples  uint64 // 0: none is valid
		says      string
		reason    error
	}{
		{what: "foreign records", key: "m/c/0/x", value: []byte("?"), both: "n/head/0", examples: 4},
		{what: "no key", value: []byte("?"), examples: 4},
		{what: "a lost chunk", key: "m/c/1/1", examples: 3},
		{what: "a chunk of something else", key: "m/c/1/1", value: []byte("?"), examples: 3},
		{what: "a chunk more", key: "m/c/1/99", value: []byte("?"), examples: 4},
		{what: "another slot", key: "m/head/2", value: []byte("?"), examples: 4},
		{what: "a head that is nonsense", key: "m/head/1", value: []byte("?"), examples: 3},
		{what: "a head of a later version", key: "m/head/1", value: newer, examples: 3},
		{what: "a lost head", key: "m/head/1", examples: 3},
		{what: "lost chunks", key: "m/c/1/0", both: "m/c/0/0", says: "snapshot 4 in slot 1, its head at offset", reason: checkpoint.ErrTruncated},
		{what: "wrong chunks", key: "m/c/1/0", both: "m/c/0/0", value: []byte("?"), says: "the chunks have", reason: checkpoint.ErrChecksum},
		{what: "heads of a later version", key: "m/head/1", both: "m/head/0", value: newer, says: "head at offset", reason: checkpoint.ErrVersion},
		{what: "heads that are nonsense", key: "m/head/1", both: "m/head/0", value: []byte("?"), says: "head at offset", reason: checkpoint.ErrCorrupt},
	} {
		t.Run(c.what, func(t *testing.T) {
			if c.key == "" && kafkatest.Real() {
				t.Skip("Apache Kafka takes no record without a key in a compacted topic")
			}
			o := options(brokers, kafkatest.Name(t, brokers))
			s := claimed(t, o)
			for i := range 4 {
				save(t, s, snapshot(uint64(i+1), 9000))
			}
			recs := []stream.Record{{Topic: o.Topic, Value: c.value}}
			if c.key != "" {
				recs[0].Key = []byte(c.key)
			}
			if c.both != "" {
				recs = append(recs, stream.Record{Topic: o.Topic, Key: []byte(c.both), Value: c.value})
			}
			kafkatest.Produce(t, brokers, recs...)
			s = claimed(t, o)
			snap, err := s.Load()
			if c.examples == 0 {
				if !errors.Is(err, checkpoint.ErrNoValid) || !errors.Is(err, c.reason) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), o.Topic+" partition 0") {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil || snap.Header.Examples != c.examples {
				t.Fatal(snap, err)
			}
			// What is saved next takes the place of what cannot be read.
			save(t, s, snapshot(5, 9000))
			save(t, s, snapshot(6, 9000))
			states, err := Read(t.Context(), ReadOptions{Config: o.Config, Topic: o.Topic, Name: "m"})
			if err != nil || len(states) != 1 || len(states[0].Snapshots) != 2 || states[0].Snapshots[0].Err != nil || states[0].Snapshots[1].Err != nil {
				t.Errorf("%+v, %v", states, err)
			}
		})
	}
	t.Run("a claim that is nonsense", func(t *testing.T) {
		o := options(brokers, kafkatest.Name(t, brokers))
		s := claimed(t, o)
		kafkatest.Produce(t, brokers, stream.Record{Topic: o.Topic, Key: []byte("m/claim"), Value: []byte("?")})
		_, err1 := s.Claim(t.Context())
		_, err2 := Open(t.Context(), o)
		for _, err := range []error{err1, err2} {
			if !errors.Is(err, checkpoint.ErrCorrupt) || !strings.Contains(err.Error(), "claim at offset") {
				t.Errorf("error %v", err)
			}
		}
		kafkatest.Produce(t, brokers, stream.Record{Topic: o.Topic, Key: []byte("m/claim")})
		claimed(t, o)
	})
}

// A chunk that is whole, of the same length, and that of another snapshot, is noticed.
func TestStaleChunk(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	o := options(brokers, kafkatest.Name(t, brokers))
	s := claimed(t, o)
	var last, stale []byte
	n := uint64(0)
	for len(stale) == 0 || len(stale) != len(last) {
		if n++; n > 100 {
			t.Fatal("no two snapshots of equal length")
		}
		save(t, s, snapshot(n, 1000))
		stale, last = last, view(t, brokers, o.Topic)[fmt.Sprintf("m/c/%d/0", (n-1)%2)]
	}
	kafkatest.Produce(t, brokers, stream.Record{Topic: o.Topic, Key: fmt.Appendf(nil, "m/c/%d/0", (n-1)%2), Value: stale})
	if snap := load(t, o); snap.Header.Examples != n-1 {
		t.Errorf("%d examples, want %d", snap.Header.Examples, n-1)
	}
	states, err := Read(t.Context(), ReadOptions{Config: o.Config, Topic: o.Topic})
	if err != nil || !errors.Is(states[0].Snapshots[0].Err, checkpoint.ErrChecksum) {
		t.Errorf("%+v, %v", states, err)
	}
}

// Topics that would lose the state, or in which it has no order, are refused.
func TestUnfit(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	for _, c := range []struct {
		partitions int
		config     map[string]string
		says       string
	}{
		{2, compacted, "2 partitions"},
		{1, nil, "cleanup.policy is delete"},
		{1, map[string]string{"cleanup.policy": "compact,delete"}, "compact,delete"},
		{1, map[string]string{"cleanup.policy": "compact", "max.message.bytes": "5000"}, "max.message.bytes is 5000"},
	} {
		o := options(brokers, kafkatest.Topic(t, brokers, c.partitions, c.config))
		_, err := Open(t.Context(), o)
		if want := (*TopicError)(nil); !errors.As(err, &want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v", c.config, err)
		}
	}
}

// What is too large is refused with advice, and what there was stays.
func TestSize(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	o := options(brokers, kafkatest.Name(t, brokers))
	s := claimed(t, o)
	s.limit = 20_000
	save(t, s, snapshot(1, 15_000))
	_, err := s.Save(t.Context(), snapshot(2, 30_000))
	if want := (*SizeError)(nil); !errors.As(err, &want) || !strings.Contains(err.Error(), "volume") {
		t.Errorf("error %v", err)
	}
	if snap := load(t, o); snap.Header.Examples != 1 {
		t.Errorf("%d examples", snap.Header.Examples)
	}
}

// doubtful is a Writer whose answers get lost.
type doubtful struct {
	topiclog.Writer
	written bool // before the answer was lost
	lost    bool // the next one is
	held    bool
	writes  int
}

func (d *doubtful) Take(ctx context.Context) error {
	err := d.Writer.Take(ctx)
	d.held = err == nil
	return err
}

func (d *doubtful) Held() bool { return d.held && d.Writer.Held() }

func (d *doubtful) Write(ctx context.Context, recs ...stream.Record) error {
	lost := d.lost
	if d.lost = false; !lost || d.written {
		d.writes++
		if err := d.Writer.Write(ctx, recs...); err != nil {
			return err
		}
	}
	if lost {
		d.held = false
		return errors.New("no answer")
	}
	return nil
}

// joined returns a Store that publishes with its snapshots.
func joined(t *testing.T, o Options, models string) (*Store, *modeltopic.Publisher, *doubtful) {
	t.Helper()
	o.ID = modeltopic.TransactionalID(models, o.Name)
	s := open(t, o)
	d := &doubtful{Writer: s.topic.Writer, held: true}
	s.topic.Writer = d
	p, err := modeltopic.NewPublisher(t.Context(), modeltopic.PublisherOptions{Config: o.Config, Topic: models, Model: o.Name, MaxRecordBytes: o.MaxRecordBytes, Writer: s.Writer()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Claim(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Claim(t.Context(), s.ID(), s.Epoch()); err != nil {
		t.Fatal(err)
	}
	return s, p, d
}

// Somebody else claims the state while a Publisher is about to claim its model, and has
// not claimed the model yet: the Publisher does not take the id back.
func TestFencedBeforeTheModel(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	o := options(brokers, kafkatest.Name(t, brokers))
	models := kafkatest.Name(t, brokers)
	o.ID = modeltopic.TransactionalID(models, o.Name)
	a := claimed(t, o)
	p, err := modeltopic.NewPublisher(t.Context(), modeltopic.PublisherOptions{Config: o.Config, Topic: models, Model: o.Name, MaxRecordBytes: o.MaxRecordBytes, Writer: a.Writer()})
	if err != nil {
		t.Fatal(err)
	}
	claimed(t, o)
	if err := p.Claim(t.Context(), a.ID(), a.Epoch()); !errors.Is(err, checkpoint.ErrFenced) {
		t.Errorf("the claim on the model says %v", err)
	}
	if _, err := a.Save(t.Context(), snapshot(1, 5000)); !errors.Is(err, checkpoint.ErrFenced) {
		t.Errorf("Save says %v", err)
	}
}

func version(s *Store, n uint64) *stream.Update {
	payload := bytes.Repeat([]byte{byte(n)}, 3000)
	return &stream.Update{Kind: stream.Full, Model: "m", Learner: "l", Version: n, Epoch: s.Epoch(), Created: time.UnixMilli(int64(n)), Hash: xxhash.Sum64(payload), Payload: payload}
}

// both saves a snapshot and publishes an update.
func both(t *testing.T, s *Store, p *modeltopic.Publisher, snap *checkpoint.Snapshot, u *stream.Update) (string, error) {
	t.Helper()
	e, err := p.Prepare(u)
	if err != nil {
		t.Fatal(err)
	}
	return s.SaveWith(t.Context(), snap, nil, e)
}

// A snapshot and the version made with it are written once, together, also where
// the answer to the commit gets lost; and a trainer that only has the model taken
// from it stores nothing more either.
func TestSaveWithUpdate(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	o := options(brokers, kafkatest.Name(t, brokers))
	models := kafkatest.Name(t, brokers)
	s, p, d := joined(t, o, models)
	for i, written := range []bool{true, false} {
		n := uint64(2*i + 1)
		if _, err := both(t, s, p, snapshot(n, 9000), version(s, n)); err != nil {
			t.Fatal(err)
		}
		before := d.writes
		d.lost, d.written = true, written
		if _, err := both(t, s, p, snapshot(n+1, 9000), version(s, n+1)); err != nil {
			t.Fatal(err)
		}
		if d.writes != before+1 {
			t.Errorf("written %d times", d.writes-before)
		}
	}
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		held, err := modeltopic.Read(t.Context(), modeltopic.ReadOptions{Config: o.Config, Topic: models})
		if err == nil && held.Models[0].Newest.Version == 4 {
			break
		}
		// Apache Kafka shows what is committed a moment later.
		if err != nil || time.Since(begun) > 20*time.Second {
			t.Fatalf("%+v, %v", held, err)
		}
	}
	// Another trainer, with checkpoints of its own, takes the model.
	other, err := modeltopic.NewPublisher(t.Context(), modeltopic.PublisherOptions{Config: o.Config, Topic: models, Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Claim(t.Context(), "somebody", 9); err != nil {
		t.Fatal(err)
	}
	fenced := (*topiclog.FencedError)(nil)
	if _, err := both(t, s, p, snapshot(5, 9000), version(s, 5)); !errors.As(err, &fenced) {
		t.Errorf("error %v", err)
	}
	if snap := load(t, o); snap.Header.Examples != 4 {
		t.Errorf("%d examples", snap.Header.Examples)
	}
}

// Whatever a topic holds, reading it neither panics nor takes memory that is not in
// it.
func FuzzContents(f *testing.F) {
	h := head{epoch: 1, seq: 1, size: 10, packed: 10, chunks: 2, at: time.UnixMilli(1)}
	value, err := state.Append(nil, h.fields)
	if err != nil {
		f.Fatal(err)
	}
	f.Add("m/head/0", value, "m/c/0/1", []byte("x"))
	f.Add("m/claim", []byte("x"), "m/c/1/999999", []byte{})
	f.Fuzz(func(t *testing.T, key1 string, value1 []byte, key2 string, value2 []byte) {
		c := contents{topic: "t", name: "m", keep: true}
		c.fold(&stream.Record{Key: []byte(key1), Value: value1})
		c.fold(&stream.Record{Key: []byte(key2), Value: value2})
		for _, slot := range c.order() {
			if _, err := c.read(slot); err == nil {
				t.Error("two records of noise are a snapshot")
			}
		}
	})
}

// A Check while no broker answers ends when its context does: one that stops must not
// wait for it.
func TestCheckEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := simkit.NewNetwork(1)
		b, err := broker.Start(broker.Options{Addr: "127.0.0.1:9092", Listen: network.Listen, Dial: network.Host("broker").Dial})
		if err != nil {
			t.Fatal(err)
		}
		o := options([]string{b.Addr()}, "s")
		o.Dial = network.Host("trainer").Dial
		s, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Claim(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock() // as a Save that waits does
		busy, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := s.Check(busy); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("during a Save: %v", err)
		}
		s.mu.Unlock()
		b.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		if err := s.Check(ctx); err == nil || errors.Is(err, checkpoint.ErrFenced) {
			t.Errorf("%v", err)
		}
		if d := time.Since(began); d > 3*time.Second { // of virtual time
			t.Errorf("it takes %v", d)
		}
	})
}
