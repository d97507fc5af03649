package kafkaio

import (
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// stall keeps franz-go's client from finishing what it does about a topic that it
// has just heard of, once a record for partition 1 has its turn.
type stall struct{ d time.Duration }

func (s stall) OnProduceRecordPartitioned(r *kgo.Record, _ int32) {
	if r.Partition == 1 {
		time.Sleep(s.d)
	}
}

// The first transaction of a client is committed when Write returns, also where
// the brokers answer before the client has come to know where it has written.
func TestFirstTransaction(t *testing.T) {
	c := kafkatest.Fake(t, kfake.NumBrokers(2))
	admin := kafkatest.Client(t, c.ListenAddrs())
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = "out", -1, -1
	for p := range int32(2) { // of different brokers, each of which the client writes to by itself
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = p, []int32{p}
		rt.ReplicaAssignment = append(rt.ReplicaAssignment, a)
	}
	req.Topics = append(req.Topics, rt)
	if resp, err := req.RequestWith(t.Context(), admin); err != nil || resp.Topics[0].ErrorCode != 0 {
		t.Fatal(resp, err)
	}
	for p := range int32(2) {
		if err := c.MoveTopicPartition("out", p, p); err != nil {
			t.Fatal(err)
		}
	}
	other := make(chan struct{})
	c.ControlKey(int16(kmsg.Metadata), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if m := r.(*kmsg.MetadataRequest); len(m.Topics) > 0 && m.Topics[0].Topic != nil && *m.Topics[0].Topic == "out" {
			c.SleepControl(func() { <-other })
		}
		return nil, nil, false
	})

	tr, err := NewTransactor(TransactorOptions{Config: config(c.ListenAddrs()), ID: "id", more: []kgo.Opt{kgo.WithHooks(stall{300 * time.Millisecond})}})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if err := tr.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(other)
		time.Sleep(100 * time.Millisecond) // Write has begun
		tr.kgo.Produce(t.Context(), &kgo.Record{Topic: "out", Partition: 1, Value: []byte("other")}, nil)
	}()
	if err := tr.Write(t.Context(), stream.Record{Topic: "out", Value: []byte("first")}); err != nil {
		t.Fatal(err)
	}
	describe := kmsg.NewPtrDescribeTransactionsRequest()
	describe.TransactionalIDs = []string{"id"}
	resp, err := describe.RequestWith(t.Context(), admin)
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range resp.TransactionStates[0].Topics {
		for _, p := range topic.Partitions {
			if p == 0 {
				t.Errorf("partition 0 is in a transaction that is %s", resp.TransactionStates[0].State)
			}
		}
	}
}
