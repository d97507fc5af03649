package tsgs3vm

import (
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/compare"
	"github.com/streamsvm/streamsvm/stream"
)

// pairs counts labels that only one of two models predicted correctly.
type pairs struct{ won, lost uint64 }

// add compares decision f with base, the decision of the supervised twin, on a label
// that neither has learned.
func (p *pairs) add(f, base, y float64) {
	switch right, twin := (f >= 0) == (y > 0), (base >= 0) == (y > 0); {
	case right && !twin:
		p.won++
	case twin && !right:
		p.lost++
	}
	// Old counts are discounted: the stream may have changed.
	if p.won+p.lost >= pairMemory {
		p.won, p.lost = p.won/2, p.lost/2
	}
}

const pairMemory = 1000

// evidence counts wins and losses of an arm against the supervised twin: on labels as
// they arrived (each predicted before it was learned), and on the stored labels (each
// predicted by arms that did not learn it).
type evidence struct {
	live, held pairs
	// heldUsed says that all labels so far are stored. Then cross-validation says more
	// about the arm than the live score, most of which dates from when the arm had
	// seen fewer examples.
	heldUsed bool
}

func (t *evidence) best() pairs {
	if t.heldUsed {
		return t.held
	}
	return t.live
}

func (t *evidence) fields(f *state.Fields) {
	f.Uint64("live_won", &t.live.won)
	f.Uint64("live_lost", &t.live.lost)
	f.Uint64("held_won", &t.held.won)
	f.Uint64("held_lost", &t.held.lost)
	f.Bool("held_used", &t.heldUsed)
}

// choose decides which arm is served: the best of the arms that are significantly
// better than the supervised twin, or else the twin. The test is at level divided by
// the number of arms compared with the twin (Bonferroni).
func (d *dual) choose(l *Learner, last bool) {
	if d.opt.Serve != "auto" || len(d.arms) == 1 {
		return
	}
	all := l.Len() == int(l.labelled)
	if seen := l.labelled + l.unlab; all && (last || seen >= 4*d.checked) && l.labelled >= leastTuned && d.since >= rampSteps {
		d.checked = seen
		d.validate(l)
	}
	d.serve = 0
	margin := uint64(0)
	for i, a := range d.arms {
		if i == 0 {
			continue
		}
		a.score.heldUsed = a.score.heldUsed && all
		p := a.score.best()
		if p.won > p.lost+margin && compare.McNemar(p.won, p.lost) <= level/float64(len(d.arms)-1) {
			d.serve, margin = i, p.won-p.lost
		}
	}
}

// checkFolds is the number of folds in the comparison of arms.
const checkFolds = 4

// checkUpdates bounds the coordinate updates of an arm in each of its two solves.
const checkUpdates = 4000

// validate compares the arms by cross-validation on the stored labels. For each fold,
// a copy of each arm learns the other labels and the recent unlabelled examples.
func (d *dual) validate(l *Learner) {
	pool := l.Sample()
	t := &dual{opt: d.opt, slots: d.slots, fold: dealFolds(pool, checkFolds)}
	for fold := 1; fold <= checkFolds; fold++ {
		for _, a := range d.arms {
			c := newArm(a.rho, a.semi, fold, d.opt.Features)
			c.a = make([]float64, len(pool))
			t.arms = append(t.arms, c)
		}
	}
	uLoss, inside, share := l.uLoss, l.inside, l.share
	t.polish(l, checkUpdates)
	t.replay(l)
	t.polish(l, checkUpdates)
	l.uLoss, l.inside, l.share = uLoss, inside, share
	d.buf, t.buf = t.buf, nil
	for i, a := range d.arms {
		a.score.held, a.score.heldUsed = pairs{}, true
		for k, x := range pool {
			of := t.arms[(t.fold[k]-1)*len(d.arms):]
			if i > 0 {
				a.score.held.add(t.decision(of[i], d.z[k]), t.decision(of[0], d.z[k]), x.Y)
			}
		}
	}
}

// dealFolds returns the fold of each example, from 1. The folds have equal shares of
// each class.
func dealFolds(pool []*stream.Example, folds int) []int {
	out := make([]int, len(pool))
	var count []int
	for i, x := range pool {
		k := max(int(x.Y), 0) // −1 is class 0
		for len(count) <= k {
			count = append(count, 0)
		}
		out[i] = count[k]%folds + 1
		count[k]++
	}
	return out
}
