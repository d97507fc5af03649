package finitesum

import "context"

// SAGASD is Algorithm 3 of Shang et al.: SAGA with momentum and sufficient
// decrease.
var SAGASD = &Method{name: "saga-sd", rate: 1. / 3, inner: 1, table: true, epoch: (*Solver).sagaSD}

// sagaSD is an epoch: as saga, with p~ = (d − e_i) a_i in place of SVRG-SD's
// and the same updates (5), (7), (8); the epoch ends at the mean of the x^_k.
func (s *Solver) sagaSD(ctx context.Context, m int) error {
	s.prepareDecrease(s.setStep(s.prob.Ridge), m)
	s.saveTable()
	w := s.start(m, s.snap, s.table, s.mean)
	w.mom = 1 - s.par.Sigma
	for k := range m {
		if err := w.draw(ctx); err != nil {
			s.restoreTable()
			return err
		}
		if s.decrease.due(k) {
			pp := 0.0 // ‖p~‖²
			for _, v := range w.direction() {
				pp += float64(v * v)
			}
			w.scaledStep(s.theta(w.x, k == 0, pp))
		} else {
			w.step()
		}
		s.store(w.batch)
	}
	w.mean(s.snap)
	return nil
}
