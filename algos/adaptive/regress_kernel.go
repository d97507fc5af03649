package adaptive

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/internal/par"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// target says what a kernel learner learns: classes, or numbers, from which it subtracts
// their mean.
type target struct {
	number bool
	center float64
}

// fit sets the mean from the learner's examples.
func (t *target) fit(xs []*stream.Example) {
	if !t.number {
		return
	}
	t.center = 0
	for i, x := range xs {
		t.center += (x.Y - t.center) / float64(i+1)
	}
}

func (t *target) fields(f *state.Fields) {
	if !t.number {
		return
	}
	f.Float64("center", &t.center)
	if f.Decoding() && f.Err() == nil && t.center-t.center != 0 {
		f.Fail("center", fmt.Errorf("%g", t.center))
	}
}

// diagonal is added to element i of K's diagonal. With it the window maximises
//
//	Σ_i y_i a_i − ½ a'(K + W⁻¹/C)a,
//
// whose maximum is kernel ridge regression, ½‖f‖² + C/2 Σ_i w_i (y_i − f(x_i))².
func (w *window) diagonal(i int) float32 {
	if w.target.number {
		return float32(1 / (w.c * w.weight.At(i)))
	}
	return 0
}

// ridge adds diagonal to K.
func (w *window) ridge() {
	if w.target.number {
		for i := range w.y {
			w.row(i)[i] += w.diagonal(i)
		}
	}
}

// ascend moves the coefficients towards the maximum after n new examples.
func (w *window) ascend(pairs, n int) {
	if w.target.number {
		w.descend(cgSteps)
		return
	}
	w.box.Ascend(pairs*n, enough)
}

const (
	cgSteps  = 40   // most steps of conjugate gradients at a time
	cgEnough = 1e-3 // residual, relative to the labels' size, that is small enough
	cgRank   = 128  // rank of the preconditioner
)

// descend takes conjugate gradient steps on (K + I/C) a = y from the present a.
func (w *window) descend(limit int) {
	a, r := w.box.A, w.box.G
	enough := cgEnough * cgEnough * vec.Dot64(w.y, w.y)
	if vec.Dot64(r, r) <= enough {
		return
	}
	near := w.precondition(min(cgRank, len(r)/4))
	z, q := make([]float64, len(r)), make([]float64, len(r))
	near.solve(z, r)
	p, rz := append([]float64(nil), z...), vec.Dot64(r, z)
	for range limit {
		for i := range q {
			q[i] = vec.DotMixed(w.row(i), p)
		}
		curve := vec.Dot64(p, q)
		if !(curve > 0) { // rounding
			return
		}
		step := rz / curve
		vec.Axpy64(step, p, a)
		vec.Axpy64(-step, q, r)
		if vec.Dot64(r, r) <= enough {
			return
		}
		near.solve(z, r)
		next := vec.Dot64(r, z)
		beta := next / rz
		for i, v := range z {
			p[i] = v + float64(beta*p[i])
		}
		rz = next
	}
}

// lowRank is LL' + dI, an approximation of K + I/C.
type lowRank struct {
	d       float64
	columns [][]float64  // of L
	factor  linear.Lower // of L'L + dI
	c       []float64    // scratch
}

// precondition makes a lowRank by pivoted Cholesky factorisation of K. It ends after rank
// points, or when the remaining diagonal is negligible.
func (w *window) precondition(rank int) *lowRank {
	n := len(w.y)
	l := &lowRank{d: float64(float32(1 / w.c))}
	left := make([]float64, n) // K's diagonal less that of LL'
	for i := range left {
		left[i] = float64(w.row(i)[i]) - float64(w.diagonal(i))
	}
	for range rank {
		at := 0
		for i, v := range left {
			if v > left[at] {
				at = i
			}
		}
		if left[at] <= l.d {
			break
		}
		col := make([]float64, n)
		for i, v := range w.row(at) {
			col[i] = float64(v)
		}
		col[at] -= float64(w.diagonal(at))
		for _, c := range l.columns {
			vec.Axpy64(-c[at], c, col)
		}
		root := math.Sqrt(left[at])
		for i := range col {
			col[i] /= root
			left[i] -= float64(col[i] * col[i])
		}
		left[at] = 0
		l.columns = append(l.columns, col)
	}
	k := len(l.columns)
	l.c, l.factor = make([]float64, k), make(linear.Lower, linear.Triangle(k))
	for i, a := range l.columns {
		for j, b := range l.columns[:i+1] {
			l.factor.Row(i)[j] = vec.Dot64(a, b)
		}
		l.factor.Row(i)[i] += l.d
	}
	l.factor.Cholesky(k, 1e-14, true)
	return l
}

// solve sets z to (LL' + dI)⁻¹ r.
func (l *lowRank) solve(z, r []float64) {
	for k, c := range l.columns {
		l.c[k] = vec.Dot64(c, r)
	}
	l.factor.Solve(l.c)
	copy(z, r)
	for k, c := range l.columns {
		vec.Axpy64(-l.c[k], c, z)
	}
	for i := range z {
		z[i] /= l.d
	}
}

// chooseNumber is choose for regression.
func chooseNumber(xs []*stream.Example, t target, seed uint64, laplacian bool) (choice, float64) {
	fit, test := split(xs, t)
	n := len(fit)
	gammas, cs := gammasOf(fit, seed, laplacian, 1./16, 1./4, 1, 4), []float64{10, 100, 1000, 10000}
	if !laplacian {
		gammas, cs = append([]float64{0}, gammas...), []float64{1, 10, 100, 1000}
	}
	losses := make([]float64, len(gammas)*len(cs))
	par.Each(len(gammas), func(i int) {
		w := newWindow(max(1, n), cs[0], kernelOf(gammas[i]), t)
		s := scratches.Get().(*scratch)
		defer func() { s.gram = w.box.Gram; scratches.Put(s) }()
		w.box.Gram, s.cross = s.gram, room(s.cross, len(test)*n)
		cross := s.cross
		for j, c := range cs {
			before := w.c
			if w.c = c; j == 0 {
				w.fill(fit)
				w.basis.Block(cross, n, samplers.Vecs(test), 0, n)
			} else {
				for i, a := range w.box.A {
					shift := w.diagonal(i) - float32(1/(before*w.weight.At(i)))
					w.row(i)[i] += shift
					w.box.G[i] -= float64(float64(shift) * a)
				}
				w.ascend(pairsAll, n)
			}
			for at, x := range test {
				r := x.Y - vec.DotMixed(cross[at*n:(at+1)*n], w.box.A)
				losses[i*len(cs)+j] += float64(x.Importance() * float64(r*r))
			}
		}
	})
	best := 0
	for i, v := range losses {
		if v < losses[best] {
			best = i
		}
	}
	return choice{c: cs[best%len(cs)], gamma: gammas[best/len(cs)]}, losses[best]
}
