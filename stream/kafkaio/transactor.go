package kafkaio

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/internal/reach"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TransactorOptions are the options of NewTransactor.
type TransactorOptions struct {
	Config
	// ID is the transactional id. All programs that must not write at the same
	// time share it.
	ID string
	// BatchBytes is the maximum size of a batch, and so of a record; 0 is 1,000,000.
	// The topics' max.message.bytes must allow it.
	BatchBytes int
	// Gzip compresses batches. Every Kafka client reads gzip without an extra
	// package.
	Gzip bool
	// MaxDown ends an attempt with an error when there is no usable answer for
	// this long; 0 waits forever.
	MaxDown time.Duration

	more []kgo.Opt // for tests
}

// Transactor writes records in transactions under an id that one program holds at a
// time: the last one to call Take. Only one goroutine may use it at a time.
type Transactor struct {
	opt TransactorOptions
	c   *client
	kgo *kgo.Client // nil: the id is not held
}

// ErrFenced says that another Transactor has taken the id, or that the brokers have
// aborted a transaction that took too long; their answers do not always distinguish the
// two. Nothing has been written.
var ErrFenced = errors.New("kafka: another program has taken over the transactional id")

// transactionTimeout is how long brokers keep a transaction open for a program that has
// stopped. If a trainer dies in a transaction and does not come back, readers of the same
// partition wait this long.
const transactionTimeout = time.Minute

// NewTransactor returns a Transactor that does not hold its id yet. It does not use the
// network.
func NewTransactor(o TransactorOptions) (*Transactor, error) {
	if o.ID == "" || o.BatchBytes < 0 {
		return nil, fmt.Errorf("kafka: no transactional id is given, or batches of %d bytes", o.BatchBytes)
	}
	o.BatchBytes = cmp.Or(o.BatchBytes, 1_000_000)
	c, err := o.Config.open(nil)
	if err != nil {
		return nil, err
	}
	return &Transactor{opt: o, c: c}, nil
}

// Take makes this Transactor the holder of the id. It aborts the open transaction of the
// previous holder, and the brokers refuse its further requests, even those already under
// way. So a reader of committed records that now reads to the ends of the topics has read
// everything until the next Write or Take.
func (t *Transactor) Take(ctx context.Context) error {
	t.drop()
	codec := kgo.NoCompression()
	if t.opt.Gzip {
		codec = kgo.GzipCompression()
	}
	return retry(ctx, t.c, "take the transactional id "+t.opt.ID, t.opt.MaxDown, func(ctx context.Context) error {
		k, err := t.opt.reach().Client(append([]kgo.Opt{
			kgo.TransactionalID(t.opt.ID), kgo.TransactionTimeout(transactionTimeout),
			kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(codec),
			kgo.BrokerMaxWriteBytes(1 << 30), kgo.ProducerBatchMaxBytes(int32(min(t.opt.BatchBytes, 1<<30-1<<20))), kgo.ProducerLinger(0), kgo.ProduceRequestTimeout(t.c.timeout),
			kgo.UnknownTopicRetries(-1),
		}, t.opt.more...)...)
		if err != nil {
			return err
		}
		if _, _, err := k.ProducerID(ctx); err != nil {
			k.Close()
			return t.explain(err)
		}
		t.kgo = k
		return nil
	})
}

// Write writes the records, all or none, each to the partition that it names, and
// returns when all in-sync replicas have them. It waits out short outages. After an error
// the id is no longer held, and unless the error is ErrFenced it is unknown whether the
// records were written. A zero Time becomes the current time.
func (t *Transactor) Write(ctx context.Context, recs ...stream.Record) (err error) {
	if t.kgo == nil {
		return ErrFenced
	}
	ctx, cancel := context.WithTimeout(ctx, transactionTimeout)
	defer cancel()
	// The client waits for answers to requests that it has sent even after ctx has ended.
	// Nobody else uses it, so it can be closed; it is dropped after an error.
	defer context.AfterFunc(ctx, crash.Func(t.kgo.Close))()
	defer time.AfterFunc(stuckAfter, crash.Func(func() {
		t.c.log.Warn("kafka: a write is taking long", "transactional_id", t.opt.ID, "records", len(recs))
	})).Stop()
	defer func() {
		if err != nil {
			t.drop()
			err = t.failed(ctx, err)
		}
	}()
	if err := t.kgo.BeginTransaction(); err != nil {
		return err
	}
	out := copies(recs)
	all := make([]*kgo.Record, len(out))
	for i := range out {
		out[i].Partition = recs[i].Partition
		all[i] = &out[i]
	}
	if err := t.kgo.ProduceSync(ctx, all...).FirstErr(); err != nil {
		return err
	}
	for _, r := range all {
		if err := reach.Settle(ctx, t.kgo, r.Topic, r.Partition); err != nil {
			return err
		}
	}
	crash.Hold()
	return t.kgo.EndTransaction(ctx, kgo.TryCommit)
}

// failed explains an error of a write. Once ctx has ended, the client is closed and its
// errors only say what was interrupted, unless they are answers of a broker.
func (t *Transactor) failed(ctx context.Context, err error) error {
	if ke := (*kerr.Error)(nil); ctx.Err() != nil && !errors.As(err, &ke) {
		err = ctx.Err()
	}
	return t.explain(err)
}

// Lost asks the brokers whether another program has taken the id. Apache Kafka before
// version 3.0 does not say.
func (t *Transactor) Lost(ctx context.Context) (bool, error) {
	if t.kgo == nil {
		return true, nil
	}
	ctx, cancel := t.c.request(ctx, 0)
	defer cancel()
	id, epoch, err := t.kgo.ProducerID(ctx)
	if err != nil {
		return false, t.explain(err)
	}
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{t.opt.ID}
	resp, err := req.RequestWith(ctx, t.kgo)
	if err != nil {
		return false, t.explain(err)
	}
	for _, s := range resp.TransactionStates {
		if err := kerr.ErrorForCode(s.ErrorCode); err != nil {
			return false, t.explain(err)
		}
		if s.TransactionalID == t.opt.ID {
			return s.ProducerID != id || s.ProducerEpoch != epoch, nil
		}
	}
	return false, nil
}

// explain turns an error of franz-go's client into one of this package.
func (t *Transactor) explain(err error) error {
	var ke *kerr.Error
	switch {
	case errors.Is(err, kerr.ProducerFenced), errors.Is(err, kerr.InvalidProducerEpoch), errors.Is(err, kerr.InvalidProducerIDMapping):
		return ErrFenced
	case errors.Is(err, kerr.TransactionalIDAuthorizationFailed):
		return fmt.Errorf("kafka: not allowed to write under the transactional id %s: Write on it must be granted: %w",
			t.opt.ID, kafka.TransactionalIDAuthorizationFailed)
	case errors.As(err, &ke):
		return fmt.Errorf("kafka: transaction of %s: %w", t.opt.ID, kafka.Error(ke.Code))
	}
	return fmt.Errorf("kafka: transaction of %s: %w", t.opt.ID, err)
}

// drop stops holding the id, without informing the brokers.
func (t *Transactor) drop() {
	if t.kgo != nil {
		t.kgo.Close()
		t.kgo = nil
	}
}

// Close implements io.Closer.
func (t *Transactor) Close() error {
	t.drop()
	t.c.close()
	return nil
}

// Held reports whether the id is held: no Write has failed since the last Take.
func (t *Transactor) Held() bool { return t.kgo != nil }
