package kafkaio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
)

func produce(t testing.TB, o ProducerOptions) *Producer {
	t.Helper()
	if o.Log == nil {
		o.Log = quiet
	}
	p, err := NewProducer(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// What the producer writes is what another client reads.
func TestProducer(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Topic(t, brokers, 3, nil)
	var want []stream.Record
	for p := range int32(3) {
		for i := range 200 {
			r := rec(topic, p, int64(1_700_000_000_000+(i*7919)%1000), strings.Repeat("v", i))
			r.Offset = int64(i)
			switch i % 4 {
			case 1:
				r.Key, r.Value = []byte("key"), nil
			case 2:
				r.Key, r.Value = []byte{}, []byte{}
			case 3:
				r.Headers = []stream.Header{{Key: "h", Value: []byte("x")}, {Key: "", Value: nil}}
			}
			want = append(want, r)
		}
	}
	p := produce(t, ProducerOptions{Config: config(brokers), Partition: Explicit, BatchBytes: 3000})
	for i := range want {
		r := want[i]
		r.Value = bytes.Clone(r.Value)
		if err := p.Produce(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		clear(r.Value) // the bytes are the caller's again
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	sameOrder(t, kafkatest.ReadAll(t, brokers, topic), want)
}

func TestProducerPartitions(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Topic(t, brokers, 4, nil)
	p := produce(t, ProducerOptions{Config: config(brokers)})
	var recs []stream.Record
	for i := range 400 {
		r := rec(topic, 0, 1, "x")
		if i%2 == 0 {
			r.Key = []byte(fmt.Sprint("key ", i%40))
		}
		recs = append(recs, r)
	}
	if err := p.Produce(t.Context(), recs...); err != nil {
		t.Fatal(err)
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	where := map[string]int32{}
	keyless := map[int32]int{}
	for _, r := range kafkatest.ReadAll(t, brokers, topic) {
		if r.Key == nil {
			keyless[r.Partition]++
			continue
		}
		if q, ok := where[string(r.Key)]; ok && q != r.Partition {
			t.Errorf("key %q is in partitions %d and %d", r.Key, q, r.Partition)
		}
		where[string(r.Key)] = r.Partition
	}
	if len(where) != 20 || len(keyless) != 4 || keyless[0] != 50 || keyless[3] != 50 {
		t.Errorf("keys %v, records without key per partition %v", where, keyless)
	}
	// Java: Utils.toPositive(Utils.murmur2("foobar".getBytes())) == 1357151166,
	// the value in Kafka's own test.
	if got := ByKey()(&stream.Record{Key: []byte("foobar")}, 1000); got != (-790332482&0x7fffffff)%1000 {
		t.Errorf("murmur2 partition of foobar is %d", got)
	}
}

func TestProducerErrors(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Topic(t, brokers, 1, map[string]string{"max.message.bytes": "1000"})
	p := produce(t, ProducerOptions{Config: config(brokers), Partition: Explicit})
	var ue *UnknownTopicError
	if err := p.Produce(t.Context(), rec(topic, 1, 1, "x")); !errors.As(err, &ue) || ue.Partition != 1 {
		t.Errorf("partition 1: %v", err)
	}
	err := p.Produce(t.Context(), rec(topic, 0, 1, strings.Repeat("x", 2000)))
	if err == nil {
		err = p.Flush(t.Context())
	}
	if !errors.Is(err, kafka.MessageSizeTooLarge) || !strings.Contains(err.Error(), topic) {
		t.Errorf("too large: %v", err)
	}
	if err := p.Produce(t.Context(), rec(topic, 0, 1, "x")); !errors.Is(err, kafka.MessageSizeTooLarge) {
		t.Errorf("after an error: %v", err)
	}
}

// While the broker is killed again and again, several goroutines produce; in
// the end every record is there once, those of a goroutine in order. The
// timestamps are new, or Apache Kafka would forget the producer when it
// restarts.
func TestProducerSurvivesBroker(t *testing.T) {
	t.Parallel() // it waits
	b := kafkatest.Start(t)
	brokers := []string{b.Addr}
	topic := kafkatest.Topic(t, brokers, 2, nil)
	cfg := config(brokers)
	cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	p := produce(t, ProducerOptions{Config: cfg, Partition: Explicit, BatchBytes: 2000})
	const workers, n = 3, 4000
	var wg sync.WaitGroup
	third := make(chan bool, workers*3)
	for w := range workers {
		rng := rand.New(rand.NewPCG(uint64(w), 1))
		wg.Go(func() {
			for i := range n {
				if err := p.Produce(t.Context(), rec(topic, int32(rng.IntN(2)), time.Now().UnixMilli(), fmt.Sprintf("%d %d", w, i))); err != nil {
					t.Error(err)
					return
				}
				if i%(n/3) == n/6 {
					third <- true
				}
			}
		})
	}
	for range 2 {
		for range workers {
			<-third
		}
		b.Kill()
		b.Restart()
	}
	wg.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	last := map[[2]int]int{}
	for _, r := range kafkatest.ReadAll(t, brokers, topic) {
		var w, i int
		fmt.Sscan(string(r.Value), &w, &i)
		if seen[string(r.Value)] {
			t.Fatalf("record %q is there twice, again at partition %d offset %d", r.Value, r.Partition, r.Offset)
		}
		seen[string(r.Value)] = true
		k := [2]int{w, int(r.Partition)}
		if before, ok := last[k]; ok && i <= before {
			t.Fatalf("worker %d: record %d comes after %d", w, i, before)
		}
		last[k] = i
	}
	if len(seen) != workers*n {
		t.Fatalf("%d records of %d are there", len(seen), workers*n)
	}
}

func TestCreateTopic(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	spec := TopicSpec{Name: kafkatest.Name(t, brokers), Partitions: 3, Config: map[string]string{"retention.ms": "1000"}}
	for _, want := range []bool{true, false} {
		created, err := CreateTopic(t.Context(), config(brokers), spec)
		if err != nil || created != want {
			t.Fatalf("created %v, %v; want %v", created, err, want)
		}
	}
	s := open(t, SourceOptions{Config: config(brokers), Topics: []string{spec.Name}})
	if n := len(s.Start()); n != 3 {
		t.Errorf("the topic has %d partitions", n)
	}
	if c, err := TopicConfig(t.Context(), config(brokers), spec.Name); c["retention.ms"] != "1000" || err != nil {
		t.Errorf("settings %v, %v", c, err)
	}
}

// With the broker gone for longer than MaxDown, producing ends with an error
// that says where.
func TestProducerMaxDown(t *testing.T) {
	t.Parallel() // it waits
	b := kafkatest.Start(t)
	brokers := []string{b.Addr}
	topic := kafkatest.Topic(t, brokers, 1, nil)
	p := produce(t, ProducerOptions{Config: config(brokers), MaxDown: time.Second})
	if err := p.Produce(t.Context(), rec(topic, 0, 1, "x")); err != nil {
		t.Fatal(err)
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := p.Produce(ctx, rec(topic, 0, 1, "y"))
	if err == nil {
		err = p.Flush(ctx)
	}
	if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "topic "+topic+" partition 0") {
		t.Errorf("%v", err)
	}
	if again := p.Produce(ctx, rec(topic, 0, 1, "z")); again != err {
		t.Errorf("after an error: %v", again)
	}
}
