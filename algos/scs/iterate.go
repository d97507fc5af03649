package scs

import (
	"github.com/streamsvm/streamsvm/internal/hinge"
)

// iterate does at most n conjugate subgradient iterations on the present sample.
func (l *Learner) iterate(p *hinge.Problem, n int) {
	for range n {
		l.k++
		l.direction(p)
		t := 0.0
		if l.norm > 0 {
			t = l.search(p)
		}
		if t == 0 {
			l.counts.null++
			l.step = 0
			if l.fresh || l.opt.Restart == "never" {
				// The subgradient itself is no descent direction, or nothing can
				// change until the sample does.
				break
			}
			// A null step along the combined direction says nothing about the
			// subgradient alone: try that once.
			l.fresh = true
			continue
		}
		l.fresh = false
		l.step = t * l.norm
		l.moved = true
		l.outdate()
		p.Move(t)
	}
}

// direction sets d to −Nr{−d, g}: the shortest vector on the segment between the
// previous direction and the negative subgradient, in the metric in use.
func (l *Learner) direction(p *hinge.Problem) {
	if l.opt.Geometry == "alpha" {
		l.norm = p.TurnAlpha(l.fresh)
	} else {
		l.norm = p.TurnRKHS(l.fresh)
	}
}

// search returns the step length along d.
func (l *Learner) search(p *hinge.Problem) float64 {
	line := p.Line()
	if l.guarded() {
		var t float64
		t, l.breaks = line.Exact(l.breaks)
		return t
	}
	t, out := hinge.Wolfe{C1: decrease, C2: curvature, N: shortest}.Search(&line, l.norm, l.delta)
	if out == hinge.Capped {
		l.counts.capped++
	}
	return t
}
