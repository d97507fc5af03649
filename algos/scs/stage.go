package scs

import (
	"math"

	"github.com/streamsvm/streamsvm/internal/hinge"
	"github.com/streamsvm/streamsvm/internal/weight"
)

// optimise improves the models on the present sample: conjugate subgradient
// iterations, then, with the guard, dual ascent until the gap is small enough.
func (l *Learner) optimise(final bool) {
	if !l.guarded() {
		c := l.classifiers[0]
		c.iterate(c.p, 1)
		return
	}
	n := iterations
	if final {
		n = lastIterations
	}
	if l.size() > warm {
		n = 0
	}
	l.ascend(n, final)
	for l.shrink() {
		l.ascend(0, final)
	}
}

// warm is the largest sample on which iterations precede the ascent. On larger
// ones, which start from the optimum of half the sample, the ascent alone is
// cheaper.
const warm = 2048

// ascend optimises until the duality gap on the sample is within its bound, or the
// blocks of a step are used up. It works on the near points, whose hinge is active or
// may soon be: w_i s_i < 1 + margin, or a nonzero coefficient. The other points are
// assumed to have no loss while the coefficients change; then their scores are
// updated, and those that turn out to have a loss join the near points.
//
// Each classifier works by itself on the points near its margin. Then all of them work
// together on the other points, so that each kernel row is computed only once.
func (l *Learner) ascend(n int, final bool) {
	l.each(func(_ int, c *classifier) { c.ascent = c.newAscent(n, final) })
	for {
		l.each(func(_ int, c *classifier) {
			if c.ascent != nil {
				c.ascent.round(c)
			}
		})
		var ps []*hinge.Problem
		var rests [][]int32
		for _, c := range l.classifiers {
			if c.ascent != nil {
				ps, rests = append(ps, c.p), append(rests, c.rest)
			}
		}
		if len(ps) == 0 {
			return
		}
		hinge.AdvanceAll(ps, rests)
		l.each(func(_ int, c *classifier) {
			if c.ascent != nil && c.ascent.done(c) {
				c.ascent = nil
			}
		})
	}
}

// ascent is a dual ascent in progress.
type ascent struct {
	sub    *hinge.Problem // on the near points
	final  bool
	left   int // blocks remaining
	target float64
	blocks int // blocks solved in the last round
}

// newAscent starts an ascent with n conjugate subgradient iterations.
func (c *classifier) newAscent(n int, final bool) *ascent {
	p := c.p
	c.settle()
	c.near = c.near[:0]
	for i, w := range p.W {
		if p.Alpha[i] != 0 || w*p.S[i] < 1+c.opt.Margin {
			c.near = append(c.near, int32(i))
		}
	}
	sub := c.restrict()
	c.fresh = true // the direction is meaningless for another problem
	if n > 0 {
		sub.Refresh()
		c.iterate(sub, n)
	}
	// λ has changed with the sample, and with it the box of the dual: the
	// coefficients must be inside before the ascent, or there is no duality gap.
	sub.Clip()
	c.dual.Block, c.dual.Pairs, c.dual.Tol = c.opt.Block, pairs, tol
	a := &ascent{sub: sub, final: final, left: c.opt.Blocks}
	if final {
		a.left = math.MaxInt
	}
	return a
}

// round solves the problem on the near points. The caller then updates the scores
// of the other points with hinge.AdvanceAll.
func (a *ascent) round(c *classifier) {
	// Aim at half the bound: the other points add to the gap when their scores are
	// updated.
	a.target = c.gapBound(a.final) / 2
	c.dual.Gap, c.dual.Rounds = a.target, a.left
	a.blocks = c.dual.Solve(a.sub)
	c.k += uint64(a.blocks)
	a.left -= a.blocks
	c.adopt(a.sub)
}

// done reports whether the ascent is complete: the gap is within its bound, the
// blocks are used up, or another round could change nothing (no point joins, no
// block is left to improve, and the target is as low as the bound now requires).
func (a *ascent) done(c *classifier) bool {
	gap, ok := c.p.Gap()
	bound := c.gapBound(a.final)
	if !(ok && gap <= bound || a.left <= 0) && !(c.join(a.sub) == 0 && a.blocks == 0 && bound/2 >= a.target) {
		return false
	}
	c.evals += a.sub.Rows.Evals
	c.moved = true
	c.outdate()
	return true
}

// settle optimises the points that have just replaced others, together with the points
// whose coefficients are free to move. Until the new points have taken over from the
// old ones, nearly all points violate the optimality conditions, and picking the worst
// violators would be meaningless.
func (c *classifier) settle() {
	p, n := c.p, c.came
	c.came = 0
	if n == 0 || n > 2*c.opt.Block {
		return
	}
	box := 1 / (p.Lambda * p.Count())
	c.near = c.near[:0]
	for i, a := range p.Alpha {
		a = math.Abs(a)
		if i >= p.Len()-n || a > 0 && a < p.V.At(i)*box && len(c.near) < 3*c.opt.Block-n {
			c.near = append(c.near, int32(i))
		}
	}
	sub := c.restrict()
	sub.Clip()
	c.dual.Block, c.dual.Pairs = c.opt.Block, pairs
	c.dual.Whole(sub)
	c.adopt(sub)
	p.Advance(c.rest)
	c.evals += sub.Rows.Evals
}

// pairs bounds the pair steps on a block, per point of the block; usually there are far
// fewer. tol is the largest violation of an optimality condition, in units of the
// margin, that is ignored.
const (
	pairs = 20
	tol   = 1e-9
)

// gapBound returns the largest gap allowed at the present scores: Gap standard
// errors of the objective, or a fiftieth of it. A gap much below the sampling error
// buys no accuracy.
func (c *classifier) gapBound(final bool) float64 {
	p := c.p
	var sum, square float64
	for i, w := range p.W {
		h := float64(p.V.At(i) * max(0, 1-float64(w*p.S[i])))
		sum += h
		square += float64(h * h)
	}
	m := max(1, p.Mass())
	deviation := math.Sqrt(max(0, square/m-float64(sum/m*sum/m)) / m)
	b := c.opt.Gap * max(deviation, c.p.Objective()/50)
	if final {
		b /= 5
	}
	return b
}

// restrict returns the problem on the near points alone.
func (c *classifier) restrict() *hinge.Problem {
	p := c.p
	sub := hinge.New(p.Basis.Subset(c.near), c.opt.CacheMB<<20)
	sub.Lambda, sub.Total = p.Lambda, p.Mass()
	w, v := make([]float64, len(c.near)), weight.List(nil)
	for r, i := range c.near {
		w[r] = p.W[i]
		v.Set(r, r+1, p.V.At(int(i)))
	}
	sub.Extend(w, v)
	for r, i := range c.near {
		sub.Alpha[r], sub.S[r] = p.Alpha[i], p.S[i]
	}
	return sub
}

// adopt copies the coefficients from sub, the problem on the near points, and lists
// in rest the other points, whose scores Advance still has to update.
func (c *classifier) adopt(sub *hinge.Problem) {
	p := c.p
	for r, i := range c.near {
		p.D[i] = sub.Alpha[r] - p.Alpha[i]
		p.Alpha[i], p.S[i] = sub.Alpha[r], sub.S[r]
	}
	c.listed = append(c.listed[:0], make([]bool, p.Len())...)
	for _, i := range c.near {
		c.listed[i] = true
	}
	c.rest = c.rest[:0]
	for i, in := range c.listed {
		if !in {
			c.rest = append(c.rest, int32(i))
		}
	}
}

// join adds the points of rest that have a loss to near and to sub, and returns their
// number.
func (c *classifier) join(sub *hinge.Problem) int {
	p := c.p
	var w []float64
	var v weight.List
	for _, i := range c.rest {
		if p.W[i]*p.S[i] < 1 {
			c.near = append(c.near, i)
			sub.Basis.Append(p.Basis.Row(int(i)))
			v.Set(len(w), len(w)+1, p.V.At(int(i)))
			w = append(w, p.W[i])
		}
	}
	sub.Extend(w, v)
	return len(w)
}
