package samplers

import (
	"errors"
	"fmt"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/stream"
)

var (
	errNoLabel = errors.New("it has no label")
	errLength  = errors.New("lengths do not agree")
)

// sample is a list of slots with a policy that chooses their members. A member
// keeps its slot until it leaves, and replacing one changes no other slot.
//
// Recent takes the slots in turn. Uniform is Algorithm R of Vitter, "Random
// Sampling with a Reservoir", ACM TOMS 11(1), 1985: after n examples each is a
// member with probability size/n. Balanced is Algorithm 1 of Chrysakis and Moens,
// "Online Continual Learning from Imbalanced Data", ICML 2020: an example of a
// class that has never been the largest replaces a random example of the largest
// class; the others follow Algorithm R within their class. Its classes are: labels
// above 0, other labels, and no label.
type sample struct {
	policy Policy
	size   int
	hold   bool

	seq  []uint64
	list []*stream.Example // the members, if held
	next int               // Recent: the oldest slot once the sample is full
	seen uint64            // for Uniform and Balanced: examples offered
	rng  *rng.Source

	// For Balanced.
	class   []byte // of each member
	classes [3]class

	// Memory for a Draw.
	slots, gone []int
	old         []*stream.Example
}

// class has the counts of one class.
type class struct {
	seen  uint64
	held  int
	large bool // has been the largest class of a full sample
}

func newSample(p Policy, size int, hold bool, seed uint64) (*sample, error) {
	switch p {
	case First, Recent, Uniform, Balanced:
	default:
		return nil, fmt.Errorf("samplers: no policy %q; there are %s, %s, %s and %s", p, First, Recent, Uniform, Balanced)
	}
	if size < 1 {
		return nil, fmt.Errorf("samplers: a sample of %d, want at least 1", size)
	}
	return &sample{policy: p, size: size, hold: hold, rng: rng.New(seed, "samplers.reservoir")}, nil
}

func (s *sample) len() int { return len(s.seq) }

func classOf(x *stream.Example) byte {
	switch {
	case !x.Labelled:
		return 2
	case x.Y > 0:
		return 0
	}
	return 1
}

// take decides which examples of d join and sets their slots.
func (s *sample) take(d *Draw) {
	n := s.len()
	if cap(s.slots) > few {
		s.slots, s.old, s.gone = nil, nil, nil
	}
	s.slots, s.old, s.gone = s.slots[:0], s.old[:0], s.gone[:0]
	var left map[int]bool
	for i, x := range d.Join {
		slot := s.choose(x)
		s.slots = append(s.slots, slot)
		if 0 <= slot && slot < n && !left[slot] {
			if left == nil && i+1 < len(d.Join) {
				left = map[int]bool{}
			}
			if left != nil {
				left[slot] = true
			}
			s.gone = append(s.gone, slot)
		}
		held, old := s.put(slot, x)
		if s.hold {
			d.Join[i], s.old = held, append(s.old, old)
		}
	}
	d.Slots, d.Old, d.Gone = s.slots, s.old, s.gone
}

// add offers one example and returns its slot, or −1.
func (s *sample) add(x *stream.Example) int {
	slot := s.choose(x)
	s.put(slot, x)
	return slot
}

// choose returns the slot for x, or −1.
func (s *sample) choose(x *stream.Example) int {
	s.seen++
	c := &s.classes[classOf(x)]
	c.seen++
	if n := s.len(); n < s.size {
		return n
	}
	switch s.policy {
	case Recent:
		slot := s.next
		s.next = (slot + 1) % s.size
		return slot
	case Uniform:
		if j := s.rng.Uint64N(s.seen); j < uint64(s.size) {
			return int(j)
		}
		return -1
	case Balanced:
		return s.balanced(classOf(x))
	}
	return -1
}

func (s *sample) balanced(k byte) int {
	largest := 0
	for i := range s.classes {
		if s.classes[i].held > s.classes[largest].held {
			largest = i
		}
	}
	for i := range s.classes {
		if s.classes[i].held == s.classes[largest].held {
			s.classes[i].large = true
		}
	}
	from := byte(largest)
	if c := s.classes[k]; c.large {
		if c.held == 0 || s.rng.Uint64N(c.seen) >= uint64(c.held) {
			return -1
		}
		from = k
	}
	// A random slot of the class, in slot order.
	skip := s.rng.IntN(s.classes[from].held)
	for i, c := range s.class {
		if c != from {
			continue
		}
		if skip == 0 {
			return i
		}
		skip--
	}
	panic("samplers: a sample has lost count of its classes")
}

// put makes x the member in a slot. It returns the example now held, which may be a
// copy of x, and the one held there before.
func (s *sample) put(slot int, x *stream.Example) (held, old *stream.Example) {
	if slot < 0 {
		return x, nil
	}
	k := classOf(x)
	fresh := slot == s.len()
	if fresh {
		s.seq = append(s.seq, x.Seq)
	} else {
		s.seq[slot] = x.Seq
	}
	if s.policy == Balanced {
		if fresh {
			s.class = append(s.class, k)
		} else {
			s.classes[s.class[slot]].held--
			s.class[slot] = k
		}
		s.classes[k].held++
	}
	if !s.hold {
		return x, nil
	}
	if s.policy == Uniform || s.policy == Balanced {
		x = alone(x)
	}
	if fresh {
		s.list = append(s.list, x)
	} else {
		old, s.list[slot] = s.list[slot], x
	}
	return x, old
}

// alone returns a copy of x that keeps no other example's memory alive. Consecutive
// examples share blocks of memory (stream.Arena), and in a reservoir ever fewer of
// a member's neighbours are members too.
func alone(x *stream.Example) *stream.Example {
	c := *x
	c.X = x.X.Clone()
	return &c
}

// fields describes the state; b checks the held examples.
func (s *sample) fields(f *state.Fields, b *Buffer) {
	f.Uint64s("seq", &s.seq)
	if s.hold {
		b.examples(f, "members", &s.list)
	}
	switch s.policy {
	case Recent:
		f.Int("next", &s.next)
	case Balanced:
		f.Bytes("class", &s.class)
		for i, name := range []string{"positive", "negative", "unlabelled"} {
			f.Uint64(name, &s.classes[i].seen)
			f.Bool(name+"_large", &s.classes[i].large)
		}
		fallthrough
	case Uniform:
		f.Uint64("seen", &s.seen)
		f.Binary("rng", s.rng)
	}
	if f.Decoding() && f.Err() == nil {
		s.restored(f)
	}
}

// restored refuses states that cannot have been stored.
func (s *sample) restored(f *state.Fields) {
	n := s.len()
	switch {
	case n > s.size:
		f.Fail("seq", fmt.Errorf("%d members of a sample of %d", n, s.size))
	case s.hold && len(s.list) != n, s.policy == Balanced && len(s.class) != n:
		f.Fail("seq", errLength)
	case s.next < 0 || s.next >= s.size || n < s.size && s.next != 0:
		f.Fail("next", fmt.Errorf("no slot %d", s.next))
	}
	for i, x := range s.list {
		if f.Err() == nil && (x.Seq != s.seq[i] || s.policy == Balanced && classOf(x) != s.class[i]) {
			f.Fail("members", fmt.Errorf("example %d is in the slot of %d", x.Seq, s.seq[i]))
		}
	}
	switch s.policy {
	case Uniform:
		if s.seen < uint64(n) {
			f.Fail("seen", fmt.Errorf("%d examples seen, %d held", s.seen, n))
		}
		return
	case Balanced:
	default:
		return
	}
	for i := range s.classes {
		s.classes[i].held = 0
	}
	for _, k := range s.class {
		if k > 2 {
			f.Fail("class", fmt.Errorf("no class %d", k))
			return
		}
		s.classes[k].held++
	}
	var sum uint64
	for _, c := range s.classes {
		sum += c.seen
		if c.seen < uint64(c.held) {
			f.Fail("seen", fmt.Errorf("%d examples of a class seen, %d held", c.seen, c.held))
		}
	}
	if sum != s.seen {
		f.Fail("seen", fmt.Errorf("%d examples seen, %d by class", s.seen, sum))
	}
}
