package samplers

import (
	"fmt"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/columns"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/stream"
)

// Queue hands examples out in the order in which they came, each once. When it
// is full the oldest one makes room.
//
// Memory: at most Cap examples.
type Queue struct {
	size int
	list []*stream.Example
}

// NewQueue returns an empty queue for size ≥ 1 examples.
func NewQueue(size int) *Queue { return &Queue{size: max(size, 1)} }

// Push appends x and returns the example that was dropped for it, or nil.
func (q *Queue) Push(x *stream.Example) (dropped *stream.Example) {
	if len(q.list) == q.size {
		dropped = q.list[0]
		q.shift(1)
	}
	q.list = append(q.list, x)
	return dropped
}

// Take removes the n oldest examples, or all if there are fewer, and appends
// them to dst.
func (q *Queue) Take(dst []*stream.Example, n int) []*stream.Example {
	n = min(max(n, 0), len(q.list))
	dst = append(dst, q.list[:n]...)
	q.shift(n)
	return dst
}

// shift drops the first n examples. The rest stays where it is: append moves
// it once the array has no room behind, so each example is moved O(1) times.
func (q *Queue) shift(n int) {
	clear(q.list[:n]) // or the array would keep them alive
	q.list = q.list[n:]
}

// Len returns the number of examples held.
func (q *Queue) Len() int { return len(q.list) }

// Cap returns the size of the queue.
func (q *Queue) Cap() int { return q.size }

// At returns the example that i others will leave before.
func (q *Queue) At(i int) *stream.Example { return q.list[i] }

// Bytes returns about how much memory the queue holds.
func (q *Queue) Bytes() int { return totalBytes(q.list) }

// Fields describes the state.
func (q *Queue) Fields(f *state.Fields) {
	columns.Examples(f, "examples", &q.list)
	if f.Decoding() && len(q.list) > q.size {
		f.Fail("examples", fmt.Errorf("%d examples in a queue for %d", len(q.list), q.size))
	}
}

// Policy names the way a pool forgets.
type Policy string

const (
	KeepUniform  Policy = "reservoir" // a uniform sample of all that came
	KeepBalanced Policy = "balanced"  // a reservoir with equal shares of the classes
	KeepRecent   Policy = "window"    // the last ones
)

// New returns an empty sampler with the given policy and capacity.
func New(p Policy, size int, seed uint64) (Sampler, error) {
	switch p {
	case KeepUniform, KeepBalanced:
		return NewReservoir(size, p == KeepBalanced, seed), nil
	case KeepRecent:
		return NewWindow(size), nil
	}
	return nil, fmt.Errorf("no sampling policy %q; there are %s, %s, %s", p, KeepUniform, KeepBalanced, KeepRecent)
}

// Pools keeps labelled and unlabelled examples apart: the labelled ones, which
// are few and used again and again, in a Sampler; the unlabelled ones, which
// are many and used once, in a Queue.
type Pools struct {
	Labelled   Sampler
	Unlabelled *Queue
}

// NewPools returns pools for the given numbers of labelled and unlabelled
// examples.
func NewPools(p Policy, labelled, unlabelled int, seed uint64) (*Pools, error) {
	s, err := New(p, labelled, seed)
	if err != nil {
		return nil, err
	}
	return &Pools{Labelled: s, Unlabelled: NewQueue(unlabelled)}, nil
}

// Add offers x to the pool it belongs to and reports whether x was kept.
func (p *Pools) Add(x *stream.Example) bool {
	if !x.Labelled {
		p.Unlabelled.Push(x)
		return true
	}
	slot, _ := p.Labelled.Add(x)
	return slot >= 0
}

// Draw appends the slots of n labelled examples, drawn with r uniformly with
// replacement, to dst. Without labelled examples it appends none.
func (p *Pools) Draw(dst []int, n int, r *rng.Source) []int { return Draw(dst, p.Labelled, n, r) }

// Draw appends n slots of s, drawn with r uniformly with replacement, to dst.
// From an empty sample it draws none. The generator is the caller's, because
// what is drawn is part of the learner's state, not of the sample's.
func Draw(dst []int, s Sample, n int, r *rng.Source) []int {
	if s.Len() == 0 {
		return dst
	}
	for range n {
		dst = append(dst, r.IntN(s.Len()))
	}
	return dst
}

// Bytes returns about how much memory the pools hold.
func (p *Pools) Bytes() int { return p.Labelled.Bytes() + p.Unlabelled.Bytes() }

// Fields describes the state.
func (p *Pools) Fields(f *state.Fields) {
	f.Group("labelled", p.Labelled.Fields)
	f.Group("unlabelled", p.Unlabelled.Fields)
}

// Deferred holds arrivals back from a sampler, so that the sample stays as it
// is while an epoch runs over it.
//
// Memory: the sampler's and Waiting() ≤ Cap arrivals.
type Deferred struct {
	Sampler Sampler
	wait    Queue
}

// NewDeferred puts a queue for size ≥ 1 arrivals before s.
func NewDeferred(s Sampler, size int) *Deferred {
	return &Deferred{Sampler: s, wait: Queue{size: max(size, 1)}}
}

// Add keeps x for the next Apply. If the queue is full its oldest arrival is
// dropped and returned.
func (d *Deferred) Add(x *stream.Example) (dropped *stream.Example) { return d.wait.Push(x) }

// Waiting returns the number of arrivals not yet applied.
func (d *Deferred) Waiting() int { return d.wait.Len() }

// Next returns the waiting example that i others will be applied before.
func (d *Deferred) Next(i int) *stream.Example { return d.wait.At(i) }

// Apply adds the waiting examples to the sampler, in order of arrival, and
// calls changed, which may be nil, after each with what Sampler.Add returned.
func (d *Deferred) Apply(changed func(x *stream.Example, slot int, evicted *stream.Example)) {
	for _, x := range d.wait.Take(nil, d.wait.Len()) {
		slot, evicted := d.Sampler.Add(x)
		if changed != nil {
			changed(x, slot, evicted)
		}
	}
}

// Bytes returns about how much memory is held.
func (d *Deferred) Bytes() int { return d.Sampler.Bytes() + d.wait.Bytes() }

// Fields describes the state.
func (d *Deferred) Fields(f *state.Fields) {
	f.Group("sample", d.Sampler.Fields)
	f.Group("waiting", d.wait.Fields)
}
