package sdca

import (
	"math"

	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/internal/kernel"
)

const (
	// leastFade is where fade is multiplied into what it scales, long before
	// the numbers without it overflow.
	leastFade = 1e-100
	// pastSpans is how many times the span of the mean an example that has left
	// stays in it: until 2 % of the iterates that it was in are left.
	pastSpans = 4
	// leastShare is the least coefficient that the model has for the sake of
	// the mean alone, as a share of the largest one possible.
	leastShare = 1e-3
)

// span returns the number of iterates that the mean is over.
func (l *Learner) span() float64 { return max(1, l.opt.Mean*float64(l.opt.Buffer)) }

// room returns the most examples that are kept after they have left.
func (l *Learner) room() int {
	if l.opt.Mean == 0 {
		return 0
	}
	return int(math.Ceil(pastSpans * l.span()))
}

// average takes the iterate into the mean: evenly at first, then with weights
// that fade. The window fills meanwhile, so that the span grows with it.
func (l *Learner) average() {
	if l.opt.Mean == 0 {
		return
	}
	l.model = nil
	l.averaged++
	span := min(float64(l.averaged), max(1, l.opt.Mean*float64(len(l.y))))
	l.fade *= 1 - 1/span
	if l.fade >= leastFade {
		return
	}
	for i := range l.lead {
		l.lead[i] *= l.fade
	}
	for i := range l.pastLead {
		l.pastLead[i] *= l.fade
	}
	l.fade = 1
}

// leave keeps example i for the mean, its α being 0, and frees its slot.
func (l *Learner) leave(i int) {
	lead := l.lead[i] * l.y[i]
	l.lead[i] = 0
	if room := l.room(); len(l.pastLead) < room {
		l.past.Append(l.basis.Row(i))
		l.pastLead = append(l.pastLead, lead)
	} else if room > 0 {
		l.past.Set(l.pastNext, l.basis.Row(i))
		l.pastLead[l.pastNext] = lead
		l.pastNext = (l.pastNext + 1) % room
	}
}

// forget makes the model the last iterate, where the optimisation is completed
// without arrivals, and starts a new mean.
func (l *Learner) forget() {
	l.model = nil
	clear(l.lead)
	l.fade, l.averaged = 1, 0
	l.past, l.pastLead, l.pastNext = kernel.New(l.basis.Func), nil, 0
}

func (l *Learner) expansion() *expansion.Expansion {
	least := leastShare * l.bound()
	idx, c := l.idx[:0], l.coef[:0]
	for i, a := range l.alpha {
		v := a + float64(l.fade*l.lead[i])
		if v != 0 && (a != 0 || math.Abs(v) >= least) {
			idx = append(idx, int32(i))
			c = append(c, v*l.y[i])
		}
	}
	l.idx = idx
	l.shown.Select(l.basis, idx)
	for i, v := range l.pastLead {
		if v *= l.fade; math.Abs(v) >= least {
			l.shown.Append(l.past.Row(i))
			c = append(c, v)
		}
	}
	l.coef = c
	return expansion.View(l.shown, c, 0)
}

func finite(xs []float64) bool {
	for _, x := range xs {
		if x-x != 0 {
			return false
		}
	}
	return true
}
