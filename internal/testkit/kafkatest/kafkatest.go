// Package kafkatest provides brokers, topics and records for tests.
//
// By default each test has its own embedded broker. If the environment names a
// broker in STREAMSVM_TEST_BROKERS (host:port, comma-separated), that one is used
// instead, with topic names that are unique to the test and deleted when it ends.
// Tests that kill their broker take it from Start, which runs the script named by
// STREAMSVM_TEST_KAFKA (scripts/kafka.sh) if that is set.
//
// Topics are created and filled with franz-go's client, which shares no code with
// the client under test.
package kafkatest

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/contrib/broker"
	"github.com/streamsvm/streamsvm/internal/reach"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// patience bounds every single operation on a broker. A real broker on a busy
// machine may take seconds for the first topic after its start.
const patience = 60 * time.Second

// Real reports whether tests run against the broker of the environment.
func Real() bool { return os.Getenv("STREAMSVM_TEST_BROKERS") != "" }

// Brokers returns the bootstrap addresses of the broker for this test.
func Brokers(tb testing.TB) []string {
	tb.Helper()
	if env := os.Getenv("STREAMSVM_TEST_BROKERS"); env != "" {
		return strings.Split(env, ",")
	}
	return []string{Embedded(tb).Addr()}
}

// Embedded returns an embedded broker, whatever the environment says, that stops
// when the test ends.
func Embedded(tb testing.TB) *broker.Broker {
	tb.Helper()
	b, err := broker.Start(broker.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(b.Close)
	return b
}

// Broker is a broker that a test may kill. It keeps its address and its records.
type Broker struct {
	// Addr is its host:port.
	Addr string

	tb     testing.TB
	dir    string
	script string // "" if embedded
	inproc *broker.Broker
}

// Start starts a broker for this test alone.
func Start(tb testing.TB) *Broker {
	tb.Helper()
	b := &Broker{tb: tb, dir: filepath.Join(tb.TempDir(), "broker"), script: os.Getenv("STREAMSVM_TEST_KAFKA")}
	b.Restart()
	tb.Cleanup(b.Kill)
	return b
}

// Kill kills the broker: a real one with SIGKILL, an embedded one by closing it.
func (b *Broker) Kill() {
	b.tb.Helper()
	if b.script != "" {
		b.run("kill")
		return
	}
	b.inproc.Close()
}

// Restart starts the broker again at the same address.
func (b *Broker) Restart() {
	b.tb.Helper()
	if b.script != "" {
		b.Addr = b.run("start")
		return
	}
	var err error
	b.inproc, err = broker.Start(broker.Options{Addr: b.Addr, DataDir: b.dir})
	if err != nil {
		b.tb.Fatal(err)
	}
	b.Addr = b.inproc.Addr()
}

func (b *Broker) run(verb string) string {
	b.tb.Helper()
	out, err := exec.Command(b.script, verb, b.dir).Output()
	if err != nil {
		if x, ok := err.(*exec.ExitError); ok {
			err = fmt.Errorf("%w: %s", err, x.Stderr)
		}
		b.tb.Fatalf("%s %s: %v", b.script, verb, err)
	}
	return strings.TrimSpace(string(out))
}

// Client returns a franz-go client that is closed with the test. Records are
// produced to the partition they name.
func Client(tb testing.TB, brokers []string, opts ...kgo.Opt) *kgo.Client {
	tb.Helper()
	c := dial(tb, brokers, opts...)
	tb.Cleanup(c.Close)
	return c
}

func dial(tb testing.TB, brokers []string, opts ...kgo.Opt) *kgo.Client {
	tb.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(brokers...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.UnknownTopicRetries(50),
		kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
	}, opts...)...)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// Name returns a topic name that no other test uses. If the topic exists at the end
// of the test, it is deleted.
func Name(tb testing.TB, brokers []string) string {
	tb.Helper()
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, tb.Name())
	name := fmt.Sprintf("%.80s-%.8s", clean, strings.ToLower(rand.Text()))
	if Real() && slices.Equal(brokers, strings.Split(os.Getenv("STREAMSVM_TEST_BROKERS"), ",")) {
		tb.Cleanup(func() { drop(tb, brokers, name) })
	}
	return name
}

// drop deletes the topic if it exists.
func drop(tb testing.TB, brokers []string, topic string) {
	c, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		tb.Error(err)
		return
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TopicNames = []string{topic}
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, c)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil && err != kerr.UnknownTopicOrPartition {
		tb.Errorf("delete topic %s: %v", topic, err)
	}
}

// Topic creates a topic with a unique name, deleted at the end of the test, and
// returns the name. config may be nil.
func Topic(tb testing.TB, brokers []string, partitions int, config map[string]string) string {
	tb.Helper()
	name := Name(tb, brokers)
	Create(tb, brokers, name, partitions, config)
	return name
}

// Create creates the topic called name and waits until every partition has a
// leader. Records are kept forever unless config says otherwise: tests write
// timestamps from years ago, which a broker's own retention would delete.
func Create(tb testing.TB, brokers []string, name string, partitions int, config map[string]string) {
	tb.Helper()
	c := dial(tb, brokers)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req := kmsg.NewPtrCreateTopicsRequest()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, int32(partitions), -1
	all := map[string]string{"retention.ms": "-1"}
	maps.Copy(all, config)
	for k, v := range all {
		cfg := kmsg.NewCreateTopicsRequestTopicConfig()
		cfg.Name, cfg.Value = k, new(v)
		t.Configs = append(t.Configs, cfg)
	}
	req.Topics = append(req.Topics, t)
	for {
		resp, err := req.RequestWith(ctx, c)
		if err == nil {
			err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
		}
		// A recently deleted topic of this name may linger.
		if err == kerr.TopicAlreadyExists && ctx.Err() == nil {
			pause(ctx)
			continue
		}
		if err != nil {
			tb.Fatalf("create topic %s: %v", name, err)
		}
		break
	}
	waitLeaders(ctx, tb, c, name, partitions)
}

// AddPartitions raises the number of the topic's partitions to total.
func AddPartitions(tb testing.TB, brokers []string, topic string, total int) {
	tb.Helper()
	c := dial(tb, brokers)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req := kmsg.NewPtrCreatePartitionsRequest()
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = topic, int32(total)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, c)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		tb.Fatalf("add partitions to %s: %v", topic, err)
	}
	waitLeaders(ctx, tb, c, topic, total)
}

// Delete deletes the topic and waits until the broker no longer knows it.
func Delete(tb testing.TB, brokers []string, topic string) {
	tb.Helper()
	drop(tb, brokers, topic)
	c := dial(tb, brokers)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		t := metadata(ctx, tb, c, topic)
		if kerr.ErrorForCode(t.ErrorCode) == kerr.UnknownTopicOrPartition {
			return
		}
		pause(ctx)
	}
}

// DeleteRecords removes the records before offset from the partition.
func DeleteRecords(tb testing.TB, brokers []string, topic string, partition int32, offset int64) {
	tb.Helper()
	c := dial(tb, brokers)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req := kmsg.NewPtrDeleteRecordsRequest()
	t := kmsg.NewDeleteRecordsRequestTopic()
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Partition, p.Offset = partition, offset
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, c)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		tb.Fatalf("delete records of %s/%d before %d: %v", topic, partition, offset, err)
	}
}

func metadata(ctx context.Context, tb testing.TB, c *kgo.Client, topic string) kmsg.MetadataResponseTopic {
	tb.Helper()
	t, err := ask(ctx, c, topic)
	if err != nil {
		tb.Fatalf("metadata of %s: %v", topic, err)
	}
	return t
}

func ask(ctx context.Context, r kmsg.Requestor, topic string) (kmsg.MetadataResponseTopic, error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, r)
	if err != nil {
		return kmsg.MetadataResponseTopic{}, err
	}
	return resp.Topics[0], nil
}

// waitLeaders waits until each broker that answers knows the leaders of all partitions: the
// others of a cluster hear of a new topic a little later than the one that created it.
func waitLeaders(ctx context.Context, tb testing.TB, c *kgo.Client, topic string, partitions int) {
	tb.Helper()
	metadata(ctx, tb, c, topic) // finds the brokers
	for _, b := range c.DiscoveredBrokers() {
		for {
			t, err := ask(ctx, b, topic)
			if ctx.Err() != nil {
				tb.Fatalf("metadata of %s: %v", topic, ctx.Err())
			}
			led := 0
			for _, p := range t.Partitions {
				if p.ErrorCode == 0 && p.Leader >= 0 {
					led++
				}
			}
			if err != nil || led == partitions {
				break
			}
			pause(ctx)
		}
	}
}

// pause waits a little before asking again a broker that cannot notify.
func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(20 * time.Millisecond):
	}
}

// Produce appends the records, in order, to the partitions and topics that they
// name, and returns when all are acknowledged. Time is kept; a zero Time becomes
// the current one. Offset is ignored.
func Produce(tb testing.TB, brokers []string, recs ...stream.Record) {
	tb.Helper()
	c := dial(tb, brokers)
	defer c.Close()
	ProduceWith(tb, c, recs...)
}

// ProduceWith is Produce with a client that the caller has made.
func ProduceWith(tb testing.TB, c *kgo.Client, recs ...stream.Record) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out := make([]*kgo.Record, len(recs))
	for i, r := range recs {
		out[i] = &kgo.Record{Topic: r.Topic, Partition: r.Partition, Timestamp: r.Time, Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			out[i].Headers = append(out[i].Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
	}
	if err := c.ProduceSync(ctx, out...).FirstErr(); err != nil {
		tb.Fatalf("produce %d records: %v", len(recs), err)
	}
	for _, r := range out { // the client may be in a transaction
		if err := reach.Settle(ctx, c, r.Topic, r.Partition); err != nil {
			tb.Fatal(err)
		}
	}
}

// Abort writes records in a transaction and aborts it.
func Abort(tb testing.TB, brokers []string, recs ...stream.Record) {
	tb.Helper()
	c := dial(tb, brokers, kgo.TransactionalID("abort-"+rand.Text()))
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.BeginTransaction(); err != nil {
		tb.Fatal(err)
	}
	for i := range recs { // in a batch each
		ProduceWith(tb, c, recs[i])
	}
	if err := c.EndTransaction(ctx, kgo.TryAbort); err != nil {
		tb.Fatal(err)
	}
}

// AwaitDecided waits until every transaction that has written to the topic is over
// for readers, too: brokers confirm the end to the producer a moment earlier.
func AwaitDecided(tb testing.TB, brokers []string, topic string) {
	tb.Helper()
	ReadAll(tb, brokers, topic, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
}

// ReadAll returns every record in the topic, partition by partition, as franz-go
// reads them.
func ReadAll(tb testing.TB, brokers []string, topic string, opts ...kgo.Opt) []stream.Record {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	admin := dial(tb, brokers)
	defer admin.Close()
	ends := map[int32]int64{}
	for _, p := range metadata(ctx, tb, admin, topic).Partitions {
		if end := offset(ctx, tb, admin, topic, p.Partition, -1); end > offset(ctx, tb, admin, topic, p.Partition, -2) {
			ends[p.Partition] = end
		}
	}
	at := map[int32]kgo.Offset{}
	for p := range ends {
		at[p] = kgo.NewOffset().AtStart()
	}
	if len(ends) == 0 {
		return nil
	}
	c := dial(tb, brokers, append(opts, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: at}), kgo.FetchMaxWait(100*time.Millisecond), kgo.KeepControlRecords())...)
	defer c.Close()
	var out []stream.Record
	for len(ends) > 0 {
		fs := c.PollFetches(ctx)
		if err := fs.Err0(); err != nil {
			tb.Fatalf("read %s: %v", topic, err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			if r.Offset+1 >= ends[r.Partition] {
				delete(ends, r.Partition)
			}
			if r.Attrs.IsControl() {
				return
			}
			rec := stream.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Time: r.Timestamp.UTC(), Key: r.Key, Value: r.Value}
			for _, h := range r.Headers {
				rec.Headers = append(rec.Headers, stream.Header{Key: h.Key, Value: h.Value})
			}
			out = append(out, rec)
		})
	}
	slices.SortStableFunc(out, func(a, b stream.Record) int { return int(a.Partition) - int(b.Partition) })
	return out
}

// offset returns the partition's first (at −2) or end offset (at −1).
func offset(ctx context.Context, tb testing.TB, c *kgo.Client, topic string, partition int32, at int64) int64 {
	tb.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	t := kmsg.NewListOffsetsRequestTopic()
	q := kmsg.NewListOffsetsRequestTopicPartition()
	q.Partition, q.Timestamp = partition, at
	t.Topic, t.Partitions = topic, append(t.Partitions, q)
	req.ReplicaID = -1
	req.Topics = append(req.Topics, t)
	for {
		resp, err := req.RequestWith(ctx, c)
		if err == nil {
			err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
		}
		if err == nil {
			return resp.Topics[0].Partitions[0].Offset
		}
		if !kerr.IsRetriable(err) || ctx.Err() != nil { // a busy broker loses its leadership for a moment
			tb.Fatalf("list offsets of %s/%d: %v", topic, partition, err)
		}
		pause(ctx)
	}
}

// Committed returns what the group has committed for the topic.
func Committed(tb testing.TB, brokers []string, group, topic string) stream.Offsets {
	tb.Helper()
	c := dial(tb, brokers)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = group
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	req.Groups = append(req.Groups, g)
	resp, err := req.RequestWith(ctx, c)
	if err != nil {
		tb.Fatal(err)
	}
	out := stream.Offsets{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			out[stream.Partition{Topic: t.Topic, ID: p.Partition}] = p.Offset
		}
	}
	for _, g := range resp.Groups {
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				out[stream.Partition{Topic: t.Topic, ID: p.Partition}] = p.Offset
			}
		}
	}
	for p := range out {
		if p.Topic != topic {
			delete(out, p)
		}
	}
	return out
}

// Topics returns the names of all topics.
func Topics(tb testing.TB, brokers []string) []string {
	tb.Helper()
	c := dial(tb, brokers)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = nil
	resp, err := req.RequestWith(ctx, c)
	if err != nil {
		tb.Fatal(err)
	}
	var out []string
	for _, t := range resp.Topics {
		out = append(out, *t.Topic)
	}
	return out
}
