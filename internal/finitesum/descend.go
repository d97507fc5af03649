package finitesum

import (
	"context"
	"math"

	"github.com/streamsvm/streamsvm/internal/rng"
)

// checkEvery is the number of inner steps between looks at the context.
const checkEvery = 512

// descend runs an epoch of Algorithm 2 or 3, or of the methods that are their
// special cases.
func (s *Solver) descend(ctx context.Context) error {
	m, places, draw := s.inner(), s.places(s.inner()), s.draws("vr.row")
	s.start()
	grad := s.grad
	if s.par.Method.table() {
		grad = s.gbar
		s.backE, s.backG = append(s.backE[:0], s.table...), append(s.backG[:0], s.gbar...)
	}
	run := s.dense
	if s.sparse() {
		run = s.sparseRun
	}
	if err := run(ctx, m, places, draw, grad); err != nil {
		copy(s.table, s.backE)
		copy(s.gbar, s.backG)
		return err
	}
	s.passes += float64(m) * float64(s.par.Batch) / float64(s.prob.Len())
	s.end(m)
	return nil
}

// sparse reports whether lazy updates pay.
func (s *Solver) sparse() bool {
	p := s.prob
	return !s.par.Dense && 8*p.nnz < p.Len()*p.Dim()
}

// start sets x_0 and x^_0.
func (s *Solver) start() {
	clear(s.acc)
	copy(s.x, s.snap)
	copy(s.xh, s.snap)
	switch s.par.Variant {
	case Convex:
		copy(s.x, s.y)
		copy(s.xh, s.y)
	case ConvexB:
		for j, v := range s.snap {
			s.x[j] = float64(s.par.Sigma*s.y[j]) + float64((1-s.par.Sigma)*v)
		}
	}
}

// end sets x~ and y~ from what m inner steps came to.
func (s *Solver) end(m int) {
	if s.par.Snapshot == Last {
		copy(s.snap, s.x)
	} else {
		for j, v := range s.acc {
			s.snap[j] = v / float64(m)
		}
	}
	if s.par.Method == SVRGSD {
		for j, v := range s.x {
			s.y[j] = (v - float64(s.mom*s.xh[j])) / s.par.Sigma
		}
	}
}

// drawn is a row of a batch: its derivative d at x, and the weighed difference
// c from the derivative at the snapshot (in the table), such that p~ = c a_i +
// λ1 (x − x~) for SVRG and c a_i for SAGA.
type drawn struct {
	i    int
	c, d float64
}

// look draws a row and computes its derivative at s.x.
func (s *Solver) look(r *rng.Source) drawn {
	return s.at(s.sample.next(r))
}

// at does it for row i with weight w.
func (s *Solver) at(i int, w float64) drawn {
	d := s.prob.Loss.deriv(s.prob.dot(s.x, i), s.prob.b[i])
	if s.par.Method.table() {
		return drawn{i, float64(w * (d - s.table[i])), d}
	}
	return drawn{i, float64(w * (d - s.d[i])), d}
}

// store takes the derivatives of rows into SAGA's table and its mean. A row
// that a batch holds twice counts once.
func (s *Solver) store(rows ...drawn) {
	if !s.par.Method.table() {
		return
	}
	for _, r := range rows {
		s.prob.axpy((r.d-s.table[r.i])/float64(s.prob.Len()), r.i, s.gbar)
		s.table[r.i] = r.d
	}
}

// dense runs m inner steps that update every coordinate.
func (s *Solver) dense(ctx context.Context, m int, places []int, draw *rng.Source, grad []float64) error {
	p, first := s.prob, s.prob.first()
	share := 1 / float64(s.par.Batch)
	for k := range m {
		if k%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		decrease := len(places) > 0 && places[0] == k
		if decrease {
			places = places[1:]
		}
		if s.par.Batch == 1 && !decrease && s.observe == nil {
			// The usual step, in one sweep over the coordinates.
			row := s.look(draw)
			if r := &p.rows[row.i]; r.Idx == nil && len(r.Val) == len(s.x)-first {
				s.sweep(row, grad)
				continue
			}
			p.axpy(row.c, row.i, s.rowF)
			s.general(s.rowF, grad, 1)
			clear(s.rowF)
			s.store(row)
			continue
		}
		s.rows = s.rows[:0]
		for range s.par.Batch {
			row := s.look(draw)
			s.rows = append(s.rows, row)
			p.axpy(float64(share*row.c), row.i, s.rowF)
		}
		theta := 1.0
		if decrease {
			theta = s.thetaHere(k, s.rowF)
		}
		s.general(s.rowF, grad, theta)
		if s.observe != nil {
			s.observe(k, s.x, s.xh, s.rowF, theta)
		}
		clear(s.rowF)
		s.store(s.rows...)
	}
	return nil
}

// thetaHere returns θ for s.x in inner step k, where u = c a_i.
func (s *Solver) thetaHere(k int, u []float64) float64 {
	var pp float64
	table := s.par.Method.table()
	for j, v := range u {
		if !table {
			v += float64(s.prob.Ridge * (s.x[j] - s.snap[j]))
		}
		pp += float64(v * v)
	}
	var margins []float64
	if k == 0 && s.par.Variant == Strongly && s.valid >= theMargins {
		margins = s.margins // x is x~ here
	}
	return s.theta(s.x, margins, pp)
}

// step is the update of one coordinate: the prox step (8), then (5) and (7).
// g is the gradient estimate without its ridge part; lasso is η λ2.
func step(x, xh, g, eta, ridge, lasso, mom, theta float64) (next, hat float64) {
	y := soft(x-float64(eta*(g+float64(ridge*x))), lasso)
	hat = float64(theta * x)
	return y + float64(mom*(hat-xh)), hat
}

// sweep is the step with a row that spells out every feature.
func (s *Solver) sweep(row drawn, grad []float64) {
	p, first := s.prob, s.prob.first()
	eta, ridge, lasso, mom := s.eta, p.Ridge, float64(s.eta*p.Lasso), s.mom
	next := s.par.Snapshot == MeanNext
	c, table, scale := row.c, s.par.Method.table(), 0.0
	if table {
		scale = (row.d - s.table[row.i]) / float64(p.Len())
		s.table[row.i] = row.d
	}
	if first == 1 {
		x, h := step(s.x[0], s.xh[0], float64(c*p.Bias)+grad[0], eta, ridge, 0, mom, 1)
		s.x[0], s.xh[0] = x, h
		if next {
			h = x
		}
		s.acc[0] += h
		if table {
			grad[0] += float64(scale * p.Bias)
		}
	}
	val := p.rows[row.i].Val
	x, xh, acc, g := s.x[first:][:len(val)], s.xh[first:][:len(val)], s.acc[first:][:len(val)], grad[first:][:len(val)]
	for j, a := range val {
		t := x[j]
		y := t - float64(eta*((float64(c*float64(a))+g[j])+float64(ridge*t)))
		if lasso != 0 {
			y = soft(y, lasso)
		}
		y += float64(mom * (t - xh[j]))
		x[j], xh[j] = y, t
		if next {
			t = y
		}
		acc[j] += t
	}
	if table {
		for j, a := range val {
			g[j] += float64(scale * float64(a))
		}
	}
}

// general is the step with u = c a_i and any θ.
func (s *Solver) general(u, grad []float64, theta float64) {
	p := s.prob
	first, lasso := p.first(), float64(s.eta*p.Lasso)
	next := s.par.Snapshot == MeanNext
	for j, v := range u {
		t := lasso
		if j < first {
			t = 0
		}
		x, h := step(s.x[j], s.xh[j], v+grad[j], s.eta, p.Ridge, t, s.mom, theta)
		s.x[j], s.xh[j] = x, h
		if next {
			h = x
		}
		s.acc[j] += h
	}
}

// ThetaRange returns the range of θ, and 1, in the last epoch.
func (s *Solver) ThetaRange() (lo, hi float64) {
	if s.thetaMin > s.thetaMax {
		return 1, 1
	}
	return math.Min(s.thetaMin, 1), math.Max(s.thetaMax, 1)
}
