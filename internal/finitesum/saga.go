package finitesum

import "context"

// SAGA is the method of Defazio, Bach, Lacoste-Julien, "SAGA: A Fast
// Incremental Gradient Method with Support for Non-Strongly Convex Composite
// Objectives" (NIPS 2014).
var SAGA = &Method{name: "saga", rate: 1. / 3, inner: 1, table: true, epoch: (*Solver).saga}

// saga is an epoch. e_i is the derivative that the table holds for row i and
// g the mean of e_i a_i; with i drawn again for each k,
//
//	d   = loss'(a_iᵀx_{k−1})
//	x_k = prox(x_{k−1} − η ((d − e_i) a_i + g + λ1 x_{k−1}))
//	g  += (d − e_i) a_i/n,  e_i = d
func (s *Solver) saga(ctx context.Context, m int) error {
	s.setStep(s.prob.Ridge)
	s.saveTable()
	w := s.start(m, s.snap, s.table, s.mean)
	for range m {
		if err := w.draw(ctx); err != nil {
			s.restoreTable()
			return err
		}
		w.step()
		s.store(w.batch)
	}
	copy(s.snap, w.last())
	return nil
}

// store takes the derivatives of rows into the table and its mean. A row that
// a batch holds twice counts once.
func (s *Solver) store(rows []drawn) {
	n := float64(s.prob.Len())
	for k := range rows {
		r := &rows[k]
		s.prob.axpy((r.d-s.table[r.i])/n, r.i, s.mean)
		s.table[r.i] = r.d
	}
}

func (s *Solver) saveTable() { s.saved = append(append(s.saved[:0], s.table...), s.mean...) }

func (s *Solver) restoreTable() { copy(s.mean, s.saved[copy(s.table, s.saved):]) }
