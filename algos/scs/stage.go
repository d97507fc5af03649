package scs

import (
	"math"

	"github.com/streamsvm/streamsvm/internal/hinge"
	"github.com/streamsvm/streamsvm/internal/weight"
)

// optimise works on the sample as it is: conjugate subgradient iterations, then,
// with a margin, ascent in the dual until the gap is small enough.
func (l *Learner) optimise(final bool) {
	n := l.opt.Iterations
	if final {
		n = l.opt.Final
	}
	if l.opt.Margin == 0 {
		l.iterate(l.p, n)
		l.trim()
		return
	}
	if l.p.Len() > warm {
		n = 0
	}
	l.ascend(n, final)
	for l.shrink() {
		l.ascend(0, final)
	}
}

// warm is the size of the sample up to which iterations precede the ascent.
// Beyond, started from the optimum of half the sample, the ascent alone is
// cheaper.
const warm = 2048

// ascend optimises until the duality gap on the sample is within its bound, or
// the blocks of a step are used up. It works over the points whose hinge is, or
// may soon be, active: w_i s_i < 1 + margin, or a coefficient that is not 0. The
// others are taken to have no loss, as long as the coefficients change; then
// their scores are brought up to date, and those that turn out to have one join.
func (l *Learner) ascend(n int, final bool) {
	for a := l.begins(n, final); ; {
		a.round(l)
		l.p.Advance(l.rest)
		if a.done(l) {
			return
		}
	}
}

// ascent is one under way.
type ascent struct {
	sub    *hinge.Problem // on the points near
	final  bool
	left   int // blocks
	target float64
	blocks int // of the last round
}

// begins starts the ascent, after n iterations.
func (l *Learner) begins(n int, final bool) *ascent {
	p := l.p
	l.settle()
	l.near = l.near[:0]
	for i, w := range p.W {
		if p.Alpha[i] != 0 || w*p.S[i] < 1+l.opt.Margin {
			l.near = append(l.near, int32(i))
		}
	}
	sub := l.restrict()
	l.fresh = true // the direction does not outlive the problem it is for
	if n > 0 {
		sub.Refresh()
		l.iterate(sub, n)
	}
	sub.Clip()
	l.dual.Block, l.dual.Pairs, l.dual.Tol = l.opt.Block, pairs, tol
	a := &ascent{sub: sub, final: final, left: l.opt.Blocks}
	if final {
		a.left = math.MaxInt
	}
	return a
}

// round solves on the points near. Then Advance is to bring the scores of the rest
// up to date.
func (a *ascent) round(l *Learner) {
	a.target = l.gapBound(a.final) / 2
	l.dual.Gap, l.dual.Rounds = a.target, a.left
	a.blocks = l.dual.Solve(a.sub)
	l.k += uint64(a.blocks)
	a.left -= a.blocks
	l.adopt(a.sub)
}

// done reports whether that was the last round.
func (a *ascent) done(l *Learner) bool {
	gap, ok := l.p.Gap()
	bound := l.gapBound(a.final)
	if !(ok && gap <= bound || a.left <= 0) && !(l.join(a.sub) == 0 && a.blocks == 0 && bound/2 >= a.target) { // or no more digits are to be had
		return false
	}
	l.evals += a.sub.Rows.Evals
	l.moved = true
	l.outdate()
	return true
}

// settle lets the points that have taken the place of others, and those that are
// free to move, make good for what has gone before it is asked which points
// violate the conditions most: until then nearly all do.
func (l *Learner) settle() {
	p, n := l.p, l.came
	l.came = 0
	if n == 0 || n > 2*l.opt.Block {
		return
	}
	box := 1 / (p.Lambda * p.Count())
	l.near = l.near[:0]
	for i, a := range p.Alpha {
		a = math.Abs(a)
		if i >= p.Len()-n || a > 0 && a < p.V.At(i)*box && len(l.near) < 3*l.opt.Block-n {
			l.near = append(l.near, int32(i))
		}
	}
	sub := l.restrict()
	sub.Clip()
	l.dual.Block, l.dual.Pairs = l.opt.Block, pairs
	l.dual.Whole(sub)
	l.adopt(sub)
	p.Advance(l.rest)
	l.evals += sub.Rows.Evals
}

// pairs bounds the pair steps on a block, per point of it; far fewer are the
// rule. tol is the violation of an optimality condition, in units of the
// margin, that is as good as none.
const (
	pairs = 20
	tol   = 1e-9
)

// gapBound returns the largest gap allowed at the present scores.
func (l *Learner) gapBound(final bool) float64 {
	p := l.p
	var sum, square float64
	for i, w := range p.W {
		h := float64(p.V.At(i) * max(0, 1-float64(w*p.S[i])))
		sum += h
		square += float64(h * h)
	}
	m := max(1, p.Mass())
	deviation := math.Sqrt(max(0, square/m-float64(sum/m*sum/m)) / m)
	b := l.opt.Gap * max(deviation, l.p.Objective()/50)
	if final {
		b /= 5
	}
	return b
}

// restrict returns the problem on the points near, as if there were no others.
func (l *Learner) restrict() *hinge.Problem {
	p := l.p
	sub := hinge.New(p.Basis.Subset(l.near), l.opt.CacheMB<<20)
	sub.Lambda, sub.Total = p.Lambda, p.Mass()
	w, v := make([]float64, len(l.near)), weight.List(nil)
	for r, i := range l.near {
		w[r] = p.W[i]
		v.Set(r, r+1, p.V.At(int(i)))
	}
	sub.Extend(w, v)
	for r, i := range l.near {
		sub.Alpha[r], sub.S[r] = p.Alpha[i], p.S[i]
	}
	return sub
}

// adopt takes the coefficients of sub, the problem on the points near, over, and
// lists the rest, whose scores are to follow.
func (l *Learner) adopt(sub *hinge.Problem) {
	p := l.p
	for r, i := range l.near {
		p.D[i] = sub.Alpha[r] - p.Alpha[i]
		p.Alpha[i], p.S[i] = sub.Alpha[r], sub.S[r]
	}
	l.listed = append(l.listed[:0], make([]bool, p.Len())...)
	for _, i := range l.near {
		l.listed[i] = true
	}
	l.rest = l.rest[:0]
	for i, in := range l.listed {
		if !in {
			l.rest = append(l.rest, int32(i))
		}
	}
}

// join adds the points that were left out but have a loss to the points near
// and to sub, and returns how many they are.
func (l *Learner) join(sub *hinge.Problem) int {
	p := l.p
	var w []float64
	var v weight.List
	for _, i := range l.rest {
		if p.W[i]*p.S[i] < 1 {
			l.near = append(l.near, i)
			sub.Basis.Append(p.Basis.Row(int(i)))
			v.Set(len(w), len(w)+1, p.V.At(int(i)))
			w = append(w, p.W[i])
		}
	}
	sub.Extend(w, v)
	return len(w)
}
