package main

import (
	"context"
	"errors"
	"math"

	"github.com/streamsvm/streamsvm/internal/finitesum"
)

// optimum is a minimum with what it takes to tell the distance to it without
// cancellation: for the squared loss
//
//	F(x) − F* = ½ (1/n ‖A(x−x*)‖² + λ1 ‖x−x*‖²) + Σ_j [g_j (x_j − x*_j) + λ2 (|x_j| − |x*_j|)]
//
// where g is the gradient of the smooth part at x*, and no summand is negative.
type optimum struct {
	p, zero *finitesum.Problem // zero: with targets 0
	x, g    []float64
	f       float64
	support int
	diff, z []float64
}

func (o *optimum) gap(x []float64) float64 {
	s := 0.0
	for j, v := range x {
		d := v - o.x[j]
		o.diff[j] = d
		s += o.p.Ridge * d * d / 2
		if o.p.Lasso == 0 {
			continue
		}
		switch t := o.x[j]; {
		case t > 0 && v < 0, t < 0 && v > 0: // F has a kink between them
			s += 2 * o.p.Lasso * math.Abs(v)
		case t == 0:
			s += max(o.g[j]*v+o.p.Lasso*math.Abs(v), 0)
		}
	}
	o.p.Margins(o.z, o.diff)
	q := 0.0
	for _, v := range o.z {
		q += v * v
	}
	return s + q/float64(len(o.z))/2
}

// solve finds the minimum: by conjugate gradients on the coordinates that are
// not 0, which a stochastic method tells.
func solve(ctx context.Context, p, zero *finitesum.Problem) (*optimum, error) {
	d := p.Dim()
	o := &optimum{p: p, zero: zero, x: make([]float64, d), diff: make([]float64, d), z: make([]float64, p.Len())}
	sign := make([]float64, d)
	for j := range sign {
		sign[j] = 1 // for a ridge all are free; the value is not used
	}
	var s *finitesum.Solver
	epochs := 100
	if p.Len() > scoutRows { // of which an epoch takes more, and does more
		epochs = 10
	}
	for round := 0; ; round++ {
		if p.Lasso > 0 {
			if s == nil {
				s = finitesum.NewSolver(p, finitesum.Params{Method: finitesum.SVRGSD, Sigma: .5, Seed: 99})
			}
			for range epochs {
				if err := s.Epoch(ctx); err != nil {
					return nil, err
				}
			}
			copy(o.x, s.Output())
			for j, v := range o.x {
				sign[j] = 0
				if v != 0 {
					sign[j] = math.Copysign(1, v)
				}
			}
		}
		o.conjugate(sign)
		o.g = p.Gradient(o.x)
		worst := 0.0
		o.support = 0
		for j, v := range o.x {
			o.g[j] += p.Ridge * v
			switch {
			case p.Lasso == 0 || v*sign[j] > 0:
				o.support++
				worst = max(worst, math.Abs(o.g[j]+p.Lasso*sign[j]))
			case v == 0:
				worst = max(worst, math.Abs(o.g[j])-p.Lasso)
			default:
				worst = math.Inf(1)
			}
		}
		if worst < 1e-12 {
			o.f = p.Objective(o.x)
			return o, nil
		}
		if round == 60 {
			return nil, errors.New("the support of the minimum was not found")
		}
	}
}

// conjugate minimises over the coordinates with sign ≠ 0, their signs held.
func (o *optimum) conjugate(sign []float64) {
	p := o.p
	d := p.Dim()
	apply := func(v []float64) []float64 { // the Hessian, restricted
		h := o.zero.Gradient(v)
		for j := range h {
			h[j] += p.Ridge * v[j]
			if sign[j] == 0 {
				h[j] = 0
			}
		}
		return h
	}
	for j := range o.x {
		if sign[j] == 0 {
			o.x[j] = 0
		}
	}
	// Restarts undo what rounding does to conjugacy.
	for range 6 {
		g := p.Gradient(o.x)
		r, dir, rr := make([]float64, d), make([]float64, d), 0.0
		for j := range r {
			if sign[j] != 0 {
				r[j] = -(g[j] + p.Ridge*o.x[j])
				if p.Lasso > 0 {
					r[j] -= p.Lasso * sign[j]
				}
			}
			dir[j] = r[j]
			rr += r[j] * r[j]
		}
		for range 4000 {
			if rr < 1e-31 {
				break
			}
			h := apply(dir)
			curve := 0.0
			for j, v := range dir {
				curve += v * h[j]
			}
			a, next := rr/curve, 0.0
			for j := range r {
				o.x[j] += a * dir[j]
				r[j] -= a * h[j]
				next += r[j] * r[j]
			}
			for j := range dir {
				dir[j] = r[j] + next/rr*dir[j]
			}
			rr = next
		}
	}
}
