package samplers

import (
	"fmt"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/columns"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/stream"
)

// Reservoir holds a uniform random sample of all examples seen: after n of
// them each is held with probability Cap/n (Vitter, "Random Sampling with a
// Reservoir", ACM TOMS 11(1), 1985, Algorithm R).
//
// A balanced reservoir holds a uniform sample of each class instead, with as
// equal shares as the stream allows (Chrysakis and Moens, "Online Continual
// Learning from Imbalanced Data", ICML 2020, Algorithm 1): an example of a
// class that has never been the largest replaces a random example of the
// largest class; the others follow Algorithm R within their class. The classes
// are the labels above 0, the others, and "unlabelled".
//
// Memory: at most Cap examples, as copies. Examples that come one after another
// share blocks of memory (stream.Arena), and of the neighbours of one that is
// held ever fewer are held too.
type Reservoir struct {
	size     int
	balanced bool
	list     []*stream.Example
	seen     uint64
	classes  [3]class
	rng      *rng.Source
}

// class is the book-keeping for one class of a balanced reservoir.
type class struct {
	seen  uint64
	held  int
	large bool // has been the largest class of a full reservoir
}

// NewReservoir returns an empty reservoir for size ≥ 1 examples.
func NewReservoir(size int, balanced bool, seed uint64) *Reservoir {
	return &Reservoir{size: max(size, 1), balanced: balanced, rng: rng.New(seed, "samplers.reservoir")}
}

func classOf(x *stream.Example) int {
	switch {
	case !x.Labelled:
		return 2
	case x.Y > 0:
		return 0
	}
	return 1
}

// Add offers x.
func (r *Reservoir) Add(x *stream.Example) (slot int, evicted *stream.Example) {
	r.seen++
	c := &r.classes[classOf(x)]
	c.seen++
	if len(r.list) < r.size {
		r.list = append(r.list, alone(x))
		c.held++
		return len(r.list) - 1, nil
	}
	if r.balanced {
		slot = r.balancedSlot(classOf(x))
	} else {
		slot = r.uniformSlot()
	}
	if slot < 0 {
		return -1, nil
	}
	evicted, r.list[slot] = r.list[slot], alone(x)
	r.classes[classOf(evicted)].held--
	c.held++
	return slot, evicted
}

// alone returns a copy of x that keeps no other example's memory alive. One
// without features stands for an example that is elsewhere.
func alone(x *stream.Example) *stream.Example {
	if len(x.X.Val) == 0 {
		return x
	}
	c := *x
	c.X = x.X.Clone()
	return &c
}

func (r *Reservoir) uniformSlot() int {
	if j := r.rng.Uint64N(r.seen); j < uint64(r.size) {
		return int(j)
	}
	return -1
}

func (r *Reservoir) balancedSlot(k int) int {
	largest := 0
	for i := range r.classes {
		if r.classes[i].held > r.classes[largest].held {
			largest = i
		}
	}
	for i := range r.classes {
		if r.classes[i].held == r.classes[largest].held {
			r.classes[i].large = true
		}
	}
	from := largest
	if c := r.classes[k]; c.large {
		if c.held == 0 || r.rng.Uint64N(c.seen) >= uint64(c.held) {
			return -1
		}
		from = k
	}
	// A random one of the class's slots, in slot order.
	skip := r.rng.IntN(r.classes[from].held)
	for i, x := range r.list {
		if classOf(x) != from {
			continue
		}
		if skip == 0 {
			return i
		}
		skip--
	}
	panic("samplers: a reservoir has lost count of its classes")
}

// Len returns the number of examples held.
func (r *Reservoir) Len() int { return len(r.list) }

// Cap returns the size of the reservoir.
func (r *Reservoir) Cap() int { return r.size }

// At returns the example in slot i.
func (r *Reservoir) At(i int) *stream.Example { return r.list[i] }

// Seen returns the number of examples offered so far.
func (r *Reservoir) Seen() uint64 { return r.seen }

// Bytes returns about how much memory the reservoir holds.
func (r *Reservoir) Bytes() int { return totalBytes(r.list) }

// Fields describes the state.
func (r *Reservoir) Fields(f *state.Fields) {
	columns.Examples(f, "examples", &r.list)
	f.Uint64("seen", &r.seen)
	for i, name := range []string{"positive", "negative", "unlabelled"} {
		f.Uint64(name, &r.classes[i].seen)
		f.Bool(name+"_large", &r.classes[i].large)
	}
	f.Binary("rng", r.rng)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	var sum uint64
	for i := range r.classes {
		r.classes[i].held = 0
		sum += r.classes[i].seen
	}
	for _, x := range r.list {
		r.classes[classOf(x)].held++
	}
	if n := len(r.list); n > r.size {
		f.Fail("examples", fmt.Errorf("%d examples in a reservoir for %d", n, r.size))
	}
	if sum != r.seen || r.seen < uint64(len(r.list)) {
		f.Fail("seen", fmt.Errorf("%d examples seen, %d by class, %d held", r.seen, sum, len(r.list)))
	}
	for _, c := range r.classes {
		if c.seen < uint64(c.held) {
			f.Fail("seen", fmt.Errorf("%d examples of a class seen, %d held", c.seen, c.held))
		}
	}
}
