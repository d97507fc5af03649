package samplers

import (
	"fmt"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
)

// PoolOptions say how unlabelled examples are used.
type PoolOptions struct {
	// Batch is the number of unlabelled examples in a minibatch. With 0 they are
	// sampled out.
	Batch int
	// Recent is the size, ≥ 1, of a sample of unlabelled examples, with their
	// features: the newest ones if Options.Policy is Recent, otherwise a uniform
	// sample.
	Recent int
}

// Pools is a Buffer for semi-supervised learners, which keeps labelled and
// unlabelled examples apart. The labelled ones are few and used repeatedly: they
// are in the sample. The unlabelled ones are many and used once: they are in a
// queue of minibatches, and some also in a sample of recent ones.
//
// A step is due as soon as a minibatch is complete, or once new labelled examples are an
// eighth of the earlier ones, at most Every. So either kind may be absent for any
// length of time. Before the first label, an unlabelled example can only enter the
// sample of recent ones.
//
// The warm-up, of examples of either kind, ends with Begin. Until then all are
// pending and no step is due.
type Pools struct{ Buffer }

// NewPools returns empty pools. The error names the option that is out of
// range.
func NewPools(o Options, u PoolOptions) (*Pools, error) {
	b, err := New(o)
	if err != nil {
		return nil, err
	}
	if o.Policy == Everything || u.Batch < 0 {
		return nil, fmt.Errorf("samplers: pools with policy %q and minibatches of %d", o.Policy, u.Batch)
	}
	policy := Uniform
	if o.Policy == Recent {
		policy = Recent
	}
	p := &pools{o: u}
	if p.recent, err = newSample(policy, u.Recent, true, o.Seed); err != nil {
		return nil, err
	}
	b.pools = p
	return &Pools{*b}, nil
}

// Warm reports whether there are enough examples for Begin.
func (p *Pools) Warm() bool { return !p.ready && len(p.pending) >= p.o.Warmup }

// Begin ends the warm-up.
func (p *Pools) Begin() {
	warm := p.pending
	p.pending, p.ready = nil, true
	for _, x := range warm {
		p.pools.sort(&p.Buffer, x)
	}
}

// Recent returns the sample of unlabelled examples, by slot. The list must not
// be changed.
func (p *Pools) Recent() []*stream.Example { return p.pools.recent.list }

// Skipped returns the number of unlabelled examples that arrived before the first
// label; no minibatch contains them.
func (p *Pools) Skipped() uint64 { return p.pools.skipped }

// More reports whether examples have been added but not handed out yet.
func (p *Pools) More() bool { return len(p.pending) > 0 || p.pools.queue.len() > 0 }

// Drain is Take at the end of a bounded stream, where minibatches may be
// incomplete. It is called while More is true.
func (p *Pools) Drain() *Draw {
	d := p.Take()
	if len(d.Unlabelled) > 0 {
		return d
	}
	d.Unlabelled = p.pools.queue.take(min(p.pools.o.Batch, p.pools.queue.len()))
	return d
}

// pools holds the fields that Pools adds to a Buffer, whose pending examples are labelled.
type pools struct {
	o       PoolOptions
	queue   queue
	recent  *sample
	labels  uint64 // labelled examples handed out
	skipped uint64
}

// sort puts an example where it belongs.
func (p *pools) sort(b *Buffer, x *stream.Example) Fate {
	if x.Labelled {
		b.pending = append(b.pending, x)
		return Learned
	}
	slot := p.recent.add(x)
	if p.labels == 0 && len(b.pending) == 0 {
		p.skipped++
		if slot < 0 {
			return SampledOut
		}
		return Learned
	}
	p.queue.push(x, p.o.Batch+b.o.Warmup)
	return Learned
}

func (p *pools) need(b *Buffer) Need {
	if !b.ready {
		return Need{Fresh: max(0, b.o.Warmup-len(b.pending)), Steps: 1}
	}
	fresh := min(max(int(min(p.labels, 1<<20))/8, 1), b.o.Every) - len(b.pending)
	// Without minibatches labels may be handed out in larger groups, which are
	// scored together.
	if p.labels > 0 && p.o.Batch > 0 {
		fresh = min(fresh, p.o.Batch-p.queue.len())
	}
	return Need{Fresh: max(fresh, 0), Steps: 1}
}

func (p *pools) take(b *Buffer, d *Draw) {
	b.take(d)
	p.labels += uint64(len(d.Join))
	if d.Unlabelled = nil; p.queue.len() >= p.o.Batch {
		d.Unlabelled = p.queue.take(p.o.Batch)
	}
}

func (p *pools) fields(f *state.Fields, b *Buffer) {
	b.examples(f, "unlabelled", &p.queue.list)
	f.Group("recent", func(f *state.Fields) { p.recent.fields(f, b) })
	f.Uint64("labels", &p.labels)
	f.Uint64("skipped", &p.skipped)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	if n := p.queue.len(); n > p.o.Batch+b.o.Warmup {
		f.Fail("unlabelled", fmt.Errorf("%d examples in a queue for %d", n, p.o.Batch+b.o.Warmup))
	}
	if !b.ready && (p.labels > 0 || p.queue.len() > 0 || p.recent.len() > 0 || len(b.pending) >= b.o.Warmup) {
		f.Fail("ready", fmt.Errorf("not after %d labels", p.labels))
	}
	for _, x := range b.pending {
		if b.ready && !x.Labelled {
			f.Fail("pending", fmt.Errorf("example %d: %w", x.Seq, errNoLabel))
			return
		}
	}
	for _, x := range b.sample.list {
		if !x.Labelled {
			f.Fail("sample", fmt.Errorf("example %d: %w", x.Seq, errNoLabel))
			return
		}
	}
	if p.labels < uint64(b.sample.len()) {
		f.Fail("labels", fmt.Errorf("%d labels handed out, %d held", p.labels, b.sample.len()))
	}
}

// queue is a FIFO queue of examples.
type queue struct {
	list []*stream.Example
	out  []*stream.Example // what a Draw points to
}

func (q *queue) len() int { return len(q.list) }

// push appends x. In a queue of size size, if > 0, the oldest example is dropped to
// make room.
func (q *queue) push(x *stream.Example, size int) {
	if len(q.list) >= size {
		q.shift(1)
	}
	q.list = append(q.list, x)
}

// take removes the n oldest examples.
func (q *queue) take(n int) []*stream.Example {
	clear(q.out)
	q.out = append(q.out[:0], q.list[:n]...)
	q.shift(n)
	return q.out
}

// shift drops the first n examples. The others stay where they are: append moves
// them when the array is full, so each example is moved O(1) times.
func (q *queue) shift(n int) {
	clear(q.list[:n]) // or the array would keep them alive
	q.list = q.list[n:]
}
