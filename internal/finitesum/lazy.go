package finitesum

import (
	"math"
	"slices"
)

// lazy lets steps on sparse rows skip the coordinates that a row does not have. Such
// a coordinate follows
//
//	x' = soft(x − η (g + λ1 x), η λ2) + (1−σ)(x − x^),  x^' = x
//
// with constant g. This is linear if λ2 is 0, and otherwise as long as the argument
// of soft stays on one side. k steps are then a linear map of (x, x^, g), which is
// tabulated for k up to the length of the table. A coordinate at 0 with |g| ≤ λ2
// stays there. A coordinate that soft sets to 0 while its momentum decays also
// follows a linear map.
type lazy struct {
	done []int32 // number of steps that a coordinate has taken
	jump []leap  // by number of steps
	fade []leap  // by number of steps in which soft returns 0
	rec  recipe  // the parameters of jump and fade
}

// leap is the effect of k steps on a coordinate: x becomes a x + b x^ + c g, and
// the average gains p x + q x^ + r g.
type leap struct{ a, b, c, p, q, r float64 }

// recipe has all parameters that a leap depends on.
type recipe struct {
	eta, ridge, mom float64
	n               int
}

// vanished is the magnitude below which a coordinate is set to 0 if only momentum
// keeps it from 0. It would take a thousand more steps to get there.
const vanished = 1e-40

// maxLeap is the longest tabulated leap; longer gaps take several.
const maxLeap = 1024

// table computes leaps by running the recurrence on unit inputs.
func (r recipe) table(t []leap, lasso float64) []leap {
	t = slices.Grow(t[:0], r.n+1)[:r.n+1]
	t[0] = leap{a: 1}
	for unit := range 3 {
		v := [3]float64{}
		v[unit] = 1
		x, xh, g, acc := v[0], v[1], v[2], 0.0
		for k := 1; k <= r.n; k++ {
			x, xh = step(x, xh, g, r.eta, r.ridge, lasso, r.mom, 1)
			acc += xh
			to := &t[k]
			switch unit {
			case 0:
				to.a, to.p = x, acc
			case 1:
				to.b, to.q = x, acc
			case 2:
				to.c, to.r = x, acc
			}
		}
	}
	return t
}

// prepare begins an epoch.
func (w *walk) prepare() {
	if len(w.done) < len(w.x) {
		w.done = make([]int32, len(w.x))
	}
	clear(w.done)
	if r := (recipe{w.eta, w.p.Ridge, w.mom, min(w.m, maxLeap)}); w.rec != r {
		w.rec = r
		w.jump = r.table(w.jump, 0)
		w.fade = r.table(w.fade, math.Inf(1))
	}
}

// reach brings the coordinates of row i up to date.
func (w *walk) reach(i int) {
	for j := range w.p.coordinates(i) {
		w.catchUp(j, int32(w.k))
	}
}

// flush brings all coordinates up to date.
func (w *walk) flush() {
	for j := range w.x {
		w.catchUp(j, int32(w.k))
	}
}

// lazyStep does the step of the row's coordinates.
func (w *walk) lazyStep() {
	w.gather()
	if w.p.first() == 1 {
		w.move(0, 0)
	}
	for j := range w.p.coordinates(w.row.i) {
		w.move(j, w.lasso)
	}
	w.k++
	w.store()
}

// move does the step of coordinate j.
func (w *walk) move(j int, lasso float64) {
	w.done[j] = int32(w.k + 1)
	x, h := step(w.x[j], w.hat[j], w.u[j]+w.grad[j], w.eta, w.p.Ridge, lasso, w.mom, 1)
	w.u[j] = 0
	w.x[j], w.hat[j] = x, h
	w.sum[j] += h
}

// catchUp brings coordinate j to step k.
func (w *walk) catchUp(j int, k int32) {
	gap := int(k - w.done[j])
	if gap == 0 {
		return
	}
	w.done[j] = k
	x, xh, acc, g, r := w.x[j], w.hat[j], w.sum[j], w.grad[j], &w.rec
	lambda := w.p.Lasso
	if lambda == 0 || j < w.p.first() {
		for gap > 0 {
			h := min(gap, r.n)
			x, xh, acc = hop(w.jump, h, x, xh, acc, g)
			gap -= h
		}
		w.x[j], w.hat[j], w.sum[j] = x, xh, acc
		return
	}
	for gap > 0 {
		if x == 0 && xh == 0 && math.Abs(g) <= lambda {
			break
		}
		h := 0
		if far := max(math.Abs(x), math.Abs(xh)); gap >= 4 && float64(r.eta*math.Abs(g))+float64(2*(1+float64(r.eta*r.ridge))*far) <= r.eta*lambda {
			// From here on x' = (1−σ)(x − x^): |x| never exceeds twice far.
			if far < vanished {
				x, xh = 0, 0
				break
			}
			h = min(gap, r.n)
			x, xh, acc = hop(w.fade, h, x, xh, acc, 0)
			gap -= h
			continue
		}
		if gap >= 8 && x != 0 {
			// While |x_k| is within half of |x|, no step is longer than move.
			side := math.Copysign(lambda, x)
			move := max(math.Abs(x-xh), r.eta*(math.Abs(g+side)+float64(2*r.ridge*math.Abs(x)))/(1-r.mom))
			if math.Abs(x)/2*(1-float64(r.eta*r.ridge)) > r.eta*math.Abs(g+side) {
				h = gap
				if far := math.Abs(x) / 2 / move; far < float64(gap) {
					h = int(far)
				}
				h = min(h, r.n)
			}
			if h >= 4 {
				x, xh, acc = hop(w.jump, h, x, xh, acc, g+side)
				gap -= h
				continue
			}
		}
		for h = min(gap, 8); h > 0; h-- {
			x, xh = step(x, xh, g, r.eta, r.ridge, float64(r.eta*lambda), r.mom, 1)
			acc += xh
			gap--
		}
	}
	w.x[j], w.hat[j], w.sum[j] = x, xh, acc
}

// hop does 1 ≤ h < len(table) steps at once.
func hop(table []leap, h int, x, xh, acc, g float64) (float64, float64, float64) {
	t, u := &table[h], &table[h-1]
	return float64(t.a*x) + float64(t.b*xh) + float64(t.c*g),
		float64(u.a*x) + float64(u.b*xh) + float64(u.c*g),
		acc + (float64(t.p*x) + float64(t.q*xh) + float64(t.r*g))
}
