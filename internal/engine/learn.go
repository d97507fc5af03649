package engine

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/stream"
)

// accept adds an example that no longer waits for a label to the warm-up or the block,
// with the prediction made when it arrived.
func (e *Engine) accept(x *stream.Example, pred *prediction) {
	// Hide the label before it is counted.
	if x.Labelled && e.cfg.Labels != nil && !e.cfg.Labels(e.counts.Labelled+e.counts.Unlabelled) {
		x.Labelled, x.Y = false, 0
	}
	if x.Labelled {
		e.counts.Labelled++
		e.monitor.label(x.Y, e.counts.Labelled == 1)
	} else {
		e.counts.Unlabelled++
	}
	if e.published != nil && e.join == nil {
		pred.published = e.published.Arrive(x.X, x.Labelled)
	}
	if !e.started {
		if pred.answer != nil {
			pred.answer.fail(errWarmUp)
		}
		e.warm = append(e.warm, x)
		e.counts.Pending++
		return
	}
	e.push(x, pred)
}

// push preprocesses an example and appends it to the block.
func (e *Engine) push(x *stream.Example, pred *prediction) {
	// The gate scores snapshots of the model, each with its own preprocessing, so it
	// needs the raw example.
	if e.promotion != nil {
		e.promotion.Add(x)
	}
	if !e.transform.Identity() {
		x.X = e.transform.Next(x.X)
	}
	// Measures use the example's own weight, without the class weight that weigh
	// multiplies in.
	e.preds = append(e.preds, *pred)
	p := &e.preds[len(e.preds)-1]
	p.weight, p.plan = x.Weight, e.sifted != nil
	e.weigh(x)
	e.newClass = e.newClass || e.classes.fresh(x)
	e.block = append(e.block, x)
}

// borrow reports whether the engine can use the items of the next Consume calls in place,
// because it keeps none of them after the flush that follows. For a cheap linear learner,
// copying is a good part of the cost of an example.
func (e *Engine) borrow() bool {
	_, passing := e.learner.(algos.Passing)
	e.lent = passing && e.started && e.join == nil && e.promotion == nil && len(e.block) == 0 && e.learner.Need().Fresh > 0
	return e.lent
}

// own returns a copy of x for the learner to keep, or x itself if it is lent.
// Copies are allocated in small groups: a kept copy keeps its whole group alive.
func (e *Engine) own(x *stream.Example) *stream.Example {
	if e.lent {
		return x
	}
	if len(e.spare) == 0 {
		e.spare = make([]stream.Example, 16)
	}
	c := &e.spare[0]
	e.spare = e.spare[1:]
	*c = *x
	return c
}

// work does all work that is due after the examples received so far.
func (e *Engine) work(ctx context.Context) error {
	if !e.started {
		if len(e.warm) < e.cfg.Warmup {
			return nil
		}
		if err := e.start(ctx); err != nil {
			return err
		}
	}
	if err := e.runSteps(ctx); err != nil {
		return err
	}
	least := blockSize
	if _, ok := e.learner.(algos.Sequential); !ok {
		least = min(e.learner.Need().Fresh, blockSize)
	}
	// An example of a new class changes the model. It is learned at once, so that
	// predictions made from now on do not depend on when the block is flushed.
	if (len(e.block) >= least || e.newClass) && len(e.block) > 0 {
		return e.flush(ctx)
	}
	return nil
}

// runSteps does the learner's steps that are due.
func (e *Engine) runSteps(ctx context.Context) error {
	if e.learner.Need().Fresh == 0 {
		e.resolvePredictions()
	}
	return algos.StepDue(ctx, e.learner, func() { e.steps++ })
}

// flush scores the examples in the block and hands them to the learner, as many at
// a time as fit before the next step; then it does the steps that are due.
func (e *Engine) flush(ctx context.Context) error {
	if e.promotion != nil {
		e.promotion.Score()
	}
	if l, ok := e.learner.(algos.Sequential); ok {
		return e.follow(ctx, l)
	}
	for len(e.block) > 0 {
		if err := e.runSteps(ctx); err != nil {
			return err
		}
		// Until the next step the model does not change, so these examples can be
		// scored in one call, before any of them is added.
		n := min(len(e.block), max(e.learner.Need().Fresh, 1), blockSize)
		if n = e.classes.run(e.block[:n]); n == 0 {
			if err := e.addClasses(ctx, e.block[0]); err != nil {
				return err
			}
			continue
		}
		e.score(e.block[:n], e.preds[:n])
		for i := range n {
			if err := e.add(e.block[i]); err != nil {
				return err
			}
		}
		// The tail moves to the front; the rest is cleared, so that examples that
		// the learner has dropped can be collected.
		rest := copy(e.block, e.block[n:])
		clear(e.block[rest:])
		e.block = e.block[:rest]
		e.preds = append(e.preds[:0], e.preds[n:]...)
	}
	e.newClass = false
	return e.runSteps(ctx)
}

// follow lets a sequential learner, which changes with every example, both score
// the block and learn from it.
func (e *Engine) follow(ctx context.Context, l algos.Sequential) error {
	if len(e.block) == 0 {
		return nil
	}
	e.resolvePredictions()
	e.logClipped()
	for done := 0; done < len(e.block); {
		xs := e.block[done:]
		n := e.classes.run(xs)
		if n == 0 {
			if err := e.addClasses(ctx, xs[0]); err != nil {
				return err
			}
			continue
		}
		if n = e.answerable(e.preds[done:done+n], xs); n == 0 {
			e.answerUnlabelled(&e.preds[done], xs[0])
			continue
		}
		// Follow predicts each example just before it learns from it, so scoring
		// and learning cannot be separate passes here. It writes its predictions to decs.
		xs = xs[:n]
		e.decs = slices.Grow(e.decs[:0], e.per()*n)[:e.per()*n]
		learned, steps, err := l.Follow(ctx, e.decs, xs)
		if err != nil {
			e.block, e.preds = e.block[done:], e.preds[done:]
			return err
		}
		e.steps += uint64(steps)
		e.counts.Learned += uint64(learned)
		e.counts.SampledOut += uint64(n - learned)
		for i, x := range xs {
			if !x.Labelled {
				continue
			}
			pred := &e.preds[done+i]
			// An example that waited for its label was predicted when it arrived,
			// by an older model. That prediction counts.
			if !pred.known() {
				e.setPrediction(pred, i)
			}
			e.measure(pred, x)
		}
		done += n
	}
	clear(e.block)
	e.block, e.preds, e.newClass = e.block[:0], e.preds[:0], false
	return nil
}

// measure updates the prequential measures with the prediction for x.
func (e *Engine) measure(pred *prediction, x *stream.Example) {
	e.inBlock--
	if pred.answer != nil {
		e.answer(pred.answer, pred)
	}
	w := (&stream.Example{Weight: pred.weight}).Importance()
	e.noteSifted(pred, x.Y, w)
	if pred.published != nil {
		e.published.Measure(pred.published, x.Y)
	}
	if e.classes == nil {
		if e.calib != nil && x.Importance() != x.Count() {
			_, e.weighted = e.learner.(algos.Publisher)
		}
		e.measureBinary(pred.f, x.Y, w)
		return
	}
	e.preq.AddWeighted(pred.f, x.Y, w)
	// The map to probabilities is scored before it is updated, like the model.
	k := int(x.Y)
	if m, known := e.soft.Map(); known && len(pred.scores) > 0 {
		p := make([]float64, len(pred.scores))
		if m.Probabilities(p, pred.scores); p[0] == p[0] {
			e.preq.AddProbabilities(p, k)
		}
	}
	e.curve.Add(e.preq)
	if e.scored != nil {
		e.scored(pred.f, math.NaN(), x.Y)
	}
	if k < len(pred.scores) { // otherwise the class was unknown when the prediction was made
		e.soft.Learn(pred.scores, k)
	}
}

// answerable returns how many of xs, whose predictions are preds, can be given to a
// sequential learner together. The learner returns no predictions for unlabelled examples,
// so the ones that need an answer are predicted separately.
func (e *Engine) answerable(preds []prediction, xs []*stream.Example) int {
	for i := range preds {
		if preds[i].answer != nil && !xs[i].Labelled {
			return i
		}
	}
	return len(preds)
}

// answerUnlabelled completes the answer for an unlabelled example, preprocessed already.
func (e *Engine) answerUnlabelled(p *prediction, x *stream.Example) {
	e.vecs = append(e.vecs[:0], x.X)
	e.predict(e.vecs)
	var now prediction
	e.setPrediction(&now, 0)
	e.answer(p.answer, &now)
	p.answer = nil
}

// score updates the prequential measures from the labelled examples of xs. Examples
// that did not wait are predicted by the current model, in one call.
func (e *Engine) score(xs []*stream.Example, preds []prediction) {
	e.vecs = e.vecs[:0]
	for i := range xs {
		if preds[i].wanted(xs[i]) {
			e.vecs = append(e.vecs, xs[i].X)
		}
	}
	e.logClipped()
	if len(e.vecs) > 0 {
		e.predict(e.vecs)
	}
	k := 0
	for i, x := range xs {
		pred := &preds[i]
		if pred.wanted(x) {
			e.setPrediction(pred, k)
			k++
		}
		switch {
		case x.Labelled:
			e.measure(pred, x)
		case pred.answer != nil:
			e.answer(pred.answer, pred)
		}
	}
}

// wanted reports whether the prediction for x is still to be made.
func (p *prediction) wanted(x *stream.Example) bool {
	return !p.known() && (x.Labelled || p.answer != nil)
}

// logClipped logs each feature that has been clipped for the first time, as far as
// the transform remembers them.
func (e *Engine) logClipped() {
	features := e.transform.Clipped().Features
	low, high := e.transform.Bounds()
	for ; e.clipsLogged < len(features); e.clipsLogged++ {
		e.cfg.Log.Info("values of a feature are clipped after scaling", "feature", features[e.clipsLogged]+1, "scale", e.transform.Scale(), "least", low, "most", high)
	}
}

// add hands an example to the learner. Admit has refused whatever a learner may refuse,
// so an error here is a bug.
func (e *Engine) add(x *stream.Example) error {
	fate, err := e.learner.Add(x)
	switch {
	case err != nil:
		return fmt.Errorf("learner %s refuses example %d, which is within its limits: %w", e.cfg.Spec.Name, x.Seq, err)
	case fate == algos.Learned:
		e.counts.Learned++
	default:
		e.counts.SampledOut++
	}
	return nil
}
