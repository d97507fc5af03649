package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/streamsvm/streamsvm/internal/remind"
	"github.com/streamsvm/streamsvm/stream"
)

// bounds of a partition: offsets first ≤ o < end exist.
type bounds struct{ first, end int64 }

// diagnoseEvery is the minimum time between two diagnoses of an outage.
const diagnoseEvery = 10 * time.Second

// retry calls f until it succeeds, fails for good, or has failed for longer
// than maxDown (0: no limit). It logs once when it has to wait, and once when
// the outage is over.
func retry(ctx context.Context, c *client, what string, maxDown time.Duration, f func(context.Context) error) error {
	var wait backoff
	var since, looked time.Time
	for {
		rctx, cancel := c.request(ctx, 0)
		err := f(rctx)
		cancel()
		if err == nil {
			if !since.IsZero() {
				c.log.Info("kafka: broker is back", "doing", what, "down", time.Since(since).Round(time.Millisecond))
			}
			return nil
		}
		var unknown *UnknownTopicError
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if (Permanent(err) && !errors.Is(err, kafka.SASLAuthenticationFailed)) || errors.As(err, &unknown) {
			return err
		}
		// The reason may be a disagreement with the broker, which kafka-go reports
		// as a closed connection.
		if since.IsZero() || time.Since(looked) > diagnoseEvery {
			if err := c.refused(ctx); err != nil {
				return err
			}
			looked = time.Now()
		}
		if Permanent(err) {
			return err
		}
		if since.IsZero() {
			since = time.Now()
			c.log.Warn("kafka: no usable answer, trying again", "doing", what, "error", err)
		} else if maxDown > 0 && time.Since(since) > maxDown {
			if e := c.fault(ctx); e != nil {
				err = reachError(e)
			}
			return fmt.Errorf("kafka: %s: no usable answer for %v: %w", what, maxDown, err)
		}
		if err := wait.sleep(ctx); err != nil {
			return err
		}
	}
}

// partitions returns the numbers of the topics' partitions in increasing
// order; a topic that does not exist is missing from the map.
func (c *client) partitions(ctx context.Context, topics []string) (map[string][]int32, error) {
	m, err := c.Metadata(ctx, &kafka.MetadataRequest{Topics: topics})
	if err != nil {
		return nil, err
	}
	out := map[string][]int32{}
	for _, t := range m.Topics {
		if errors.Is(t.Error, kafka.UnknownTopicOrPartition) {
			continue
		}
		if t.Error != nil {
			return nil, fmt.Errorf("kafka: topic %s: %w", t.Name, t.Error)
		}
		for _, p := range t.Partitions {
			out[t.Name] = append(out[t.Name], int32(p.ID))
		}
		slices.Sort(out[t.Name])
	}
	return out, nil
}

// waitTopics is partitions for topics that must exist. If one does not, it
// tries again for up to wait (negative: forever) before it returns an
// *UnknownTopicError.
func (c *client) waitTopics(ctx context.Context, topics []string, wait, maxDown time.Duration) (map[string][]int32, error) {
	start := time.Now()
	var pause backoff
	var remind remind.Reminder
	for {
		var found map[string][]int32
		err := retry(ctx, c, "metadata", maxDown, func(ctx context.Context) (err error) {
			found, err = c.partitions(ctx, topics)
			return err
		})
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(topics, func(t string) bool { return len(found[t]) == 0 })
		if i < 0 {
			return found, nil
		}
		if wait >= 0 && time.Since(start) >= wait {
			return nil, &UnknownTopicError{Topic: topics[i], Partition: -1}
		}
		// A topic that has just been created takes a moment to appear.
		if now := time.Now(); remind.Due(now) {
			c.log.Warn(fmt.Sprintf("kafka: topic %s does not exist: waiting for it", topics[i]), "for", now.Sub(start).Round(time.Second))
		}
		if err := pause.sleep(ctx); err != nil {
			return nil, err
		}
	}
}

// listOffsets requests one offset of every partition; at is kafka.FirstOffset,
// kafka.LastOffset or a time in milliseconds.
func (c *client) listOffsets(ctx context.Context, ps []stream.Partition, at int64, committed bool) (map[stream.Partition]int64, error) {
	req := &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{}}
	if committed {
		req.IsolationLevel = kafka.ReadCommitted
	}
	for _, p := range ps {
		req.Topics[p.Topic] = append(req.Topics[p.Topic], kafka.OffsetRequest{Partition: int(p.ID), Timestamp: at})
	}
	resp, err := c.ListOffsets(ctx, req)
	if err != nil {
		return nil, err
	}
	out := map[stream.Partition]int64{}
	for topic, list := range resp.Topics {
		for _, po := range list {
			id := stream.Partition{Topic: topic, ID: int32(po.Partition)}
			if po.Error != nil {
				return nil, fmt.Errorf("kafka: %v: list offsets: %w", id, po.Error)
			}
			switch at {
			case kafka.FirstOffset:
				out[id] = po.FirstOffset
			case kafka.LastOffset:
				out[id] = po.LastOffset
			default:
				out[id] = -1
				for o := range po.Offsets { // one at most
					out[id] = o
				}
			}
		}
	}
	for _, p := range ps {
		if _, ok := out[p]; !ok {
			return nil, fmt.Errorf("kafka: %v: list offsets: no answer", p)
		}
	}
	return out, nil
}

// bounds returns the offsets that the partitions hold now.
func (c *client) bounds(ctx context.Context, ps []stream.Partition, committed bool) (map[stream.Partition]bounds, error) {
	ends, err := c.listOffsets(ctx, ps, kafka.LastOffset, committed)
	if err != nil {
		return nil, err
	}
	firsts, err := c.listOffsets(ctx, ps, kafka.FirstOffset, false)
	if err != nil {
		return nil, err
	}
	out := map[stream.Partition]bounds{}
	for _, p := range ps {
		out[p] = bounds{firsts[p], ends[p]}
	}
	return out, nil
}

// starts returns the start positions of partitions that have not been read yet. Only
// records of committed transactions count.
func (c *client) starts(ctx context.Context, ps []stream.Partition, start StartAt, at time.Time) (stream.Offsets, error) {
	if start == StartEarliest {
		return c.listOffsets(ctx, ps, kafka.FirstOffset, false)
	}
	// As in Source.resolve, the ends come first.
	ends, err := c.listOffsets(ctx, ps, kafka.LastOffset, true)
	if err != nil || start == StartLatest {
		return ends, err
	}
	byTime, err := c.listOffsets(ctx, ps, at.UnixMilli(), true)
	for p, next := range byTime {
		if next < 0 {
			byTime[p] = ends[p]
		}
	}
	return byTime, err
}

// position is the start position of one partition.
type position struct {
	id     stream.Partition
	next   int64
	bounds bounds
}

// resolve determines the start position of every partition.
func (s *Source) resolve(ctx context.Context) ([]position, error) {
	o := &s.opt
	found, err := s.c.waitTopics(ctx, o.Topics, o.TopicWait, o.MaxDown)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for p := range o.Offsets {
		known[p.Topic] = true
	}
	var all, fresh []stream.Partition
	for _, t := range o.Topics {
		ids, listed := o.Partitions[t]
		if !listed {
			ids = found[t]
		}
		for _, id := range ids {
			p := stream.Partition{Topic: t, ID: id}
			if !slices.Contains(found[t], id) {
				return nil, &UnknownTopicError{Topic: t, Partition: id}
			}
			all = append(all, p)
			if !known[t] {
				fresh = append(fresh, p)
			}
		}
		for _, p := range o.Offsets.Partitions() {
			if p.Topic == t && !listed && !slices.Contains(ids, p.ID) {
				return nil, fmt.Errorf("%w, but the checkpoint has offset %d of it: was the topic created again?",
					&UnknownTopicError{Topic: t, Partition: p.ID}, o.Offsets[p])
			}
		}
	}
	slices.SortFunc(all, stream.Partition.Compare)

	// The ends come before the search by time: a record appended between the
	// two is then after the end, whatever its timestamp, and will be read.
	var bs map[stream.Partition]bounds
	var byTime map[stream.Partition]int64
	err = retry(ctx, s.c, "list offsets", o.MaxDown, func(ctx context.Context) (err error) {
		if bs, err = s.c.bounds(ctx, all, true); err != nil {
			return err
		}
		if o.Start == StartTimestamp && len(fresh) > 0 {
			byTime, err = s.c.listOffsets(ctx, fresh, o.StartTime.UnixMilli(), true)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make([]position, len(all))
	for i, p := range all {
		b := bs[p]
		next, given := o.Offsets[p]
		switch {
		case given:
			if next < b.first || next > b.end {
				if next, err = s.outOfRange(p, next, b); err != nil {
					return nil, err
				}
			}
		case known[p.Topic] || o.Start == StartEarliest:
			next = b.first
		case o.Start == StartLatest:
			next = b.end
		default:
			if next = byTime[p]; next < 0 {
				next = b.end
			}
		}
		out[i] = position{id: p, next: next, bounds: b}
	}
	return out, nil
}

// outOfRange applies the policy to an offset that does not exist.
func (s *Source) outOfRange(p stream.Partition, offset int64, b bounds) (int64, error) {
	err := &RangeError{Partition: p, Offset: offset, First: b.first, End: b.end}
	next := b.first
	switch s.opt.OutOfRange {
	case OutOfRangeEarliest:
	case OutOfRangeLatest:
		next = b.end
	default:
		return 0, err
	}
	s.c.log.Error("kafka: offset out of range, examples are lost or repeated", "topic", p.Topic, "partition", p.ID,
		"offset", offset, "first", b.first, "end", b.end, "policy", s.opt.OutOfRange, "next", next)
	return next, nil
}
