package kafkaio

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// A broker that goes away and comes back loses and repeats nothing, in either
// merge mode.
func TestSourceSurvivesBroker(t *testing.T) {
	t.Parallel() // it waits
	b := kafkatest.Start(t)
	brokers := []string{b.Addr}
	topic := kafkatest.Topic(t, brokers, 2, nil)
	var want []stream.Record
	for i := range 40 {
		for _, r := range fill(t, brokers, topic, 2, 25) {
			r.Offset += int64(i * 25)
			want = append(want, r)
		}
	}
	logs := map[Merge]*bytes.Buffer{MergeArrival: {}, MergeOrdered: {}}
	sources := map[Merge]*Source{}
	got := map[Merge][]stream.Record{}
	for merge, log := range logs {
		c := config(brokers)
		c.Log = slog.New(slog.NewTextHandler(log, nil))
		sources[merge] = open(t, SourceOptions{Config: c, Topics: []string{topic}, Merge: merge, UntilEnd: true, FetchMaxBytes: 1})
		got[merge] = take(t, sources[merge], 60)
	}
	for range 2 {
		b.Kill()
		for merge, s := range sources {
			// What is in the queues comes without a broker; then the outage is
			// noticed.
			for down := false; !down; {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				recs, _ := s.Fetch(ctx, nil)
				got[merge] = append(got[merge], recs...)
				cancel()
				s.mu.Lock()
				down = s.down > 0
				s.mu.Unlock()
			}
		}
		b.Restart()
		for merge, s := range sources {
			got[merge] = append(got[merge], take(t, s, 300)...)
		}
	}
	for merge, s := range sources {
		got[merge] = append(got[merge], take(t, s, -1)...)
		same(t, got[merge], want)
		s.Close()
		log := logs[merge].String()
		if down, up := strings.Count(log, "level=WARN"), strings.Count(log, "answer again"); down != up || down < 1 || down > 2 {
			t.Errorf("%s: %d reports of an outage and %d of its end, want as many, one or two:\n%s", merge, down, up, log)
		}
	}
	sameOrder(t, got[MergeOrdered], mergeOracle(byPartition(want)))
}

func TestSourceMaxDown(t *testing.T) {
	t.Parallel() // it waits
	b := kafkatest.Start(t)
	brokers := []string{b.Addr}
	topic := kafkatest.Topic(t, brokers, 1, nil)
	s := open(t, SourceOptions{Config: config(brokers), Topics: []string{topic}, MaxDown: 100 * time.Millisecond, MaxWait: 50 * time.Millisecond})
	b.Kill()
	_, err := s.Fetch(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), topic) || !strings.Contains(err.Error(), "offset 0") {
		t.Fatalf("%v", err)
	}
	if _, err := NewSource(t.Context(), SourceOptions{Config: config(brokers), Topics: []string{topic}, MaxDown: 100 * time.Millisecond}); err == nil {
		t.Fatal("made a source without a broker")
	}
}

// Compaction removes records at the end of a batch: a position in such a gap
// must not stop the reader, nor may it jump over what comes next.
func TestSourceCompactedBatch(t *testing.T) {
	brokers, compact := kafkatest.Brokers(t), func() {}
	if !kafkatest.Real() {
		b := kafkatest.Embedded(t)
		brokers, compact = []string{b.Addr()}, b.Compact
	}
	topic := kafkatest.Topic(t, brokers, 1, map[string]string{
		"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01",
	})
	keyed := func(from, n int, value string) (recs []stream.Record) {
		for i := range n {
			r := rec(topic, 0, 1_700_000_000_000, fmt.Sprint(value, i))
			r.Key = []byte(fmt.Sprint("key ", from+i))
			recs = append(recs, r)
		}
		return recs
	}
	c := kafkatest.Client(t, brokers, kgo.ProducerLinger(50*time.Millisecond))
	kafkatest.ProduceWith(t, c, keyed(0, 100, "first")...)  // one batch, offsets 0 to 99
	kafkatest.ProduceWith(t, c, keyed(40, 60, "second")...) // replaces 40 to 99
	deadline, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var left []stream.Record
	for n := 0; ; n++ {
		// A real broker rolls its segment, and so gets to compact it, when
		// something with a later timestamp is appended.
		more := keyed(1000+n, 1, "more")
		more[0].Time = more[0].Time.Add(time.Duration(n+1) * time.Second)
		kafkatest.ProduceWith(t, c, more...)
		compact()
		left = kafkatest.ReadAll(t, brokers, topic)
		if left[40].Offset != 40 {
			break
		}
		if deadline.Err() != nil {
			t.Fatal("the broker does not compact")
		}
		time.Sleep(100 * time.Millisecond)
	}
	stop := left[len(left)-1].Offset + 1
	p := stream.Partition{Topic: topic, ID: 0}
	for _, at := range []int64{0, 39, 40, 41, 70, 99, 100} {
		for _, size := range []int{1, 0} {
			var want []stream.Record
			for _, r := range left {
				if r.Offset >= at {
					want = append(want, r)
				}
			}
			s := open(t, SourceOptions{Config: config(brokers), Topics: []string{topic}, Offsets: stream.Offsets{p: at},
				StopAt: stream.Offsets{p: stop}, FetchMaxBytes: size})
			sameOrder(t, take(t, s, -1), want)
			// An end inside the gap is reached too.
			if at < 100 {
				s := open(t, SourceOptions{Config: config(brokers), Topics: []string{topic}, Offsets: stream.Offsets{p: at},
					StopAt: stream.Offsets{p: 99}, FetchMaxBytes: size})
				sameOrder(t, take(t, s, -1), left[min(at, 40):40])
			}
		}
	}
}

// Records of aborted transactions are not examples.
func TestSourceTransactions(t *testing.T) {
	if !kafkatest.Real() {
		t.Skip("the embedded broker does not name the aborted transactions; set STREAMSVM_TEST_BROKERS")
	}
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Topic(t, brokers, 1, nil)
	c := kafkatest.Client(t, brokers, kgo.TransactionalID(topic))
	other := kafkatest.Client(t, brokers, kgo.TransactionalID(topic+"-other"))
	begin := func(c *kgo.Client) {
		if err := c.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
	}
	end := func(c *kgo.Client, how kgo.TransactionEndTry) {
		if err := c.EndTransaction(t.Context(), how); err != nil {
			t.Fatal(err)
		}
	}
	var committed, all []stream.Record
	put := func(c *kgo.Client, keep bool) {
		r := rec(topic, 0, 1, fmt.Sprint("record ", len(all)))
		kafkatest.ProduceWith(t, c, r)
		all = append(all, r)
		if keep {
			committed = append(committed, r)
		}
	}
	for _, keep := range []bool{true, false, false, true} {
		begin(c)
		begin(other)
		put(c, keep)
		put(other, !keep)
		put(c, keep)
		end(c, kgo.TransactionEndTry(keep))
		put(other, !keep)
		end(other, kgo.TransactionEndTry(!keep))
	}
	kafkatest.AwaitDecided(t, brokers, topic)
	for _, size := range []int{1, 0} {
		s := open(t, SourceOptions{Config: config(brokers), Topics: []string{topic}, UntilEnd: true, FetchMaxBytes: size})
		got := take(t, s, -1)
		if len(got) != len(committed) {
			t.Fatalf("got %d records, want %d", len(got), len(committed))
		}
		for i := range got {
			if string(got[i].Value) != string(committed[i].Value) {
				t.Errorf("record %d is %q, want %q", i, got[i].Value, committed[i].Value)
			}
		}
		for p, lag := range s.Lag() {
			if lag != 0 {
				t.Errorf("lag of %v at the end is %d", p, lag)
			}
		}
	}
}

// A transaction that is undone before it has written anything leaves a marker
// all the same, which must not be taken for the end of the next one.
func TestSourceEmptyTransaction(t *testing.T) {
	if !kafkatest.Real() {
		t.Skip("the embedded broker does not name the aborted transactions; set STREAMSVM_TEST_BROKERS")
	}
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Topic(t, brokers, 1, nil)
	// A producer undoes what the one before had open under its id.
	producer := func() *kgo.Client {
		c := kafkatest.Client(t, brokers, kgo.TransactionalID(topic), kgo.MaxVersions(kversion.V3_5_0()))
		if _, _, err := c.ProducerID(t.Context()); err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := producer()
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	var err error
	if req.ProducerID, req.ProducerEpoch, err = c.ProducerID(t.Context()); err != nil {
		t.Fatal(err)
	}
	req.TransactionalID = topic
	req.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: topic, Partitions: []int32{0}}}
	resp, err := req.RequestWith(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode); err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"undone", "kept"} {
		c = producer()
		if err := c.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		kafkatest.ProduceWith(t, c, rec(topic, 0, 1, value))
	}
	if err := c.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	kafkatest.AwaitDecided(t, brokers, topic)
	got := take(t, open(t, SourceOptions{Config: config(brokers), Topics: []string{topic}, UntilEnd: true}), -1)
	if len(got) != 1 || string(got[0].Value) != "kept" {
		t.Errorf("got %d records, want the one that was kept: %v", len(got), got)
	}
}
