package finitesum

import "context"

// SVRGSD is Algorithm 2 of Shang et al.: Prox-SVRG with momentum and
// sufficient decrease.
var SVRGSD = &Method{name: "svrg-sd", rate: 1, inner: 2, y: true, sum: true, epoch: (*Solver).svrgSD}

// Variant is where an epoch of SVRG-SD starts.
type Variant uint8

const (
	Auto     Variant = iota // Convex where λ1 = 0, else Strongly
	Strongly                // at the snapshot: Algorithm 2, strongly convex case
	Convex                  // variant A: at y~, Algorithm 2 as printed for the merely convex case
	ConvexB                 // variant B: at σ y~ + (1−σ) x~ with momentum from x~, as Theorem 1 needs it
)

// svrgSD is an epoch. With i drawn again for each k,
//
//	μ~    = ∇F(x~),  x_0 = x^_0 = x~ (Strongly)
//	p~    = ∇f_i(x_{k−1}) − ∇f_i(x~)
//	y_k   = prox(x_{k−1} − η (p~ + μ~))                                    (8)
//	x^_k  = θ x_{k−1},  θ = argmin F(θ x_{k−1}) + ζ/2 (1−θ)² ‖p~‖², or 1   (5)
//	x_k   = y_k + (1−σ) (x^_k − x^_{k−1}),  k = 1 … m                      (7)
//	x~'   = 1/m Σ x^_k,  y~' = (x_m − (1−σ) x^_m)/σ
func (s *Solver) svrgSD(ctx context.Context, m int) error {
	p, sigma := s.prob, s.par.Sigma
	s.prepareDecrease(s.setStep(p.Ridge), m)
	s.fullGradient()
	w := s.start(m, s.snap, s.d, s.grad)
	w.mom = 1 - sigma
	switch s.par.Variant {
	case Convex:
		copy(w.x, s.y)
		copy(w.hat, s.y)
	case ConvexB:
		for j, v := range s.snap {
			w.x[j] = float64(sigma*s.y[j]) + float64((1-sigma)*v)
		}
	}
	for k := range m {
		if err := w.draw(ctx); err != nil {
			return err
		}
		if !s.decrease.due(k) {
			w.step()
			continue
		}
		pp := 0.0 // ‖p~‖²
		for j, v := range w.direction() {
			v += float64(p.Ridge * (w.x[j] - s.snap[j]))
			pp += float64(v * v)
		}
		w.scaledStep(s.theta(w.x, k == 0 && s.par.Variant == Strongly, pp))
	}
	w.mean(s.snap)
	for j, v := range w.x {
		s.y[j] = (v - float64(w.mom*w.hat[j])) / sigma
	}
	for j, v := range s.snap {
		s.sum[j] += v
	}
	s.summed++
	return nil
}
