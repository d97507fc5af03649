package finitesum

import "context"

// ProxSVRG is the method of Xiao and Zhang, "A Proximal Stochastic Gradient
// Method with Progressive Variance Reduction" (SIAM J. Optim. 2014).
var ProxSVRG = &Method{name: "prox-svrg", rate: .25, inner: 2, epoch: (*Solver).proxSVRG}

// proxSVRG is an epoch. With i drawn again for each k,
//
//	μ~  = ∇F(x~),  x_0 = x~
//	x_k = prox(x_{k−1} − η (∇f_i(x_{k−1}) − ∇f_i(x~) + μ~)),  k = 1 … m
//	x~' = 1/m Σ x_k
func (s *Solver) proxSVRG(ctx context.Context, m int) error {
	s.setStep(s.prob.Ridge)
	s.fullGradient()
	w := s.start(m, s.snap, s.d, s.grad)
	w.sumNext = true
	for range m {
		if err := w.draw(ctx); err != nil {
			return err
		}
		w.step()
	}
	w.mean(s.snap)
	return nil
}
