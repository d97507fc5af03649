package scs

import (
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/internal/rank"
	"github.com/streamsvm/streamsvm/stream"
)

// evict takes the oldest points, which are listed, out of the sample, or as many
// others of the first m. Only a sample that is full keeps its support vectors
// beyond their age, and lets points without a coefficient go in their place: so it
// is a sample of a longer stretch of the stream, of which what does not matter is
// not kept. Where more than a fifth of the support vectors are on the wrong side
// it does not: they are noise, and kept without the points that outvote it they
// would bend the boundary more with every step.
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
			for i := range m { // points are in order of age
				if len(out) < n && (p.Alpha[i] == 0 && !p.Active[i]) == (pass == 0) {
					out = append(out, i)
				}
			}
		}
		slices.Sort(out)
	}
	clear(p.D)
	l.pass(m, out)
	l.remove(out)
}

// pass hands the coefficients of the points listed, which leave, to the points
// from m on, which come in: each to the one of its class that is most like it
// and has a loss itself. Coefficients of opposite sign balance each other over
// the whole sample; without an heir for those that leave, all would have to
// move.
func (l *Learner) pass(m int, out []int) {
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

// remove takes the points listed, in ascending order, out of the sample.
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

// shrink takes the oldest points out of a sample whose model has more support
// vectors than the budget, about as many as that takes, and reports whether
// there were any. The sample holds its size from then on.
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
	l.pace.hold(l, l.p.Len(), "budget")
	return true
}

// support returns the number of support vectors.
func (l *Learner) support() int { return expansion.Nonzero(l.p.Alpha) }

// trim brings the number of coefficients down to the budget where there is no
// guard: those that contribute least go.
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

// least lists the n points with a coefficient whose |α_j|·√K_jj is least, in
// order of that and then of age.
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

// forget sets the coefficients of the points listed to 0 and brings the scores
// up to date, also with changes of others that are in D. The decision changes
// at z by at most √K(z,z) times the sum of their |α_j|·√K_jj, which is counted.
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
