package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/streamsvm/streamsvm/stream"
)

// Group keeps positions in a consumer group, for programs without a checkpoint.
// It is not a member of the group, and the group must have no members: one
// program at a time uses it. A broker forgets positions that have not been
// committed for offsets.retention.minutes (7 days).
type Group struct {
	c       *client
	name    string
	maxDown time.Duration
}

// Position is a position that a group keeps.
type Position struct {
	Next int64  // offset of the next record to read
	Note string // the note passed to Commit
}

// OpenGroup does not use the network yet. maxDown is as in SourceOptions, for
// every call.
func OpenGroup(cfg Config, name string, maxDown time.Duration) (*Group, error) {
	if name == "" {
		return nil, errors.New("kafka: no consumer group given")
	}
	c, err := cfg.open(nil)
	if err != nil {
		return nil, err
	}
	return &Group{c, name, maxDown}, nil
}

// Close ends the connections.
func (g *Group) Close() { g.c.close() }

// Committed returns the positions of those partitions that have one. It waits
// for the group's coordinator; the first group of a cluster takes seconds to
// get one.
func (g *Group) Committed(ctx context.Context, ps []stream.Partition) (map[stream.Partition]Position, error) {
	req := &kafka.OffsetFetchRequest{GroupID: g.name, Topics: map[string][]int{}}
	for _, p := range ps {
		req.Topics[p.Topic] = append(req.Topics[p.Topic], int(p.ID))
	}
	out := map[stream.Partition]Position{}
	if len(ps) == 0 {
		return out, nil // the request would mean all topics
	}
	err := retry(ctx, g.c, "ask for positions", g.maxDown, func(ctx context.Context) error {
		clear(out)
		resp, err := g.c.OffsetFetch(ctx, req)
		if err == nil {
			err = resp.Error
		}
		if errors.Is(err, kafka.GroupIdNotFound) {
			return nil // Apache Kafka answers without positions instead
		}
		if err != nil {
			return err
		}
		for topic, list := range resp.Topics {
			for _, p := range list {
				if p.Error != nil {
					return fmt.Errorf("topic %s partition %d: %w", topic, p.Partition, p.Error)
				}
				if p.CommittedOffset >= 0 {
					out[stream.Partition{Topic: topic, ID: int32(p.Partition)}] = Position{p.CommittedOffset, p.Metadata}
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("kafka: positions of group %s: %w", g.name, err)
	}
	return out, nil
}

// Commit stores positions, each with the note, of at most 4,096 bytes.
func (g *Group) Commit(ctx context.Context, o stream.Offsets, note string) error {
	if len(o) == 0 {
		return nil
	}
	var refused error // waiting does not help
	err := retry(ctx, g.c, "commit", g.maxDown, func(ctx context.Context) error {
		err := g.c.commit(ctx, g.name, o, note)
		switch {
		case errors.Is(err, kafka.UnknownMemberId), errors.Is(err, kafka.IllegalGeneration), errors.Is(err, kafka.RebalanceInProgress):
			refused = fmt.Errorf("%w: other consumers are members of the group", err)
		case errors.Is(err, kafka.OffsetMetadataTooLarge):
			refused = err
		default:
			return err
		}
		return nil
	})
	if err = errors.Join(err, refused); err != nil {
		return fmt.Errorf("kafka: commit to group %s: %w", g.name, err)
	}
	return nil
}

// commit sends one request to the group's coordinator.
func (c *client) commit(ctx context.Context, group string, o stream.Offsets, note string) error {
	req := &kafka.OffsetCommitRequest{GroupID: group, GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{}}
	for _, p := range o.Partitions() {
		req.Topics[p.Topic] = append(req.Topics[p.Topic], kafka.OffsetCommit{Partition: int(p.ID), Offset: o[p], Metadata: note})
	}
	resp, err := c.OffsetCommit(ctx, req)
	if err != nil {
		return err
	}
	for topic, list := range resp.Topics {
		for _, p := range list {
			if p.Error != nil {
				return fmt.Errorf("topic %s partition %d: %w", topic, p.Partition, p.Error)
			}
		}
	}
	return nil
}
