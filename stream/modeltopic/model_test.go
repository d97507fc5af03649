package modeltopic

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/streamsvm/streamsvm/internal/testkit/alloctest"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/topiclog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	flag.Set("test.parallel", "8") // most tests wait for brokers
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"))
}

// quiet drops the log: tests provoke what it reports.
var quiet = slog.New(slog.DiscardHandler)

func config(brokers []string) kafkaio.Config { return kafkaio.Config{Brokers: brokers, Log: quiet} }

func publisher(t testing.TB, o PublisherOptions) *Publisher {
	t.Helper()
	if o.Log == nil {
		o.Log = quiet
	}
	p, err := NewPublisher(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// subscriber waits for a model as long as the test does unless o says otherwise.
func subscriber(t testing.TB, o SubscriberOptions) *Subscriber {
	t.Helper()
	if o.TopicWait == 0 {
		o.TopicWait = -1
	}
	if o.Log == nil {
		o.Log = quiet
	}
	s, err := NewSubscriber(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func next(t testing.TB, s *Subscriber) *stream.Update {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	u, err := s.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// update makes a full of n bytes that only this version can have.
func update(model string, epoch, version uint64, n int) *stream.Update {
	u := &stream.Update{
		Kind: stream.Full, Model: model, Learner: "test", Version: version, Epoch: epoch, Step: 10 * version, Examples: 100 * version,
		Offsets:    stream.Offsets{{Topic: "in", ID: 0}: int64(version), {Topic: "in", ID: 3}: 1 << 40},
		Created:    time.UnixMilli(1_700_000_000_000 + int64(version)).UTC(),
		Evaluation: []stream.Measure{{Name: "accuracy", Value: 0.9}, {Name: "gap", Value: 1e-300}},
		Payload:    make([]byte, n),
	}
	rng := rand.NewChaCha8([32]byte{byte(epoch), byte(version)})
	rng.Read(u.Payload)
	u.Hash = xxhash.Sum64(u.Payload)
	return u
}

// publish publishes updates, after a claim of their epoch where there is none.
func publish(t testing.TB, p *Publisher, us ...*stream.Update) {
	t.Helper()
	for _, u := range us {
		if p.log.Own().Epoch != u.Epoch {
			if err := p.Claim(t.Context(), "test", u.Epoch); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Publish(t.Context(), u); err != nil {
			t.Fatal(err)
		}
	}
}

// chunks returns the records of an update as if its epoch had been claimed.
func chunks(t testing.TB, o PublisherOptions, u *stream.Update) []stream.Record {
	t.Helper()
	enc := newEncoder(cmp.Or(o.Topic, "t"), u.Model, 1, o.MaxRecordBytes)
	enc.deltaRing, enc.key = cmp.Or(o.DeltaRing, 4), o.SigningKey
	recs, err := enc.update(u)
	if err != nil {
		t.Fatal(err)
	}
	return recs
}

func sameUpdate(t testing.TB, got, want *stream.Update) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		g, w := *got, *want
		equal := bytes.Equal(g.Payload, w.Payload)
		g.Payload, w.Payload = nil, nil
		t.Fatalf("payloads equal: %v\n got %+v\nwant %+v", equal, g, w)
	}
}

func TestModelTopic(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Name(t, brokers)
	p := publisher(t, PublisherOptions{Config: config(brokers), Topic: topic, Model: "m", MaxRecordBytes: 2000})
	s := subscriber(t, SubscriberOptions{Config: config(brokers), Topic: topic, Model: "m"})
	for i, n := range []int{100, 10_000, 0, 5000, 1} {
		u := update("m", 1, uint64(i+1), n)
		publish(t, p, u)
		sameUpdate(t, next(t, s), u)
	}
	for _, r := range kafkatest.ReadAll(t, brokers, topic) {
		if n := len(r.Key) + len(r.Value); n > 2000 {
			t.Errorf("record %q has %d bytes", r.Key, n)
		}
		if r.Value != nil && (len(r.Headers) != 2 || string(r.Headers[0].Value) != contentType || string(r.Headers[1].Value) != "1") {
			t.Errorf("headers of %q: %+v", r.Key, r.Headers)
		}
	}
	// The same update again is not news, a late joiner gets the newest.
	last, sixth := update("m", 1, 5, 1), update("m", 1, 6, 3000)
	publish(t, p, last, sixth, last)
	sameUpdate(t, next(t, s), sixth)
	sameUpdate(t, next(t, subscriber(t, SubscriberOptions{Config: config(brokers), Topic: topic})), sixth)
	if s.Rejected() != 0 {
		t.Errorf("%d records rejected", s.Rejected())
	}
}

// The topic is made for compaction, and what compaction leaves is enough, also
// while the next full is being written.
func TestModelTopicCompacted(t *testing.T) {
	b := kafkatest.Embedded(t)
	brokers := []string{b.Addr()}
	const topic = "models"
	p := publisher(t, PublisherOptions{Config: config(brokers), Topic: topic, Model: "m", MaxRecordBytes: 2000})
	if c, err := kafkaio.TopicConfig(t.Context(), config(brokers), topic); c["cleanup.policy"] != "compact" || err != nil {
		t.Fatalf("settings %v, %v", c, err)
	}
	cover := stream.Record{Topic: topic, Key: []byte("cover")}
	var newest *stream.Update
	for v := range uint64(20) {
		newest = update("m", 1, v+1, 12_000-500*int(v))
		publish(t, p, newest)
	}
	// A trainer dies in the middle of the next one.
	torn := func(epoch uint64) {
		t.Helper()
		recs := chunks(t, PublisherOptions{Topic: topic, MaxRecordBytes: 2000}, update("m", epoch, 21, 9000))
		kafkatest.Abort(t, brokers, recs[:len(recs)-1]...)
		kafkatest.Produce(t, brokers, cover) // the newest batch does not count for compaction
	}
	torn(1)
	b.Compact()
	b.Compact()
	left := kafkatest.ReadAll(t, brokers, topic)
	if len(left) > 10 { // a full of two chunks, tombstones, a claim, the cover
		t.Errorf("%d records are left", len(left))
	}
	sameUpdate(t, next(t, subscriber(t, SubscriberOptions{Config: config(brokers), Topic: topic})), newest)
	// Its successor does not break it either.
	torn(2)
	b.Compact()
	p2 := publisher(t, PublisherOptions{Config: config(brokers), Topic: topic, Model: "m", MaxRecordBytes: 2000})
	if c, version := p2.Last(); c.Epoch != 1 || c.Owner != "test" || version != 20 {
		t.Errorf("the topic is surveyed as %+v, version %d", c, version)
	}
	u := update("m", 2, 22, 100)
	publish(t, p2, u)
	sameUpdate(t, next(t, subscriber(t, SubscriberOptions{Config: config(brokers), Topic: topic})), u)
}

// 25 MB under the broker's default limit of 1 MiB per batch, for a subscriber
// that comes afterwards.
func TestModelTopicLargeModel(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Name(t, brokers)
	p := publisher(t, PublisherOptions{Config: config(brokers), Topic: topic, Model: "large"})
	first, second := update("large", 1, 1, 25_000_000), update("large", 1, 2, 21_000_000)
	publish(t, p, first, second)
	sameUpdate(t, next(t, subscriber(t, SubscriberOptions{Config: config(brokers), Topic: topic, Model: "large"})), second)
}

func TestModelTopicSeveralModels(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Topic(t, brokers, 3, map[string]string{"cleanup.policy": "compact"})
	var want []*stream.Update
	for i, name := range []string{"a", "b", "a2", "c"} {
		p := publisher(t, PublisherOptions{Config: config(brokers), Topic: topic, Model: name})
		u := update(name, uint64(10-i), uint64(i+2), 5000)
		publish(t, p, update(name, uint64(10-i), uint64(i+1), 5000+i))
		publish(t, p, u)
		want = append(want, u)
	}
	for _, u := range want {
		sameUpdate(t, next(t, subscriber(t, SubscriberOptions{Config: config(brokers), Topic: topic, Model: u.Model})), u)
	}
}

func TestModelTopicDeltas(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Name(t, brokers)
	p := publisher(t, PublisherOptions{Config: config(brokers), Topic: topic, Model: "m", MaxRecordBytes: 2000, DeltaRing: 4})
	v := make([]*stream.Update, 12)
	for i := range v {
		v[i] = update("m", 1, uint64(i), 3000)
	}
	with := subscriber(t, SubscriberOptions{Config: config(brokers), Topic: topic, Model: "m"})
	publish(t, p, v[1])
	sameUpdate(t, next(t, with), v[1])
	for i := 2; i < 6; i++ {
		publish(t, p, deltaOf(v[i-1], v[i]))
		sameUpdate(t, next(t, with), v[i])
	}
	// 7 cannot be chained, since 6 is missing, and neither can 8, until the full.
	publish(t, p, deltaOf(v[6], v[7]), deltaOf(v[7], v[8]), v[9], deltaOf(v[9], v[10]))
	// The full counts for itself where it comes in a fetch of its own.
	got := next(t, with)
	if got.Version == 9 {
		sameUpdate(t, got, v[9])
		got = next(t, with)
	}
	sameUpdate(t, got, v[10])
	late := subscriber(t, SubscriberOptions{Config: config(brokers), Topic: topic, Model: "m"})
	sameUpdate(t, next(t, late), v[10])
	keys := map[string]bool{}
	for _, r := range kafkatest.ReadAll(t, brokers, topic) {
		if s := string(r.Key); strings.HasPrefix(s, "m/delta/") {
			keys[s] = true
		}
	}
	if !keys["m/delta/0"] || !keys["m/delta/3"] || keys["m/delta/4"] || !keys["m/delta/1/1"] {
		t.Errorf("delta keys %v", keys)
	}
	// A delta that does not fit its base does not count.
	bad := deltaOf(v[10], v[11])
	bad.Payload = bad.Payload[1:]
	bad.Hash = xxhash.Sum64(bad.Payload)
	publish(t, p, bad, deltaOf(v[10], v[11]))
	sameUpdate(t, next(t, with), v[11])
	if with.Rejected() != 1 {
		t.Errorf("%d rejected, want 1", with.Rejected())
	}
}

// Chunks of two trainers interleave in every order; the replaced one's never
// come out after the new one's.
func TestAssemblerInterleaved(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 4))
		updates := map[[2]uint64]*stream.Update{}
		lanes := make([][]stream.Record, 2) // the zombie, the new trainer
		for e := range lanes {
			for v := uint64(1); v < 5; v++ {
				u := update("m", uint64(e+1), v, rng.IntN(5000))
				updates[[2]uint64{u.Epoch, u.Version}] = u
				recs := chunks(t, PublisherOptions{MaxRecordBytes: 1500}, u)
				if rng.IntN(4) == 0 { // a torn one
					recs = recs[:rng.IntN(len(recs))]
				}
				lanes[e] = append(lanes[e], recs...)
				if rng.IntN(4) == 0 { // and one sent twice
					lanes[e] = append(lanes[e], recs...)
				}
			}
		}
		a := assembler{model: "m", limit: 1 << 20}
		var before [2]uint64
		var epoch uint64
		for len(lanes[0])+len(lanes[1]) > 0 {
			e := rng.IntN(2)
			if len(lanes[e]) == 0 {
				e = 1 - e
			}
			r := lanes[e][0]
			lanes[e] = lanes[e][1:]
			if rng.IntN(50) == 0 {
				r.Value = nil
			}
			if r.Value != nil {
				epoch = max(epoch, uint64(e+1))
			}
			done, err := a.add(&r)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if !done {
				continue
			}
			if a.cur.Epoch < epoch {
				t.Fatalf("seed %d: version %d of epoch %d after a record of epoch %d", seed, a.cur.Version, a.cur.Epoch, epoch)
			}
			now := [2]uint64{a.cur.Epoch, a.cur.Version}
			if now[0] < before[0] || now[0] == before[0] && now[1] <= before[1] {
				t.Fatalf("seed %d: update %v after %v", seed, now, before)
			}
			before = now
			sameUpdate(t, a.cur, updates[now])
		}
	}
}

func TestSubscriberDropsWhatIsCorrupt(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Name(t, brokers)
	p := publisher(t, PublisherOptions{Config: config(brokers), Topic: topic, Model: "m", MaxRecordBytes: 1500})
	first := update("m", 3, 1, 4000)
	publish(t, p, first)
	spoilt := chunks(t, p.opt, update("m", 3, 2, 4000))
	spoilt[1].Value = bytes.Clone(spoilt[1].Value)
	spoilt[1].Value[len(spoilt[1].Value)-1] ^= 1
	kafkatest.Produce(t, brokers, spoilt...)
	kafkatest.Produce(t, brokers, stream.Record{Topic: topic, Key: []byte("m/f/0"), Value: []byte("not an envelope")})
	// A zombie of an older epoch, with a higher version.
	kafkatest.Produce(t, brokers, chunks(t, p.opt, update("m", 2, 9, 100))...)
	s := subscriber(t, SubscriberOptions{Config: config(brokers), Topic: topic, Model: "m"})
	sameUpdate(t, next(t, s), first)
	if s.Rejected() != 2 {
		t.Errorf("%d rejected, want 2", s.Rejected())
	}
	third := update("m", 3, 3, 10)
	publish(t, p, third)
	sameUpdate(t, next(t, s), third)
}

func TestPublisherFenced(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Name(t, brokers)
	o := PublisherOptions{Config: config(brokers), Topic: topic, Model: "m"}
	first, rival := publisher(t, o), publisher(t, o)
	if c, version := first.Last(); c != (Claim{}) || version != 0 {
		t.Errorf("an empty topic has %+v, version %d", c, version)
	}
	publish(t, first, update("m", 5, 1, 10))
	// Both have looked before either has claimed.
	var fe *topiclog.FencedError
	if err := rival.Claim(t.Context(), "other", 6); !errors.As(err, &fe) || fe.Claim.Epoch != 5 || fe.Claim.Owner != "test" || fe.Own != 0 {
		t.Fatalf("%v", err)
	}
	publish(t, first, update("m", 5, 2, 10)) // goes on, though the id was taken
	// The heir has looked after, and replaces it.
	heir := publisher(t, o)
	if c, version := heir.Last(); c.Epoch != 5 || c.By == "" || version != 2 {
		t.Errorf("the topic has %+v, version %d, want epoch 5, version 2", c, version)
	}
	if err := heir.Claim(t.Context(), "other", 5); err == nil || errors.As(err, &fe) && fe.Own != 0 {
		t.Fatalf("an epoch claimed twice: %v", err)
	}
	if err := heir.Claim(t.Context(), "other", 6); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := first.Publish(t.Context(), update("m", 5, 3, 10)); !errors.As(err, &fe) || fe.Claim.Epoch != 6 || fe.Own != 5 {
			t.Fatalf("%v", err)
		}
	}
	publish(t, heir, update("m", 6, 1, 10))
	for what, u := range map[string]*stream.Update{
		"model": update("x", 6, 3, 1), "hash": {Model: "m", Epoch: 6, Version: 3, Kind: stream.Full}, "version": update("m", 6, 0, 0), "epoch": update("m", 5, 4, 1),
	} {
		if err := heir.Publish(t.Context(), u); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("want an error about the %s, got %v", what, err)
		}
	}
	sameUpdate(t, next(t, subscriber(t, SubscriberOptions{Config: config(brokers), Topic: topic})), update("m", 6, 1, 10))
}

// A claim under which nothing has been published keeps nobody out once it is
// given up; one with versions is not given up.
func TestPublisherReleases(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	o := PublisherOptions{Config: config(brokers), Topic: kafkatest.Name(t, brokers), Model: "m"}
	first := publisher(t, o)
	if err := first.Claim(t.Context(), "first", 7); err != nil {
		t.Fatal(err)
	}
	if c, _ := publisher(t, o).Last(); !c.Foreign("second", 9) || c.Foreign("first", 7) || !c.Foreign("first", 6) {
		t.Errorf("%+v", c)
	}
	if err := first.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := publisher(t, o)
	if c, version := second.Last(); c.Foreign("second", 9) || c.Epoch != 7 || version != 0 {
		t.Errorf("%+v", c)
	}
	if err := second.Claim(t.Context(), "second", 7); err == nil {
		t.Error("the epoch may be claimed again")
	}
	publish(t, second, update("m", 8, 1, 10)) // claims it as "test"
	if err := errors.Join(first.Release(t.Context()), second.Release(t.Context())); err != nil {
		t.Fatal(err)
	}
	if c, version := publisher(t, o).Last(); c.Owner != "test" || c.Epoch != 8 || version != 1 {
		t.Errorf("%+v, version %d", c, version)
	}
}

func TestPublisherWarnsOfTopic(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Topic(t, brokers, 1, map[string]string{"cleanup.policy": "delete"})
	var log bytes.Buffer
	c := config(brokers)
	c.Log = slog.New(slog.NewTextHandler(&log, nil))
	publisher(t, PublisherOptions{Config: c, Topic: topic, Model: "m"})
	if s := log.String(); !strings.Contains(s, "cleanup.policy=delete") || !strings.Contains(s, topic) {
		t.Errorf("log: %q", s)
	}
}

func TestSubscriberSurvivesBroker(t *testing.T) {
	t.Parallel() // it waits
	b := kafkatest.Start(t)
	brokers := []string{b.Addr}
	const topic = "models"
	p := publisher(t, PublisherOptions{Config: config(brokers), Topic: topic, Model: "m", MaxRecordBytes: 2000})
	s := subscriber(t, SubscriberOptions{Config: config(brokers), Topic: topic, Model: "m"})
	for v := uint64(1); v <= 3; v++ {
		u := update("m", 1, v, 20_000)
		publish(t, p, u)
		sameUpdate(t, next(t, s), u)
		b.Kill()
		b.Restart()
	}
}

// Whatever a record claims, memory stays in proportion to its length, and what
// is accepted is consistent.
func FuzzEnvelope(f *testing.F) {
	for _, n := range []int{0, 10, 3000} {
		for _, r := range chunks(f, PublisherOptions{MaxRecordBytes: 1500}, update("m", 1, 2, n)) {
			f.Add(r.Value)
		}
	}
	claimed := envelope{Update: stream.Update{Kind: claim, Model: "m", Epoch: 3, Created: time.UnixMilli(1).UTC()}, owner: "o", by: "p"}
	value, err := claimed.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(value)
	// As many partitions and measures as fit into the fewest bytes.
	e := envelope{Update: *update("m", 1, 2, 0), chunks: 1, chunkHash: xxhash.Sum64(nil)}
	for i := range 20_000 {
		e.Offsets[stream.Partition{Topic: "t", ID: int32(i % 128)}] = 1
		e.Offsets[stream.Partition{ID: int32(i)}] = 1
		e.Evaluation = append(e.Evaluation, stream.Measure{})
	}
	many, err := e.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(many)
	f.Fuzz(func(t *testing.T, value []byte) {
		var e *envelope
		var err error
		alloctest.Check(t, len(value), func() { e, err = decodeEnvelope(value, 1<<20) })
		if err != nil {
			return
		}
		again, err := e.encode()
		if err != nil {
			t.Fatal(err)
		}
		e2, err := decodeEnvelope(again, 1<<20)
		if err != nil {
			t.Fatalf("decoded, encoded, refused: %v", err)
		}
		if a, b := fmt.Sprintf("%+v", e), fmt.Sprintf("%+v", e2); a != b {
			t.Fatalf("%s\n%s", a, b)
		}
		a := assembler{limit: 1 << 20}
		if done, _ := a.add(&stream.Record{Value: value}); done && xxhash.Sum64(a.cur.Payload) != a.cur.Hash {
			t.Fatal("delivered with a wrong hash")
		}
	})
}
