package finitesum

import "context"

// SVRG is the method of Johnson and Zhang, "Accelerating Stochastic Gradient
// Descent using Predictive Variance Reduction" (NIPS 2013), option I. λ2 must
// be 0.
var SVRG = &Method{name: "svrg", rate: .4, inner: 2, epoch: (*Solver).svrg}

// svrg is an epoch. With i drawn again for each k,
//
//	μ~  = ∇F(x~),  x_0 = x~
//	x_k = x_{k−1} − η (∇f_i(x_{k−1}) − ∇f_i(x~) + μ~),  k = 1 … m
//	x~' = x_m
func (s *Solver) svrg(ctx context.Context, m int) error {
	s.setStep(s.prob.Ridge)
	s.fullGradient()
	w := s.start(m, s.snap, s.d, s.grad)
	for range m {
		if err := w.draw(ctx); err != nil {
			return err
		}
		w.step()
	}
	copy(s.snap, w.last())
	return nil
}
