package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/stream"
	"golang.org/x/time/rate"
)

// Source reads topics. It implements stream.Source, Lagger, Committer and
// Skipper.
//
// One goroutine per partition fetches ahead, within bounds, from the offset
// after the last record that it has fetched. While a broker is down it retries
// for up to MaxDown, and then continues exactly where it stopped.
//
// # Ordered merging
//
// In mode MergeOrdered the next record delivered is the smallest, by (timestamp,
// topic, partition), of the next records of all partitions, where the next
// record of a partition is the undelivered one with the smallest offset.
// A partition whose next record is unknown holds the others back. With UntilEnd
// or StopAt it does so until it has reached its end, and the order is a function
// of the partitions' contents alone.
//
// In an endless stream a partition at its end does not hold back a candidate
// with timestamp t that was first seen in the log at time a, if a fetch of the
// partition has reached its end and was sent
//   - after a record with timestamp ≥ t + Lateness had come from any partition,
//     or
//   - at or after time a + Lateness by the clock of this process.
//
// So the order is still a function of the contents alone, as long as no producer
// appends a record more than Lateness after a record of another partition that
// belongs behind it (measured by timestamps or, in a pause, by the clock) and no
// partition is added: until it is found (Discover) the others do not wait for
// it. Nothing but the offsets is needed to resume. Late counts the records that
// were delivered after a record with a larger timestamp.
type Source struct {
	opt       SourceOptions
	c         *client
	ctx       context.Context // of the fetchers
	cancel    context.CancelFunc
	running   sync.WaitGroup
	start     stream.Offsets
	maxBytes  int
	bounded   bool
	skipped   atomic.Uint64
	late      atomic.Uint64
	wake      chan struct{} // there may be something to deliver
	rate      *rate.Limiter // of delivery; nil: no limit
	paid      bool          // the limiter has already admitted the next record
	most      int           // maximum number of records per Fetch
	closeOnce sync.Once

	mu       sync.Mutex
	fetchers []*partitionFetcher // in order of Compare
	err      error               // the first fatal one
	down     int                 // partitions without a usable answer
	ready    []*partitionFetcher // Arrival: partitions with records, first come first served
	merge    merger              // Ordered
}

var (
	_ stream.Source    = (*Source)(nil)
	_ stream.Lagger    = (*Source)(nil)
	_ stream.Committer = (*Source)(nil)
	_ stream.Skipper   = (*Source)(nil)
)

// deliverMax bounds the records of one Fetch, and so the time for which fetchers may
// have to wait.
const deliverMax = 4096

// NewSource determines the start position of every partition and begins to fetch.
// It blocks while no broker answers, for up to MaxDown. Errors are *RangeError,
// *UnknownTopicError, invalid options, and refusals by a broker.
func NewSource(ctx context.Context, o SourceOptions) (*Source, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.setDefaults()
	c, err := o.Config.open(o.Topics)
	if err != nil {
		return nil, err
	}
	s := &Source{opt: o, c: c, wake: make(chan struct{}, 1), bounded: o.UntilEnd || o.StopAt != nil, most: deliverMax}
	if o.Rate > 0 {
		s.most = int(min(max(o.Rate/10, 1), deliverMax))
		s.rate = rate.NewLimiter(rate.Limit(o.Rate), s.most)
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	ps, err := s.resolve(ctx)
	if err != nil {
		s.cancel()
		c.close()
		return nil, err
	}
	s.start = stream.Offsets{}
	s.maxBytes = min(o.FetchMaxBytes, max(o.MaxBuffered/(3*max(1, len(ps))), 16<<10))
	s.merge = newMerger(o.Lateness)
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range ps {
		s.start[p.id] = p.next
		s.add(p, now)
	}
	if !s.bounded && len(o.Partitions) < len(o.Topics) {
		s.running.Go(crash.Func(s.discover))
	}
	return s, nil
}

// add starts a partition. s.mu is held.
func (s *Source) add(pos position, now time.Time) {
	p := newFetcher(pos, now)
	if s.bounded {
		p.stop = pos.bounds.end
		if s.opt.StopAt != nil {
			p.stop = s.opt.StopAt[pos.id] // 0 where absent: nothing to read
		}
	}
	i, _ := slices.BinarySearchFunc(s.fetchers, p, func(a, b *partitionFetcher) int { return a.id.Compare(b.id) })
	s.fetchers = slices.Insert(s.fetchers, i, p)
	if s.opt.Merge == MergeOrdered {
		s.merge.fetchers = s.fetchers
	}
	if !p.done() {
		s.running.Go(crash.Func(func() { s.fetchLoop(p) }))
	}
}

// Start returns the offsets at which reading started: the offsets of the checkpoint
// and, for partitions that it did not name, what Start resolved to. Stored at
// once, they make a first start at latest or at a timestamp repeatable.
func (s *Source) Start() stream.Offsets { return s.start.Clone() }

// Fetch implements stream.Source.
func (s *Source) Fetch(ctx context.Context, dst []stream.Record) ([]stream.Record, error) {
	if s.rate != nil && !s.paid {
		if err := s.rate.Wait(ctx); err != nil { // for the first record, and for the earlier ones
			<-ctx.Done() // the deadline may still lie ahead
			return dst, ctx.Err()
		}
		s.paid = true
	}
	for {
		if err := ctx.Err(); err != nil {
			return dst, err
		}
		s.mu.Lock()
		n := len(dst)
		if s.opt.Merge == MergeOrdered {
			dst = s.takeOrdered(dst)
		} else {
			dst = s.takeArrival(dst)
		}
		err := s.err
		if len(dst) == n && err == nil && s.ended() {
			err = io.EOF
		}
		s.mu.Unlock()
		if len(dst) > n {
			if s.rate != nil {
				s.rate.ReserveN(time.Now(), len(dst)-n-1)
				s.paid = false
			}
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
		select {
		case <-ctx.Done():
		case <-s.wake:
		}
	}
}

// ended reports whether a bounded stream has delivered everything. s.mu is
// held.
func (s *Source) ended() bool {
	if !s.bounded {
		return false
	}
	for _, p := range s.fetchers {
		if !p.empty() || !p.done() {
			return false
		}
	}
	return true
}

// takeArrival appends the records of the response that came first. s.mu is held.
func (s *Source) takeArrival(dst []stream.Record) []stream.Record {
	for len(s.ready) > 0 {
		p := s.ready[0]
		b := &p.queue[0]
		n := min(s.most, len(b.recs)-b.pos)
		dst = append(dst, b.recs[b.pos:b.pos+n]...)
		b.pos += n
		if b.pos == len(b.recs) {
			p.pop()
			s.ready = slices.Delete(s.ready, 0, 1)
		}
		if n > 0 {
			return dst
		}
	}
	return dst
}

// notify wakes a waiting Fetch.
func (s *Source) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Close stops fetching.
func (s *Source) Close() error {
	s.closeOnce.Do(func() {
		s.cancel()
		s.running.Wait()
		s.mu.Lock()
		if s.err == nil {
			s.err = errors.New("kafka source: closed")
		}
		s.mu.Unlock()
		s.notify()
		s.c.close()
	})
	return nil
}

// Lag implements stream.Lagger: the number of records between the next one to deliver
// and the end of the partition (or its bounded part) as last reported by a broker.
func (s *Source) Lag() map[stream.Partition]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	lag := make(map[stream.Partition]int64, len(s.fetchers))
	for _, p := range s.fetchers {
		lag[p.id] = max(0, min(p.end, p.stop)-p.position())
	}
	return lag
}

// Skipped implements stream.Skipper.
func (s *Source) Skipped() uint64 { return s.skipped.Load() }

// Late returns how many records an Ordered source delivered after one with a
// larger timestamp.
func (s *Source) Late() uint64 { return s.late.Load() }

// End returns the offsets at which a bounded source ends.
func (s *Source) End() stream.Offsets {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := stream.Offsets{}
	for _, p := range s.fetchers {
		o[p.id] = p.stop
	}
	return o
}

// Commit implements stream.Committer; without a Group it does nothing.
func (s *Source) Commit(ctx context.Context, o stream.Offsets) error {
	if s.opt.Group == "" || len(o) == 0 {
		return nil
	}
	rctx, cancel := s.c.request(ctx, 0)
	defer cancel()
	if err := s.c.commit(rctx, s.opt.Group, o, ""); err != nil {
		return fmt.Errorf("kafka: commit to group %s: %w", s.opt.Group, err)
	}
	return nil
}

// fail records the first fatal error.
func (s *Source) fail(err error) {
	s.mu.Lock()
	if s.err == nil && s.ctx.Err() == nil {
		s.err = err
	}
	s.mu.Unlock()
	s.notify()
}

// discover looks for partitions added to topics that are read completely. They
// start at earliest, since all their records are newer than the start.
func (s *Source) discover() {
	t := time.NewTicker(s.opt.Discover)
	defer t.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-t.C:
		}
		if err := s.discoverOnce(); err != nil && s.ctx.Err() == nil {
			s.c.log.Debug("kafka: cannot look for added partitions", "error", err)
		}
	}
}

func (s *Source) discoverOnce() error {
	ctx, cancel := s.c.request(s.ctx, 0)
	defer cancel()
	found, err := s.c.partitions(ctx, s.opt.Topics)
	if err != nil {
		return err
	}
	var added []stream.Partition
	s.mu.Lock()
	for _, t := range s.opt.Topics {
		if _, listed := s.opt.Partitions[t]; listed {
			continue
		}
		for _, id := range found[t] {
			p := stream.Partition{Topic: t, ID: id}
			if !slices.ContainsFunc(s.fetchers, func(q *partitionFetcher) bool { return q.id == p }) {
				added = append(added, p)
			}
		}
	}
	s.mu.Unlock()
	if len(added) == 0 {
		return nil
	}
	bs, err := s.c.bounds(ctx, added, true)
	if err != nil {
		return err
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range added {
		s.c.log.Info("kafka: reading an added partition", "topic", p.Topic, "partition", p.ID, "offset", bs[p].first)
		s.add(position{id: p, next: bs[p].first, bounds: bs[p]}, now)
	}
	return nil
}

// ReadAll passes all records up to the current ends of the topics to take, and returns
// the offsets where it began and these ends. Unless UntilEnd or StopAt is set, it waits
// for the transactions that are open at the ends, so that no committed record is
// missing, even one behind an uncommitted one. Records deleted meanwhile are skipped.
// A record is valid only during its call of take.
func ReadAll(ctx context.Context, o SourceOptions, take func(*stream.Record)) (first, end stream.Offsets, err error) {
	o.OutOfRange = OutOfRangeEarliest
	if !o.UntilEnd && o.StopAt == nil {
		ps, err := Partitions(ctx, o.Config, o.Topics, o.TopicWait, o.MaxDown)
		if err != nil {
			return nil, nil, err
		}
		if _, o.StopAt, err = Bounds(ctx, o.Config, ps, o.MaxDown); err != nil {
			return nil, nil, err
		}
	}
	src, err := NewSource(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	defer src.Close()
	var recs []stream.Record
	for {
		if recs, err = src.Fetch(ctx, recs[:0]); err == io.EOF {
			return src.Start(), src.End(), nil
		}
		if err != nil {
			return nil, nil, err
		}
		for i := range recs {
			take(&recs[i])
		}
		clear(recs)
	}
}
