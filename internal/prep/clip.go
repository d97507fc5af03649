package prep

import (
	"fmt"
	"slices"

	"github.com/streamsvm/streamsvm/checkpoint/state"
)

// Clipped says what Next has clipped.
type Clipped struct {
	// Values is how many values were clipped, in how many Examples.
	Values, Examples uint64
	// Features are the first ones that it happened to, in that order, counted
	// from 0: slots, if features are hashed. The list grows at its end only.
	Features []int32
}

// maxClipped bounds Clipped.Features.
const maxClipped = 8

// add counts a value of feature j.
func (c *Clipped) add(j int) {
	if c == nil {
		return
	}
	c.Values++
	if len(c.Features) < maxClipped && !slices.Contains(c.Features, int32(j)) {
		c.Features = append(c.Features, int32(j))
	}
}

// Clipped says what Next has clipped so far.
func (t *Transform) Clipped() Clipped { return t.clipped }

// Bounds returns the values that scaled ones are clipped to.
func (t *Transform) Bounds() (low, high float64) {
	if t.low == t.high { // the zero value
		return -bound, bound
	}
	return t.low, t.high
}

// clipFields describes the bounds. Earlier versions had no others than ±bound,
// and their transforms keep them.
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

// ClippedFields describes what Next has clipped, for a state that goes on: it is
// no part of a model.
func (t *Transform) ClippedFields(f *state.Fields) {
	c := &t.clipped
	f.Uint64("values", &c.Values)
	f.Uint64("examples", &c.Examples)
	f.Int32s("features", &c.Features)
	if f.Decoding() && f.Err() == nil && len(c.Features) > maxClipped {
		f.Fail("features", fmt.Errorf("%d of at most %d", len(c.Features), maxClipped))
	}
}
