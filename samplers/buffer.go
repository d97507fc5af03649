package samplers

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/columns"
	"github.com/streamsvm/streamsvm/stream"
)

// Fate says what became of an example handed to a learner. Every example has
// exactly one.
type Fate uint8

const (
	// Learned: the learner took the example into its sample, or updated on it.
	Learned Fate = iota
	// SampledOut: the sampling policy skipped the example, e.g. one that comes to
	// a full sample, or an unlabelled one at a supervised learner.
	SampledOut
)

// Need is what a learner waits for.
type Need struct {
	// Fresh is a lower bound on the number of further examples that must be
	// added before a Step can be due; 0 means that a Step is due now. Between
	// steps the model does not change, so a caller may score up to Fresh
	// examples in one go before it adds them.
	Fresh int
	// Steps is how many steps are due once Fresh is 0, at least 1. It is how a
	// learner schedules work by counts of examples, never by the clock.
	Steps int
}

// TooLarge bounds the sizes of features, after preprocessing, and of labels:
// squares of smaller ones do not overflow a float32.
const TooLarge = 1e18

// Policy names the examples that a sample is made of.
type Policy string

const (
	Everything Policy = ""          // there is no sample: each example is used once
	First      Policy = "growing"   // the first ones; those that come to a full sample are sampled out
	Recent     Policy = "window"    // the last ones; an example takes the slot of the oldest
	Uniform    Policy = "reservoir" // a uniform sample of all that came
	Balanced   Policy = "balanced"  // a uniform sample of each class, in equal shares as far as the stream allows
)

// Options say what a Buffer takes in, what it keeps and when a step is due.
type Options struct {
	// Regress allows any number as a label. Otherwise labels are +1 and −1, or
	// with Classes numbers of classes, from 0 on.
	Regress, Classes bool
	// Features is the most features of an example, counted up to its last one;
	// 0 sets no limit.
	Features int

	Policy Policy
	Size   int    // most members of the sample, ≥ 1 unless the policy is Everything
	Hold   bool   // keep the examples in the sample, not only their sequence numbers
	Seed   uint64 // of Uniform and Balanced

	// Warmup is the number of examples wanted before the first step, where that
	// is more than Every. Learners choose their kernel from them.
	Warmup int
	// Every is the number of examples a step, ≥ 1.
	Every int
	// Batches hands out Every examples at a time, so that as many steps are due
	// as there are batches. Otherwise a step takes all that are there.
	Batches bool
}

// Buffer takes examples in between two steps, says when the next one is due and
// hands out what it uses. Learners embed it.
type Buffer struct {
	o       Options
	ready   bool              // the warm-up is over
	pending []*stream.Example // added and not yet handed out
	sample  *sample           // nil: none is kept
	growing *growing          // of a Growing
	pools   *pools            // of a Pools
	draw    Draw              // the last one, if it was of few examples
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

// Draw is what a step works with. It is valid until the next Add or Take.
//
// A policy that cuts a sample down, because the stream has changed, is one whose
// Gone has more slots than Join takes over.
type Draw struct {
	// Join are the labelled examples that are new, in order of arrival.
	Join []*stream.Example
	// Slots says for each of Join where it is in the sample from now on: a slot
	// that was another's, or the one behind the last. It is −1 for an example that
	// is not kept, and nil where there is no sample. A slot may change hands
	// twice; what counts in the end is the last example that takes it.
	Slots []int
	// Old is, with Options.Hold, what was in the slot before each of Join came, or
	// nil.
	Old []*stream.Example
	// Gone are the slots of the members that leave before Join comes, each once.
	// With slots that Join takes over, in the order in which it does; others close
	// up.
	Gone []int
	// Test are fresh draws T_k that the model is tested on. Those that join S
	// afterwards, as Growing.Admit says, are the first ones.
	Test []*stream.Example
	// Unlabelled is a minibatch of unlabelled examples.
	Unlabelled []*stream.Example
}

// Last returns the slots that Join takes and for each the last example that
// does.
func (d *Draw) Last() (slots []int, xs []*stream.Example) {
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

// Add takes x in and owns it from then on. The error, a *stream.FieldError,
// says what is wrong with the label or the features; the state is then as it
// was before.
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

// check says what is wrong with an example.
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
	case b.sample == nil && b.growing == nil && !b.o.Batches && b.ready: // the quickest learners ask most often
		return Need{Fresh: max(0, b.o.Every-len(b.pending)), Steps: 1}
	case b.growing != nil:
		return b.growing.need(b)
	case b.pools != nil:
		return b.pools.need(b)
	case !b.o.Batches:
		return b.NeedOf(b.o.Every)
	}
	want := b.o.Every
	if !b.ready {
		want = max(want, b.o.Warmup)
	}
	if n := len(b.pending); n < want {
		return Need{Fresh: want - n, Steps: max(1, want/b.o.Every)}
	}
	return Need{Steps: len(b.pending) / b.o.Every}
}

// NeedOf is Need for learners whose steps are due at other numbers of examples
// from one time to the next: after so many.
func (b *Buffer) NeedOf(every int) Need {
	if !b.ready {
		every = max(every, b.o.Warmup)
	}
	if b.o.Policy == First && b.sample.len() >= b.o.Size {
		return Need{Fresh: math.MaxInt32, Steps: 1}
	}
	return Need{Fresh: max(0, every-len(b.pending)), Steps: 1}
}

// Ready reports whether the warm-up is over, which the first Take ends.
func (b *Buffer) Ready() bool { return b.ready }

// Pending returns the examples that have been added and not yet handed out.
// They must not be changed.
func (b *Buffer) Pending() []*stream.Example { return b.pending }

// Vecs returns the features of the examples pending.
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

// Sample returns the members by slot, with Options.Hold. The list must not be
// changed.
func (b *Buffer) Sample() []*stream.Example {
	if b.sample == nil {
		return nil
	}
	return b.sample.list
}

// Take hands out what the next step uses, and makes it part of the sample. It
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
	case b.o.Batches:
		b.take(d, b.o.Every)
	default:
		b.take(d, len(b.pending))
	}
	return d
}

// few is the number of examples up to which lists are used again. What they
// have pointed to lives until then.
const few = 16

// take hands out the n oldest examples pending.
func (b *Buffer) take(d *Draw, n int) {
	d.Join = b.shift(n)
	if len(d.Join) > 0 {
		b.ready = true
	}
	if b.sample != nil {
		b.sample.take(d)
	}
}

// shift removes the n oldest examples pending.
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

// examples describes a list of examples, each of which Add must have accepted.
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
