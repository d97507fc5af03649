package engine

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/internal/calibrate"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// Answer is the model's prediction for a record: when it arrived, or just before it was
// learned from if it came with its label. Answers do not affect learning.
type Answer struct {
	Record stream.Record // without its value
	// Example has only the ID, Y, Class and Labelled of the record.
	Example stream.Example
	// Decision is the number of the predicted class if there are more than two classes.
	Decision float64
	// Probability is the probability of the positive label, NaN if unknown.
	Probability float64
	// Scores and Probabilities are by class if there are more than two. Probabilities is
	// nil if they are not known.
	Scores, Probabilities []float64
	// Err says why there is no prediction.
	Err error

	made bool
}

// errWarmUp is the error of answers during the warm-up.
var errWarmUp = errors.New("there is no model yet: the trainer is warming up")

// answers holds the answers not yet taken, in the order of the records.
type answers struct {
	// of returns record i of the current Consume call, without its value; nil if no
	// answers are wanted.
	of   func(i int) stream.Record
	list []*Answer
}

// ask adds an answer for record i of the current Consume call; nil if none is wanted.
func (e *Engine) ask(i int, it *Item) *Answer {
	if e.answers.of == nil {
		return nil
	}
	x := &it.Example
	a := &Answer{
		Record: e.answers.of(i), Example: stream.Example{ID: x.ID, Y: x.Y, Class: x.Class, Labelled: x.Labelled},
		Decision: math.NaN(), Probability: math.NaN(),
	}
	if why := it.Err; why != nil {
		a.fail(&stream.FieldError{Stage: why.Stage, Reason: why.Reason, Field: why.Field, Err: why.Err})
	}
	e.answers.list = append(e.answers.list, a)
	return a
}

func (a *Answer) fail(err error) { a.Err, a.made = err, true }

// answer completes an answer with a prediction by the current model and its current map
// to probabilities.
func (e *Engine) answer(a *Answer, p *prediction) {
	a.Decision, a.Scores, a.made = p.f, slices.Clone(p.scores), true
	switch {
	case e.calib == nil:
	case e.calibrated():
		a.Probability = calibrate.Shifted(0).Probability(p.f)
	case e.calib.Known():
		a.Probability = e.calib.Map().Probability(p.f)
	}
	if e.soft == nil {
		return
	}
	if m, known := e.soft.Map(); known && len(p.scores) > 0 {
		q := make([]float64, len(p.scores))
		if m.Probabilities(q, p.scores); q[0] == q[0] {
			a.Probabilities = q
		}
	}
}

// answerNow completes an answer with the current model's prediction for x, which has not
// been preprocessed.
func (e *Engine) answerNow(a *Answer, x stream.Vec) {
	e.resolvePredictions()
	e.vecs = append(e.vecs[:0], e.transform.Apply(x))
	e.predict(e.vecs)
	var p prediction
	e.setPrediction(&p, 0)
	e.answer(a, &p)
}

// answerArrival completes the answer for the example just added to the join. If it has its
// label and no older example waits, it is learned from at once, and answered then.
func (e *Engine) answerArrival(a *Answer, waits bool) {
	w := e.join.newest()
	switch {
	case !e.started, waits && !e.hasModel():
		a.fail(errWarmUp)
	case waits:
		e.resolvePredictions()
		e.answer(a, &w.pred)
	case w.x.Labelled:
		w.answer = a
	default:
		e.answerNow(a, w.x.X)
	}
}

// catchUpToAnswer does all work that is due before an example that needs an answer: the
// model and the map to probabilities must depend on the records before it, not on how
// they were batched.
func (e *Engine) catchUpToAnswer(ctx context.Context) error {
	if err := e.work(ctx); err != nil || !e.started {
		return err
	}
	return e.flush(ctx)
}

// takeAnswers removes and returns the answers before the first incomplete one. After
// Settle all are complete.
func (e *Engine) takeAnswers() []*Answer {
	n := 0
	for n < len(e.answers.list) && e.answers.list[n].made {
		n++
	}
	if n == 0 {
		return nil
	}
	done := e.answers.list[:n:n]
	e.answers.list = slices.Clone(e.answers.list[n:])
	return done
}

// LabelList returns the labels of the classes known so far, as in codec.Signature.
func (e *Engine) LabelList() string { return e.signature().Labels }

// signature returns the signature of models, with the dimension and classes seen so far.
func (e *Engine) signature() codec.Signature {
	sig := e.cfg.Signature
	sig.Dim, sig.Index = e.admission.dim, e.admission.index
	if e.classes == nil {
		return sig
	}
	for _, name := range e.classes.list[e.classes.listed:e.classes.known] {
		if err := sig.AddClass(name); err != nil { // the decoder has accepted the name
			sig.Labels = ""
			break
		}
	}
	return sig
}
