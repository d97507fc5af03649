package broker

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// closedFile exists in a data directory whose broker was closed.
const closedFile = "closed"

// wasKilled reports whether dir belongs to a broker that was not closed, and
// removes the mark for the broker that starts now.
func wasKilled(dir string) (bool, error) {
	err := os.Remove(filepath.Join(dir, closedFile))
	if err == nil {
		return false, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	old, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return len(old) > 0, err
}

// endTransactions aborts the transactions that were open when the broker was
// killed. kfake treats them as aborted, too, but writes no marker. A reader would
// then also drop later commits of the same producer, and kfake, if killed once
// more, would treat the transaction as committed. Meanwhile no client gets a
// producer id, so that none writes in between.
func (b *Broker) endTransactions(o Options) error {
	done := make(chan struct{})
	b.cluster.ControlKey(int16(kmsg.InitProducerID), func(req kmsg.Request) (kmsg.Response, error, bool) {
		select {
		case <-done:
			return nil, nil, false
		default:
		}
		b.cluster.KeepControl()
		resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
		resp.ErrorCode = kerr.CoordinatorLoadInProgress.Code // clients retry
		return resp, nil, true
	})
	defer close(done)

	opts := []kgo.Opt{kgo.SeedBrokers(b.addr), kgo.MaxVersions(kversion.V2_8_0())} // with topics by name
	if o.Dial != nil {
		opts = append(opts, kgo.Dialer(o.Dial))
	}
	if o.TLS != nil {
		opts = append(opts, kgo.DialTLSConfig(&tls.Config{InsecureSkipVerify: true})) // it is this process
	}
	c, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer c.Close()
	admin := kadm.NewClient(c)
	ctx := context.Background() // all logs must be read, however long they are
	starts, err := admin.ListStartOffsets(ctx)
	if err = cmp.Or(err, starts.Error()); err != nil {
		return err
	}
	for topic, partitions := range starts {
		for partition, start := range partitions {
			open, err := undecided(ctx, c, topic, partition, start.Offset)
			if err != nil {
				return fmt.Errorf("%s/%d: %w", topic, partition, err)
			}
			for producer, epoch := range open {
				resp, err := admin.WriteTxnMarkers(ctx, kadm.TxnMarkers{ProducerID: producer, ProducerEpoch: epoch, Topics: kadm.TopicsSet{topic: {partition: {}}}})
				resp.EachPartition(func(r kadm.TxnMarkersPartitionResponse) { err = cmp.Or(err, r.Err) })
				if err != nil {
					return fmt.Errorf("%s/%d: %w", topic, partition, err)
				}
			}
		}
	}
	return nil
}

// undecided returns the producers, with their epochs, that have written in a
// transaction to a part of a partition where all transactions are over, without a
// marker for its end. next is the first offset.
func undecided(ctx context.Context, c *kgo.Client, topic string, partition int32, next int64) (map[int64]int16, error) {
	open := map[int64]int16{}
	for {
		req := kmsg.NewPtrFetchRequest()
		req.MaxWaitMillis, req.MaxBytes, req.IsolationLevel = 0, 8<<20, 1 // up to the first transaction that is still open
		ft, fp := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
		fp.Partition, fp.FetchOffset, fp.PartitionMaxBytes = partition, next, 8<<20
		ft.Topic, ft.Partitions = topic, append(ft.Partitions, fp)
		req.Topics = append(req.Topics, ft)
		resp, err := c.Broker(0).RetriableRequest(ctx, req)
		if err != nil {
			return nil, err
		}
		got := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
		if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
			return nil, err
		}
		before := next
		for rest := got.RecordBatches; len(rest) >= 61; {
			n := 12 + int(int32(binary.BigEndian.Uint32(rest[8:])))
			if n < 61 || n > len(rest) {
				break // the last batch may be truncated
			}
			var batch kmsg.RecordBatch
			if err := batch.ReadFrom(rest[:n]); err != nil {
				return nil, err
			}
			const transactional, control = 1 << 4, 1 << 5
			switch {
			case batch.Attributes&control != 0:
				delete(open, batch.ProducerID)
			case batch.Attributes&transactional != 0:
				open[batch.ProducerID] = batch.ProducerEpoch
			}
			next = batch.FirstOffset + int64(batch.LastOffsetDelta) + 1
			rest = rest[n:]
		}
		if next == before {
			return open, nil
		}
	}
}
