package samplers

import (
	"fmt"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/columns"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/stream"
)

// Shuffle is a buffer of bounded size that breaks up the order of a stream:
// once it is full, each arrival takes the place of a random example, which
// leaves. An example stays for a geometrically distributed number of arrivals,
// Size on average.
//
// Memory: at most Size examples.
type Shuffle struct {
	size int
	buf  []*stream.Example
	rng  *rng.Source
}

// NewShuffle returns an empty buffer for size ≥ 0 examples. With size 0
// examples pass through.
func NewShuffle(size int, seed uint64) *Shuffle {
	return &Shuffle{size: max(size, 0), rng: rng.New(seed, "samplers.shuffle")}
}

// Add takes x in and returns the example that leaves for it, or nil while the
// buffer fills.
func (s *Shuffle) Add(x *stream.Example) *stream.Example {
	switch {
	case s.size == 0:
		return x
	case len(s.buf) < s.size:
		s.buf = append(s.buf, x)
		return nil
	}
	j := s.rng.IntN(s.size)
	x, s.buf[j] = s.buf[j], x
	return x
}

// Drain empties the buffer and returns what it held, in random order.
func (s *Shuffle) Drain() []*stream.Example {
	out := s.buf
	s.buf = nil
	s.rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// Len returns the number of examples held, Cap the most that are.
func (s *Shuffle) Len() int { return len(s.buf) }

// Cap returns the size of the buffer.
func (s *Shuffle) Cap() int { return s.size }

// Free returns how many examples can be added before the next one makes an
// example leave.
func (s *Shuffle) Free() int { return s.size - len(s.buf) }

// Bytes returns about how much memory the buffer holds.
func (s *Shuffle) Bytes() int { return totalBytes(s.buf) }

// Fields describes the state.
func (s *Shuffle) Fields(f *state.Fields) {
	columns.Examples(f, "examples", &s.buf)
	f.Binary("rng", s.rng)
	if f.Decoding() && len(s.buf) > s.size {
		f.Fail("examples", fmt.Errorf("%d examples in a buffer for %d", len(s.buf), s.size))
	}
}
