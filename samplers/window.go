package samplers

import (
	"fmt"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/columns"
	"github.com/streamsvm/streamsvm/stream"
)

// Window holds the last n examples. A new example takes the slot of the oldest
// one, so no other slot moves.
//
// Memory: at most n examples.
type Window struct {
	size int
	list []*stream.Example
	next int // the oldest slot once the window is full
}

// NewWindow returns an empty window for size ≥ 1 examples.
func NewWindow(size int) *Window { return &Window{size: max(size, 1)} }

// Add takes x in; evicted is the oldest example once the window is full.
func (w *Window) Add(x *stream.Example) (slot int, evicted *stream.Example) {
	if len(w.list) < w.size {
		w.list = append(w.list, x)
		return len(w.list) - 1, nil
	}
	slot = w.next
	evicted, w.list[slot] = w.list[slot], x
	w.next = (w.next + 1) % w.size
	return slot, evicted
}

// Len returns the number of examples held.
func (w *Window) Len() int { return len(w.list) }

// Cap returns the size of the window.
func (w *Window) Cap() int { return w.size }

// At returns the example in slot i. Slots are not in order of arrival: see
// Oldest.
func (w *Window) At(i int) *stream.Example { return w.list[i] }

// Oldest returns the slot of the example that has been held longest; those
// after it, cyclically, are younger and younger. It is 0 for an empty window.
func (w *Window) Oldest() int { return w.next }

// Bytes returns about how much memory the window holds.
func (w *Window) Bytes() int { return totalBytes(w.list) }

// Fields describes the state.
func (w *Window) Fields(f *state.Fields) {
	columns.Examples(f, "examples", &w.list)
	f.Int("next", &w.next)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	switch n := len(w.list); {
	case n > w.size:
		f.Fail("examples", fmt.Errorf("%d examples in a window of %d", n, w.size))
	case w.next < 0 || w.next >= w.size || n < w.size && w.next != 0:
		f.Fail("next", fmt.Errorf("no slot %d", w.next))
	}
}
