package kafkaio

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A session says where it runs whenever it fetches.
func TestSessionRack(t *testing.T) {
	t.Parallel() // it waits
	c := kafkatest.Fake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "in"))
	racks := make(chan string, 1)
	c.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		select {
		case racks <- r.(*kmsg.FetchRequest).Rack:
		default:
		}
		return nil, nil, false
	})
	kafkatest.ProduceWith(t, kafkatest.Client(t, c.ListenAddrs(), kgo.RecordPartitioner(kgo.ManualPartitioner())), stream.Record{Topic: "in", Value: []byte("x")})
	s, err := NewSession(t.Context(), SessionOptions{Config: config(c.ListenAddrs()), Topics: []string{"in"}, Group: "g", Rack: "west", TopicWait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if recs, err := s.Fetch(t.Context(), nil); err != nil || len(recs) != 1 {
		t.Fatal(recs, err)
	}
	if got := <-racks; got != "west" {
		t.Errorf("fetched from rack %q", got)
	}
}

// A group that begins at the end, and whose first transaction is undone, reads
// again from where it began.
func TestSessionLatest(t *testing.T) {
	t.Parallel() // it waits
	c := kafkatest.Fake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "in", "out"))
	p := kafkatest.Client(t, c.ListenAddrs(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	write := func(values ...string) {
		for _, v := range values {
			kafkatest.ProduceWith(t, p, stream.Record{Topic: "in", Value: []byte(v)})
		}
	}
	write("old", "older")
	s, err := NewSession(t.Context(), SessionOptions{Config: config(c.ListenAddrs()), Topics: []string{"in"}, Group: "g", Start: StartLatest, TopicWait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	go func() {
		time.Sleep(3 * time.Second)
		write("new", "newer")
	}()
	var recs []stream.Record
	for len(recs) < 2 {
		if recs, err = s.Fetch(t.Context(), recs); err != nil {
			t.Fatal(err)
		}
	}
	refusePositions(c, kerr.RebalanceInProgress)
	for _, committed := range []bool{false, true} {
		if string(recs[0].Value) != "new" || len(recs) != 2 {
			t.Fatalf("%d records, the first one %q", len(recs), recs[0].Value)
		}
		got, err := s.Commit(t.Context(), stream.Record{Topic: "out", Value: []byte("x")})
		if err != nil || got != committed {
			t.Fatalf("committed: %t, %v", got, err)
		}
		if !committed {
			recs = recs[:0]
			for len(recs) < 2 {
				if recs, err = s.Fetch(t.Context(), recs); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// refusePositions has the next positions that are committed in a transaction
// refused by err.
func refusePositions(c *kfake.Cluster, err *kerr.Error) {
	c.ControlKey(int16(kmsg.TxnOffsetCommit), func(r kmsg.Request) (kmsg.Response, error, bool) {
		q := r.(*kmsg.TxnOffsetCommitRequest)
		resp := q.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
		for _, topic := range q.Topics {
			rt := kmsg.NewTxnOffsetCommitResponseTopic()
			rt.Topic = topic.Topic
			for _, part := range topic.Partitions {
				rp := kmsg.NewTxnOffsetCommitResponseTopicPartition()
				rp.Partition, rp.ErrorCode = part.Partition, err.Code
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, true
	})
}

// Positions of a member that is joining anew under another id are refused as if
// another process were this member. It is not: the session goes on, and its
// records come again.
func TestSessionFencedByItself(t *testing.T) {
	t.Parallel() // it waits
	c := kafkatest.Fake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "in", "out"))
	kafkatest.ProduceWith(t, kafkatest.Client(t, c.ListenAddrs(), kgo.RecordPartitioner(kgo.ManualPartitioner())), stream.Record{Topic: "in", Value: []byte("x")})
	s, err := NewSession(t.Context(), SessionOptions{Config: config(c.ListenAddrs()), Topics: []string{"in"}, Group: "g", Instance: "one", SessionTimeout: 6 * time.Second, TopicWait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	refusePositions(c, kerr.FencedInstanceID)
	for _, committed := range []bool{false, true} {
		if recs, err := s.Fetch(t.Context(), nil); err != nil || len(recs) != 1 {
			t.Fatal(recs, err)
		}
		if got, err := s.Commit(t.Context(), stream.Record{Topic: "out", Value: []byte("y")}); err != nil || got != committed {
			t.Fatalf("committed: %t, %v", got, err)
		}
	}
}

// Another process with the same name takes the place of this one, which ends
// and does not take it back, whatever it was doing.
func TestSessionTakenOver(t *testing.T) {
	t.Parallel() // it waits
	for _, doing := range []string{"commit", "fetch"} {
		t.Run(doing, func(t *testing.T) {
			c := kafkatest.Fake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "in", "out"))
			kafkatest.ProduceWith(t, kafkatest.Client(t, c.ListenAddrs(), kgo.RecordPartitioner(kgo.ManualPartitioner())), stream.Record{Topic: "in", Value: []byte("x")})
			var s [2]*Session
			var err error
			for i := range s {
				o := SessionOptions{Config: config(c.ListenAddrs()), Topics: []string{"in"}, Group: "g", Instance: "one", SessionTimeout: 6 * time.Second, TopicWait: time.Minute}
				if s[i], err = NewSession(t.Context(), o); err != nil {
					t.Fatal(err)
				}
				defer s[i].Close()
				if recs, err := s[i].Fetch(t.Context(), nil); err != nil || len(recs) != 1 {
					t.Fatal(recs, err)
				}
			}
			if doing == "commit" {
				var committed bool
				if committed, err = s[0].Commit(t.Context(), stream.Record{Topic: "out", Value: []byte("y")}); committed {
					t.Error("the one that was replaced has committed")
				}
			}
			if err == nil { // if a heartbeat came before the commit, Fetch says why
				_, err = s[0].Fetch(t.Context(), nil)
			}
			if !errors.Is(err, ErrFenced) {
				t.Errorf("the one that was replaced: %v", err)
			}
			if committed, err := s[1].Commit(t.Context(), stream.Record{Topic: "out", Value: []byte("y")}); err != nil || !committed {
				t.Errorf("the one that took over: %t, %v", committed, err)
			}
		})
	}
}

// Equal members share the partitions, without a name or a number. When one of them ends,
// others get its partitions at once, long before its session would be over; its records
// are read once.
func TestSessionEqual(t *testing.T) {
	t.Parallel() // it waits
	c := kafkatest.Fake(t, kfake.NumBrokers(1), kfake.SeedTopics(4, "in", "out"))
	p := kafkatest.Client(t, c.ListenAddrs(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	type seen struct {
		member    int
		partition int32
		offset    int64
	}
	committed := make(chan seen, 1000)
	var ended [2]chan error
	var stop [2]context.CancelFunc
	for m := range ended {
		ctx, cancel := context.WithCancel(t.Context())
		ended[m], stop[m] = make(chan error, 1), cancel
		s, err := NewSession(ctx, SessionOptions{Config: config(c.ListenAddrs()), Topics: []string{"in"}, Group: "g", SessionTimeout: 5 * time.Minute, MaxWait: time.Millisecond, TopicWait: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			var err error
			for {
				var recs []stream.Record
				if recs, err = s.Fetch(ctx, nil); err != nil {
					break
				}
				var out []stream.Record
				for _, r := range recs {
					out = append(out, stream.Record{Topic: "out", Partition: r.Partition, Value: r.Value})
				}
				var ok bool
				if ok, err = s.Commit(ctx, out...); err != nil {
					break
				}
				for _, r := range recs {
					if ok {
						committed <- seen{m, r.Partition, r.Offset}
					}
				}
			}
			if ctx.Err() != nil {
				err = nil
			}
			ended[m] <- errors.Join(err, s.Close())
		}()
	}
	next := [4]int64{}
	// round writes one record to each partition, and returns who has read which.
	round := func() (by [4]int) {
		for id := range int32(4) {
			kafkatest.ProduceWith(t, p, stream.Record{Topic: "in", Partition: id, Value: []byte("x")})
		}
		for range 4 {
			g := <-committed
			if g.offset != next[g.partition] {
				t.Errorf("partition %d: offset %d, want %d", g.partition, g.offset, next[g.partition])
			}
			next[g.partition] = g.offset + 1
			by[g.partition] = g.member
		}
		return by
	}
	for both := false; !both; {
		by := round()
		both = slices.Contains(by[:], 0) && slices.Contains(by[:], 1)
	}
	stop[0]()
	if err := <-ended[0]; err != nil {
		t.Error(err)
	}
	if by := round(); by != [4]int{1, 1, 1, 1} {
		t.Errorf("after the end of one the partitions are read by %v", by)
	}
	stop[1]()
	if err := <-ended[1]; err != nil {
		t.Error(err)
	}
	if n := len(kafkatest.ReadAll(t, c.ListenAddrs(), "out", kgo.FetchIsolationLevel(kgo.ReadCommitted()))); int64(n) != next[0]+next[1]+next[2]+next[3] {
		t.Errorf("%d records are written, %v read", n, next)
	}
}
