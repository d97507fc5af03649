package reach

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Settle waits until c has the partition on its list, which it has written to in the
// transaction that is about to end. franz-go's client (1.22) adds the partitions of a
// topic new to it to the list only after it has begun to send. If the brokers are
// faster, it finds nothing to end: the transaction stays open, although EndTransaction
// returns no error.
func Settle(ctx context.Context, c *kgo.Client, topic string, partition int32) error {
	for {
		if leader, epoch, _ := c.PartitionLeader(topic, partition); leader >= 0 || epoch >= 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}
