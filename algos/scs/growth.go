package scs

import (
	"math"

	"github.com/streamsvm/streamsvm/algos/internal/hinge"
	"github.com/streamsvm/streamsvm/stream"
)

// draws returns how many fresh draws the next step puts into the sample before
// the test, and how many it tests on. Recycled draws count as the latter.
func (l *Learner) draws() (grow, test int) {
	if l.p == nil {
		return l.o.Initial, 0
	}
	m := l.p.Len()
	grow = l.growth(m)
	test = m
	if l.o.TMax > 0 {
		test = min(test, l.o.TMax)
	}
	if l.pace.holds {
		return 0, max(1, test/l.stride())
	}
	if !l.o.asPaper() {
		if l.o.Growth == "geometric" && grow > 0 {
			test = min(test, grow)
		}
		if l.o.Full == "replace" && m >= l.o.MaxSample {
			// What the sample has learned must outlive the draws that come in:
			// as many as it holds would put all of its support vectors out.
			test = min(test, max(1, m/4))
		}
		return 0, test
	}
	return grow, test + grow
}

// growth returns by how many points a sample of m should grow.
func (l *Learner) growth(m int) int {
	n := 0
	switch l.o.Growth {
	case "fixed":
		n = fixedGrowth
	case "geometric":
		n = (doubling - 1) * m
	case "theorem":
		n = TheoremSize(l.delta, l.o.Kappa, failure, l.bound()) - m
	}
	return max(0, min(n, l.limit()-m))
}

// limit returns the largest size that the sample may have now.
func (l *Learner) limit() int {
	if l.pace.holds {
		return l.pace.size
	}
	return l.o.MaxSample
}

// bound returns M, the bound on |f(z)| that theorem 3.3 assumes. For
// K(z,z) ≤ 1 the norm of an iterate at least as good as 0 is at most √(2/λ),
// near the optimum at most 1/√λ.
func (l *Learner) bound() float64 {
	return 1 / math.Sqrt(l.p.Lambda)
}

// TheoremSize returns the sample size of theorem 3.3,
// ⌈8 ln(2/p) (M+1)²/(κ² δ⁴)⌉, for which |f_S − f| ≤ κδ²/2 at a fixed point with
// probability at least 1−p where 0 ≤ hinge ≤ M+1. It is limited to 2³¹−1.
func TheoremSize(delta, kappa, p, bound float64) int {
	n := math.Ceil(8 * math.Log(2/p) * (bound + 1) * (bound + 1) / (kappa * kappa * math.Pow(delta, 4)))
	if !(n < math.MaxInt32) {
		return math.MaxInt32
	}
	return int(n)
}

// take lets the sample grow by the first grow draws, tests the candidate on
// the next ones and, if draws are recycled, takes those in as well.
func (l *Learner) take(grow, draws int) {
	if grow > 0 {
		l.extend(grow)
		l.refresh()
	}
	m := l.p.Len()
	test := draws - grow
	l.tentative(test)
	l.decide(m)
	if !l.o.asPaper() {
		l.absorb(m, min(test, l.wanted(m)))
	} else {
		l.truncate(m)
	}
	l.fresh = l.fresh || l.o.Restart == "stage"
}

// wanted returns how many recycled draws should come into a sample of m, which
// may be more than its limit has room for.
func (l *Learner) wanted(m int) int {
	if m >= l.limit() {
		return m
	}
	return l.growth(m)
}

// truncate drops the points from m on, which are draws not yet admitted.
func (l *Learner) truncate(m int) {
	l.p.Truncate(m)
	l.seq = l.seq[:m]
	l.p.Lambda = l.lambda()
	l.refresh()
}

// absorb takes the first n of the draws behind the sample of m into it, as far
// as its limit admits.
func (l *Learner) absorb(m, n int) {
	room := l.limit() - m
	if n > room && l.o.Full != "stop" {
		l.p.Truncate(m + n)
		l.seq = l.seq[:m+n]
		gone := l.evict(m, n-room)
		l.came = n
		m, room = m-gone, room+gone
	}
	l.truncate(m + min(n, room))
}

// tentative appends the validation draws behind the sample, so that their
// scores come from the same pass that would extend it.
func (l *Learner) tentative(n int) {
	lambda := l.p.Lambda
	l.extend(n)
	l.p.Lambda = lambda
}

// decide tests the candidate on the points from m on.
func (l *Learner) decide(m int) {
	p := l.p
	if !l.moved {
		if l.o.asPaper() { // a null step is never a success
			l.counts.rejected++
			l.delta = max(l.delta/radiusRatio, smallRadius)
		}
		p.Mark()
		return
	}
	hingeOf := func(w, s []float64) float64 { return hinge.Loss(w, s) / float64(max(1, len(s))) }
	ridge := float64(p.Lambda / 2 * (dot(p.Alpha[:m], p.S[:m]) - dot(p.Alpha0[:m], p.S0[:m])))
	onS := ridge + hingeOf(p.W[:m], p.S[:m]) - hingeOf(p.W[:m], p.S0[:m])
	onT := ridge + hingeOf(p.W[m:], p.S[m:]) - hingeOf(p.W[m:], p.S0[m:])
	l.counts.dS, l.counts.dT = onS, onT
	l.counts.fT = float64(p.Lambda/2*dot(p.Alpha[:m], p.S[:m])) + hingeOf(p.W[m:], p.S[m:])
	ok := true
	switch l.o.Accept {
	case "ratio":
		ok = onS < 0 && onT <= eta1*onS
	case "printed":
		ok = onS <= eta1*onT
	}
	if l.o.asPaper() && !(l.norm > eta2*l.delta) {
		ok = false
	}
	if ok {
		l.counts.accepted++
		l.delta = min(radiusRatio*l.delta, l.o.largeRadius())
		p.Mark()
	} else {
		l.counts.rejected++
		l.delta = max(l.delta/radiusRatio, smallRadius)
		p.Revert()
		l.fresh = l.fresh || l.o.Restart == "reject"
	}
	l.moved = false
	l.outdate()
}

// counters are what a run did, for the gauges.
type counters struct {
	accepted, rejected, null, capped, waited uint64
	dS, dT, fT, forgotten                    float64
}

func (l *Learner) gauges() []stream.Measure {
	p := l.p
	active, support := 0, 0
	for i, s := range p.S {
		if p.W[i]*s < 1 {
			active++
		}
		if p.Alpha[i] != 0 {
			support++
		}
	}
	common := []stream.Measure{
		{Name: "accepted_total", Value: float64(l.counts.accepted)},
		{Name: "rejected_total", Value: float64(l.counts.rejected)},
		{Name: "active_fraction", Value: float64(active) / float64(max(1, p.Len()))},
		{Name: "support", Value: float64(support)},
	}
	if l.guarded() {
		return append(common, append(l.proof.gauges(), append(l.pace.gauges(),
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
