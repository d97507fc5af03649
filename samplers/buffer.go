package samplers

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/columns"
	"github.com/streamsvm/streamsvm/stream"
)

// Fate is the outcome for an example that was handed to a learner. Every example
// has exactly one.
type Fate uint8

const (
	// Learned: the learner took the example into its sample, or updated on it.
	Learned Fate = iota
	// SampledOut: the sampling policy skipped the example, for example because the
	// sample is full, or because it has no label and the learner is supervised.
	SampledOut
)

// Need is what a learner is waiting for.
type Need struct {
	// Fresh is a lower bound on the number of further examples that must be
	// added before a Step can be due; 0 means that a Step is due now. Between
	// steps the model does not change, so a caller may score up to Fresh
	// examples in one go before it adds them.
	Fresh int
	// Steps is the number of steps due once Fresh is 0, at least 1. Learners
	// schedule their work by counts of examples, never by the clock, so that a
	// replay takes the same steps.
	Steps int
}

// TooLarge bounds the absolute values of features, after preprocessing, and of
// labels: squares of smaller ones do not overflow a float32.
const TooLarge = 1e18

// Policy decides which examples are in a sample.
type Policy string

const (
	Everything Policy = ""          // no sample: each example is used once
	First      Policy = "growing"   // the first ones; those that arrive at a full sample are sampled out
	Recent     Policy = "window"    // the newest ones; each replaces the oldest
	Uniform    Policy = "reservoir" // a uniform sample of all examples so far
	Balanced   Policy = "balanced"  // a uniform sample of each class, of equal sizes as far as the stream allows
)

// Options are what a Buffer accepts, what it keeps and when a step is due.
type Options struct {
	// Regress allows any number as a label. Otherwise labels are +1 and −1 or, with
	// Classes, class numbers from 0.
	Regress, Classes bool
	// Features is the largest number of features of an example, counted up to its
	// last nonzero one; 0 sets no limit.
	Features int

	Policy Policy
	Size   int    // largest sample, ≥ 1 unless the policy is Everything
	Hold   bool   // keep the examples in the sample, not only their sequence numbers
	Seed   uint64 // for Uniform and Balanced

	// Warmup is the number of examples before the first step, if more than Every.
	// Learners choose their kernel from them.
	Warmup int
	// Every is the number of examples between steps, ≥ 1.
	Every int
}

// Buffer collects the examples that arrive between steps, decides which stay in the
// sample, says when the next step is due, and hands out what it works on. Learners
// embed it.
type Buffer struct {
	o       Options
	ready   bool              // the warm-up is over
	pending []*stream.Example // added but not handed out yet
	sample  *sample           // nil if none is kept
	growing *growing          // set if part of a Growing
	pools   *pools            // set if part of a Pools
	draw    Draw              // the last one, for reuse if it was small
}

// New returns an empty buffer. The error names the option that is out of range.
func New(o Options) (*Buffer, error) {
	b := &Buffer{o: o, ready: o.Warmup == 0}
	if o.Every < 1 {
		return nil, fmt.Errorf("samplers: %d examples a step, want at least 1", o.Every)
	}
	if o.Policy == Everything {
		return b, nil
	}
	var err error
	b.sample, err = newSample(o.Policy, o.Size, o.Hold, o.Seed)
	return b, err
}

// Draw is the input of a step. It is valid until the next Add or Take.
//
// A policy that shrinks a sample, because the stream has changed, returns more
// slots in Gone than Join refills.
type Draw struct {
	// Join are the new labelled examples, in order of arrival.
	Join []*stream.Example
	// Slots has the slot in the sample of each example of Join: one that is reused,
	// or the next one after the last. It is −1 for an example that is not kept, and
	// nil if there is no sample. A slot may be taken twice; the last example that
	// takes it is the one that stays.
	Slots []int
	// Old has, with Options.Hold, the previous example in the slot of each example
	// of Join, or nil.
	Old []*stream.Example
	// Gone are the slots of members that leave before Join arrives, each once.
	// First come the slots that Join refills, in that order. The rest are removed:
	// later slots move up.
	Gone []int
	// Test are fresh draws T_k to test the model on. Growing.Admit says how many of
	// them, the first ones, join S afterwards.
	Test []*stream.Example
	// Unlabelled is a minibatch of unlabelled examples.
	Unlabelled []*stream.Example
}

// Last returns the slots that Join takes, and for each the example that stays there;
// none if there is no sample.
func (d *Draw) Last() (slots []int, xs []*stream.Example) {
	if d.Slots == nil {
		return nil, nil
	}
	at := make(map[int]int, len(d.Join))
	for i, x := range d.Join {
		slot := d.Slots[i]
		if slot < 0 {
			continue
		}
		if k, twice := at[slot]; twice {
			xs[k] = x
			continue
		}
		at[slot] = len(slots)
		slots, xs = append(slots, slot), append(xs, x)
	}
	return slots, xs
}

// Add adds x and takes ownership of it. The error, a *stream.FieldError, says what
// is wrong with the label or the features; the state is then unchanged.
func (b *Buffer) Add(x *stream.Example) (Fate, error) {
	if !x.Labelled && (b.pools == nil || b.pools.o.Batch == 0) {
		return SampledOut, nil
	}
	if err := b.check(x); err != nil {
		return SampledOut, err
	}
	switch {
	case b.growing != nil:
		return b.growing.add(b, x), nil
	case b.pools != nil && b.ready:
		return b.pools.sort(b, x), nil
	case b.o.Policy == First && b.sample.len()+len(b.pending) >= b.o.Size:
		return SampledOut, nil
	}
	b.pending = append(b.pending, x)
	return Learned, nil
}

// check returns an error if the buffer cannot accept x.
func (b *Buffer) check(x *stream.Example) error {
	if x.Labelled {
		if k := int(x.Y); b.o.Classes && (float64(k) != x.Y || k < 0) {
			return &stream.FieldError{Stage: stream.StageLabel, Reason: stream.ReasonLabel, Field: "y", Err: fmt.Errorf("label %g is not the number of a class", x.Y)}
		}
		if !b.o.Regress && !b.o.Classes && x.Y != 1 && x.Y != -1 {
			return &stream.FieldError{Stage: stream.StageLabel, Reason: stream.ReasonLabel, Field: "y", Err: fmt.Errorf("label %g is neither +1 nor -1", x.Y)}
		}
		if !(math.Abs(x.Y) < TooLarge) {
			return &stream.FieldError{Stage: stream.StageLabel, Reason: stream.ReasonNotFinite, Field: "y", Err: fmt.Errorf("label %g is not finite, or is too large", x.Y)}
		}
	}
	for _, v := range x.X.Val {
		if !(v < TooLarge && v > -TooLarge) {
			return &stream.FieldError{Stage: stream.StageFeature, Reason: stream.ReasonNotFinite, Field: "x", Err: fmt.Errorf("a feature, %g, is not finite, or is too large", v)}
		}
	}
	if d := x.X.Dim(); b.o.Features > 0 && d > b.o.Features {
		return &stream.FieldError{Stage: stream.StageFeature, Reason: stream.ReasonLimit, Field: "x", Err: fmt.Errorf("feature %d is beyond the limit of %d", d, b.o.Features)}
	}
	return nil
}

// Need says when the next step is due.
func (b *Buffer) Need() Need {
	switch {
	case b.sample == nil && b.growing == nil && b.ready: // first, because cheap learners call Need often
		return Need{Fresh: max(0, b.o.Every-len(b.pending)), Steps: 1}
	case b.growing != nil:
		return b.growing.need(b)
	case b.pools != nil:
		return b.pools.need(b)
	}
	return b.NeedOf(b.o.Every)
}

// NeedOf is Need for learners whose number of examples between steps varies: every
// is the present one.
func (b *Buffer) NeedOf(every int) Need {
	if !b.ready {
		every = max(every, b.o.Warmup)
	}
	if b.o.Policy == First && b.sample.len() >= b.o.Size {
		return Need{Fresh: math.MaxInt32, Steps: 1}
	}
	return Need{Fresh: max(0, every-len(b.pending)), Steps: 1}
}

// Ready reports whether the warm-up is over. The first Take ends it.
func (b *Buffer) Ready() bool { return b.ready }

// Pending returns the examples added but not handed out yet. They must not be
// changed.
func (b *Buffer) Pending() []*stream.Example { return b.pending }

// Vecs returns the features of the pending examples.
func (b *Buffer) Vecs() []stream.Vec { return Vecs(b.pending) }

// Vecs returns the features of examples.
func Vecs(examples []*stream.Example) []stream.Vec {
	xs := make([]stream.Vec, len(examples))
	for i, x := range examples {
		xs[i] = x.X
	}
	return xs
}

// Len returns the number of members of the sample.
func (b *Buffer) Len() int {
	switch {
	case b.growing != nil:
		return len(b.growing.seq)
	case b.sample == nil:
		return 0
	}
	return b.sample.len()
}

// Seq returns the sequence number of the member in a slot.
func (b *Buffer) Seq(slot int) uint64 {
	if b.growing != nil {
		return b.growing.seq[slot]
	}
	return b.sample.seq[slot]
}

// Sample returns the members by slot; it requires Options.Hold. The list must not
// be changed.
func (b *Buffer) Sample() []*stream.Example {
	if b.sample == nil {
		return nil
	}
	return b.sample.list
}

// Take hands out what the next step works on, and makes it part of the sample. It
// does so whether or not a step is due.
func (b *Buffer) Take() *Draw {
	d := &b.draw
	if len(b.pending) > few || b.growing != nil {
		d = new(Draw)
	}
	switch {
	case b.growing != nil:
		b.growing.take(b, d)
	case b.pools != nil:
		b.pools.take(b, d)
	default:
		b.take(d)
	}
	return d
}

// few is the number of examples up to which the lists of a Draw are reused. The
// examples in them stay alive until then.
const few = 16

// take hands out the pending examples.
func (b *Buffer) take(d *Draw) {
	d.Join = b.shift(len(b.pending))
	if len(d.Join) > 0 {
		b.ready = true
	}
	if b.sample != nil {
		b.sample.take(d)
	}
}

// shift removes the n oldest pending examples.
func (b *Buffer) shift(n int) []*stream.Example {
	if n = min(n, len(b.pending)); n == 0 {
		return nil
	}
	out := b.pending[:n:n]
	switch rest := b.pending[n:]; {
	case len(rest) > 0:
		b.pending = append(make([]*stream.Example, 0, max(len(rest), n)), rest...)
	case n > few:
		b.pending = nil
	default:
		b.pending = b.pending[:0]
	}
	return out
}

// Fields describes the state.
func (b *Buffer) Fields(f *state.Fields) {
	f.Bool("ready", &b.ready)
	b.examples(f, "pending", &b.pending)
	if b.sample != nil {
		f.Group("sample", func(f *state.Fields) { b.sample.fields(f, b) })
	}
	if b.growing != nil {
		b.growing.fields(f, b)
	}
	if b.pools != nil {
		b.pools.fields(f, b)
	}
}

// examples describes a list of examples. It refuses any that Add would not have
// accepted.
func (b *Buffer) examples(f *state.Fields, name string, list *[]*stream.Example) {
	if f.Decoding() {
		*list = nil // a Draw may still be in use
	}
	columns.Examples(f, name, list)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	for _, x := range *list {
		err := b.check(x)
		if err == nil && !x.Labelled && (b.pools == nil || b.pools.o.Batch == 0) {
			err = errNoLabel
		}
		if err != nil {
			f.Fail(name, fmt.Errorf("example %d cannot have been accepted: %w", x.Seq, err))
			return
		}
	}
}
