package scs

import (
	"github.com/streamsvm/streamsvm/algos/internal/hinge"
)

// optimise works on the sample as it is: n conjugate subgradient iterations,
// then, if wanted, ascent in the dual.
func (l *Learner) optimise(n int, final bool) {
	defer l.trim(final)
	if l.o.Margin == 0 {
		l.iterate(l.p, n)
		return
	}
	if l.o.Polish == "stage" && l.p.Len() > l.o.Warm {
		n = 0
	}
	rounds := l.o.Rounds
	if final {
		rounds = l.o.FinalRounds
	}
	for range max(1, rounds) {
		if l.work(n, final) == 0 {
			break
		}
	}
}

// work optimises over the points whose hinge is, or may soon be, active:
// w_i s_i < 1 + margin, or a coefficient that is not 0. The others are taken to
// have no loss, as long as the coefficients change; then their scores are
// brought up to date, and work returns how many of them turn out to have one.
func (l *Learner) work(n int, final bool) int {
	p := l.p
	l.near = l.near[:0]
	for i, w := range p.W {
		if p.Alpha[i] != 0 || w*p.S[i] < 1+l.o.Margin {
			l.near = append(l.near, int32(i))
		}
	}
	sub := l.restrict()
	l.fresh = true // the direction does not outlive the problem it is for
	if n > 0 {
		sub.Refresh()
		l.iterate(sub, n)
	}
	if l.o.Polish == "stage" || final && l.o.Polish == "final" {
		l.polish(sub, final)
	}
	return l.adopt(sub)
}

// restrict returns the problem on the points near, as if there were no others.
func (l *Learner) restrict() *hinge.Problem {
	p := l.p
	sub := hinge.New(p.Basis.Subset(l.near), l.o.CacheMB<<20)
	sub.Lambda, sub.Total = p.Lambda, p.Len()
	w := make([]float64, len(l.near))
	for r, i := range l.near {
		w[r] = p.W[i]
	}
	sub.Extend(w)
	for r, i := range l.near {
		sub.Alpha[r], sub.S[r] = p.Alpha[i], p.S[i]
	}
	return sub
}

// adopt takes the coefficients of sub, the problem on the points near,
// over and brings the scores of all points up to date.
func (l *Learner) adopt(sub *hinge.Problem) (violators int) {
	p := l.p
	l.evals += sub.Rows.Evals()
	for r, i := range l.near {
		p.D[i] = sub.Alpha[r] - p.Alpha[i]
		p.Alpha[i], p.S[i] = sub.Alpha[r], sub.S[r]
	}
	l.rest = l.rest[:0]
	near := l.near
	for i := range p.W {
		if len(near) > 0 && near[0] == int32(i) {
			near = near[1:]
			continue
		}
		l.rest = append(l.rest, int32(i))
	}
	p.Advance(l.rest)
	for _, i := range l.rest {
		if p.W[i]*p.S[i] < 1 {
			violators++
		}
	}
	return violators
}

// polish ascends in the dual from the point that the iterations reached, and
// leaves a coefficient vector that is dual feasible, so that Gap bounds how far
// it is from the optimum.
func (l *Learner) polish(p *hinge.Problem, final bool) {
	l.newton.Clip(p)
	l.dual.Block, l.dual.Pairs = l.o.Block, pairs
	l.dual.Tol, l.dual.Rounds = l.o.Tol, l.o.Blocks
	if final {
		l.dual.Tol, l.dual.Rounds = l.o.FinalTol, l.o.FinalBlocks
	}
	l.k += uint64(l.dual.Solve(p))
	if final && l.o.Newton > 0 {
		l.k += uint64(l.newton.Polish(p, l.o.Newton))
	}
	l.moved, l.model = true, nil
}

// pairs bounds the pair steps on a block, per point of it; far fewer are the
// rule.
const pairs = 20
