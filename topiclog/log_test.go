package topiclog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// cluster is a model of a broker with topics of one partition and one transactional id.
// All transactions end at once, so there are no open ones.
type cluster struct {
	log    map[string][]stream.Record
	holder *member
	takes  int
	// before, if not nil, is called once at the next Write.
	before func()
	// lose says that the answer to the next commit is lost, and lost in which topics its
	// records are missing.
	lose bool
	lost string
}

// member is a Writer on a cluster.
type member struct {
	*cluster
	held bool
}

func (m *member) Take(context.Context) error {
	m.takes++
	m.holder, m.held = m, true
	return nil
}

func (m *member) Write(_ context.Context, recs ...stream.Record) error {
	if f := m.before; f != nil {
		m.before = nil
		f()
	}
	lost := m.lose
	m.lose = false
	if m.holder != m {
		m.held = false
		return kafkaio.ErrFenced
	}
	for _, r := range recs {
		if !lost || !strings.Contains(m.lost, r.Topic) {
			r.Offset = int64(len(m.log[r.Topic]))
			m.log[r.Topic] = append(m.log[r.Topic], r)
		}
	}
	if lost {
		m.held = false
		return errors.New("no answer")
	}
	return nil
}

func (m *member) Held() bool { return m.held }

func (m *member) Lost(context.Context) (bool, error) { return m.holder != m, nil }

func (m *member) Close() error { return nil }

func (m *member) Scan(_ context.Context, topics []string, from stream.Offsets, take func(*stream.Record)) (stream.Offsets, error) {
	ends := stream.Offsets{}
	for _, topic := range topics {
		p := stream.Partition{Topic: topic}
		for _, r := range m.log[topic][from[p]:] {
			take(&r)
		}
		ends[p] = int64(len(m.log[topic]))
	}
	return ends, nil
}

// retained is what compaction leaves of a topic.
func (c *cluster) retained(topic string) string {
	keep := map[string]string{}
	for _, r := range c.log[topic] {
		if keep[string(r.Key)] = string(r.Value); r.Value == nil {
			delete(keep, string(r.Key))
		}
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(keep)) {
		out = append(out, k+"="+keep[k])
	}
	return strings.Join(out, " ")
}

// table is a log of values by key, whose claims are "owner epoch".
type table struct {
	Log
	values map[string]string
}

func newTable(w Writer, topic string) *table {
	c := &table{Log: Log{Topics: []string{topic}, Name: "table", Writer: w}, values: map[string]string{}}
	c.Fold = func(r *stream.Record) bool {
		if string(r.Key) != "claim" {
			c.values[string(r.Key)] = string(r.Value)
			return strings.HasPrefix(string(r.Key), "k/")
		}
		var claim Claim
		_, err := fmt.Sscan(string(r.Value), &claim.Owner, &claim.Epoch)
		c.Saw(claim, err)
		return false
	}
	return c
}

func (c *table) rec(key, value string) stream.Record {
	r := stream.Record{Topic: c.Topics[0], Key: []byte(key), Value: []byte(value), Time: time.UnixMilli(1)}
	return r
}

func (c *table) claim(t *testing.T, owner string, epoch uint64, replace func() error) error {
	t.Helper()
	return c.Log.Claim(t.Context(), Claim{Owner: owner, Epoch: epoch}, c.rec("claim", fmt.Sprint(owner, " ", epoch)), replace)
}

// entry puts a value under keys.
func (c *table) entry(value string, keys ...string) Entry {
	e := Entry{Log: &c.Log, Check: func() (bool, error) { return c.values[keys[0]] == value, c.Fenced() }}
	for _, k := range keys {
		e.Records = append(e.Records, c.rec(k, value))
	}
	return e
}

// A second process is refused where it may not replace the first, without fencing it.
// Where it may, the first one finds out when it writes next, and whenever it checks.
func TestClaim(t *testing.T) {
	c := &cluster{log: map[string][]stream.Record{}}
	a, b := newTable(&member{cluster: c}, "t"), newTable(&member{cluster: c}, "t")
	if err := errors.Join(a.Scan(t.Context()), b.Scan(t.Context())); err != nil {
		t.Fatal(err)
	}
	if err := a.claim(t, "a", 1, nil); err != nil {
		t.Fatal(err)
	}
	takes := c.takes
	var fenced *FencedError
	if err := b.claim(t, "b", 2, nil); !errors.As(err, &fenced) || fenced.Claim.Owner != "a" || fenced.Own != 0 || c.takes != takes {
		t.Errorf("%v, the id was taken %d times", err, c.takes-takes)
	}
	if err := Append(t.Context(), a.entry("v", "k/0")); err != nil || c.takes != takes {
		t.Errorf("%v, the id was taken %d times", err, c.takes-takes)
	}
	// Now b knows of a's claim, and may replace it. While b writes, a takes the id back.
	c.before = func() { _ = a.Writer.Take(t.Context()) }
	if err := b.claim(t, "b", 2, nil); err != nil {
		t.Fatal(err)
	}
	for range 2 { // when it still holds the id, and when it does not
		if err := a.Check(t.Context()); !errors.As(err, &fenced) || fenced.Claim.Owner != "b" || fenced.Own != 1 {
			t.Errorf("%v", err)
		}
		if err := Append(t.Context(), a.entry("v", "k/1")); !errors.Is(err, checkpoint.ErrFenced) {
			t.Errorf("%v", err)
		}
	}
	if err := errors.Join(b.Check(t.Context()), Append(t.Context(), b.entry("v", "k/2"))); err != nil {
		t.Error(err)
	}
	if got := c.retained("t"); got != "claim=b 2 k/0=v k/2=v" {
		t.Errorf("the topic holds %q", got)
	}
	// Of a claim in between the caller decides.
	d := newTable(&member{cluster: c}, "t")
	asked := 0
	if err := d.claim(t, "d", 3, func() error { asked++; return nil }); err != nil || asked != 2 {
		t.Errorf("%v, asked %d times", err, asked)
	}
	// So it is where the id has been held since before that.
	e := newTable(&member{cluster: c}, "t")
	if err := errors.Join(e.Scan(t.Context()), e.Writer.Take(t.Context())); err != nil {
		t.Fatal(err)
	}
	c.log["t"] = append(c.log["t"], e.rec("claim", "x 9"))
	if err := e.claim(t, "e", 10, nil); !errors.As(err, &fenced) || fenced.Claim.Owner != "x" {
		t.Errorf("%v", err)
	}
	c.log["t"] = append(c.log["t"], d.rec("claim", "?"))
	if err := d.Scan(t.Context()); err == nil {
		t.Error("a claim that cannot be read is none")
	}
}

// Entries of two logs are written once, whether or not the transaction was committed
// whose answer is lost. Should a broker have committed it in one topic only, they are all
// written again.
func TestAppendOnce(t *testing.T) {
	for lost, want := range map[string]string{"": "2 2", "a b": "2 2", "a": "2 4", "b": "3 2"} {
		synctest.Test(t, func(t *testing.T) {
			c := &cluster{log: map[string][]stream.Record{}}
			w := &member{cluster: c}
			a, b := newTable(w, "a"), newTable(w, "b")
			calls := 0
			if err := Append(t.Context(), a.entry("v", "k/0")); err != nil {
				t.Fatal(err)
			}
			c.lose, c.lost = true, lost
			ea, eb := a.entry("v", "k/1"), b.entry("v", "k/1", "k/2")
			ea.Done = func() { calls++ }
			if err := Append(t.Context(), ea, eb); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(len(c.log["a"]), len(c.log["b"])); got != want || calls != 1 {
				t.Errorf("lost in %q: %s records, want %s; done %d times", lost, got, want, calls)
			}
		})
	}
}

// A shorter value takes the place of a longer one completely, whoever has written that,
// and of nothing else.
func TestReplace(t *testing.T) {
	c := &cluster{log: map[string][]stream.Record{}}
	a := newTable(&member{cluster: c}, "t")
	if err := Append(t.Context(), a.entry("v", "k/full/0", "k/full/1", "k/full/10", "k/other", "foreign")); err != nil {
		t.Fatal(err)
	}
	b := newTable(&member{cluster: c}, "t")
	if err := b.Scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, l := range []*table{b, a} {
		value := fmt.Sprint(i)
		e := l.entry(value, "k/full/0")
		e.Records = l.Replace(e.Records, "k/full/")
		if err := Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		if got := c.retained("t"); got != "foreign=v k/full/0="+value+" k/other=v" {
			t.Errorf("the topic holds %q", got)
		}
	}
	if again := b.Replace([]stream.Record{b.rec("k/full/0", "v")}, "k/full/", "foreign"); len(again) != 1 {
		t.Errorf("%d tombstones for records that are gone, or not its own", len(again)-1)
	}
}

// A log without claims is written as long as its lease is held, which is asked before
// the id is taken and after.
func TestLease(t *testing.T) {
	c := &cluster{log: map[string][]stream.Record{}}
	l := newTable(&member{cluster: c}, "t")
	lost := errors.New("the lease is lost")
	asked := 0
	l.Lease = func(context.Context) error {
		if asked++; asked > 2 {
			return lost
		}
		return nil
	}
	if err := Append(t.Context(), l.entry("v", "k/0")); err != nil || asked != 2 {
		t.Errorf("%v, asked %d times", err, asked)
	}
	c.holder = nil
	if err := Append(t.Context(), l.entry("v", "k/1")); !errors.Is(err, lost) || c.takes != 1 {
		t.Errorf("%v, the id was taken %d times", err, c.takes)
	}
}
