package scs

import (
	"slices"

	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/internal/hinge"
	"github.com/streamsvm/streamsvm/stream"
)

// evict makes room for the points from m on, which have just joined. It removes the
// points in out, the oldest ones, or as many others among the first m. A window, and
// a sample that has stopped growing, always drop the oldest. A full sample with full =
// replace keeps support vectors of any age and drops points without a coefficient
// first, so that it summarises a longer stretch of the stream.
//
// It falls back to the oldest when more than a fifth of the support vectors are
// misclassified. Those are noise: kept without the neighbours that outvote them,
// they would bend the boundary further with every step.
//
// A point matters if it matters to any classifier. It is noise if any classifier that
// uses it misclassifies it.
func (l *Learner) evict(m int, out []int) {
	wrong, support := 0, 0
	matters := make([]bool, m)
	for i := range matters {
		bad, sv := false, false
		for _, c := range l.classifiers {
			if c.p.Alpha[i] != 0 {
				sv = true
				bad = bad || c.p.W[i]*c.p.S[i] <= 0
			}
			matters[i] = matters[i] || sv || c.p.Active[i]
		}
		if sv {
			support++
		}
		if bad {
			wrong++
		}
	}
	if !(l.opt.Full == "window" || l.Holds() || 5*wrong > support) {
		n := len(out)
		out = out[:0]
		for _, pass := range [2]bool{false, true} {
			for i := range m { // points are ordered by age
				if len(out) < n && matters[i] == pass {
					out = append(out, i)
				}
			}
		}
		slices.Sort(out)
	}
	for _, c := range l.classifiers {
		clear(c.p.D)
		c.transfer(m, out)
	}
	l.remove(out)
}

// transfer gives the coefficients of the points in out, which are leaving, to the
// points from m on, which have just joined: each to the most similar point of the
// same class that has a loss itself. Coefficients of opposite sign balance over the
// whole sample, so dropping some without a replacement would make every other
// coefficient move.
func (c *classifier) transfer(m int, out []int) {
	p := c.p
	for _, sign := range [2]float64{1, -1} {
		var heirs []int32
		var leave []int
		for j := m; j < p.Len(); j++ {
			if w := p.W[j]; w == sign && w*p.S[j] < 1 {
				heirs = append(heirs, int32(j))
			}
		}
		for _, i := range out {
			if p.W[i] == sign && p.Alpha[i] != 0 {
				leave = append(leave, i)
			}
		}
		// Each leaving coefficient needs its kernel values with all candidates:
		// compute them row by row in a basis of the candidates only.
		like := p.Basis.Subset(heirs)
		row := make([]float32, len(heirs))
		for _, i := range leave[:min(len(leave), len(heirs))] {
			like.Block(row, len(row), []stream.Vec{p.Basis.Row(i)}, 0, len(row))
			best := -1
			for r, k := range row {
				if p.Alpha[heirs[r]] == 0 && (best < 0 || k > row[best]) {
					best = r
				}
			}
			p.Alpha[heirs[best]] = p.Alpha[i]
			p.D[heirs[best]] = p.Alpha[i]
		}
	}
}

// remove drops the points in out, which are in ascending order, from the sample.
func (l *Learner) remove(out []int) {
	l.each(func(_ int, c *classifier) {
		c.forget(out)
		c.p.Mark()
	})
	l.Leave(out)
	keep := make([]int32, 0, l.size())
	for i := range int32(l.size()) {
		if len(out) > 0 && out[0] == int(i) {
			out = out[1:]
			continue
		}
		keep = append(keep, i)
	}
	hinge.KeepAll(l.problems(), keep)
}

// shrink drops the oldest points if a model has more support vectors than the budget:
// about as many points as it takes to get below the budget. It reports whether it
// dropped any. From then on the sample keeps its size.
func (l *Learner) shrink() bool {
	support, m := 0, l.size()
	for _, c := range l.classifiers {
		support = max(support, c.support())
	}
	if !l.guarded() || l.opt.Budget == 0 || support <= l.opt.Budget || m < 2 {
		return false
	}
	n := min(m-1, (support-l.opt.Budget)*m/support+m/20+1)
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	for _, c := range l.classifiers {
		clear(c.p.D)
	}
	l.remove(out)
	l.rescale()
	l.hold(l.size(), "budget")
	return true
}

// support returns the number of support vectors.
func (c *classifier) support() int { return expansion.Nonzero(c.p.Alpha) }

// forget sets the coefficients of the points in out to 0. It then updates the scores
// for this change and the other changes recorded in D.
func (c *classifier) forget(out []int) {
	p := c.p
	clear(p.P)
	c.fresh = true
	for _, i := range out {
		if a := p.Alpha[i]; a != 0 {
			p.D[i], p.Alpha[i] = -a, 0
		}
	}
	c.rest = c.rest[:0]
	for i := range p.W {
		c.rest = append(c.rest, int32(i))
	}
	p.Advance(c.rest)
	c.moved = true
}
