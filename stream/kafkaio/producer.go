package kafkaio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/streamsvm/streamsvm/stream"
)

// Partitioner chooses one of n partitions for a record.
type Partitioner func(r *stream.Record, n int) int32

// Explicit sends a record to the partition it names.
func Explicit(r *stream.Record, _ int) int32 { return r.Partition }

// ByKey sends records of equal keys to the same partition, the one that Java's
// default partitioner chooses (murmur2), and records without a key in turn to
// all. A Producer needs one of its own.
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

// ProducerOptions of NewProducer.
type ProducerOptions struct {
	Config
	// Partition chooses the partitions; nil is ByKey().
	Partition Partitioner
	// BatchBytes bounds a batch before compression, unless a single record is
	// larger; 0 is 512 KiB. A topic's max.message.bytes must allow it.
	BatchBytes int
	// Compression of batches; 0 is none.
	Compression kafka.Compression
	// MaxDown ends producing with an error when a partition has taken nothing
	// for so long; 0 waits forever.
	MaxDown time.Duration
}

// Producer writes records. A batch counts as written when all in-sync replicas
// have it. Batches carry a producer id and sequence numbers, so that a batch
// that is sent again, because its answer was lost, is stored once, also after a
// restart of the broker. A record can still be there twice
//   - when the program that produces sends it twice, e.g. after a crash of its
//     own;
//   - when the broker ends without having answered, and the batch's timestamps
//     are older than its producer.id.expiration.ms (1 day): restarting, Apache
//     Kafka goes by timestamps to decide which producers to remember, and takes
//     a batch of one that it has forgotten;
//   - when the broker has lost what it knew of the producer and says so, which
//     is logged.
//
// The order of records inside a partition is that of Produce. A batch is sent
// as soon as the one before is acknowledged, so batches grow with the load.
//
// A Producer may be used by several goroutines.
type Producer struct {
	opt    ProducerOptions
	c      *client
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	change sync.Cond // a lane has become free, empty, or the producer has failed
	topics map[string]*[]*lane
	busy   int // lanes with anything not acknowledged
	first  session
	err    error
}

// lane is the way to one partition.
type lane struct {
	id      stream.Partition
	filling *batch // guarded by Producer.mu
	sending *batch
	work    chan struct{}
	wire    []byte // sending, encoded
	busy    bool   // guarded by Producer.mu: filling or sending hold records

	session  session
	sequence int32
}

// NewProducer connects to the cluster. It blocks while no broker answers,
// within MaxDown.
func NewProducer(ctx context.Context, o ProducerOptions) (*Producer, error) {
	if o.BatchBytes < 0 {
		return nil, fmt.Errorf("kafka producer: batch of %d bytes", o.BatchBytes)
	}
	if o.BatchBytes == 0 {
		o.BatchBytes = 512 << 10
	}
	if o.Partition == nil {
		o.Partition = ByKey()
	}
	c, err := o.Config.open(nil)
	if err != nil {
		return nil, err
	}
	// kafka-go tells the broker half of this as the time it may take to
	// replicate a batch.
	c.Client.Timeout = c.timeout
	p := &Producer{opt: o, c: c, topics: map[string]*[]*lane{}}
	p.change.L = &p.mu
	p.ctx, p.cancel = context.WithCancel(context.Background())
	if p.first, err = p.newSession(ctx); err != nil {
		p.cancel()
		c.close()
		return nil, err
	}
	return p, nil
}

// newSession gets a producer id from the cluster.
func (p *Producer) newSession(ctx context.Context) (session, error) {
	s := session{id: -1}
	err := retry(ctx, p.c, "get a producer id", p.opt.MaxDown, func(ctx context.Context) error {
		resp, err := p.c.InitProducerID(ctx, &kafka.InitProducerIDRequest{ProducerID: -1, ProducerEpoch: -1})
		if err == nil {
			err = resp.Error
		}
		if err == nil {
			s = session{int64(resp.Producer.ProducerID), int16(resp.Producer.ProducerEpoch)}
		}
		return err
	})
	if errors.Is(err, kafka.ClusterAuthorizationFailed) {
		p.c.log.Warn("kafka: not allowed to produce idempotently, a retry may store records twice")
		return session{id: -1}, nil
	}
	return s, err
}

// lanes returns the ways to the partitions of a topic. p.mu is held, and
// released while the cluster is asked.
func (p *Producer) lanes(ctx context.Context, topic string) ([]*lane, error) {
	if l := p.topics[topic]; l != nil {
		return *l, nil
	}
	p.mu.Unlock()
	// A topic that has just been made may be missing in the cached metadata.
	found, err := p.c.waitTopics(ctx, []string{topic}, 2*metadataTTL, p.opt.MaxDown)
	p.mu.Lock()
	if err != nil {
		return nil, err
	}
	if l := p.topics[topic]; l != nil {
		return *l, nil
	}
	ls := make([]*lane, len(found[topic]))
	for i := range ls {
		l := &lane{id: stream.Partition{Topic: topic, ID: int32(i)}, filling: new(batch), sending: new(batch),
			work: make(chan struct{}, 1), session: p.first}
		ls[i] = l
		p.wg.Go(func() { p.send(l) })
	}
	p.topics[topic] = &ls
	return ls, nil
}

// Produce takes over the records, in order, and returns when all are in a
// batch, not when they are written: see Flush. It blocks while the brokers do
// not keep up. The bytes may be reused afterwards. A zero Time becomes the
// current one. An error of an earlier batch is returned by every later call.
func (p *Producer) Produce(ctx context.Context, recs ...stream.Record) error {
	stop := context.AfterFunc(ctx, p.wakeAll)
	defer stop()
	now := time.Now().UnixMilli()
	p.mu.Lock()
	defer p.mu.Unlock()
	var ls []*lane
	for i := range recs {
		r := &recs[i]
		if i == 0 || r.Topic != recs[i-1].Topic {
			var err error
			if ls, err = p.lanes(ctx, r.Topic); err != nil {
				return err
			}
		}
		n := p.opt.Partition(r, len(ls))
		if n < 0 || int(n) >= len(ls) {
			return &UnknownTopicError{Topic: r.Topic, Partition: n}
		}
		l := ls[n]
		for p.err == nil && ctx.Err() == nil && l.filling.NumRecords > 0 && l.filling.size()+recordSize(r) > p.opt.BatchBytes {
			p.change.Wait()
		}
		if p.err != nil {
			return p.err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		ms := now
		if !r.Time.IsZero() {
			ms = r.Time.UnixMilli()
		}
		l.filling.add(r, ms)
		if !l.busy {
			l.busy = true
			p.busy++
		}
		select {
		case l.work <- struct{}{}:
		default:
		}
	}
	return p.err
}

// recordSize is an upper bound of what a record adds to a batch.
func recordSize(r *stream.Record) int {
	n := 32 + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += 10 + len(h.Key) + len(h.Value)
	}
	return n
}

func (p *Producer) wakeAll() {
	p.mu.Lock()
	p.change.Broadcast()
	p.mu.Unlock()
}

// Flush returns when everything produced before is written, or with the error
// that prevents it.
func (p *Producer) Flush(ctx context.Context) error {
	stop := context.AfterFunc(ctx, p.wakeAll)
	defer stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.busy > 0 && p.err == nil && ctx.Err() == nil {
		p.change.Wait()
	}
	if p.err != nil {
		return p.err
	}
	return ctx.Err()
}

// Close gives up what is not written yet: call Flush first.
func (p *Producer) Close() error {
	p.mu.Lock()
	if p.err == nil {
		p.err = errors.New("kafka producer: closed")
	}
	p.change.Broadcast()
	p.mu.Unlock()
	p.cancel()
	p.wg.Wait()
	p.c.close()
	return nil
}

// send writes the lane's batches, one at a time.
func (p *Producer) send(l *lane) {
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-l.work:
		}
		p.mu.Lock()
		l.filling, l.sending = l.sending, l.filling
		p.change.Broadcast()
		p.mu.Unlock()
		var err error
		if l.sending.NumRecords > 0 {
			err = p.write(l, l.sending)
			l.sending.reset()
		}
		p.mu.Lock()
		if err != nil && p.err == nil {
			p.err = err
		}
		if l.filling.NumRecords == 0 && l.busy {
			l.busy = false
			p.busy--
		}
		p.change.Broadcast()
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// write sends one batch until it is acknowledged.
func (p *Producer) write(l *lane, b *batch) error {
	if err := b.seal(p.opt.Compression); err != nil {
		return err
	}
	l.wire = b.encode(l.wire, l.session, l.sequence)
	fresh := false // whether the session is new for this batch
	lost := false  // whether an attempt got no answer
	err := retry(p.ctx, p.c, fmt.Sprintf("produce to %v", l.id), p.opt.MaxDown, func(ctx context.Context) error {
		resp, err := p.c.RawProduce(ctx, &kafka.RawProduceRequest{
			Topic: l.id.Topic, Partition: int(l.id.ID), RequiredAcks: kafka.RequireAll, MessageVersion: 2,
			RawRecords: protocol.RawRecordSet{Reader: bytes.NewReader(l.wire)},
		})
		if err != nil {
			lost = true
		} else {
			err = resp.Error
		}
		var ke kafka.Error
		if !errors.As(err, &ke) {
			return err
		}
		switch {
		case ke == kafka.DuplicateSequenceNumber:
			return nil // stored by an attempt whose answer was lost
		case slices.Contains([]kafka.Error{kafka.OutOfOrderSequenceNumber, kafka.UnknownProducerId, kafka.InvalidProducerEpoch, kafka.InvalidProducerIDMapping}, ke) && !fresh:
			p.c.log.Warn("kafka: the broker has forgotten this producer; if it had stored the batch, its records are there twice",
				"topic", l.id.Topic, "partition", l.id.ID, "records", b.NumRecords, "error", ke)
			s, err := p.newSession(ctx)
			if err != nil {
				return err
			}
			fresh = true
			l.session, l.sequence = s, 0
			l.wire = b.encode(nil, s, 0) // an attempt that was given up may still be reading
			return ke
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("kafka: produce %d records to topic %s partition %d: %w", b.NumRecords, l.id.Topic, l.id.ID, err)
	}
	if lost {
		l.wire = nil // kafka-go may still be sending from it
	}
	// Sequence numbers run on after 2^31−1 with 0.
	l.sequence = int32((int64(l.sequence) + int64(b.NumRecords)) & (1<<31 - 1))
	return nil
}
