package engine

import (
	"math"
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/sift"
	"github.com/streamsvm/streamsvm/stream"
)

// In a sifted stream, workers forward only some records, and each carries the
// probability with which it was forwarded. Its example counts with the inverse of
// that, which keeps sums over the stream unbiased. The trainer computes the plan
// for the next records from these, and publishes it with each version.

// siftTargetLag is the age of consumed records above which less of a sifted stream is
// requested.
const siftTargetLag = 30 * time.Second

// Weigh reads the headers of a forwarded record and weighs its example by the
// inverse of the probability with which it was forwarded.
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

// countSifted updates the position in the sifted topic with a forwarded record.
func (e *Engine) countSifted(it *Item) {
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

// noteSifted updates the sifting plan with the prediction for an example of label y
// and weight w, made before the example is learned from.
func (e *Engine) noteSifted(pred *prediction, y, w float64) {
	if !pred.plan || e.cfg.Task != algos.Classify {
		return
	}
	seen := math.NaN()
	if h := pred.sifted; h.Version > 0 {
		if seen = h.Decision; e.classes == nil {
			seen *= y
		}
	}
	now := y * pred.f
	if e.classes != nil {
		now = sift.Least(pred.scores, int(y))
	}
	e.sifted.Add(now, seen, w)
}

// Plan returns the plan for sifting that forwards at most the share budget of the
// stream, as measures; none if the stream is not sifted. A budget of 0 or 1 sets no
// bound.
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

// reached returns the positions that a model has learned up to, including those of
// the sifted topic.
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
// consumed records are too old, and gradually more afterwards. It depends on the
// clock, so it is not part of the state.
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
	if waits > 0 {
		excess = time.Since(r.newest).Seconds() / siftTargetLag.Seconds()
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
	leastChange            = 0.1 // per version
)

// nextBudget returns the share of the stream to request, 0 for no bound. budget is
// the present one, forwarded the share that arrives now, free the share that would
// be forwarded without a bound, and excess the age of the consumed records as a
// multiple of the target: above 1 the trainer is behind. The further behind it is,
// the less it requests, so that a few versions suffice even if they are rare. While
// it catches up the budget stays; the number of waiting records shows that long
// before their age does.
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
