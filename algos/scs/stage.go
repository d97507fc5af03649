package scs

import (
	"fmt"
	"os"
	"time"

	"github.com/streamsvm/streamsvm/algos/internal/hinge"
)

// optimise works on the sample as it is: n conjugate subgradient iterations,
// then, if wanted, Newton steps.
func (l *Learner) optimise(n int, final bool) {
	if l.o.Margin == 0 {
		l.iterate(l.p, n)
		return
	}
	rounds := l.o.Rounds
	if final {
		rounds = l.o.FinalRounds
	}
	for r := range max(1, rounds) {
		if r > 0 {
			n = min(n, 5)
		}
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
	l.fresh = true
	if n > 0 {
		sub.Refresh()
		l.iterate(sub, n)
	}
	if l.o.Polish == "stage" || final && l.o.Polish == "final" {
		l.polish(sub, final)
	}
	l.evals += sub.Rows.Evals()
	return l.adopt(sub)
}

// adopt takes the coefficients of sub, the problem on the points near, over
// and brings the scores of all points up to date.
func (l *Learner) adopt(sub *hinge.Problem) (violators int) {
	p := l.p
	l.score = append(l.score[:0], p.S...)
	for r, i := range l.near {
		p.D[i] = sub.Alpha[r] - p.Alpha[i]
		p.Alpha[i] = sub.Alpha[r]
	}
	p.Advance()
	for r, i := range l.near {
		p.S[i] = sub.S[r]
		l.score[i] = sub.S[r]
	}
	for i, w := range p.W {
		if w*l.score[i] >= 1 && w*p.S[i] < 1 {
			violators++
		}
	}
	return violators
}

// polish improves on the dual.
func (l *Learner) polish(p *hinge.Problem, final bool) {
	var nt hinge.Newton
	nc := nt.Clip(p)
	dl := &hinge.Dual{Block: l.o.Block, Tol: l.o.Tol, Rounds: l.o.Blocks, Pairs: 20}
	if final {
		dl.Tol, dl.Rounds = l.o.FinalTol, l.o.FinalBlocks
	}
	g0, _ := p.Gap()
	start := time.Now()
	v := dl.Solve(p)
	l.k += uint64(dl.Done)
	l.moved, l.model = true, nil
	if os.Getenv("SCS_TRACE") != "" {
		gap, ok := p.Gap()
		fmt.Printf("m=%d near=%d clip %d gap0=%g blocks %d steps %d viol %.4g f=%.6g gap=%g %v %v\n", p.Total, p.Len(), nc, g0, dl.Done, dl.Steps, v, p.Objective(), gap, ok, time.Since(start))
	}
}
