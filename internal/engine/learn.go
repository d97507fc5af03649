package engine

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/stream"
)

// take takes in an example that is complete, with what was foretold of it.
func (e *Engine) take(x *stream.Example, told told) {
	if x.Labelled && e.cfg.Labels != nil && !e.cfg.Labels(e.counts.Labelled+e.counts.Unlabelled) {
		x.Labelled, x.Y = false, 0
	}
	if x.Labelled {
		e.counts.Labelled++
		e.sight.see(x.Y, e.counts.Labelled == 1)
	} else {
		e.counts.Unlabelled++
	}
	if !e.started {
		e.warm = append(e.warm, x)
		e.counts.Pending++
		return
	}
	e.push(x, told)
}

// push puts an example into the block.
func (e *Engine) push(x *stream.Example, told told) {
	if e.promotion != nil {
		e.promotion.Add(x)
	}
	x.X = e.transform.Next(x.X)
	told.weight, told.plan = x.Weight, e.sifted != nil
	e.weigh(x)
	e.fresh = e.fresh || e.classes.fresh(x)
	e.block, e.told = append(e.block, x), append(e.told, told)
}

// borrow says whether the engine is done with the items of the calls of Consume
// that follow, once flush has been called after them, and then takes them as they
// are.
func (e *Engine) borrow() bool {
	_, passing := e.learner.(algos.Passing)
	e.lent = passing && e.started && e.join == nil && e.promotion == nil && len(e.block) == 0 && e.learner.Need().Fresh > 0
	return e.lent
}

// own returns a copy of x for the learner to keep, or x if it is lent. Copies are
// made in small groups, since one that is kept keeps its group alive.
func (e *Engine) own(x *stream.Example) *stream.Example {
	if e.lent {
		return x
	}
	if len(e.room) == 0 {
		e.room = make([]stream.Example, 16)
	}
	c := &e.room[0]
	e.room = e.room[1:]
	*c = *x
	return c
}

// work does everything that the examples taken in so far make due.
func (e *Engine) work(ctx context.Context) error {
	if !e.started {
		if len(e.warm) < e.cfg.Warmup {
			return nil
		}
		if err := e.start(ctx); err != nil {
			return err
		}
	}
	if err := e.takeSteps(ctx); err != nil {
		return err
	}
	least := blockSize
	if _, ok := e.learner.(algos.Sequential); !ok {
		least = min(e.learner.Need().Fresh, blockSize)
	}
	// The model changes with a class that is new: at once, so that what is foretold
	// from now on does not depend on when the block is flushed.
	if (len(e.block) >= least || e.fresh) && len(e.block) > 0 {
		return e.flush(ctx)
	}
	return nil
}

// takeSteps takes the steps that are due.
func (e *Engine) takeSteps(ctx context.Context) error {
	if e.learner.Need().Fresh == 0 {
		e.answer()
	}
	return algos.StepDue(ctx, e.learner, func() { e.steps++ })
}

// flush scores the examples in the block, which no step separates, and hands
// them to the learner; then it takes the steps that are due.
func (e *Engine) flush(ctx context.Context) error {
	if e.promotion != nil {
		e.promotion.Score()
	}
	if l, ok := e.learner.(algos.Sequential); ok {
		return e.follow(ctx, l)
	}
	for len(e.block) > 0 {
		if err := e.takeSteps(ctx); err != nil {
			return err
		}
		n := min(len(e.block), max(e.learner.Need().Fresh, 1), blockSize)
		if n = e.classes.run(e.block[:n]); n == 0 {
			if err := e.addClasses(ctx, e.block[0]); err != nil {
				return err
			}
			continue
		}
		e.score(e.block[:n], e.told[:n])
		for i := range n {
			if err := e.add(e.block[i]); err != nil {
				return err
			}
		}
		rest := copy(e.block, e.block[n:])
		clear(e.block[rest:])
		e.block = e.block[:rest]
		e.told = append(e.told[:0], e.told[n:]...)
	}
	e.fresh = false
	return e.takeSteps(ctx)
}

// follow lets a learner that changes with every example score the block and
// learn from it.
func (e *Engine) follow(ctx context.Context, l algos.Sequential) error {
	if len(e.block) == 0 {
		return nil
	}
	e.answer()
	e.tellClipped()
	for done := 0; done < len(e.block); {
		xs := e.block[done:]
		n := e.classes.run(xs)
		if n == 0 {
			if err := e.addClasses(ctx, xs[0]); err != nil {
				return err
			}
			continue
		}
		xs = xs[:n]
		e.decs = slices.Grow(e.decs[:0], e.per()*n)[:e.per()*n]
		learned, steps, err := l.Follow(ctx, e.decs, xs)
		if err != nil {
			e.block, e.told = e.block[done:], e.told[done:]
			return err
		}
		e.steps += uint64(steps)
		e.counts.Learned += uint64(learned)
		e.counts.SampledOut += uint64(n - learned)
		for i, x := range xs {
			if !x.Labelled {
				continue
			}
			said := &e.told[done+i]
			if !said.known() {
				e.say(said, i)
			}
			e.measure(said, x)
		}
		done += n
	}
	clear(e.block)
	e.block, e.told, e.fresh = e.block[:0], e.told[:0], false
	return nil
}

// measure updates the prequential measures with what was said of x.
func (e *Engine) measure(said *told, x *stream.Example) {
	e.inBlock--
	w := (&stream.Example{Weight: said.weight}).Importance()
	e.noteSifted(said, x.Y, w)
	if e.classes == nil {
		e.judge(said.f, x.Y, w)
		return
	}
	e.preq.AddWeighted(said.f, x.Y, w)
	k := int(x.Y)
	if m, known := e.soft.Map(); known && len(said.scores) > 0 {
		p := make([]float64, len(said.scores))
		if m.Probabilities(p, said.scores); p[0] == p[0] {
			e.preq.AddProbabilities(p, k)
		}
	}
	e.curve.Add(e.preq)
	if e.scored != nil {
		e.scored(said.f, math.NaN(), x.Y)
	}
	if k < len(said.scores) { // or the class was not known when this was said
		e.soft.Learn(said.scores, k)
	}
}

// score updates the prequential measures from those of xs that are labelled: by
// what was foretold, and where nothing was by what the model says now.
func (e *Engine) score(xs []*stream.Example, told []told) {
	e.vecs = e.vecs[:0]
	for i := range xs {
		if xs[i].Labelled && !told[i].known() {
			e.vecs = append(e.vecs, xs[i].X)
		}
	}
	e.tellClipped()
	if len(e.vecs) > 0 {
		e.decide(e.vecs)
	}
	k := 0
	for i, x := range xs {
		if !x.Labelled {
			continue
		}
		said := &told[i]
		if !said.known() {
			e.say(said, k)
			k++
		}
		e.measure(said, x)
	}
}

// tellClipped logs the features of which a value has been clipped for the first
// time, as far as they are remembered.
func (e *Engine) tellClipped() {
	features := e.transform.Clipped().Features
	low, high := e.transform.Bounds()
	for ; e.clipTold < len(features); e.clipTold++ {
		e.cfg.Log.Info("values of a feature are clipped after scaling", "feature", features[e.clipTold]+1, "scale", e.transform.Scale(), "least", low, "most", high)
	}
}

// add hands over an example. Those that a learner would refuse have been
// refused by Admit, when their record could still become a dead letter and had
// left no trace in preprocessing and measures: here it would be a defect.
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
