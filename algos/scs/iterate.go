package scs

import (
	"github.com/streamsvm/streamsvm/internal/hinge"
)

// iterate does at most n conjugate subgradient iterations on the present sample.
func (c *classifier) iterate(p *hinge.Problem, n int) {
	for range n {
		c.k++
		c.direction(p)
		t := 0.0
		if c.norm > 0 {
			t = c.search(p)
		}
		if t == 0 {
			c.counts.null++
			c.step = 0
			if c.fresh || !c.guarded() {
				// The subgradient itself is no descent direction, or nothing can
				// change until the sample does.
				break
			}
			// A null step along the combined direction says nothing about the
			// subgradient alone: try that once.
			c.fresh = true
			continue
		}
		c.fresh = false
		c.step = t * c.norm
		c.moved = true
		c.outdate()
		p.Move(t)
	}
}

// direction sets d to −Nr{−d, g}, the shortest vector on the segment between the
// previous direction and the negative subgradient. The metric is that of the function
// space with the guard, and Euclidean on the coefficients, as printed, without it.
func (c *classifier) direction(p *hinge.Problem) {
	if c.guarded() {
		c.norm = p.TurnRKHS(c.fresh)
	} else {
		c.norm = p.TurnAlpha(c.fresh)
	}
}

// search returns the step length along d.
func (c *classifier) search(p *hinge.Problem) float64 {
	line := p.Line()
	if c.guarded() {
		var t float64
		t, c.breaks = line.Exact(c.breaks)
		return t
	}
	t, out := hinge.Wolfe{C1: decrease, C2: curvature, N: shortest}.Search(&line, c.norm, c.delta)
	if out == hinge.Capped {
		c.counts.capped++
	}
	return t
}
