package scs

import (
	"github.com/streamsvm/streamsvm/internal/hinge"
	"github.com/streamsvm/streamsvm/stream"
)

// test appends T_k to the sample, so that its scores come from the pass that would
// extend the sample anyway, and tests on it: the candidate without the guard, with
// the guard whether growth pays.
func (l *Learner) test(draws []*stream.Example) {
	if len(draws) == 0 {
		return
	}
	m := l.size()
	l.extend(draws)
	if !l.guarded() {
		l.classifiers[0].decide(m)
	} else if l.growthPays(draws, m) {
		l.mark()
	}
}

// admit keeps the tested draws that join the sample, evicts other points if the sample
// is full, and drops the rest of the draws.
func (l *Learner) admit(draws []*stream.Example) {
	if len(draws) == 0 {
		return
	}
	m := l.size() - len(draws)
	n, gone := l.Admit()
	hinge.TruncateAll(l.problems(), m+n)
	if len(gone) > 0 {
		l.evict(m, gone)
		for _, c := range l.classifiers {
			c.came = n
		}
	}
	l.rescale()
}

// decide accepts or rejects the candidate by its decrease on S and on the points
// from m on, T_k.
func (c *classifier) decide(m int) {
	p := c.p
	if !c.moved {
		// A null step is never a success.
		c.counts.rejected++
		c.delta = max(c.delta/radiusRatio, smallRadius)
		p.Mark()
		return
	}
	n := p.Len()
	mean := func(s []float64, lo, hi int) float64 { return p.Loss(s, lo, hi) / max(1, p.Weight(lo, hi)) }
	// The decreases on S and on T differ only in the loss: the ridge term is the
	// same function of the coefficients.
	ridge := float64(p.Lambda / 2 * (dot(p.Alpha[:m], p.S[:m]) - dot(p.Alpha0[:m], p.S0[:m])))
	onS := ridge + mean(p.S, 0, m) - mean(p.S0, 0, m)
	onT := ridge + mean(p.S, m, n) - mean(p.S0, m, n)
	c.counts.dS, c.counts.dT = onS, onT
	c.counts.fT = float64(p.Lambda/2*dot(p.Alpha[:m], p.S[:m])) + mean(p.S, m, n)
	if onS <= eta1*onT && c.norm > eta2*c.delta {
		c.counts.accepted++
		c.delta = min(radiusRatio*c.delta, largeRadius)
		p.Mark()
	} else {
		c.counts.rejected++
		c.delta = max(c.delta/radiusRatio, smallRadius)
		p.Revert()
	}
	c.moved = false
	c.outdate()
}

// counters count events for the gauges.
type counters struct {
	accepted, rejected, null, capped, waited uint64
	dS, dT, fT                               float64
	forgotten                                float64 // unused; part of every state
}

// ownGauges returns the gauges that all presets have.
func (c *classifier) ownGauges() []stream.Measure {
	p := c.p
	active := 0
	for i, s := range p.S {
		if p.W[i]*s < 1 {
			active++
		}
	}
	return []stream.Measure{
		{Name: "accepted_total", Value: float64(c.counts.accepted)},
		{Name: "rejected_total", Value: float64(c.counts.rejected)},
		{Name: "active_fraction", Value: float64(active) / float64(max(1, p.Len()))},
		{Name: "support", Value: float64(c.support())},
	}
}

func (l *Learner) gauges() []stream.Measure {
	c := l.classifiers[0]
	common := c.ownGauges()
	if l.guarded() {
		return append(common, append(c.cert.gauges(), append(l.growthGauges(),
			stream.Measure{Name: "waited_total", Value: float64(c.counts.waited)})...)...)
	}
	return append(common,
		stream.Measure{Name: "radius", Value: c.delta},
		stream.Measure{Name: "null_steps_total", Value: float64(c.counts.null)},
		stream.Measure{Name: "bisection_caps_total", Value: float64(c.counts.capped)},
		stream.Measure{Name: "model_decrease", Value: c.counts.dS},
		stream.Measure{Name: "validation_decrease", Value: c.counts.dT},
		stream.Measure{Name: "validation_objective", Value: c.counts.fT},
	)
}

func dot(x, y []float64) float64 {
	var s float64
	for i, v := range x {
		s += float64(v * y[i])
	}
	return s
}
