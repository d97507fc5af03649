package engine

import (
	"context"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/calibrate"
	"github.com/streamsvm/streamsvm/internal/promote"
	"github.com/streamsvm/streamsvm/internal/sift"
	"github.com/streamsvm/streamsvm/stream"
)

// With late labels, the prequential measures must score the prediction made when
// the example arrived. By the time the label arrives, the model has learned from later
// examples, so its current prediction would not have been available in time. Therefore
// a prediction is kept with each waiting example.

// prediction is the model's prediction for an example: the decision or, with more
// than two classes, the number of the predicted class and the scores of all classes
// known then.
type prediction struct {
	f      float64 // NaN: no prediction yet
	scores []float64
	weight float32     // of the example, without its class weight; 0 stands for 1
	sifted sift.Header // header of its record; P is 0 if it was not forwarded
	// published is the prediction of the latest published version; nil if not measured.
	published *promote.Forecast
	answer    *Answer // to be completed with this prediction, or nil
	plan      bool    // it counts for the sifting plan: the stream was known to be sifted when it arrived
}

var noPrediction = prediction{f: math.NaN()}

func (p *prediction) known() bool { return p.f == p.f }

// request is a waiting example whose prediction by the current model has not been
// computed yet.
type request struct {
	n uint64 // number in joiner
	x stream.Vec
}

// hasModel reports whether a prediction says anything about the learner: it has learned,
// the labels differ, and there are enough of them for probabilities to be known. Examples
// that come earlier are predicted when their labels arrive.
func (e *Engine) hasModel() bool {
	return e.steps > 0 && e.monitor.differ && e.counts.Labelled >= calibrate.Least
}

// catchUp does all work that is due if item it is an example that will have to wait.
// Its prediction comes from the current model, which must therefore depend on the
// records before it, not on how they were batched.
func (e *Engine) catchUp(ctx context.Context, it *Item) error {
	if it.Err != nil || e.isLabel(it) {
		return nil
	}
	if e.answers.of != nil {
		return e.catchUpToAnswer(ctx)
	}
	if !e.join.waits(&it.Example, it.Key) {
		return nil
	}
	if err := e.work(ctx); err != nil {
		return err
	}
	// A sequential learner has learned only when the block is flushed. Other
	// learners change in steps, which work has done.
	if _, ok := e.learner.(algos.Sequential); ok {
		return e.flush(ctx)
	}
	return nil
}

// requestPrediction requests a prediction for x, which has just begun to wait.
// Predictions are computed in batches: when a block of requests is full, and in any
// case before the model changes or the example is learned from. A learner that
// evaluates itself by its predictions makes its own at once.
func (e *Engine) requestPrediction(x *stream.Example) {
	// The copy is scaled with the current statistics. Apply does not update them:
	// that happens once, when the example is learned from.
	n, c := e.join.examples.last(), *x
	c.X = e.transform.Apply(x.X)
	if l, ok := e.learner.(algos.PendingPredictor); ok {
		e.join.at(n).pred = prediction{f: l.PredictPending(&c)}
		return
	}
	if l, ok := e.learner.(algos.PendingScorer); ok {
		scores := make([]float64, e.per())
		l.ScorePending(scores, &c)
		e.join.at(n).pred = prediction{f: float64(algos.Largest(scores)), scores: scores}
		return
	}
	if e.requests = append(e.requests, request{n, c.X}); len(e.requests) == blockSize {
		e.resolvePredictions()
	}
}

// resolvePredictions computes the requested predictions.
func (e *Engine) resolvePredictions() {
	if len(e.requests) == 0 {
		return
	}
	e.vecs = e.vecs[:0]
	for _, a := range e.requests {
		e.vecs = append(e.vecs, a.x)
	}
	e.predict(e.vecs)
	for i, a := range e.requests {
		var p prediction
		e.setPrediction(&p, i)
		p.scores = slices.Clone(p.scores)
		e.join.at(a.n).pred = p
	}
	clear(e.requests)
	e.requests = e.requests[:0]
}

// releaseNext takes the next example out of the join and learns from it.
func (e *Engine) releaseNext() {
	// Requests are in order of arrival, so none is for the example that leaves if the first is for
	// a later one.
	if len(e.requests) > 0 && e.requests[0].n <= e.join.following() {
		e.resolvePredictions()
	}
	w := e.join.next()
	w.pred.published, w.pred.answer = w.published, w.answer
	e.accept(w.x, &w.pred)
}
