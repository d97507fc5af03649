package samplers

import (
	"fmt"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/stream"
)

// shuffle is a buffer that breaks up the order of a stream. Once it is full, each
// arrival replaces a random example, which leaves. An example stays for a
// geometrically distributed number of arrivals, size on average. With size 0
// examples pass straight through.
type shuffle struct {
	size int
	list []*stream.Example
	rng  *rng.Source
}

func newShuffle(size int, seed uint64) *shuffle {
	return &shuffle{size: size, rng: rng.New(seed, "samplers.shuffle")}
}

// add adds x and returns the example that leaves for it, or nil while the buffer
// fills.
func (s *shuffle) add(x *stream.Example) *stream.Example {
	switch {
	case s.size == 0:
		return x
	case len(s.list) < s.size:
		s.list = append(s.list, x)
		return nil
	}
	j := s.rng.IntN(s.size)
	x, s.list[j] = s.list[j], x
	return x
}

// drain empties the buffer and returns what it held, in random order.
func (s *shuffle) drain() []*stream.Example {
	out := s.list
	s.list = nil
	s.rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// free returns how many examples can be added before one leaves.
func (s *shuffle) free() int { return s.size - len(s.list) }

func (s *shuffle) fields(f *state.Fields, b *Buffer) {
	b.examples(f, "examples", &s.list)
	f.Binary("rng", s.rng)
	if f.Decoding() && len(s.list) > s.size {
		f.Fail("examples", fmt.Errorf("%d examples in a buffer for %d", len(s.list), s.size))
	}
}
