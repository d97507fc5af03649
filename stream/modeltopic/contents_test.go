package modeltopic

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// states renders what is held of a model: kind, version and state of each.
func states(m Model) string {
	var s []string
	for _, u := range m.Updates {
		s = append(s, fmt.Sprintf("%s%d.%d:%s", u.Kind[:1], u.Epoch, u.Version, u.State))
	}
	return strings.Join(s, " ")
}

func TestContents(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Name(t, brokers)
	a := publisher(t, PublisherOptions{Config: config(brokers), Topic: topic, Model: "m", MaxRecordBytes: 60_000})
	h := newHistory(3)
	var us []*stream.Update // us[i] has version i+1
	for range 9 {
		us = append(us, h.next(1))
	}
	publish(t, a, us[0], deltaOf(us[0], us[1]), us[2], deltaOf(us[2], us[3]), deltaOf(us[3], us[4]))
	b := publisher(t, PublisherOptions{Config: config(brokers), Topic: topic, Model: "other", MaxRecordBytes: 2000})
	publish(t, b, update("other", 1, 9, 100), update("other", 2, 4, 9000))

	read := func(model string) *Contents {
		t.Helper()
		c, err := Read(t.Context(), ReadOptions{Config: config(brokers), Topic: topic, Model: model})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	want := []string{
		"f1.1:superseded d1.2:superseded f1.3:current d1.4:applied d1.5:applied",
		"f1.9:superseded f2.4:current",
	}
	c := read("")
	// A broker may show a transaction only some time after it has been committed.
	for end := time.Now().Add(10 * time.Second); len(c.Models) < 2 || states(c.Models[1]) != want[1]; c = read("") {
		if time.Now().After(end) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if len(c.Models) != 2 || c.Rejected != 0 {
		t.Fatalf("contents are %+v", c)
	}
	for i, m := range c.Models {
		if got := states(m); got != want[i] {
			t.Errorf("%s: %s, want %s", m.Name, got, want[i])
		}
		// A subscriber gets the same.
		sameUpdate(t, m.Newest, next(t, subscriber(t, SubscriberOptions{Config: config(brokers), Topic: topic, Model: m.Name})))
		var records uint64
		for _, u := range m.Updates {
			if !u.Verified || u.Held != u.Chunks || u.Err != nil || u.Last-u.First != int64(u.Chunks)-1 {
				t.Errorf("%s: %+v", m.Name, u)
			}
			if superseded := u.State == StateSuperseded; superseded != (u.Offsets == nil) || superseded && (u.Evaluation != nil) != u.Verified {
				t.Errorf("%s: a %s update is described with offsets %v and evaluation %v", m.Name, u.State, u.Offsets, u.Evaluation)
			}
			records += u.Held
		}
		if m.Name == "m" && records != uint64(5+2*(len(us[0].Payload)/60_000)) {
			t.Errorf("%d records of m", records)
		}
	}
	full := c.Models[0].Updates[2]
	if full.Hash != us[2].Hash || full.Size != uint64(len(us[2].Payload)) || full.Examples != 3 || !maps.Equal(full.Offsets, us[2].Offsets) {
		t.Errorf("the full is described as %+v", full)
	}
	p := stream.Partition{Topic: topic}
	if c.First[p] != 0 || c.End[p] < int64(c.Records) || c.Records == 0 {
		t.Errorf("%d records at offsets %v to %v", c.Records, c.First, c.End)
	}

	// A delta whose base is lost, one that is damaged, one chunk of a full, one
	// of another that has been changed, and what is no update at all.
	publish(t, a, deltaOf(us[5], us[6]))
	put := func(r stream.Record) {
		t.Helper()
		kafkatest.Produce(t, brokers, r)
	}
	records := func(u *stream.Update) []stream.Record { return chunks(t, a.opt, u) }
	wrong := deltaOf(us[4], us[5])
	wrong.Payload = bytes.Clone(wrong.Payload)
	wrong.Payload[6] ^= 1
	wrong.Hash = xxhash.Sum64(wrong.Payload) // a patch for something else
	put(records(wrong)[0])
	put(records(us[7])[1])
	changed := records(us[8])[0]
	changed.Value[len(changed.Value)-1] ^= 1
	put(changed)
	changed.Value = []byte("nothing")
	put(changed)
	changed.Key, changed.Value = []byte("m/full/9"), nil // left over from a larger full
	put(changed)

	c = read("m")
	if len(c.Models) != 1 || c.Rejected != 3 || len(c.Rejections) != 3 || c.Tombstones != 1 {
		t.Fatalf("contents are %+v", c)
	}
	m := c.Models[0]
	const broken = "f1.1:superseded d1.2:superseded f1.3:current d1.4:applied d1.5:applied d1.6:damaged d1.7:unchained f1.8:incomplete f1.9:damaged"
	if got := states(m); got != broken {
		t.Errorf("%s, want %s", got, broken)
	}
	sameUpdate(t, m.Newest, us[4])
	for _, r := range c.Rejections {
		if r.Err == nil || r.Partition != p || r.Offset < 1 {
			t.Errorf("rejection %+v", r)
		}
	}
	if u := m.Updates[len(m.Updates)-1]; u.Err == nil || !strings.Contains(u.Err.Error(), "hash") || u.Verified {
		t.Errorf("the changed full is described as %+v", u)
	}
	if again := read("m"); again.End[p] != c.End[p] {
		t.Errorf("reading has added records: %v, %v", c.End, again.End)
	}
}

// A topic that does not exist is an error, and still does not exist.
func TestContentsMakesNoTopic(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Name(t, brokers)
	_, err := Read(t.Context(), ReadOptions{Config: config(brokers), Topic: topic})
	if _, ok := errors.AsType[*kafkaio.UnknownTopicError](err); !ok {
		t.Errorf("of a missing topic: %v", err)
	}
	if slices.Contains(kafkatest.Topics(t, brokers), topic) {
		t.Error("the topic has been made")
	}
	if _, err := Read(t.Context(), ReadOptions{Config: config(brokers)}); err == nil {
		t.Error("no topic is no error")
	}
}

// Records that are changed anywhere are survived, and never make another model.
func TestScanHostile(t *testing.T) {
	const seed = 5
	rng := rand.New(rand.NewPCG(seed, 1))
	u := update("m", 1, 1, 300)
	recs := chunks(t, PublisherOptions{MaxRecordBytes: 1000}, u)
	whole := 0
	for range 3000 {
		s := newScan(ReadOptions{})
		for _, r := range recs {
			r.Value = bytes.Clone(r.Value)
			for range rng.IntN(3) {
				r.Value[rng.IntN(len(r.Value))] ^= 1 << rng.IntN(8)
			}
			s.take(&r)
		}
		for _, m := range s.result().Models {
			if m.Newest == nil {
				continue
			}
			whole++
			if !bytes.Equal(m.Newest.Payload, u.Payload) {
				t.Fatalf("seed %d: a changed payload passes as whole", seed)
			}
		}
	}
	if whole == 0 || whole == 3000 {
		t.Errorf("seed %d: %d of 3000 are whole", seed, whole)
	}
}

// What a fenced writer adds late is superseded from the start, and described as
// such.
func TestScanLate(t *testing.T) {
	s := newScan(ReadOptions{})
	for _, u := range []*stream.Update{update("m", 2, 4, 300), update("m", 1, 10, 300)} {
		for _, r := range chunks(t, PublisherOptions{MaxRecordBytes: 1000}, u) {
			s.take(&r)
		}
	}
	m := s.result().Models[0]
	if got, want := states(m), "f1.10:superseded f2.4:current"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if old, now := m.Updates[0], m.Updates[1]; old.Offsets != nil || old.Evaluation != nil || now.Offsets == nil {
		t.Errorf("described as %+v and %+v", old, now)
	}
}
