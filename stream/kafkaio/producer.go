package kafkaio

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/semaphore"
)

// Partitioner chooses one of n partitions for a record.
type Partitioner func(r *stream.Record, n int) int32

// Explicit sends a record to the partition it names.
func Explicit(r *stream.Record, _ int) int32 { return r.Partition }

// ByKey sends records with equal keys to the same partition, the one that Java's
// default partitioner chooses (murmur2), and distributes records without a key
// round robin. Each Producer needs its own.
func ByKey() Partitioner {
	var all []int
	turn := -1
	return func(r *stream.Record, n int) int32 {
		if r.Key == nil {
			turn = (turn + 1) % n
			return int32(turn)
		}
		for len(all) < n {
			all = append(all, len(all))
		}
		return int32(kafka.Murmur2Balancer{}.Balance(kafka.Message{Key: r.Key}, all[:n]...))
	}
}

// ProducerOptions are the options of NewProducer.
type ProducerOptions struct {
	Config
	// Partition chooses the partitions; nil is ByKey().
	Partition Partitioner
	// BatchBytes bounds the data in flight to a partition, and so a batch before
	// compression, unless a single record is larger; 0 is 512 KiB. A topic's
	// max.message.bytes must allow it.
	BatchBytes int
	// MaxDown ends producing with an error when a record has not been accepted
	// for this long; 0 waits forever.
	MaxDown time.Duration
}

// Producer writes records. A batch counts as written when all in-sync replicas
// have it. Batches carry a producer id and sequence numbers, so that a batch
// that is sent again because its answer was lost is stored only once, even after
// a restart of the broker. A record can still be stored twice
//   - when the producing program sends it twice, e.g. after a crash of its own;
//   - when the broker ends without having answered, and the batch's timestamps
//     are older than its producer.id.expiration.ms (1 day): on restart, Apache
//     Kafka uses timestamps to decide which producers to remember, and accepts
//     a batch of a forgotten one;
//   - when the broker has lost its state of the producer and says so, which is
//     logged.
//
// Records keep the order of Produce inside a partition. Batches grow with
// the load.
//
// A Producer may be used by several goroutines.
type Producer struct {
	opt    ProducerOptions
	c      *client
	kgo    *kgo.Client
	ctx    context.Context // of all records: an error cancels it
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	topics map[string][]*partitionQueue // by partition
}

// partitionQueue bounds the data in flight to one partition.
type partitionQueue struct {
	id       stream.Partition
	capacity *semaphore.Weighted // in bytes
	// The number of records in flight, and the time, in ns, since which none of them
	// has been answered.
	pending, since atomic.Int64
}

// batchOverhead is the size that Kafka's message format 2 adds to the records of a batch.
const batchOverhead = 61

// NewProducer connects to the cluster. It blocks while no broker answers,
// for up to MaxDown.
func NewProducer(ctx context.Context, o ProducerOptions) (*Producer, error) {
	if o.BatchBytes < 0 {
		return nil, fmt.Errorf("kafka producer: batch of %d bytes", o.BatchBytes)
	}
	o.BatchBytes = cmp.Or(o.BatchBytes, 512<<10)
	if o.Partition == nil {
		o.Partition = ByKey()
	}
	c, err := o.Config.open(nil)
	if err != nil {
		return nil, err
	}
	p := &Producer{opt: o, c: c, topics: map[string][]*partitionQueue{}}
	opts := []kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		// Produce bounds memory and batches, so that the broker decides about a record
		// larger than a batch.
		kgo.BrokerMaxWriteBytes(1 << 30), kgo.ProducerBatchMaxBytes(1<<30 - 1<<20), kgo.MaxBufferedRecords(1 << 30),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(0), kgo.ProduceRequestTimeout(c.timeout),
		// watch decides how long to retry: kgo's own limit counts from a record's
		// timestamp, which may be old.
		kgo.AllowIdempotentProduceCancellation(), kgo.UnknownTopicRetries(-1),
		kgo.ProducerOnDataLossDetected(func(topic string, partition int32) {
			c.log.Warn("kafka: the broker has forgotten this producer; if it had stored the batch, its records are there twice",
				"topic", topic, "partition", partition)
		}),
	}
	// kgo gets its own producer id, but this finds out beforehand whether that is
	// allowed.
	err = retry(ctx, c, "get a producer id", o.MaxDown, func(ctx context.Context) error {
		resp, err := c.InitProducerID(ctx, &kafka.InitProducerIDRequest{ProducerID: -1, ProducerEpoch: -1})
		if err == nil {
			err = resp.Error
		}
		return err
	})
	if errors.Is(err, kafka.ClusterAuthorizationFailed) {
		c.log.Warn("kafka: not allowed to produce idempotently, a retry may store records twice")
		opts, err = append(opts, kgo.DisableIdempotentWrite()), nil
	}
	if err == nil {
		p.kgo, err = c.cfg.reach().Client(opts...)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	crash.Go(p.watch)
	return p, nil
}

// queues returns the queues of the partitions of a topic.
func (p *Producer) queues(ctx context.Context, topic string) ([]*partitionQueue, error) {
	p.mu.Lock()
	queues := p.topics[topic]
	p.mu.Unlock()
	if queues != nil {
		return queues, nil
	}
	// A topic that has just been created may be missing in the cached metadata.
	found, err := p.c.waitTopics(ctx, []string{topic}, 2*metadataTTL, p.opt.MaxDown)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.topics[topic] == nil {
		for i := range found[topic] {
			id := stream.Partition{Topic: topic, ID: int32(i)}
			p.topics[topic] = append(p.topics[topic], &partitionQueue{id: id, capacity: semaphore.NewWeighted(p.capacity())})
		}
	}
	return p.topics[topic], nil
}

func (p *Producer) capacity() int64 { return max(1, int64(p.opt.BatchBytes)-batchOverhead) }

// Produce takes over the records, in order, and returns when all are in flight,
// not when they are written: see Flush. It blocks while the brokers do not keep
// up. The bytes may be reused afterwards. A zero Time becomes the current time.
// An error of an earlier record is returned by every later call.
func (p *Producer) Produce(ctx context.Context, recs ...stream.Record) error {
	out := copies(recs)
	var queues []*partitionQueue
	for i := range out {
		k := &out[i]
		if i == 0 || k.Topic != out[i-1].Topic {
			var err error
			if queues, err = p.queues(ctx, k.Topic); err != nil {
				return err
			}
		}
		p.mu.Lock()
		k.Partition = p.opt.Partition(&recs[i], len(queues))
		p.mu.Unlock()
		if k.Partition < 0 || int(k.Partition) >= len(queues) {
			return &UnknownTopicError{Topic: k.Topic, Partition: k.Partition}
		}
		l, size := queues[k.Partition], p.size(k)
		if !l.capacity.TryAcquire(size) {
			if err := p.wait(ctx, func(ctx context.Context) error { return l.capacity.Acquire(ctx, size) }); err != nil {
				return err
			}
		}
		if l.pending.Load() == 0 {
			l.since.Store(time.Now().UnixNano()) // before watch sees a record
		}
		l.pending.Add(1)
		crash.Hold()
		p.kgo.Produce(p.ctx, k, p.answered)
	}
	return context.Cause(p.ctx)
}

// answered records that k is written, or fails with err.
func (p *Producer) answered(k *kgo.Record, err error) {
	p.mu.Lock()
	l := p.topics[k.Topic][k.Partition]
	p.mu.Unlock()
	if err != nil {
		p.fail(l, err)
	}
	l.since.Store(time.Now().UnixNano())
	l.pending.Add(-1)
	l.capacity.Release(p.size(k))
}

// copies returns the records, still without partitions, in newly allocated memory.
func copies(recs []stream.Record) []kgo.Record {
	n := 0
	for i := range recs {
		n += len(recs[i].Key) + len(recs[i].Value)
	}
	block := make([]byte, 0, n)
	clone := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		at := len(block)
		block = append(block, b...)
		return block[at:len(block):len(block)]
	}
	out := make([]kgo.Record, len(recs))
	for i := range recs {
		r := &recs[i]
		out[i] = kgo.Record{Topic: r.Topic, Key: clone(r.Key), Value: clone(r.Value), Timestamp: r.Time}
		for _, h := range r.Headers {
			out[i].Headers = append(out[i].Headers, kgo.RecordHeader{Key: h.Key, Value: bytes.Clone(h.Value)})
		}
	}
	return out
}

// size is an upper bound of the bytes that a record adds to a batch, but at most the
// capacity.
func (p *Producer) size(k *kgo.Record) int64 {
	n := 32 + len(k.Key) + len(k.Value)
	for _, h := range k.Headers {
		n += 10 + len(h.Key) + len(h.Value)
	}
	return min(int64(n), p.capacity())
}

// fail ends producing with the first error. Buffered records are dropped, so
// that no record is written after a missing one.
func (p *Producer) fail(l *partitionQueue, err error) {
	if ke, ok := errors.AsType[*kerr.Error](err); ok {
		err = kafka.Error(ke.Code)
	}
	p.cancel(fmt.Errorf("kafka: produce to topic %s partition %d: %w", l.id.Topic, l.id.ID, err))
}

// stuckAfter is how long a partition may accept nothing before this is diagnosed.
const stuckAfter = 3 * time.Second

// watch diagnoses outages: it logs them, and ends producing after MaxDown or
// when waiting will not help.
func (p *Producer) watch() {
	tick := time.NewTicker(stuckAfter / 10)
	defer tick.Stop()
	var since, looked time.Time // of an outage
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-tick.C:
		}
		l, down := p.slowest()
		switch {
		case p.opt.MaxDown > 0 && down > p.opt.MaxDown:
			p.fail(l, fmt.Errorf("no usable answer for %v", p.opt.MaxDown))
		case down < stuckAfter && !since.IsZero():
			p.c.log.Info("kafka: broker is back", "doing", "produce", "down", time.Since(since).Round(time.Millisecond))
			since = time.Time{}
		case down >= stuckAfter && since.IsZero():
			since = time.Now().Add(-down)
			p.c.log.Warn("kafka: no usable answer, trying again", "doing", fmt.Sprintf("produce to %v", l.id))
		}
		if down >= stuckAfter && time.Since(looked) > diagnoseEvery {
			if err := p.c.refused(p.ctx); err != nil {
				p.cancel(err)
			}
			looked = time.Now()
		}
	}
}

// slowest returns the partition that has accepted nothing for the longest time
// although it has pending records, and for how long.
func (p *Producer) slowest() (slow *partitionQueue, down time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, queues := range p.topics {
		for _, l := range queues {
			if d := time.Since(time.Unix(0, l.since.Load())); l.pending.Load() > 0 && d > down {
				slow, down = l, d
			}
		}
	}
	return slow, down
}

// Flush returns when everything produced before is written, or with the error
// that prevents it.
func (p *Producer) Flush(ctx context.Context) error { return p.wait(ctx, p.kgo.Flush) }

// wait calls f with a context that ends with ctx or when producing ends.
func (p *Producer) wait(ctx context.Context, f func(context.Context) error) error {
	fctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, crash.Func(cancel))()
	err := f(fctx)
	return cmp.Or(context.Cause(p.ctx), err)
}

// Close drops everything that is not written yet: call Flush first.
func (p *Producer) Close() error {
	p.cancel(errors.New("kafka producer: closed"))
	p.kgo.Close()
	p.c.close()
	return nil
}
