package modeltopic

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/topiclog"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/vmihailenco/msgpack/v5"
)

func promoter(t testing.TB, o AliasOptions) *AliasWriter {
	t.Helper()
	if o.Log == nil {
		o.Log = quiet
	}
	o.Alias = cmp.Or(o.Alias, "champion")
	p, err := NewAliasWriter(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func promote(t testing.TB, p *AliasWriter, u *stream.Update, why stream.Promotion) {
	t.Helper()
	if err := p.Promote(t.Context(), u, why); err != nil {
		t.Fatal(err)
	}
}

// renamed is u as an alias has it.
func renamed(u *stream.Update, name string, epoch uint64) *stream.Update {
	v := *u
	v.Model, v.Epoch = name, epoch
	return &v
}

func TestNamesOfAliases(t *testing.T) {
	for alias, good := range map[string]bool{
		"champion": true, "c": true, "blue-2": true, "": false, "Champion": false, "2nd": false, "a@b": false, "a/b": false, "latest": false, "champion-1": false,
	} {
		if err := CheckAlias(alias); (err == nil) != good {
			t.Errorf("%q: %v", alias, err)
		}
	}
	for model, good := range map[string]bool{"clicks": true, "clicks@champion": false, "@": false, "": false, "a/b": false} {
		if err := CheckModel(model); (err == nil) != good {
			t.Errorf("%q: %v", model, err)
		}
	}
	for name, want := range map[string][2]string{"m": {"m", ""}, "m@champion": {"m", "champion"}, "m@champion-1": {"m", "champion-1"}} {
		if model, alias := SplitName(name); model != want[0] || alias != want[1] {
			t.Errorf("%s is split into %q and %q", name, model, alias)
		}
	}
	if _, err := NewPublisher(t.Context(), PublisherOptions{Topic: "t", Model: "m@champion"}); err == nil {
		t.Error("a publisher takes the name of an alias")
	}
}

func TestPromote(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Topic(t, brokers, 3, nil) // all records stay
	pub := publisher(t, PublisherOptions{Config: config(brokers), Topic: topic, Model: "m", MaxRecordBytes: 2000})
	var us []*stream.Update // us[i] has version i+1
	for v := range uint64(4) {
		us = append(us, update("m", 1, v+1, 12_000-2000*int(v)))
	}
	o := AliasOptions{Config: config(brokers), Topic: topic, Model: "m", MaxRecordBytes: 2000}
	p := promoter(t, o)
	if _, err := p.Rollback(t.Context(), stream.Promotion{}); err == nil {
		t.Error("rolled back to nothing")
	}
	promote(t, p, us[2], stream.Promotion{By: "me", Reason: "first", Previous: 99})
	publish(t, pub, us[0])
	follow := subscriber(t, SubscriberOptions{Config: config(brokers), Topic: topic, Model: "m@champion"})
	any := subscriber(t, SubscriberOptions{Config: config(brokers), Topic: topic, Alias: "champion"})
	both := subscriber(t, SubscriberOptions{Config: config(brokers), Topic: topic, Model: "m", Alias: "champion"})
	if _, err := NewSubscriber(t.Context(), SubscriberOptions{Config: config(brokers), Topic: topic, Model: "m@other", Alias: "champion"}); err == nil {
		t.Error("a model with two aliases was accepted")
	}
	bare := subscriber(t, SubscriberOptions{Config: config(brokers), Topic: topic})
	sameUpdate(t, next(t, follow), renamed(us[2], "m@champion", 1))
	sameUpdate(t, next(t, any), renamed(us[2], "m@champion", 1))
	sameUpdate(t, next(t, both), renamed(us[2], "m@champion", 1))
	sameUpdate(t, next(t, bare), us[0]) // though an alias came first
	if why, at, ok := follow.Promotion(); why != (stream.Promotion{By: "me", Reason: "first"}) || !ok || time.Since(at) > time.Hour {
		t.Errorf("promoted %v by %+v at %v", ok, why, at)
	}
	if _, _, ok := bare.Promotion(); ok {
		t.Error("a version that no alias stands for is said to be promoted")
	}
	publish(t, pub, us[1], us[2], us[3])

	// Again is harmless, also by another one.
	other := promoter(t, o)
	promote(t, other, us[2], stream.Promotion{By: "you"})
	promote(t, p, us[2], stream.Promotion{By: "me"})
	promote(t, other, us[3], stream.Promotion{By: "you"})
	sameUpdate(t, next(t, follow), renamed(us[3], "m@champion", 2))
	if why, _, _ := follow.Promotion(); why != (stream.Promotion{By: "you", Previous: 3}) {
		t.Errorf("promoted by %+v", why)
	}
	// Back, and forth again, by one that has not seen it all.
	for i, want := range []*stream.Update{us[2], us[3]} {
		u, err := p.Rollback(t.Context(), stream.Promotion{By: "me", Reason: "worse"})
		if err != nil {
			t.Fatal(err)
		}
		sameUpdate(t, u, renamed(want, "m", uint64(i+2)))
		sameUpdate(t, next(t, follow), renamed(want, "m@champion", uint64(i+3)))
	}
	now, old, err := other.Held(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sameUpdate(t, now, renamed(us[3], "m@champion", 4))
	sameUpdate(t, old, renamed(us[2], "m@champion-1", 4))

	// What is expected is looked at in the topic.
	three := uint64(3)
	o.Expect = &three
	careful := promoter(t, o)
	o.Alias = "challenger"
	fresh := promoter(t, o)
	var expect *ExpectError
	if err := careful.Promote(t.Context(), us[0], stream.Promotion{}); !errors.As(err, &expect) || expect.Has != 4 || expect.Want != 3 {
		t.Errorf("promoted over version 4 where 3 is expected: %v", err)
	}
	if err := fresh.Promote(t.Context(), us[0], stream.Promotion{}); !errors.As(err, &expect) || expect.Has != 0 {
		t.Errorf("promoted to a new alias where 3 is expected: %v", err)
	}
	promote(t, p, us[2], stream.Promotion{})
	promote(t, careful, us[0], stream.Promotion{})
	c, err := Read(t.Context(), ReadOptions{Config: config(brokers), Topic: topic, Version: 2})
	if err != nil || c.Rejected != 0 {
		t.Fatalf("%+v, %v", c, err)
	}
	var names []string
	for _, m := range c.Models {
		names = append(names, fmt.Sprintf("%s %d", m.Name, m.Newest.Version))
		u := m.Updates[len(m.Updates)-1]
		if _, alias := SplitName(m.Name); (alias != "") != (u.Promotion != nil) {
			t.Errorf("%s: promotion %+v", m.Name, u.Promotion)
		}
	}
	if want := []string{"m 4", "m@champion 1", "m@champion-1 3"}; !slices.Equal(names, want) {
		t.Errorf("the topic holds %q, not %q", names, want)
	}
	sameUpdate(t, c.Models[0].Wanted, us[1])
	// Nobody else is concerned.
	reach(t, bare, us[3])
	if n := follow.Rejected() + any.Rejected() + bare.Rejected(); n != 0 {
		t.Errorf("%d records rejected", n)
	}
}

// Many promoters at once: each promotion is one record of its own epoch, the
// version before is always that of the one before, and the later wins.
func TestPromoteAtOnce(t *testing.T) {
	t.Parallel() // it waits
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Topic(t, brokers, 1, nil) // all records stay
	const n, each = 4, 5
	var wg sync.WaitGroup
	for i := range n {
		p := promoter(t, AliasOptions{Config: config(brokers), Topic: topic, Model: "m", MaxRecordBytes: 2000})
		wg.Go(func() {
			for k := range each {
				v := uint64(each*i + k + 1)
				if err := p.Promote(t.Context(), update("m", 1, v, 3000), stream.Promotion{By: fmt.Sprint(i)}); err != nil {
					t.Errorf("version %d: %v", v, err)
				}
			}
		})
	}
	wg.Wait()
	var now, old, epoch uint64 // versions
	for _, r := range kafkatest.ReadAll(t, brokers, topic, kgo.FetchIsolationLevel(kgo.ReadCommitted())) {
		if r.Value == nil || !strings.HasSuffix(string(r.Key), "/full/0") {
			continue
		}
		e, err := decodeEnvelope(r.Value, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if e.Model == "m@champion" {
			if e.Epoch != epoch+1 || aboutOf(&r).promotion.Previous != now {
				t.Errorf("version %d, epoch %d, says that it comes after %d: it comes after %d, epoch %d", e.Version, e.Epoch, aboutOf(&r).promotion.Previous, now, epoch)
			}
			now, old, epoch = e.Version, now, e.Epoch
		} else if e.Version != old || e.Epoch != epoch {
			t.Errorf("%s is version %d in epoch %d, not %d in %d", e.Model, e.Version, e.Epoch, old, epoch)
		}
	}
	if epoch != n*each {
		t.Errorf("%d promotions, not %d", epoch, n*each)
	}
}

// A promoter whose last look at the topic ended within a promotion, as it does when that
// one is just being written, looks again.
func TestPromoteAfterHalf(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Topic(t, brokers, 1, nil)
	o := AliasOptions{Config: config(brokers), Topic: topic, Model: "m", MaxRecordBytes: 2000}
	first, second := promoter(t, o), promoter(t, o)
	promote := func(w *AliasWriter, v uint64) {
		t.Helper()
		if err := w.Promote(t.Context(), update("m", 1, v, 3000), stream.Promotion{}); err != nil {
			t.Fatal(err)
		}
	}
	promote(first, 1)
	promote(first, 2)
	var half int64 // the second chunk of version 2
	for _, r := range kafkatest.ReadAll(t, brokers, topic, kgo.FetchIsolationLevel(kgo.ReadCommitted())) {
		if e, err := decodeEnvelope(r.Value, 1<<20); err == nil && e.Model == "m@champion" && e.Version == 2 && e.chunk == 1 {
			half = r.Offset
		}
	}
	second.log.Writer = &halfScan{second.log.Writer, half}
	promote(second, 3)
	now, before, err := promoter(t, o).Held(t.Context())
	if err != nil || half == 0 || now.Version != 3 || now.Epoch != 3 || before.Version != 2 {
		t.Errorf("version %d, epoch %d, after version %d; %v", now.Version, now.Epoch, before.Version, err)
	}
}

// halfScan is a Writer whose first scan ends at an offset.
type halfScan struct {
	topiclog.Writer
	end int64
}

func (w *halfScan) Scan(ctx context.Context, topics []string, from stream.Offsets, take func(*stream.Record)) (stream.Offsets, error) {
	end := w.end
	w.end = math.MaxInt64
	ends, err := w.Writer.Scan(ctx, topics, from, func(r *stream.Record) {
		if r.Offset < end {
			take(r)
		}
	})
	for p, n := range ends {
		ends[p] = min(n, end)
	}
	return ends, err
}

// followers are subscribers that promise never to be without a model.
type followers struct {
	t    testing.TB
	at   []chan *stream.Update
	done func()
}

func newFollowers(t testing.TB, n int, o SubscriberOptions) *followers {
	t.Helper()
	f := &followers{t: t, at: make([]chan *stream.Update, n)}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range f.at {
		f.at[i] = make(chan *stream.Update, 1000)
		s := subscriber(t, o)
		wg.Go(func() {
			for {
				u, err := s.Next(ctx)
				if ctx.Err() != nil {
					return
				}
				if err != nil || s.Rejected() > 0 {
					t.Errorf("subscriber %d: %v, %d records rejected", i, err, s.Rejected())
					return
				}
				f.at[i] <- u
			}
		})
	}
	f.done = func() { cancel(); wg.Wait() }
	return f
}

// reach waits until each has come to version v, and returns how long that took.
func (f *followers) reach(v uint64) time.Duration {
	f.t.Helper()
	began := time.Now()
	for i, at := range f.at {
		for {
			select {
			case u := <-at:
				if len(u.Payload) == 0 {
					f.t.Errorf("subscriber %d has got an empty version %d", i, u.Version)
				}
				if u.Version != v {
					continue
				}
			case <-time.After(60 * time.Second):
				f.t.Fatalf("subscriber %d has not come to version %d", i, v)
			}
			break
		}
	}
	return time.Since(began)
}

// Rollback while 20 subscribers follow, a trainer publishes on the same topic,
// and compaction takes what is superseded.
func TestRollbackFollowed(t *testing.T) {
	t.Parallel() // it waits
	brokers, compact := kafkatest.Brokers(t), func() {}
	if !kafkatest.Real() {
		b := kafkatest.Embedded(t)
		brokers, compact = []string{b.Addr()}, func() { b.Compact() }
	}
	topic := kafkatest.Topic(t, brokers, 1, map[string]string{
		"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "200", "delete.retention.ms": "100",
		"max.compaction.lag.ms": "500",
	})
	pub := publisher(t, PublisherOptions{Config: config(brokers), Topic: topic, Model: "m", MaxRecordBytes: 100_000})
	p := promoter(t, AliasOptions{Config: config(brokers), Topic: topic, Model: "m", MaxRecordBytes: 100_000})
	good, bad := update("m", 1, 1, 300_000), update("m", 1, 2, 250_000)
	publish(t, pub, good)
	promote(t, p, good, stream.Promotion{By: "test"})
	f := newFollowers(t, 20, SubscriberOptions{Config: config(brokers), Topic: topic, Model: "m@champion"})
	defer f.done()
	f.reach(1)
	publish(t, pub, bad)
	promote(t, p, bad, stream.Promotion{By: "test"})
	f.reach(2)
	// The versions are gone from the topic before the rollback.
	for v := range uint64(20) {
		publish(t, pub, update("m", 1, v+3, 200_000))
		compact()
	}
	if kafkatest.Real() {
		gone := func() bool {
			publish(t, pub, update("m", 1, pub.version+1, 200_000))
			c, err := Read(t.Context(), ReadOptions{Config: config(brokers), Topic: topic, Model: "m"})
			if err != nil {
				t.Fatal(err)
			}
			return !slices.ContainsFunc(c.Models[0].Updates, func(u RetainedUpdate) bool { return u.Version <= 2 })
		}
		for end := time.Now().Add(2 * time.Minute); !gone(); time.Sleep(time.Second) {
			if time.Now().After(end) {
				t.Fatal("the topic is not compacted")
			}
		}
	}
	var calls, took []time.Duration
	for _, want := range []uint64{1, 2, 1} {
		began := time.Now()
		if _, err := p.Rollback(t.Context(), stream.Promotion{By: "test", Reason: "worse"}); err != nil {
			t.Fatal(err)
		}
		calls = append(calls, time.Since(began))
		took = append(took, f.reach(want))
		compact()
	}
	t.Logf("Rollback took %v; all of 20 subscribers were on the version before %v later", calls, took)
	// Who joins now gets it too, from what compaction has left.
	u := next(t, subscriber(t, SubscriberOptions{Config: config(brokers), Topic: topic, Model: "m@champion"}))
	sameUpdate(t, u, renamed(good, "m@champion", 5))
	sameUpdate(t, next(t, subscriber(t, SubscriberOptions{Config: config(brokers), Topic: topic, Model: "m@champion-1"})), renamed(bad, "m@champion-1", 5))
}

// What subscribers of before there were aliases and signatures read: the value
// of a record has these fields and no others, in this order, and what is new is
// in headers, which they do not look at.
func TestAliasRecordFrozen(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Topic(t, brokers, 1, nil)
	key, _ := keyOf(1)
	p := promoter(t, AliasOptions{Config: config(brokers), Topic: topic, Model: "m", SigningKey: key})
	for v := range uint64(2) {
		promote(t, p, update("m", 7, v+5, 3), stream.Promotion{By: "me", Reason: "why"})
	}
	want := []string{"format", "kind", "model", "learner", "version", "base", "epoch", "step", "examples", "offsets", "created_ms", "evaluation",
		"payload_hash", "payload_size", "chunk", "chunks", "chunk_hash", "data"}
	var seen []string
	for _, r := range kafkatest.ReadAll(t, brokers, topic) {
		d := msgpack.NewDecoder(bytes.NewReader(r.Value))
		var names []string
		values := map[string]any{}
		for {
			name, err := d.DecodeString()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
			if fields := map[string]int{"offsets": 6, "evaluation": 4}[name]; fields > 0 {
				n, err := d.DecodeArrayLen()
				for range fields * n {
					err = errors.Join(err, d.Skip())
				}
				if err != nil {
					t.Fatal(err)
				}
				continue
			}
			if values[name], err = d.DecodeInterface(); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s has the fields %q", r.Key, names)
		}
		headers := ""
		for _, h := range r.Headers {
			if headers += " " + h.Key; h.Key != headerSignature {
				headers += "=" + string(h.Value)
			}
		}
		seen = append(seen, fmt.Sprintf("%s: %v %v, version %v, epoch %v;%s", r.Key, values["kind"], values["model"], values["version"], values["epoch"], headers))
	}
	const front = " content-type=application/vnd.streamsvm.update+msgpack format-version=1 promoted-by=me reason=why previous="
	if want := []string{
		"m@champion/full/0: full m@champion, version 5, epoch 1;" + front + "0 signature",
		"m@champion/full/0: full m@champion, version 6, epoch 2;" + front + "5 signature",
		"m@champion-1/full/0: full m@champion-1, version 5, epoch 2;" + front + "0 signature",
	}; !slices.Equal(seen, want) {
		t.Errorf("the topic holds\n%s", strings.Join(seen, "\n"))
	}
}

// A promoter that has been replaced while it waited for the brokers does not move the
// alias that its successor has moved meanwhile.
func TestPromoteByOneReplaced(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Topic(t, brokers, 1, nil)
	o := AliasOptions{Config: config(brokers), Topic: topic, Model: "m"}
	successor := promoter(t, o)
	replaced := errors.New("replaced")
	asked := 0
	o.Owner = func(ctx context.Context) error {
		if asked++; asked > 1 {
			return replaced
		}
		// The promoter has not asked the brokers for the alias yet.
		promote(t, successor, update("m", 2, 3, 1000), stream.Promotion{By: "successor"})
		return nil
	}
	if err := promoter(t, o).Promote(t.Context(), update("m", 1, 1, 1000), stream.Promotion{By: "old"}); !errors.Is(err, replaced) {
		t.Errorf("the error is %v", err)
	}
	now, before, err := successor.Held(t.Context())
	if err != nil || now == nil || now.Version != 3 || before != nil {
		t.Errorf("the alias stands for %+v, before for %+v, %v", now, before, err)
	}
}
