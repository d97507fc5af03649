package scs

import (
	"cmp"
	"math"
	"slices"
)

// evict takes n of the first m points out of the sample. A window loses its
// oldest. Otherwise those without a coefficient go first, oldest first, then
// those that contribute least; points whose hinge is in the subgradient stay.
// It returns how many went.
func (l *Learner) evict(m, n int) int {
	p := l.p
	var out []int32
	if l.o.Full == "window" {
		for i := range int32(min(m, n)) { // points stand in order of age
			out = append(out, i)
		}
	} else {
		out = l.least(m, n, true)
	}
	l.forget(out)
	p.Mark()
	keep := make([]int32, 0, p.Len())
	slices.Sort(out)
	for i := range int32(p.Len()) {
		if len(out) > 0 && out[0] == i {
			out = out[1:]
			continue
		}
		keep = append(keep, i)
	}
	gone := p.Len() - len(keep)
	for r, i := range keep {
		l.seq[r] = l.seq[i]
	}
	l.seq = l.seq[:len(keep)]
	p.Keep(keep)
	return gone
}

// trim brings the number of coefficients down to the budget. Where the dual is
// worked on, the points with the largest loss go and the dual is maximised over
// the rest: a support vector on the wrong side costs budget without shaping the
// boundary, and its going sets others free (Bakır, Bottou, Weston, "Breaking
// SVM complexity with cross-training", 2004). Elsewhere the coefficients that
// contribute least go.
func (l *Learner) trim(final bool) {
	p := l.p
	if l.o.Budget == 0 {
		return
	}
	support := 0
	for _, a := range p.Alpha {
		if a != 0 {
			support++
		}
	}
	if support <= l.o.Budget {
		return
	}
	l.model = nil
	if l.o.Polish == "never" {
		l.forget(l.least(p.Len(), support-l.o.Budget, false))
		l.refresh()
		return
	}
	l.forget(l.worst(support - l.o.Budget))
	l.near = l.near[:0]
	for i, a := range p.Alpha {
		if a != 0 {
			l.near = append(l.near, int32(i))
		}
	}
	sub := l.restrict()
	l.polish(sub, final)
	l.adopt(sub)
}

// least lists the n points among the first m with the least |α_j|·√K_jj, in
// order of that and then of age: points without a coefficient only if zeros is
// set, and otherwise only those with one.
func (l *Learner) least(m, n int, zeros bool) []int32 {
	p := l.p
	type entry struct {
		i int32
		v float64
	}
	var all []entry
	for i, a := range p.Alpha[:m] {
		if a == 0 && !zeros || zeros && p.Active[i] {
			continue
		}
		v := 0.0
		if a != 0 {
			v = math.Abs(a) * math.Sqrt(max(p.Basis.Diag(i), 0))
		}
		all = append(all, entry{int32(i), v})
	}
	slices.SortFunc(all, func(x, y entry) int { return cmp.Or(cmp.Compare(x.v, y.v), cmp.Compare(x.i, y.i)) })
	out := make([]int32, 0, n)
	for _, e := range all[:min(n, len(all))] {
		out = append(out, e.i)
	}
	return out
}

// forget sets the coefficients of the points listed to 0. The decision changes
// at z by at most √K(z,z) times the sum of their |α_j|·√K_jj, which is counted.
func (l *Learner) forget(out []int32) {
	p := l.p
	clear(p.D)
	clear(p.P)
	l.fresh = true
	any := false
	for _, i := range out {
		if a := p.Alpha[i]; a != 0 {
			l.counts.forgotten += math.Abs(a) * math.Sqrt(max(p.Basis.Diag(int(i)), 0))
			p.D[i], p.Alpha[i] = -a, 0
			any = true
		}
	}
	if !any {
		return
	}
	l.rest = l.rest[:0]
	for i := range p.W {
		l.rest = append(l.rest, int32(i))
	}
	p.Advance(l.rest)
	l.moved = true
}

// worst lists the n points with a coefficient whose loss is largest.
func (l *Learner) worst(n int) []int32 {
	p := l.p
	var all []int32
	for i, a := range p.Alpha {
		if a != 0 {
			all = append(all, int32(i))
		}
	}
	slices.SortFunc(all, func(x, y int32) int {
		return cmp.Or(cmp.Compare(p.W[x]*p.S[x], p.W[y]*p.S[y]), cmp.Compare(x, y))
	})
	return all[:n]
}
