package l1smooth

import (
	"slices"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/par"
	"github.com/streamsvm/streamsvm/stream"
)

// HeldOut implements algos.CrossValidator. Each solve starts from the solution for
// the next smaller c. It goes down to the smoothing that matches the examples; a
// smaller one would only resolve noise.
func (l *Learner) HeldOut(xs []*stream.Example, fold []int, cs []float64) []float64 {
	out := make([]float64, len(xs)*len(cs))
	par.Each(1+slices.Max(fold), func(f int) { l.heldOut(out, xs, fold, f, cs) })
	return out
}

// heldOut computes the decisions for one fold.
func (l *Learner) heldOut(out []float64, xs []*stream.Example, fold []int, held int, cs []float64) {
	k, err := newLearner(algos.Env{Seed: l.seed}, l.opt)
	if err != nil {
		return // leaves the zeros from make
	}
	var train []*stream.Example
	for i, x := range xs {
		if fold[i] != held {
			c := *x
			train = append(train, &c)
		}
	}
	for _, x := range train[max(0, len(train)-l.opt.Buffer):] {
		_, _ = k.Add(x) // the stream refuses the same examples
	}
	m := k.(*Learner)
	for j, c := range cs {
		m.opt.C = c
		m.begin(false)
		m.s.restart(0) // the level of begin was for another c, and may be past the last one
		for m.solving {
			m.iterate()
		}
		model := m.Model()
		for i, x := range xs {
			if fold[i] == held {
				out[j*len(xs)+i] = model.Decision(x.X)
			}
		}
	}
}
