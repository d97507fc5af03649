package finitesum

import (
	"context"

	"github.com/streamsvm/streamsvm/internal/linear"
)

// A Method is an algorithm: one of the variables of this package.
type Method struct {
	name        string
	rate, inner float64 // default settings
	table       bool    // uses a table of derivatives and its mean instead of full gradients
}

// String returns the method's name for users.
func (m *Method) String() string { return m.name }

// SVRGSD is Algorithm 2 of Shang et al.: the method of Johnson and Zhang, "Accelerating
// Stochastic Gradient Descent using Predictive Variance Reduction" (NIPS 2013), with
// momentum and sufficient decrease. With λ2 > 0 it takes the proximal step of Xiao and
// Zhang (SIAM J. Optim. 2014).
var SVRGSD = &Method{name: "svrg-sd", rate: 1, inner: 2}

// SAGASD is Algorithm 3 of Shang et al.: the method of Defazio, Bach, Lacoste-Julien,
// "SAGA: A Fast Incremental Gradient Method with Support for Non-Strongly Convex
// Composite Objectives" (NIPS 2014), with momentum and sufficient decrease.
var SAGASD = &Method{name: "saga-sd", rate: 1. / 3, inner: 1, table: true}

// descend does an epoch of m inner steps. With a new i for each k and μ~ = ∇F(x~),
//
//	x_0   = x^_0 = x~, or y~ (see convex)
//	p~    = ∇f_i(x_{k−1}) − ∇f_i(x~)
//	y_k   = prox(x_{k−1} − η (p~ + μ~))                                    (8)
//	x^_k  = θ x_{k−1},  θ = argmin F(θ x_{k−1}) + ζ/2 (1−θ)² ‖p~‖², or 1   (5)
//	x_k   = y_k + (1−σ) (x^_k − x^_{k−1}),  k = 1 … m                      (7)
//	y~'   = (x_m − (1−σ) x^_m)/σ
//
// For SAGA-SD, e_i is the derivative in the table for row i, g the mean of e_i a_i, and
//
//	d     = loss'(a_iᵀx_{k−1})
//	p~    = (d − e_i) a_i,  μ~ = g + λ1 x_{k−1}
//	g    += (d − e_i) a_i/n,  e_i = d
//
// If it fails, everything in Solver.Fields is unchanged except the number of passes.
func (s *Solver) descend(ctx context.Context, m int) error {
	s.begin(m)
	for k := range m {
		if k%checkEvery == 0 && ctx.Err() != nil {
			if s.par.Method.table {
				copy(s.mean, s.saved[copy(s.table, s.saved):])
			}
			return ctx.Err()
		}
		s.inner(k)
	}
	s.end()
	return nil
}

// begin prepares the walk of an epoch of m steps.
func (s *Solver) begin(m int) {
	w, p, sigma := &s.walk, s.prob, s.par.Sigma
	s.prepareDecrease(s.setStep(p.Ridge), m)
	if w.table = s.par.Method.table; w.table {
		s.saved = append(append(s.saved[:0], s.table...), s.mean...)
		w.known, w.grad = s.table, s.mean
	} else {
		s.evaluate(true)
		s.passes++
		w.known, w.grad = s.d, s.grad
	}
	w.p, w.sample, w.rows = p, &s.sample, s.draws("vr.row")
	w.eta, w.lasso, w.mom = s.eta, float64(s.eta*p.Lasso), 1-sigma
	for _, v := range []*[]float64{&w.x, &w.hat, &w.sum, &w.u} {
		*v = linear.Grow(*v, p.Dim())
	}
	clear(w.sum)
	w.m, w.k, w.sparse = m, 0, p.sparse()
	copy(w.x, s.snap)
	copy(w.hat, s.snap)
	if s.convex() {
		copy(w.x, s.y)
		copy(w.hat, s.y)
	}
	if w.sparse {
		w.prepare()
	}
}

// inner does step k of an epoch.
func (s *Solver) inner(k int) {
	w := &s.walk
	due := s.decrease.due(k)
	w.draw()
	switch {
	case due:
		s.decreaseStep(k)
	case w.sparse:
		w.lazyStep()
	case w.full():
		w.sweep() // the usual step
	default:
		w.gather()
		w.scaledStep(1)
	}
}

// decreaseStep is step k with θ from (5).
func (s *Solver) decreaseStep(k int) {
	w, d := &s.walk, &s.decrease
	pp := 0.0 // ‖p~‖²
	for j, v := range w.direction() {
		if !w.table {
			v += float64(s.prob.Ridge * (w.x[j] - s.snap[j]))
		}
		pp += float64(v * v)
	}
	theta := s.theta(w.x, k == 0 && !s.convex(), pp)
	d.lo, d.hi = min(d.lo, theta), max(d.hi, theta)
	w.scaledStep(theta)
}

// end stores the result of an epoch.
func (s *Solver) end() {
	w := &s.walk
	if w.sparse {
		w.flush()
	}
	for j, v := range w.sum {
		s.snap[j] = v / float64(w.m)
	}
	if s.par.Method.table {
		return
	}
	for j, v := range w.x {
		s.y[j] = (v - float64(w.mom*w.hat[j])) / s.par.Sigma
		s.sum[j] += s.snap[j]
	}
	s.summed++
}
