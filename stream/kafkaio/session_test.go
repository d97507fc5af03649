package kafkaio

import (
	"errors"
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
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "in"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
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
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "in", "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
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
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "in", "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	kafkatest.ProduceWith(t, kafkatest.Client(t, c.ListenAddrs(), kgo.RecordPartitioner(kgo.ManualPartitioner())), stream.Record{Topic: "in", Value: []byte("x")})
	s, err := NewSession(t.Context(), SessionOptions{Config: config(c.ListenAddrs()), Topics: []string{"in"}, Group: "g", SessionTimeout: 6 * time.Second, TopicWait: time.Minute})
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

// Another process with the same number takes the place of this one, which ends
// and does not take it back, whatever it was doing.
func TestSessionTakenOver(t *testing.T) {
	t.Parallel() // it waits
	for _, doing := range []string{"commit", "fetch"} {
		t.Run(doing, func(t *testing.T) {
			c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "in", "out"))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			kafkatest.ProduceWith(t, kafkatest.Client(t, c.ListenAddrs(), kgo.RecordPartitioner(kgo.ManualPartitioner())), stream.Record{Topic: "in", Value: []byte("x")})
			var s [2]*Session
			for i := range s {
				o := SessionOptions{Config: config(c.ListenAddrs()), Topics: []string{"in"}, Group: "g", SessionTimeout: 6 * time.Second, TopicWait: time.Minute}
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
			} else {
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
