package engine

import (
	"math"
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/sift"
	"github.com/streamsvm/streamsvm/stream"
)

// Where workers have sifted the stream, its records say with which probability
// they were forwarded: each counts the inverse, and the plan for those to come is
// made from them and published with each version.

// DefaultSiftTargetLag is what RunConfig.SiftTargetLag is by default.
const DefaultSiftTargetLag = 30 * time.Second

// Weigh reads the headers of a record that was forwarded, and makes its example
// count for all those among which it was chosen.
func (it *Item) Weigh(r *stream.Record) error {
	if len(r.Headers) == 0 {
		return nil
	}
	refuse := func(field string, err error) error {
		return &stream.FieldError{Stage: stream.StageWeight, Reason: stream.ReasonSyntax, Field: field, Err: err}
	}
	h, ok, err := sift.Of(r)
	if err != nil {
		return refuse(sift.HeaderKey, err)
	}
	if !ok {
		return nil
	}
	if it.Source, _, err = sift.SourceOf(r); err != nil {
		return refuse(sift.SourceKey, err)
	}
	it.Sifted = h
	if h.P != 1 {
		it.Example.Weight, it.Example.Represents = float32(it.Example.Importance()/h.P), float32(1/h.P)
	}
	return nil
}

// passSifted takes note of a record that was forwarded.
func (e *Engine) passSifted(it *Item) {
	if it.Sifted.P == 0 {
		return
	}
	if e.sifted == nil {
		e.sifted = new(sift.Estimate)
	}
	if it.Source.Partition.Topic != "" {
		e.sifted.Note(it.Source)
	}
}

// noteSifted takes note, for the plan, of what is said of an example of label y
// before it is learned.
func (e *Engine) noteSifted(said *told, y, w float64) {
	if !said.plan || e.cfg.Task != algos.Classify {
		return
	}
	seen := math.NaN()
	if h := said.sifted; h.Version > 0 {
		if seen = h.Decision; e.classes == nil {
			seen *= y
		}
	}
	now := y * said.f
	if e.classes != nil {
		now = sift.Least(said.scores, int(y))
	}
	e.sifted.Add(now, seen, w)
}

// Plan returns the plan for sifting that forwards at most a share budget of the
// stream, as measures; none where the stream is not sifted. A budget of 0 or 1 sets
// no bound.
func (e *Engine) Plan(budget float64) []stream.Measure {
	if e.sifted == nil {
		return nil
	}
	if budget == 0 {
		budget = 1
	}
	p := e.sifted.Plan(budget)
	return p.Measures()
}

// reached returns the positions that a model has learned up to, with those of the
// topic that was sifted.
func (e *Engine) reached() stream.Offsets {
	o := e.Offsets()
	if e.sifted != nil {
		for p, next := range e.sifted.Sources {
			if _, own := o[p]; !own {
				o[p] = next
			}
		}
	}
	return o
}

func (e *Engine) siftFields(f *state.Fields) {
	if f.Decoding() {
		e.sifted = nil
	}
	if !f.Next("sifted") && (f.Decoding() || e.sifted == nil) {
		return
	}
	if f.Decoding() {
		e.sifted = new(sift.Estimate)
	}
	f.Group("sifted", e.sifted.Fields)
}

// keepUp sets the budget for the next version: less of the stream while the
// records consumed are too old, and step by step more afterwards. It depends on
// the clock, hence is no part of the state.
func (r *run) keepUp() {
	e := r.e.sifted
	if e == nil {
		return
	}
	waits := int64(0)
	if l, ok := r.Source.(stream.Lagger); ok {
		for _, n := range l.Lag() {
			waits += n
		}
	}
	before, excess := r.budget, 0.0
	if waits > 0 && r.SiftTargetLag > 0 {
		excess = time.Since(r.newest).Seconds() / r.SiftTargetLag.Seconds()
	}
	r.budget = nextBudget(before, e.Forwarded(), e.Free(), excess, waits < r.waited)
	r.waited = waits
	if (before == 0) != (r.budget == 0) {
		if r.budget > 0 {
			r.Log.Warn("the trainer is behind: the plan for sifting forwards less", "share", r.budget, "behind", time.Since(r.newest).Round(time.Second))
		} else {
			r.Log.Info("the trainer has caught up: the plan for sifting has no bound")
		}
	}
}

const (
	lessBudget, moreBudget = 0.8, 1.1
	leastChange            = 0.1 // at a version
)

// nextBudget returns the share of the stream to ask for, 0 for no bound, after
// budget, where a share forwarded comes, and a share free would without a bound.
// excess is the age of what is consumed as a multiple of what is aimed at, above 1
// for a trainer that is behind. The further behind it is the less it asks for, so
// that a few versions suffice however rare they are. While it catches up, which
// the number of records waiting shows long before their age does, the budget
// stays.
func nextBudget(budget, forwarded, free, excess float64, catchesUp bool) float64 {
	switch {
	case excess > 1 && budget > 0 && catchesUp:
		return budget
	case excess > 1:
		if budget == 0 {
			budget = forwarded
		}
		return max(sift.LeastBudget, budget*max(leastChange, min(lessBudget, 1/excess)))
	case budget == 0 || moreBudget*budget >= free:
		return 0
	}
	return moreBudget * budget
}
