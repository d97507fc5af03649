package scs

import (
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/internal/rank"
	"github.com/streamsvm/streamsvm/stream"
)

// evict makes room for the points from m on, which have just joined. It removes the
// points in out, the oldest ones, or as many others among the first m. A sample
// that can still grow always drops the oldest. A full one with full = replace keeps
// support vectors beyond their age and drops points without a coefficient first,
// which makes it a summary of a longer stretch of the stream.
//
// It falls back to the oldest when more than a fifth of the support vectors are
// misclassified. Those are noise: kept without the neighbours that outvote them,
// they would bend the boundary further with every step.
func (l *Learner) evict(m int, out []int) {
	p := l.p
	wrong := 0
	for i, a := range p.Alpha[:m] {
		if a != 0 && p.W[i]*p.S[i] <= 0 {
			wrong++
		}
	}
	all := l.opt.Full == "window" || l.Holds() || 5*wrong > l.support()
	if !all {
		n := len(out)
		out = out[:0]
		for pass := range 2 {
			for i := range m { // points are ordered by age
				if len(out) < n && (p.Alpha[i] == 0 && !p.Active[i]) == (pass == 0) {
					out = append(out, i)
				}
			}
		}
		slices.Sort(out)
	}
	clear(p.D)
	l.transfer(m, out)
	l.remove(out)
}

// transfer gives the coefficients of the points in out, which are leaving, to the
// points from m on, which have just joined: each to the most similar point of the
// same class that has a loss itself. Coefficients of opposite sign balance over the
// whole sample, so dropping some without a replacement would make every other
// coefficient move.
func (l *Learner) transfer(m int, out []int) {
	p := l.p
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
		// Each leaving coefficient needs the kernel values with all candidates:
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
	p := l.p
	l.forget(out)
	l.Leave(out)
	p.Mark()
	keep := make([]int32, 0, p.Len())
	for i := range int32(p.Len()) {
		if len(out) > 0 && out[0] == int(i) {
			out = out[1:]
			continue
		}
		keep = append(keep, i)
	}
	p.Keep(keep)
}

// shrink drops the oldest points when the model has more support vectors than the
// budget, about as many points as it takes to get below it, and reports whether it
// did. From then on the sample keeps its size.
func (l *Learner) shrink() bool {
	support, m := l.support(), l.p.Len()
	if !l.guarded() || l.opt.Budget == 0 || support <= l.opt.Budget || m < 2 {
		return false
	}
	n := min(m-1, (support-l.opt.Budget)*m/support+m/20+1)
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	clear(l.p.D)
	l.remove(out)
	l.p.Lambda = l.lambda()
	l.growth.hold(l, l.p.Len(), "budget")
	return true
}

// support returns the number of support vectors.
func (l *Learner) support() int { return expansion.Nonzero(l.p.Alpha) }

// trim enforces the budget in presets without the guard, by dropping the
// coefficients that contribute least.
func (l *Learner) trim() {
	support := l.support()
	if l.opt.Budget == 0 || support <= l.opt.Budget {
		return
	}
	l.outdate()
	clear(l.p.D)
	l.forget(l.least(support - l.opt.Budget))
	l.refresh()
}

// least returns the n points with the smallest |α_j|·√K_jj among those with a
// coefficient, smallest first, ties by age.
func (l *Learner) least(n int) []int {
	var all []rank.Entry
	for i, a := range l.p.Alpha {
		if a != 0 {
			all = append(all, rank.Entry{V: math.Abs(a) * math.Sqrt(max(l.p.Basis.Diag(i), 0)), I: int32(i)})
		}
	}
	slices.SortFunc(all, rank.Compare)
	out := make([]int, 0, n)
	for _, e := range all[:min(n, len(all))] {
		out = append(out, int(e.I))
	}
	return out
}

// forget sets the coefficients of the points in out to 0 and updates the scores for
// that and for the other changes recorded in D. The decision at z changes by at
// most √K(z,z) · Σ |α_j|·√K_jj; that sum is accumulated for the gauge
// forgotten_norm.
func (l *Learner) forget(out []int) {
	p := l.p
	clear(p.P)
	l.fresh = true
	for _, i := range out {
		if a := p.Alpha[i]; a != 0 {
			l.counts.forgotten += math.Abs(a) * math.Sqrt(max(p.Basis.Diag(i), 0))
			p.D[i], p.Alpha[i] = -a, 0
		}
	}
	l.rest = l.rest[:0]
	for i := range p.W {
		l.rest = append(l.rest, int32(i))
	}
	p.Advance(l.rest)
	l.moved = true
}
