package kafkaio

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"sort"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/fetch"
	"github.com/streamsvm/streamsvm/stream"
)

// errThrottled is a response without content: the consumer exceeds its quota and has to
// wait this long. Until then the broker does not read from the connection.
type errThrottled time.Duration

func (e errThrottled) Error() string { return "kafka: throttled for " + time.Duration(e).String() }

// queueMax is the number of responses of one partition that may wait for delivery,
// including the one being delivered, before the next one is requested.
const queueMax = 2

// partitionFetcher reads one partition. Its goroutine owns the fields of the first group.
type partitionFetcher struct {
	id  stream.Partition
	dec decoder
	// first is the start position. Records below it count as skipped.
	first int64
	freed chan struct{} // there is room in queue

	// Guarded by Source.mu.
	next  int64 // the offset to fetch next
	stop  int64 // read only offsets below
	end   int64 // as last reported by a broker
	queue []fetchResponse
	spare [][]stream.Record // of delivered responses, for reuse
	since time.Time         // down since; zero: up
	// emptyResponses counts consecutive responses without a batch before the end.
	emptyResponses int
	order          orderState
}

const emptyMax = 3

// fetchResponse is a decoded fetch response. recs[:pos] are delivered. A queued response
// has records left, except while it is being taken.
type fetchResponse struct {
	recs []stream.Record
	pos  int
}

func newFetcher(pos position, now time.Time) *partitionFetcher {
	return &partitionFetcher{
		id: pos.id, first: pos.next, next: pos.next, end: pos.bounds.end, stop: math.MaxInt64, freed: make(chan struct{}, 1),
		order: orderState{clear: mark{newest: math.MinInt64}, seen: []seen{{pos.bounds.end, now}}},
	}
}

func (p *partitionFetcher) empty() bool { return len(p.queue) == 0 }

// done reports whether everything below stop has been fetched.
func (p *partitionFetcher) done() bool { return p.next >= p.stop }

// position is the offset of the next record to deliver.
func (p *partitionFetcher) position() int64 {
	if p.empty() {
		return p.next
	}
	a := &p.queue[0]
	return a.recs[a.pos].Offset
}

// pop drops the first response, which is delivered, and lets the fetcher continue.
func (p *partitionFetcher) pop() {
	recs := p.queue[0].recs
	copy(p.queue, p.queue[1:])
	p.queue[len(p.queue)-1] = fetchResponse{}
	p.queue = p.queue[:len(p.queue)-1]
	if len(p.spare) < queueMax {
		clear(recs) // or the arena's blocks would stay alive
		p.spare = append(p.spare, recs[:0])
	}
	select {
	case p.freed <- struct{}{}:
	default:
	}
}

// fetchLoop reads p until its stop, a fatal error, or Close.
func (s *Source) fetchLoop(p *partitionFetcher) {
	p.dec = decoder{id: p.id, committed: true}
	wait := s.opt.MaxWait
	if s.opt.Merge == MergeOrdered && !s.bounded {
		// A fetch that waits for records of its partition holds up the others.
		wait = min(wait, max(s.opt.Lateness/4, 5*time.Millisecond))
	}
	var pause backoff
	for s.ctx.Err() == nil {
		s.mu.Lock()
		full, done, from, stop := len(p.queue) >= queueMax, p.done(), p.next, p.stop
		var spare []stream.Record
		if n := len(p.spare); n > 0 && !full {
			spare, p.spare = p.spare[n-1], p.spare[:n-1]
		}
		sent := s.merge.mark()
		s.mu.Unlock()
		if done {
			return
		}
		if full {
			select {
			case <-p.freed:
			case <-s.ctx.Done():
			}
			continue
		}
		resp, err := s.fetch(p, from, wait)
		var out decoded
		if err == nil {
			out, err = p.dec.decode(resp, from, stop, spare)
		}
		if err == nil && out.next == from && out.batches > 0 {
			out.next, err = s.skipGap(p, from, s.endOf(resp), out.base)
		}
		if errors.Is(err, kafka.OffsetOutOfRange) {
			out, err = decoded{recs: spare}, nil
			if out.next, err = s.checkRange(p, from); err == nil {
				s.mu.Lock()
				p.next = out.next
				s.mu.Unlock()
				continue
			}
		}
		if s.ctx.Err() != nil {
			return
		}
		if err != nil {
			if re, ok := errors.AsType[*RangeError](err); ok {
				s.fail(re)
				return
			}
			if quota, ok := errors.AsType[errThrottled](err); ok {
				if sleep(s.ctx, time.Duration(quota)) != nil {
					return
				}
				continue
			}
			if Permanent(err) || s.isDown(p, err) {
				s.fail(fmt.Errorf("kafka: topic %s partition %d offset %d: %w", p.id.Topic, p.id.ID, from, err))
				return
			}
			if pause.sleep(s.ctx) != nil {
				return
			}
			continue
		}
		pause.reset()
		s.accept(p, out, s.endOf(resp), sent)
	}
}

// accept queues a response.
func (s *Source) accept(p *partitionFetcher, out decoded, end int64, sent mark) {
	if p.first >= 0 {
		s.skipped.Add(uint64(out.before)) // only the first response can start before
		p.first = -1
	}
	s.mu.Lock()
	s.isUp(p)
	if s.bounded && out.batches == 0 && out.next < end {
		// There should be something. If there never is, the last records of the
		// log have been compacted away, and the stream ends here.
		if p.emptyResponses++; p.emptyResponses == emptyMax {
			s.c.log.Warn("kafka: nothing is left up to the end of the partition", "topic", p.id.Topic, "partition", p.id.ID,
				"offset", out.next, "end", end)
			p.stop = out.next
		}
	} else {
		p.emptyResponses = 0
	}
	p.next, p.end = out.next, max(end, out.next)
	if len(out.recs) > 0 {
		p.queue = append(p.queue, fetchResponse{recs: out.recs})
		if s.opt.Merge == MergeArrival {
			s.ready = append(s.ready, p)
		}
	} else if cap(out.recs) > 0 {
		p.spare = append(p.spare, out.recs[:0])
	}
	if s.opt.Merge == MergeOrdered {
		s.merge.fetched(p, out.recs, sent, time.Now())
	}
	s.mu.Unlock()
	s.notify() // even without records: knowing that there are none may let an Ordered source continue
}

// endOf is the offset up to which records may be delivered.
func (s *Source) endOf(resp *fetch.ResponsePartition) int64 {
	if resp.LastStableOffset >= 0 {
		return min(resp.HighWatermark, resp.LastStableOffset)
	}
	return resp.HighWatermark
}

// fetch sends one request for one partition. It works like kafka.Client.Fetch,
// but keeps the list of aborted transactions.
func (s *Source) fetch(p *partitionFetcher, from int64, wait time.Duration) (*fetch.ResponsePartition, error) {
	ctx, cancel := s.c.request(s.ctx, wait)
	defer cancel()
	req := &fetch.Request{
		ReplicaID:      -1,
		MaxWaitTime:    int32(wait.Milliseconds()),
		MinBytes:       1,
		MaxBytes:       int32(s.maxBytes),
		SessionID:      0,
		SessionEpoch:   -1,
		IsolationLevel: int8(kafka.ReadCommitted),
		Topics: []fetch.RequestTopic{{
			Topic: p.id.Topic,
			Partitions: []fetch.RequestPartition{{
				Partition:          p.id.ID,
				CurrentLeaderEpoch: -1,
				FetchOffset:        from,
				LogStartOffset:     -1,
				PartitionMaxBytes:  int32(s.maxBytes),
			}},
		}},
	}
	m, err := s.c.transport.RoundTrip(ctx, s.c.Addr, req)
	if err != nil {
		return nil, err
	}
	resp := m.(*fetch.Response)
	if resp.ErrorCode != 0 {
		return nil, kafka.Error(resp.ErrorCode)
	}
	if len(resp.Topics) == 0 {
		return nil, errThrottled(max(time.Duration(resp.ThrottleTimeMs)*time.Millisecond, backoffMin))
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Partitions[0].Partition != p.id.ID {
		return nil, errors.New("the response is for another partition")
	}
	rp := &resp.Topics[0].Partitions[0]
	if rp.ErrorCode != 0 {
		return nil, kafka.Error(rp.ErrorCode)
	}
	return rp, nil
}

// skipGap returns the next offset that can exist when the response at from is a
// batch with this base offset that holds no record from there on: compaction
// removed its last records. The response does not say where the batch ends, so
// skipGap searches for the end, first by doubling steps, then by bisection.
func (s *Source) skipGap(p *partitionFetcher, from, end, base int64) (int64, error) {
	same := func(at int64) (bool, error) {
		resp, err := s.fetch(p, at, 0)
		if err != nil {
			return false, err
		}
		probe := decoder{id: p.id}
		out, err := probe.decode(resp, at, at, nil)
		return out.batches > 0 && out.base == base, err
	}
	lo, hi := from, end
	for step := int64(1); lo+step < end; step *= 2 {
		in, err := same(lo + step)
		if err != nil {
			return from, err
		}
		if !in {
			hi = lo + step
			break
		}
		lo += step
	}
	var err error
	n := sort.Search(int(hi-lo-1), func(i int) bool {
		in, ferr := same(lo + 1 + int64(i))
		err = cmp.Or(err, ferr)
		return !in
	})
	if err != nil {
		return from, err
	}
	return lo + 1 + int64(n), nil
}

// checkRange checks with the leader whether from really is out of range, and applies
// the policy if so.
func (s *Source) checkRange(p *partitionFetcher, from int64) (int64, error) {
	ctx, cancel := s.c.request(s.ctx, 0)
	defer cancel()
	bs, err := s.c.bounds(ctx, []stream.Partition{p.id}, false)
	if err != nil {
		return from, err
	}
	b := bs[p.id]
	if from >= b.first && from <= b.end {
		return from, errors.New("the broker calls an offset out of range that it has") // it changed in between: try again
	}
	return s.outOfRange(p.id, from, b)
}

// isDown records that p got no usable response and reports whether this has lasted
// too long.
func (s *Source) isDown(p *partitionFetcher, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.since.IsZero() {
		p.since = time.Now()
		if s.down++; s.down == 1 {
			s.c.log.Warn("kafka: no usable answer, trying again", "topic", p.id.Topic, "partition", p.id.ID, "offset", p.next, "error", err)
		}
	}
	return s.opt.MaxDown > 0 && time.Since(p.since) > s.opt.MaxDown
}

// isUp records that p got a response. s.mu is held.
func (s *Source) isUp(p *partitionFetcher) {
	if p.since.IsZero() {
		return
	}
	if s.down--; s.down == 0 {
		s.c.log.Info("kafka: all partitions answer again", "topic", p.id.Topic, "partition", p.id.ID, "offset", p.next,
			"down", time.Since(p.since).Round(time.Millisecond))
	}
	p.since = time.Time{}
}
