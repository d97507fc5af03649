package prep

import (
	"fmt"
	"slices"

	"github.com/streamsvm/streamsvm/checkpoint/state"
)

// Clipped counts the values that Next has clipped.
type Clipped struct {
	// Values is the number of clipped values, Examples the number of examples with any.
	Values, Examples uint64
	// Features are the first features with a clipped value, in order of occurrence,
	// counted from 0. They are slots if features are hashed. Entries are only ever
	// appended.
	Features []int32
}

// maxClipped bounds Clipped.Features.
const maxClipped = 8

// add counts a clipped value of feature j.
func (c *Clipped) add(j int) {
	if c == nil {
		return
	}
	c.Values++
	if len(c.Features) < maxClipped && !slices.Contains(c.Features, int32(j)) {
		c.Features = append(c.Features, int32(j))
	}
}

// Clipped returns the counts of Next so far.
func (t *Transform) Clipped() Clipped { return t.clipped }

// Bounds returns the smallest and the largest scaled value.
func (t *Transform) Bounds() (low, high float64) {
	if t.low == t.high { // the zero value
		return -bound, bound
	}
	return t.low, t.high
}

// clipFields describes the bounds. Earlier versions had only ±bound, and their
// transforms keep it.
func (t *Transform) clipFields(f *state.Fields) {
	if f.Decoding() {
		t.low, t.high = -bound, bound
	}
	low, high := t.Bounds()
	if f.Next("clip_low") || !f.Decoding() && !(low == -bound && high == bound) {
		f.Float64("clip_low", &t.low)
		f.Float64("clip_high", &t.high)
	}
}

// ClippedFields describes the counts of Next. They belong to a training state, not to
// a model.
func (t *Transform) ClippedFields(f *state.Fields) {
	c := &t.clipped
	f.Uint64("values", &c.Values)
	f.Uint64("examples", &c.Examples)
	f.Int32s("features", &c.Features)
	if f.Decoding() && f.Err() == nil && len(c.Features) > maxClipped {
		f.Fail("features", fmt.Errorf("%d of at most %d", len(c.Features), maxClipped))
	}
}
