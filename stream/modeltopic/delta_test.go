package modeltopic

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/internal/delta"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/topiclog"
)

// history makes the versions of a model of a thousand blocks: each changes one
// block and a number in front of all, now and then the model grows.
type history struct {
	r       *rand.Rand
	payload []byte
	version uint64
}

const blockBytes = 400

func newHistory(seed uint64) *history {
	h := &history{r: rand.New(rand.NewPCG(seed, 8)), payload: make([]byte, 64+1000*blockBytes)}
	for i := range h.payload {
		h.payload[i] = byte(h.r.Uint32())
	}
	return h
}

func (h *history) next(epoch uint64) *stream.Update {
	h.version++
	h.payload = bytes.Clone(h.payload)
	fill := func(b []byte) {
		for i := range b {
			b[i] = byte(h.r.Uint32())
		}
	}
	fill(h.payload[8:16])
	at := 64 + blockBytes*h.r.IntN(1000)
	fill(h.payload[at : at+blockBytes])
	if h.version%7 == 0 {
		more := make([]byte, blockBytes)
		fill(more)
		h.payload = append(h.payload, more...)
	}
	return &stream.Update{
		Kind: stream.Full, Model: "m", Learner: "test", Version: h.version, Epoch: epoch, Step: h.version, Examples: h.version,
		Offsets: stream.Offsets{{Topic: "in"}: int64(h.version)}, Created: time.UnixMilli(1_700_000_000_000 + int64(h.version)).UTC(),
		Evaluation: []stream.Measure{}, Payload: h.payload, Hash: xxhash.Sum64(h.payload),
	}
}

// reach reads on until version want has come.
func reach(t *testing.T, s *Subscriber, want *stream.Update) {
	t.Helper()
	u := next(t, s)
	for u.Epoch < want.Epoch || u.Version < want.Version {
		u = next(t, s)
	}
	sameUpdate(t, u, want)
}

// deltaOf returns to as a delta on base.
func deltaOf(base, to *stream.Update) *stream.Update {
	d := *to
	d.Kind, d.Base, d.Payload = stream.Delta, base.Version, delta.Diff(base.Payload, to.Payload)
	d.Hash = xxhash.Sum64(d.Payload)
	return &d
}

// TestDeltasEqualFulls publishes one model to two topics, to one as fulls and
// deltas and to the other as fulls only. Subscribers of the two must get the
// same, to the bit, whenever they join, and after a delta got lost as soon as
// there is a full again.
func TestDeltasEqualFulls(t *testing.T) {
	const versions, every = 60, 16
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			brokers := kafkatest.Brokers(t)
			topics := [2]string{kafkatest.Name(t, brokers), kafkatest.Name(t, brokers)}
			pubs := [2]*Publisher{}
			for i, topic := range topics {
				pubs[i] = publisher(t, PublisherOptions{Config: config(brokers), Topic: topic, Model: "m", MaxRecordBytes: 60_000, DeltaRing: every})
			}
			join := func(i int) *Subscriber {
				return subscriber(t, SubscriberOptions{Config: config(brokers), Topic: topics[i], Model: "m"})
			}
			follow := [2]*Subscriber{join(0), join(1)}
			h := newHistory(seed)
			lost := uint64(20 + h.r.IntN(8)) // within 16 < version < 32, not a full
			var before *stream.Update
			broken := false
			deltaBytes, fullBytes := 0, 0
			for h.version < versions {
				u := h.next(1)
				publish(t, pubs[1], u)
				sameUpdate(t, next(t, follow[1]), u)
				d := u
				if u.Version%every != 1 {
					d = deltaOf(before, u)
					deltaBytes, fullBytes = deltaBytes+len(d.Payload), fullBytes+len(u.Payload)
				}
				before = u
				if u.Version == lost {
					broken = true
					continue // as if it had never been sent
				}
				publish(t, pubs[0], d)
				if d.Kind == stream.Full {
					broken = false
				}
				if broken {
					continue
				}
				got := next(t, follow[0])
				sameUpdate(t, got, u)
				if u.Version%5 == 0 {
					sameUpdate(t, next(t, join(0)), u)
				}
			}
			r := follow[0].Received()
			if want := uint64((versions + every - 1) / every); r.Fulls != want || r.Deltas != versions-want-(33-lost) || follow[0].Rejected() != 0 {
				t.Errorf("received %+v, %d rejected; version %d was lost", r, follow[0].Rejected(), lost)
			}
			if 100*deltaBytes > fullBytes {
				t.Errorf("deltas of %d bytes in place of fulls of %d: more than 1 %%", deltaBytes, fullBytes)
			}
			t.Logf("deltas are %.3f %% of the fulls", 100*float64(deltaBytes)/float64(fullBytes))
		})
	}
}

// TestDeltasCompacted: what compaction leaves is enough for the newest version,
// at any time, and as little as the key scheme promises.
func TestDeltasCompacted(t *testing.T) {
	const every = 6
	b := kafkatest.Embedded(t)
	brokers := []string{b.Addr()}
	const topic = "models"
	p := publisher(t, PublisherOptions{Config: config(brokers), Topic: topic, Model: "m", MaxRecordBytes: 60_000, DeltaRing: every})
	h := newHistory(3)
	var before *stream.Update
	for h.version < 40 {
		u := h.next(1)
		d := u
		if u.Version%every != 1 {
			d = deltaOf(before, u)
		}
		before = u
		publish(t, p, d)
		kafkatest.Produce(t, brokers, stream.Record{Topic: topic, Key: []byte("cover")}) // the newest batch does not count for compaction
		b.Compact()
		sameUpdate(t, next(t, subscriber(t, SubscriberOptions{Config: config(brokers), Topic: topic})), u)
	}
	deltas := 0
	left := kafkatest.ReadAll(t, brokers, topic)
	for _, r := range left {
		if strings.HasPrefix(string(r.Key), "m/delta/") {
			deltas++
		}
	}
	if deltas > every || len(left) > 9+every+3 { // a full of at most nine chunks, tombstones, a claim, the cover
		t.Errorf("%d records are left, %d of them deltas", len(left), deltas)
	}
}

// TestDeltaAfterTakeover: a trainer that takes over begins with a full. What the
// replaced one still sends is dropped, and so is a delta of the new epoch on a
// version of the old one.
func TestDeltaAfterTakeover(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Name(t, brokers)
	o := PublisherOptions{Config: config(brokers), Topic: topic, Model: "m", MaxRecordBytes: 60_000}
	old := publisher(t, o)
	s := subscriber(t, SubscriberOptions{Config: config(brokers), Topic: topic})
	h := newHistory(4)
	v1, v2, v3, v4 := h.next(1), h.next(1), h.next(1), h.next(2)
	publish(t, old, v1, deltaOf(v1, v2))
	reach(t, s, v2)

	heir := publisher(t, o)
	early := deltaOf(v2, v3)
	early.Epoch = 2
	publish(t, heir, early) // never made by a trainer
	v2.Version, v2.Epoch = 3, 2
	publish(t, heir, v2) // published again
	var fe *topiclog.FencedError
	if err := old.Publish(t.Context(), deltaOf(v1, v3)); !errors.As(err, &fe) { // it does not know yet that it is fenced
		t.Error(err)
	}
	reach(t, s, v2)
	publish(t, heir, deltaOf(v2, v4))
	reach(t, s, v4)
	if s.Rejected() != 0 {
		t.Errorf("%d records rejected", s.Rejected())
	}
}

// TestDeltaTooLarge: the limit on models holds for what a delta makes, too.
func TestDeltaTooLarge(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Name(t, brokers)
	p := publisher(t, PublisherOptions{Config: config(brokers), Topic: topic, Model: "m"})
	var log bytes.Buffer
	c := config(brokers)
	c.Log = slog.New(slog.NewTextHandler(&log, nil))
	s := subscriber(t, SubscriberOptions{Config: c, Topic: topic})
	s.a.limit = 500_000
	u := func(version uint64, n int) *stream.Update {
		u := update("m", 1, version, 0)
		u.Payload = make([]byte, n)
		u.Hash = xxhash.Sum64(u.Payload)
		return u
	}
	v1, v2, v3 := u(1, 100_000), u(2, 600_000), u(3, 100_001)
	publish(t, p, v1, deltaOf(v1, v2), deltaOf(v1, v3))
	reach(t, s, v3)
	if s.Rejected() != 1 {
		t.Errorf("%d records rejected, want 1", s.Rejected())
	}
	if !strings.Contains(log.String(), "600000") { // it is refused before it is made
		t.Errorf("the log is %s", &log)
	}
}
