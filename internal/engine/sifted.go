package engine

import (
	"errors"
	"math"
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/sift"
	"github.com/streamsvm/streamsvm/stream"
)

// In a sifted stream, workers forward only some records, and each carries the
// probability with which it was forwarded. Its example is weighted by the inverse of
// that probability, which keeps sums over the stream unbiased. From these records the
// trainer computes the plan for the next ones, and publishes it with each version.

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
	if e.sifted == nil && sift.NewTracker != nil {
		e.sifted = sift.NewTracker()
	}
	if at := it.Source; e.sifted != nil && at.Partition.Topic != "" {
		e.sifted.Note(at.Partition, at.Offset)
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

// Plan returns, as measures, the sifting plan that forwards at most the share budget of
// the stream; nil if the stream is not sifted. A budget of 0 or 1 sets no bound.
func (e *Engine) Plan(budget float64) []stream.Measure {
	if e.sifted == nil {
		return nil
	}
	return e.sifted.Measures(budget)
}

// reached returns the positions up to which the model has learned, including positions
// in the sifted topic.
func (e *Engine) reached() stream.Offsets {
	o := e.Offsets()
	if e.sifted != nil {
		for p, next := range e.sifted.Positions() {
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
		if sift.NewTracker == nil {
			f.Fail("sifted", errors.New("this build makes no plans for sifting: package contrib/scale/siftplan was not imported"))
			return
		}
		e.sifted = sift.NewTracker()
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
	r.budget = e.Next(before, excess, waits < r.waited)
	r.waited = waits
	if (before == 0) != (r.budget == 0) {
		if r.budget > 0 {
			r.Log.Warn("the trainer is behind: the plan for sifting forwards less", "share", r.budget, "behind", time.Since(r.newest).Round(time.Second))
		} else {
			r.Log.Info("the trainer has caught up: the plan for sifting has no bound")
		}
	}
}
