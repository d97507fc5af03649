package sbp

import (
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/internal/kernel/rows"
	"github.com/streamsvm/streamsvm/internal/vec"
)

// foldBelow is the scale below which it is folded into the values that it scales,
// long before precision would be lost.
const foldBelow = 1e-3

// syncEvery is the number of updates after which ‖w‖² is recomputed.
const syncEvery = 10000

// eta returns the step size of update t (Algorithm 1, line 4).
func (l *Learner) eta(t float64) float64 {
	if !(l.maxDiag > 0) || t < 1 {
		return 0
	}
	return l.opt.Rate / math.Sqrt(float64(l.maxDiag*t))
}

// update does n updates.
func (l *Learner) update(n int) {
	if !l.solvable() {
		return
	}
	for left := n; left > 0; left-- {
		l.cur.solve(l.u, l.y, l.volume()/l.scale, l.opt.Intercept)
		l.apply(l.draw(left))
	}
}

// apply does the update on example i.
func (l *Learner) apply(i int) {
	l.step++
	l.t++
	eta := l.eta(l.t)
	k := l.rows.Row(i)
	// Update ‖w‖² from the responses before the update.
	l.r2 += float64(2*eta*l.y[i]*float64(l.scale*l.u[i])) + float64(float64(eta*eta)*float64(k[i]))
	l.sumW += float64(eta * l.y[i] * l.sumU[i])
	d := eta / l.scale
	l.a[i] += d
	l.lag[i] += float64(d * l.sumS)
	vec.AxpyMixed(float64(d*l.y[i]), k, l.u)
	l.cur.foresee(float64(d*l.y[i]), k, l.y)
	if l.r2 > 1 {
		l.scale /= math.Sqrt(l.r2)
		l.sumW /= math.Sqrt(l.r2)
		l.shrunk = min(l.shrunk+math.Log(l.r2)/2, float64(coldSpans*l.opt.Every)/float64(l.opt.Frozen))
		l.r2 = 1
	}
	if l.scale < foldBelow {
		l.fold()
	}
	if l.step%syncEvery == 0 && len(l.coldA) == 0 {
		l.r2 = l.norm2()
	}
	l.sumS += l.scale
	l.weight++
	l.sum2 += float64(2*l.sumW) + l.r2
	l.sumW += l.r2
	vec.Axpy64(l.scale, l.u, l.sumU)
}

// fold multiplies the scale into the values that it scales, and settles the
// average. Otherwise the sum of scales would grow as fast as projections shrink the
// coefficients, until their difference had no correct digit left.
func (l *Learner) fold() {
	s := l.scale
	for i := range l.a {
		l.lag[i] -= float64(l.sumS * l.a[i])
		l.a[i] *= s
		l.u[i] *= s
	}
	for i := range l.coldA {
		l.coldLag[i] -= float64(l.sumS * l.coldA[i])
		l.coldA[i] *= s
	}
	l.sumS = 0
	l.cur.rescale(s)
	l.scale = 1
}

// norm2 returns Σ α_i c_i.
func (l *Learner) norm2() float64 {
	var sum float64
	for i, a := range l.a {
		if a != 0 {
			sum += float64(float64(a*l.y[i]) * l.u[i])
		}
	}
	return min(1, max(0, float64(float64(sum*l.scale)*l.scale)))
}

// rejectBelow is the smallest share of eligible examples at which draws use rejection.
// With rejection, the sequence of candidates does not depend on the level, so the next
// updates can be predicted.
const rejectBelow = 1. / 64

// draw draws the example of the next update from p*. left is the number of updates
// still to come, including this one.
func (l *Learner) draw(left int) int {
	direct := l.rows.Direct()
	peeked := !direct && left > 1 && l.setPeek()
	i := l.pick(l.rng, l.step)
	if l.rows.Has(int32(i)) {
		l.reach++
		return i
	}
	if direct { // rows in blocks cost as much as single ones
		return i
	}
	// A row in a block costs a fraction of a single one, so the look-ahead pays off
	// even if most of it is wrong.
	switch {
	case 2*l.reach >= l.depth:
		l.depth = min(2*l.depth, rows.Block)
	case 8*l.reach < l.depth:
		l.depth /= 2
	}
	l.reach = 1
	if n := min(left, l.depth); peeked && n > 1 {
		l.lookAhead(n)
	}
	return i
}

// setPeek copies the state of rng to peek, so that peek predicts its next numbers.
func (l *Learner) setPeek() bool {
	state, err := l.rng.MarshalBinary()
	return err == nil && l.peek.UnmarshalBinary(state) == nil
}

// generator is the random generator interface of pick.
type generator interface {
	IntN(n int) int
	Uint64() uint64
}

// pick draws an example from p*: uniformly from the examples under water. With an
// intercept, the example is of one class, chosen by a fair coin or in turns (each class
// has half of the mass, as the bias requires).
func (l *Learner) pick(g generator, step uint64) int {
	class := -1
	count := l.cur.count[0]
	if l.cur.biased {
		class = int(step & 1)
		if l.opt.Classes == "coin" {
			class = int(g.Uint64() >> 63)
		}
		count = l.cur.count[class]
	}
	n := len(l.y)
	if float64(count) >= rejectBelow*float64(n) {
		for {
			i := g.IntN(n)
			if l.inClass(i, class) && l.cur.has(i, l.u, l.y) {
				return i
			}
		}
	}
	skip := g.IntN(max(count, 1))
	last := 0
	for _, i := range l.cur.lowest(l.u, l.y) {
		if i := int(i); l.inClass(i, class) && l.cur.has(i, l.u, l.y) {
			if last = i; skip == 0 {
				break
			}
			skip--
		}
	}
	return last
}

func (l *Learner) inClass(i, class int) bool {
	return class < 0 || (l.y[i] < 0) == (class == 1)
}

// lookAhead computes the kernel rows of the most likely next examples in one block:
// first the examples predicted by the present p*, then the ones next above the water.
// Wrong guesses cost only time.
func (l *Learner) lookAhead(n int) {
	l.ahead = l.ahead[:0]
	want := func(i int32) {
		if l.rows.Has(i) {
			return
		}
		if slices.Contains(l.ahead, i) {
			return
		}
		l.ahead = append(l.ahead, i)
	}
	for k := range n {
		want(int32(l.pick(&l.peek, l.step+uint64(k))))
	}
	// With little water the same few examples are drawn repeatedly, until others are
	// lower. The rows of these others will be needed soon.
	if l.cur.under < n {
		for k := 0; len(l.ahead) < n; k++ {
			out := true
			for c := range l.cur.band {
				if k < len(l.cur.band[c]) && len(l.ahead) < n {
					want(l.cur.band[c][k].I)
					out = false
				}
			}
			if out {
				break
			}
		}
	}
	l.rows.Fetch(l.ahead)
}

// restart begins a new average, keeping the given share of the old one, multiplies
// the step count by shrink, and adapts ν.
func (l *Learner) restart(shrink, retain float64) {
	if l.step > 0 {
		l.adapt()
	}
	l.since = 0
	l.t = math.Floor(l.t * shrink)
	l.sumS *= retain
	l.weight *= retain
	l.sum2 *= retain * retain
	l.sumW *= retain
	for i := range l.lag {
		l.lag[i] *= retain
		l.sumU[i] *= retain
	}
	for i := range l.coldLag {
		l.coldLag[i] *= retain
	}
}
