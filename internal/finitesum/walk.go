package finitesum

import (
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/internal/vec"
)

// checkEvery is the number of inner steps between checks of the context.
const checkEvery = 512

// A walk is the iterate during an epoch. Its step is (8), (5) and (7) of Shang et al.;
// without momentum and with θ = 1 it is a proximal gradient step:
//
//	y_k  = soft(x_{k−1} − η (u + grad + λ1 x_{k−1}), η λ2),  u = c a_i
//	x^_k = θ x_{k−1}
//	x_k  = y_k + mom (x^_k − x^_{k−1})
//
// With sparse rows, coordinates that the row does not have are updated only when
// they are needed (see lazy).
type walk struct {
	p      *Problem
	sample *sampling
	rows   *rng.Source
	known  []float64 // by row: the derivative that c is measured from
	grad   []float64 // mean of known[i] a_i

	eta, lasso, mom float64 // lasso: η λ2
	table           bool    // known and grad follow the steps (SAGA-SD)
	x, hat, sum     []float64

	m, k   int   // total steps, steps done
	row    drawn // the row of this step
	u      []float64
	sparse bool
	lazy
}

// drawn is a row, its derivative d at x, and the weighted difference c
// between d and the known derivative.
type drawn struct {
	i    int
	c, d float64
}

// draw draws the row of the next step and computes its derivative at x.
func (w *walk) draw() {
	p := w.p
	i, weight := w.sample.next(w.rows)
	if w.sparse {
		if p.first() == 1 {
			w.catchUp(0, int32(w.k))
		}
		w.reach(i)
	}
	d := p.deriv(p.dot(w.x, i), i)
	w.row = drawn{i, float64(weight * (d - w.known[i])), d}
}

// full reports whether the row is dense with every feature.
func (w *walk) full() bool {
	r := &w.p.rows[w.row.i]
	return r.Idx == nil && len(r.Val) == len(w.x)-w.p.first()
}

// direction returns u for a scaledStep, and brings x up to date.
func (w *walk) direction() []float64 {
	if w.sparse {
		w.flush()
	}
	w.gather()
	return w.u
}

func (w *walk) gather() { w.p.axpy(w.row.c, w.row.i, w.u) }

// scaledStep does the step with any θ, once u has been computed.
func (w *walk) scaledStep(theta float64) {
	first := w.p.first()
	for j, v := range w.u {
		t := w.lasso
		if j < first {
			t = 0
		}
		x, h := step(w.x[j], w.hat[j], v+w.grad[j], w.eta, w.p.Ridge, t, w.mom, theta)
		w.x[j], w.hat[j] = x, h
		w.sum[j] += h
	}
	clear(w.u)
	w.k++
	if w.sparse {
		for j := range w.x {
			w.done[j] = int32(w.k)
		}
	}
	w.store()
}

// store updates the table and its mean with the derivative of the row (SAGA-SD).
func (w *walk) store() {
	if !w.table {
		return
	}
	r := &w.row
	w.p.axpy((r.d-w.known[r.i])/float64(w.p.Len()), r.i, w.grad)
	w.known[r.i] = r.d
}

// sweep does the step with θ = 1 for a full row, in one pass over the coordinates.
func (w *walk) sweep() {
	r := w.row // in registers
	val, first, table, scale := w.p.rows[r.i].Val, w.p.first(), w.table, 0.0
	if table {
		scale = (r.d - w.known[r.i]) / float64(w.p.Len())
		w.known[r.i] = r.d
	}
	c, eta, ridge, lasso, mom := r.c, w.eta, w.p.Ridge, w.lasso, w.mom
	if first == 1 {
		x, h := step(w.x[0], w.hat[0], float64(c*w.p.Bias)+w.grad[0], eta, ridge, 0, mom, 1)
		w.x[0], w.hat[0] = x, h
		w.sum[0] += h
		if table {
			w.grad[0] += float64(scale * w.p.Bias)
		}
	}
	x, hat, sum, g := w.x[first:][:len(val)], w.hat[first:][:len(val)], w.sum[first:][:len(val)], w.grad[first:][:len(val)]
	for j, a := range val {
		t := x[j]
		y := t - float64(eta*((float64(c*float64(a))+g[j])+float64(ridge*t)))
		if lasso != 0 {
			y = soft(y, lasso)
		}
		y += float64(mom * (t - hat[j]))
		x[j], hat[j] = y, t
		sum[j] += t
	}
	w.k++
	switch {
	case !table:
	case len(val) >= longRow:
		vec.AxpyMixed(scale, val, g)
	default:
		for j, a := range val {
			g[j] += float64(scale * float64(a))
		}
	}
}

// step updates one coordinate: (8), then (5) and (7). g is the gradient estimate
// without its ridge part; lasso is η λ2.
func step(x, xh, g, eta, ridge, lasso, mom, theta float64) (next, hat float64) {
	y := soft(x-float64(eta*(g+float64(ridge*x))), lasso)
	hat = float64(theta * x)
	return y + float64(mom*(hat-xh)), hat
}
