package finitesum

import (
	"context"
	"math"
	"slices"
)

// katyusha is what an epoch of Katyusha needs: Allen-Zhu, "Katyusha: The First
// Direct Acceleration of Stochastic Gradient Methods" (STOC 2017), Algorithm 1
// for λ1 > 0 and Algorithm 2 otherwise, with option II for y. The ridge part
// belongs to the prox here, so L is that of the losses alone.
//
//	x  = τ1 z + τ2 x~ + (1−τ1−τ2) y
//	z' = soft(z − α v, α λ2)/(1 + α λ1),  v = ∇f(x~) + c a_i
//	y' = x + τ1 (z' − z)
//
// x~ is the mean of the y' with weights (1 + α λ1)^k.
type katyusha struct {
	katRecipe
	jump []katLeap
	rec  katRecipe // for which jump was made
}

type katRecipe struct {
	t1, t2, t3, al, ridge, omega float64 // omega: 1 + α λ1
	n                            int
}

// katLeap is what k steps make of a coordinate that no row has: z is a z + c g,
// y is d y + e z + f g + h x~, and the sum w·sum + p y + q z + r g + s x~.
type katLeap struct{ a, c, d, e, f, h, w, p, q, r, s float64 }

// stay takes a step of a coordinate from y and z, with v = g + c a.
func (k *katRecipe) stay(y, z, v, xs, lasso float64) (y1, z1 float64) {
	z1 = soft(z-float64(k.al*v), lasso) / k.omega
	return float64(k.t1*z1) + float64(k.t2*xs) + float64(k.t3*y), z1
}

func (s *Solver) katyushaEpoch(ctx context.Context) error {
	p, m, k := s.prob, s.inner(), &s.kat
	l := 1 / s.eta // L/Rate, and halved steps
	k.t2 = .5
	k.t1 = 2 / float64(s.segs+4)
	k.omega, k.ridge = 1, p.Ridge
	if p.Ridge > 0 {
		k.t1 = min(math.Sqrt(float64(m)*p.Ridge/(3*l)), .5)
	}
	k.t3 = 1 - k.t1 - k.t2
	k.al = 1 / (3 * k.t1 * l)
	k.omega = 1 + float64(k.al*p.Ridge)
	// y and z become those of the solver when nothing can fail any more.
	copy(s.x, s.y)
	copy(s.xh, s.z)
	clear(s.acc)
	run := s.katDense
	if s.sparse() {
		run = s.katSparse
	}
	if err := run(ctx, m); err != nil {
		return err
	}
	norm, w := 0.0, 1.0
	for range m {
		norm += w
		w /= k.omega
	}
	copy(s.y, s.x)
	copy(s.z, s.xh)
	for j, v := range s.acc {
		s.snap[j] = v / norm
	}
	s.passes += float64(m) * float64(s.par.Batch) / float64(p.Len())
	return nil
}

// katDense keeps y in s.x, z in s.xh and x in s.rowF.
func (s *Solver) katDense(ctx context.Context, m int) error {
	p, k, first := s.prob, &s.kat, s.prob.first()
	draw, lasso := s.draws("vr.row"), float64(s.kat.al*s.prob.Lasso)
	y, z, x, u := s.x, s.xh, s.rowF, s.roomU()
	defer clear(x)
	share := 1 / float64(s.par.Batch)
	for step := range m {
		if step%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		for j, v := range s.snap {
			x[j] = float64(k.t1*z[j]) + float64(k.t2*v) + float64(k.t3*y[j])
		}
		clear(u)
		for range s.par.Batch {
			i, w := s.sample.next(draw)
			c := float64(w * (p.Loss.deriv(p.dot(x, i), p.b[i]) - s.d[i]))
			p.axpy(float64(share*c), i, u)
		}
		for j, c := range u {
			t := lasso
			if j < first {
				t = 0
			}
			y[j], z[j] = k.stay(y[j], z[j], c+s.grad[j], s.snap[j], t)
			s.acc[j] = s.acc[j]/k.omega + y[j]
		}
	}
	return nil
}

func (s *Solver) roomU() []float64 {
	d := len(s.x)
	if len(s.lazy.u) < d {
		s.lazy.u = make([]float64, d)
	}
	return s.lazy.u[:d]
}

// katSparse is katDense for rows that have few of the features.
func (s *Solver) katSparse(ctx context.Context, m int) error {
	p, k, first, l := s.prob, &s.kat, s.prob.first(), &s.lazy
	k.prepare(min(m, maxLeap))
	if len(l.last) < len(s.x) {
		l.last = make([]int32, len(s.x))
	}
	clear(l.last)
	draw, lasso := s.draws("vr.row"), float64(k.al*p.Lasso)
	x, u := s.rowF, s.roomU()
	clear(u)
	defer clear(x)
	share := 1 / float64(s.par.Batch)
	ready := func(j int, at int32) {
		s.katCatchUp(j, at)
		x[j] = float64(k.t1*s.xh[j]) + float64(k.t2*s.snap[j]) + float64(k.t3*s.x[j])
	}
	for step := range m {
		if step%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		at := int32(step)
		l.touch = l.touch[:0]
		if first == 1 {
			ready(0, at)
			l.touch = append(l.touch, 0)
		}
		for range s.par.Batch {
			i, w := s.sample.next(draw)
			r := &p.rows[i]
			for q := range r.Val {
				j := q
				if r.Idx != nil {
					j = int(r.Idx[q])
				}
				ready(j+first, at)
				l.touch = append(l.touch, int32(j+first))
			}
			c := float64(w * (p.Loss.deriv(p.dot(x, i), p.b[i]) - s.d[i]))
			p.axpy(float64(share*c), i, u)
		}
		for _, j := range l.touch {
			if l.last[j] > at {
				continue
			}
			l.last[j] = at + 1
			t := lasso
			if int(j) < first {
				t = 0
			}
			s.x[j], s.xh[j] = k.stay(s.x[j], s.xh[j], u[j]+s.grad[j], s.snap[j], t)
			s.acc[j] = s.acc[j]/k.omega + s.x[j]
			u[j] = 0
		}
	}
	for j := range s.x {
		s.katCatchUp(j, int32(m))
	}
	return nil
}

func (k *katyusha) prepare(n int) {
	k.n = n
	if k.rec == k.katRecipe {
		return
	}
	k.rec = k.katRecipe
	k.jump = slices.Grow(k.jump[:0], n+1)[:n+1]
	k.jump[0] = katLeap{a: 1, d: 1, w: 1}
	for unit := range 4 {
		v := [4]float64{}
		v[unit] = 1
		y, z, g, xs, acc := v[0], v[1], v[2], v[3], 0.0
		for i := 1; i <= n; i++ {
			y, z = k.stay(y, z, g, xs, 0)
			acc = acc/k.omega + y
			to := &k.jump[i]
			to.w = k.jump[i-1].w / k.omega
			switch unit {
			case 0:
				to.d, to.p = y, acc
			case 1:
				to.a, to.e, to.q = z, y, acc
			case 2:
				to.c, to.f, to.r = z, y, acc
			case 3:
				to.h, to.s = y, acc
			}
		}
	}
}

// katCatchUp brings coordinate j to step at.
func (s *Solver) katCatchUp(j int, at int32) {
	k, l := &s.kat, &s.lazy
	gap := int(at - l.last[j])
	if gap == 0 {
		return
	}
	l.last[j] = at
	y, z, acc, g, xs := s.x[j], s.xh[j], s.acc[j], s.grad[j], s.snap[j]
	lambda := s.prob.Lasso
	if j < s.prob.first() {
		lambda = 0
	}
	for gap > 0 {
		h, slope := min(gap, k.n), g
		switch {
		case lambda == 0:
		case z == 0 && math.Abs(g) <= lambda:
			slope = 0
		default:
			// As in catchUp, without momentum.
			side := math.Copysign(lambda, z)
			slope = g + side
			move := k.al * (math.Abs(slope) + float64(2*k.ridge*math.Abs(z)))
			far := math.Abs(z) / 2
			switch {
			case !(far > k.al*math.Abs(slope)):
				h = 0
			case far < move*float64(h):
				h = int(far / move)
			}
		}
		if h == 0 {
			y, z = k.stay(y, z, g, xs, float64(k.al*lambda))
			acc = acc/k.omega + y
			gap--
			continue
		}
		t := &k.jump[h]
		acc = float64(t.w*acc) + float64(t.p*y) + float64(t.q*z) + float64(t.r*slope) + float64(t.s*xs)
		y = float64(t.d*y) + float64(t.e*z) + float64(t.f*slope) + float64(t.h*xs)
		z = float64(t.a*z) + float64(t.c*slope)
		gap -= h
	}
	s.x[j], s.xh[j], s.acc[j] = y, z, acc
}
