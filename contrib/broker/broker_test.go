package broker_test

import (
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/contrib/broker"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Records and topics outlive the broker at its address, and records with old
// timestamps outlive the cleaning of compacted topics.
func TestBrokerKeepsRecords(t *testing.T) {
	o := broker.Options{DataDir: t.TempDir()}
	b, err := broker.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	brokers := []string{b.Addr()}
	kafkatest.Create(t, brokers, "compacted", 1, map[string]string{"cleanup.policy": "compact"})
	kafkatest.Create(t, brokers, "plain", 1, nil)
	for _, topic := range []string{"compacted", "plain"} {
		for _, v := range []string{"a", "b", "c"} {
			kafkatest.Produce(t, brokers, stream.Record{Topic: topic, Key: []byte("k"), Value: []byte(v)})
		}
	}
	b.Compact()
	b.Close()
	o.Addr = b.Addr()
	if b, err = broker.Start(o); err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for topic, want := range map[string]string{"compacted": "bc", "plain": "abc"} { // the newest batch is never cleaned
		got := ""
		for _, r := range kafkatest.ReadAll(t, brokers, topic) {
			got += string(r.Value)
		}
		if got != want {
			t.Errorf("%s holds %q, want %q", topic, got, want)
		}
	}
}

func TestBrokerAddresses(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", "192.0.2.1:0", "example.com:0", "127.0.0.1", "127.0.0.1:70000", "127.0.0.1:x", ":0"} {
		if b, err := broker.Start(broker.Options{Addr: addr}); err == nil || !strings.Contains(err.Error(), addr) {
			t.Errorf("%q: %v", addr, err)
			if err == nil {
				b.Close()
			}
		}
	}
	for _, addr := range []string{"", "localhost:0", "127.0.0.1:0"} {
		b, err := broker.Start(broker.Options{Addr: addr})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := broker.Start(broker.Options{Addr: b.Addr()}); err == nil {
			t.Error("two brokers on one port")
		}
		b.Close()
	}
}

func TestBrokerOffersNoDescribeTopicPartitions(t *testing.T) {
	b, err := broker.Start(broker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	offered, err := kmsg.NewPtrApiVersionsRequest().RequestWith(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	metadata := false
	for _, k := range offered.ApiKeys {
		metadata = metadata || k.ApiKey == int16(kmsg.Metadata)
		if k.ApiKey == int16(kmsg.DescribeTopicPartitions) {
			t.Error("the broker offers DescribeTopicPartitions")
		}
	}
	if !metadata {
		t.Errorf("the broker does not offer Metadata: %v", offered.ApiKeys)
	}
}
