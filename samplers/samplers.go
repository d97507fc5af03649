// Package samplers decides which examples of a stream a learner holds.
//
//	Shuffle    a bounded buffer that breaks up the order of a stream
//	Growing    a sample S_k that grows, with fresh validation draws T_k
//	Reservoir  a uniform sample of everything seen, optionally class-balanced
//	Window     the last n examples
//	Queue      first in, first out: minibatches of fresh examples
//	Pools      a labelled sample beside a queue of unlabelled examples
//	Deferred   a sample that stays as it is during an epoch
//
// Everything here is deterministic: what is kept is a function of the seed and
// of the sequence of calls. Every type describes its state in a method Fields,
// for internal/state; decoding needs a sampler made with the same arguments.
// Memory is bounded by the capacities given to the constructors; Bytes says
// what is held now. Samplers own the examples they are given and never modify
// them, and none is safe for concurrent use.
package samplers

import (
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
)

// Sample is a list of examples in slots 0 … Len()−1. A slot keeps its example
// until the sampler says that it was replaced.
type Sample interface {
	Len() int
	At(i int) *stream.Example
}

// Sampler is a sample with a policy that says who stays.
type Sampler interface {
	Sample
	// Add offers x and takes ownership of it. It returns the slot that x, or a
	// copy of it, took, or −1 if x was not kept, and the example that held the slot before, or
	// nil. A learner that keeps numbers per slot drops those of the evicted
	// example, and their share of any running sum, before it uses the slot
	// again. No other slot changes.
	Add(x *stream.Example) (slot int, evicted *stream.Example)
	// Cap is the largest Len.
	Cap() int
	// Bytes is about how much memory the sample holds.
	Bytes() int
	// Fields describes the state.
	Fields(f *state.Fields)
}

var (
	_ Sampler = (*Reservoir)(nil)
	_ Sampler = (*Window)(nil)
)

// slotBytes is what a slot costs besides its example.
const slotBytes = 8

func totalBytes(list []*stream.Example) int {
	n := 0
	for _, x := range list {
		n += x.Bytes() + slotBytes
	}
	return n
}
