package scs

import (
	"github.com/streamsvm/streamsvm/stream"
)

// test appends T_k to the sample, so that its scores come from the same pass that
// would extend the sample anyway, and tests on it: without the guard the candidate,
// with the guard whether growth pays.
func (l *Learner) test(draws []*stream.Example) {
	if len(draws) == 0 {
		return
	}
	// Extending changes λ = 1/(C|S|), but T is not part of the sample yet: test
	// with the λ that the coefficients were optimised for.
	m, lambda := l.p.Len(), l.p.Lambda
	l.extend(draws)
	l.p.Lambda = lambda
	if l.guarded() {
		l.growth.update(l, m)
	} else {
		l.decide(m)
	}
}

// admit keeps those of the tested draws that join the sample, evicts others if it
// is full, and drops the rest of the draws.
func (l *Learner) admit(draws []*stream.Example) {
	if len(draws) == 0 {
		return
	}
	m := l.p.Len() - len(draws)
	// The number of draws to recycle depends on the radius, which the test has just
	// changed.
	l.plan()
	n, gone := l.Admit()
	l.p.Truncate(m + n)
	if len(gone) > 0 {
		l.evict(m, gone)
		l.came = n
	}
	l.p.Lambda = l.lambda()
	l.refresh()
}

// decide accepts or rejects the candidate by its decrease on S and on the points
// from m on, T_k.
func (l *Learner) decide(m int) {
	p := l.p
	l.fresh = l.fresh || l.opt.Restart == "stage"
	if !l.moved {
		// A null step is never a success.
		l.counts.rejected++
		l.delta = max(l.delta/radiusRatio, smallRadius)
		p.Mark()
		return
	}
	n := p.Len()
	mean := func(s []float64, lo, hi int) float64 { return p.Loss(s, lo, hi) / max(1, p.Weight(lo, hi)) }
	// The decrease on S and on T differ only in the loss: the ridge term is the
	// same function of the coefficients.
	ridge := float64(p.Lambda / 2 * (dot(p.Alpha[:m], p.S[:m]) - dot(p.Alpha0[:m], p.S0[:m])))
	onS := ridge + mean(p.S, 0, m) - mean(p.S0, 0, m)
	onT := ridge + mean(p.S, m, n) - mean(p.S0, m, n)
	l.counts.dS, l.counts.dT = onS, onT
	l.counts.fT = float64(p.Lambda/2*dot(p.Alpha[:m], p.S[:m])) + mean(p.S, m, n)
	ok := onS <= eta1*onT
	if l.opt.Accept == "ratio" {
		ok = onS < 0 && onT <= eta1*onS
	}
	if ok && l.norm > eta2*l.delta {
		l.counts.accepted++
		l.delta = min(radiusRatio*l.delta, l.opt.largeRadius())
		p.Mark()
	} else {
		l.counts.rejected++
		l.delta = max(l.delta/radiusRatio, smallRadius)
		p.Revert()
		l.fresh = l.fresh || l.opt.Restart == "reject"
	}
	l.moved = false
	l.outdate()
}

// counters count events for the gauges.
type counters struct {
	accepted, rejected, null, capped, waited uint64
	dS, dT, fT, forgotten                    float64
}

// ownGauges returns the gauges that all presets have.
func (l *Learner) ownGauges() []stream.Measure {
	p := l.p
	active := 0
	for i, s := range p.S {
		if p.W[i]*s < 1 {
			active++
		}
	}
	return []stream.Measure{
		{Name: "accepted_total", Value: float64(l.counts.accepted)},
		{Name: "rejected_total", Value: float64(l.counts.rejected)},
		{Name: "active_fraction", Value: float64(active) / float64(max(1, p.Len()))},
		{Name: "support", Value: float64(l.support())},
	}
}

func (l *Learner) gauges() []stream.Measure {
	common := l.ownGauges()
	if l.guarded() {
		return append(common, append(l.cert.gauges(), append(l.growthGauges(),
			stream.Measure{Name: "waited_total", Value: float64(l.counts.waited)})...)...)
	}
	return append(common,
		stream.Measure{Name: "radius", Value: l.delta},
		stream.Measure{Name: "null_steps_total", Value: float64(l.counts.null)},
		stream.Measure{Name: "bisection_caps_total", Value: float64(l.counts.capped)},
		stream.Measure{Name: "model_decrease", Value: l.counts.dS},
		stream.Measure{Name: "validation_decrease", Value: l.counts.dT},
		stream.Measure{Name: "validation_objective", Value: l.counts.fT},
		stream.Measure{Name: "forgotten_norm", Value: l.counts.forgotten},
	)
}

func dot(x, y []float64) float64 {
	var s float64
	for i, v := range x {
		s += float64(v * y[i])
	}
	return s
}
