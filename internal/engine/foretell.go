package engine

import (
	"context"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/sift"
	"github.com/streamsvm/streamsvm/stream"
)

// Where labels come later than their examples, the prequential measures are
// about what the model said when an example came. By the time its label is there
// the model has learned from examples that came after it, and has an answer that
// nobody could have had in time.

// told is what was said of an example when it came: the decision, or with more
// than two classes the number of the class predicted and the scores of all that
// the model knew.
type told struct {
	f      float64 // NaN: nothing
	scores []float64
	weight float32     // of the example, without that of its class; 0 stands for 1
	sifted sift.Header // of its record; none where P is 0
	plan   bool        // the stream had been sifted when the example was taken in: it counts for the plan
}

var untold = told{f: math.NaN()}

func (t *told) known() bool { return t.f == t.f }

// asked is an example whose decision by the present model is wanted.
type asked struct {
	n uint64 // in joiner.examples
	x stream.Vec
}

// catchUp does all that the examples taken in so far make due, if it holds an
// example that will have to wait: the model then is a function of the records
// before it.
func (e *Engine) catchUp(ctx context.Context, it *Item) error {
	if it.Err != nil || e.isLabel(it) || !e.join.waits(&it.Example, it.Key) {
		return nil
	}
	if err := e.work(ctx); err != nil {
		return err
	}
	if _, ok := e.learner.(algos.Sequential); ok {
		return e.flush(ctx)
	}
	return nil
}

// foretell asks for the decision on x, which has just begun to wait. The answer
// is given when there are many to be given, or at last when the model is to
// change or the example is taken in.
func (e *Engine) foretell(x *stream.Example) {
	n, c := e.join.examples.last(), *x
	c.X = e.transform.Apply(x.X)
	if l, ok := e.learner.(algos.Foreteller); ok {
		e.join.examples.at(n).told = told{f: l.Foretell(&c)}
		return
	}
	if l, ok := e.learner.(algos.ScoreForeteller); ok {
		scores := make([]float64, e.per())
		l.ForetellScores(scores, &c)
		e.join.examples.at(n).told = told{f: float64(algos.Largest(scores)), scores: scores}
		return
	}
	if e.asked = append(e.asked, asked{n, c.X}); len(e.asked) == blockSize {
		e.answer()
	}
}

// answer notes the decisions that have been asked for.
func (e *Engine) answer() {
	if len(e.asked) == 0 {
		return
	}
	e.vecs = e.vecs[:0]
	for _, a := range e.asked {
		e.vecs = append(e.vecs, a.x)
	}
	e.decide(e.vecs)
	for i, a := range e.asked {
		var t told
		e.say(&t, i)
		t.scores = slices.Clone(t.scores)
		e.join.examples.at(a.n).told = t
	}
	clear(e.asked)
	e.asked = e.asked[:0]
}

// takeNext takes in the oldest example that waits.
func (e *Engine) takeNext() {
	if len(e.asked) > 0 && e.asked[0].n == e.join.examples.popped+1 {
		e.answer()
	}
	w := e.join.next()
	e.take(w.x, w.told)
}
