package kafkaio

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/streamsvm/streamsvm/stream"
)

// merger is the state of the ordered merge; Source describes the order. The
// source's mutex guards it.
type merger struct {
	lateness time.Duration
	fetchers []*partitionFetcher
	heads    []*partitionFetcher // partitions with records, smallest next record first
	newest   int64               // largest timestamp fetched, ms
	last     int64               // largest timestamp delivered, ms
}

// mark is the state of knowledge when a fetch was sent: the largest timestamp
// fetched until then, and the time.
type mark struct {
	newest int64
	at     time.Time
}

// orderState is what the merge knows about one partition.
type orderState struct {
	ts int64 // timestamp of the next record
	// clear is the mark of the newest fetch that reached the partition's end.
	clear mark
	// seen lists when the log was first seen to reach which end, in increasing
	// order; entries below the next record are dropped.
	seen []seen
}

type seen struct {
	end int64
	at  time.Time
}

func newMerger(lateness time.Duration) merger {
	return merger{lateness: lateness, newest: math.MinInt64, last: math.MinInt64}
}

func (m *merger) mark() mark { return mark{m.newest, time.Now()} }

// millis is the timestamp by which a record is ordered; a record without one comes first.
func millis(r *stream.Record) int64 {
	if r.Time.IsZero() {
		return -1
	}
	return r.Time.UnixMilli()
}

// fetched processes a response whose records are already in the queue of p.
func (m *merger) fetched(p *partitionFetcher, recs []stream.Record, sent mark, now time.Time) {
	for i := range recs {
		m.newest = max(m.newest, millis(&recs[i]))
	}
	o := &p.order
	if n := len(o.seen); n == 0 || p.end > o.seen[n-1].end {
		o.seen = append(o.seen, seen{p.end, now})
	}
	if p.next >= p.end {
		o.clear = sent
	}
	if len(recs) > 0 && len(p.queue) == 1 {
		m.push(p)
	}
}

// passes reports whether the candidate, p's next record, may be delivered although q
// has nothing to deliver.
func (m *merger) passes(p, q *partitionFetcher, bounded bool) bool {
	if bounded {
		return q.done()
	}
	clear := q.order.clear
	if clear.at.IsZero() {
		return false
	}
	// The difference cannot overflow: timestamps are at least −1 ms.
	if clear.newest >= p.order.ts && clear.newest-p.order.ts >= m.lateness.Milliseconds() {
		return true
	}
	return clear.at.Sub(p.order.appeared(p.position())) >= m.lateness
}

// appeared returns when the record at offset was first seen to be in the log.
func (o *orderState) appeared(offset int64) time.Time {
	for len(o.seen) > 1 && o.seen[0].end <= offset {
		o.seen = o.seen[1:]
	}
	return o.seen[0].at
}

// takeOrdered appends the records that are next in the order. s.mu is held.
func (s *Source) takeOrdered(dst []stream.Record) []stream.Record {
	m := &s.merge
	for n := 0; n < s.most && len(m.heads) > 0; n++ {
		p := m.heads[0]
		if len(m.heads) < len(m.fetchers) {
			for _, q := range m.fetchers {
				if q.empty() && !m.passes(p, q, s.bounded) {
					return dst
				}
			}
		}
		a := &p.queue[0]
		dst = append(dst, a.recs[a.pos])
		if p.order.ts < m.last {
			s.late.Add(1)
		}
		m.last = max(m.last, p.order.ts)
		if a.pos++; a.pos == len(a.recs) {
			p.pop()
		}
		m.advance()
	}
	return dst
}

// compareHeads orders partitions by their next records.
func compareHeads(p, q *partitionFetcher) int {
	if c := cmp.Compare(p.order.ts, q.order.ts); c != 0 {
		return c
	}
	return p.id.Compare(q.id)
}

func (p *partitionFetcher) setHead() {
	a := &p.queue[0]
	p.order.ts = millis(&a.recs[a.pos])
}

// push enters p, which just got its first record, into the heads.
func (m *merger) push(p *partitionFetcher) {
	p.setHead()
	m.enter(p)
}

func (m *merger) enter(p *partitionFetcher) {
	i, _ := slices.BinarySearchFunc(m.heads, p, compareHeads)
	m.heads = slices.Insert(m.heads, i, p)
}

// advance moves the first partition, whose record has been taken, to the place of its
// next record, or out of the list.
func (m *merger) advance() {
	p := m.heads[0]
	if !p.empty() {
		p.setHead()
		if len(m.heads) == 1 || compareHeads(p, m.heads[1]) < 0 {
			return // still the first
		}
	}
	m.heads = slices.Delete(m.heads, 0, 1)
	if !p.empty() {
		m.enter(p)
	}
}
