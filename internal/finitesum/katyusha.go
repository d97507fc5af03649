package finitesum

import (
	"context"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/internal/linear"
)

// Katyusha is the method of Allen-Zhu, "Katyusha: The First Direct
// Acceleration of Stochastic Gradient Methods" (STOC 2017): Algorithm 1 for
// λ1 > 0 and Algorithm 2 otherwise, with option II for y.
var Katyusha = &Method{name: "katyusha", rate: 1, inner: 2, y: true, z: true, epoch: (*Solver).katyusha}

// katyusha is epoch s. The ridge part belongs to the prox here, so L is that of the
// losses alone. τ2 = 1/2, α = 1/(3 τ1 L), and τ1 = min(√(m λ1/(3L)), 1/2), or
// 2/(s+4) if λ1 = 0. With a new i in each step,
//
//	x  = τ1 z + τ2 x~ + (1−τ1−τ2) y
//	z' = soft(z − α v, α λ2)/(1 + α λ1),  v = ∇f(x~) + (loss'(a_iᵀx) − loss'(a_iᵀx~)) a_i
//	y' = x + τ1 (z' − z)
//
// and x~' is the mean of the y' with weights (1 + α λ1)^k.
func (s *Solver) katyusha(ctx context.Context, m int) error {
	s.setStep(0)
	s.evaluate(true)
	s.passes++
	a, p := &s.kat, s.prob
	a.start(s, m)
	draw := s.draws("vr.row")
	for k := range m {
		if k%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		a.couple(int32(k))
		i, weight := s.sample.next(draw)
		if a.sparse {
			a.reach(i, int32(k))
		}
		p.axpy(float64(weight*(p.deriv(p.dot(a.x, i), i)-s.d[i])), i, a.u)
		a.move(int32(k))
	}
	a.flush(int32(m))
	norm, weight := 0.0, 1.0
	for range m {
		norm += weight
		weight /= a.omega
	}
	copy(s.y, a.y)
	copy(s.z, a.z)
	for j, v := range a.sum {
		s.snap[j] = v / norm
	}
	return nil
}

// accelerated is the iterate of Katyusha during an epoch.
type accelerated struct {
	coupling
	p          *Problem
	snap, grad []float64 // x~, gradient of the mean loss there
	x, y, z    []float64 // x is computed where it is needed
	sum        []float64 // of (1 + α λ1)^(k−m) y
	u          []float64 // c a_i

	sparse bool
	done   []int32 // number of steps that a coordinate has taken
	touch  []int32 // coordinates of the row
	jump   []katLeap
	n      int      // longest leap in jump
	made   coupling // for which jump was computed
}

// coupling has the constants of an epoch; omega is 1 + α λ1.
type coupling struct{ t1, t2, t3, al, ridge, omega float64 }

// katLeap is the effect of k steps on a coordinate that no row has: z becomes a z +
// c g, y becomes d y + e z + f g + h x~, and the sum becomes w·sum + p y + q z + r
// g + s x~.
type katLeap struct{ a, c, d, e, f, h, w, p, q, r, s float64 }

// stay does one step of a coordinate from y and z, with v = g + c a.
func (k *coupling) stay(y, z, v, xs, lasso float64) (y1, z1 float64) {
	z1 = soft(z-float64(k.al*v), lasso) / k.omega
	return float64(k.t1*z1) + float64(k.t2*xs) + float64(k.t3*y), z1
}

// start begins an epoch of m steps.
func (a *accelerated) start(s *Solver, m int) {
	p, l := s.prob, 1/s.eta // L/Rate, and halved steps
	a.t2 = .5
	a.t1 = 2 / float64(s.segs+4)
	if p.Ridge > 0 {
		a.t1 = min(math.Sqrt(float64(m)*p.Ridge/(3*l)), .5)
	}
	a.t3 = 1 - a.t1 - a.t2
	a.al = 1 / (3 * a.t1 * l)
	a.ridge, a.omega = p.Ridge, 1+float64(a.al*p.Ridge)
	a.p, a.snap, a.grad = p, s.snap, s.grad
	for _, v := range []*[]float64{&a.x, &a.y, &a.z, &a.sum, &a.u} {
		*v = linear.Grow(*v, p.Dim())
	}
	copy(a.y, s.y)
	copy(a.z, s.z)
	clear(a.sum)
	clear(a.u)
	if a.sparse = p.sparse(); a.sparse {
		a.prepare(min(m, maxLeap))
		if len(a.done) < p.Dim() {
			a.done = make([]int32, p.Dim())
		}
		clear(a.done)
	}
}

// couple computes x; for sparse rows only its constant feature.
func (a *accelerated) couple(k int32) {
	a.touch = a.touch[:0]
	switch {
	case !a.sparse:
		x, y, z := a.x[:len(a.snap)], a.y[:len(a.snap)], a.z[:len(a.snap)]
		for j, v := range a.snap {
			x[j] = float64(a.t1*z[j]) + float64(a.t2*v) + float64(a.t3*y[j])
		}
	case a.p.first() == 1:
		a.ready(0, k)
	}
}

// ready computes coordinate j of x.
func (a *accelerated) ready(j int, k int32) {
	a.catchUp(j, k)
	a.x[j] = float64(a.t1*a.z[j]) + float64(a.t2*a.snap[j]) + float64(a.t3*a.y[j])
	a.touch = append(a.touch, int32(j))
}

// reach computes the coordinates of x that row i has.
func (a *accelerated) reach(i int, k int32) {
	for j := range a.p.coordinates(i) {
		a.ready(j, k)
	}
}

// move does step k; for sparse rows only for the row's coordinates.
func (a *accelerated) move(k int32) {
	if !a.sparse {
		n := len(a.u)
		y, z, sum, grad, snap := a.y[:n], a.z[:n], a.sum[:n], a.grad[:n], a.snap[:n]
		first, lasso := a.p.first(), float64(a.al*a.p.Lasso)
		for j, c := range a.u {
			t := lasso
			if j < first {
				t = 0
			}
			y[j], z[j] = a.stay(y[j], z[j], c+grad[j], snap[j], t)
			sum[j] = sum[j]/a.omega + y[j]
		}
		clear(a.u)
		return
	}
	for _, j := range a.touch {
		a.done[j] = k + 1
		a.y[j], a.z[j] = a.stay(a.y[j], a.z[j], a.u[j]+a.grad[j], a.snap[j], float64(a.al*a.p.lasso(int(j))))
		a.sum[j] = a.sum[j]/a.omega + a.y[j]
		a.u[j] = 0
	}
}

// flush brings all coordinates to step k.
func (a *accelerated) flush(k int32) {
	if a.sparse {
		for j := range a.y {
			a.catchUp(j, k)
		}
	}
}

func (a *accelerated) prepare(n int) {
	a.n = n
	if a.made == a.coupling && len(a.jump) > n {
		return
	}
	a.made = a.coupling
	a.jump = slices.Grow(a.jump[:0], n+1)[:n+1]
	a.jump[0] = katLeap{a: 1, d: 1, w: 1}
	for unit := range 4 {
		v := [4]float64{}
		v[unit] = 1
		y, z, g, xs, acc := v[0], v[1], v[2], v[3], 0.0
		for i := 1; i <= n; i++ {
			y, z = a.stay(y, z, g, xs, 0)
			acc = acc/a.omega + y
			to := &a.jump[i]
			to.w = a.jump[i-1].w / a.omega
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

// catchUp brings coordinate j to step k.
func (a *accelerated) catchUp(j int, k int32) {
	gap := int(k - a.done[j])
	if gap == 0 {
		return
	}
	a.done[j] = k
	y, z, acc, g, xs, lambda := a.y[j], a.z[j], a.sum[j], a.grad[j], a.snap[j], a.p.lasso(j)
	for gap > 0 {
		h, slope := min(gap, a.n), g
		switch {
		case lambda == 0:
		case z == 0 && math.Abs(g) <= lambda:
			slope = 0
		default:
			// As in walk, without momentum.
			side := math.Copysign(lambda, z)
			slope = g + side
			move := a.al * (math.Abs(slope) + float64(2*a.ridge*math.Abs(z)))
			far := math.Abs(z) / 2
			switch {
			case !(far > a.al*math.Abs(slope)):
				h = 0
			case far < move*float64(h):
				h = int(far / move)
			}
		}
		if h == 0 {
			y, z = a.stay(y, z, g, xs, float64(a.al*lambda))
			acc = acc/a.omega + y
			gap--
			continue
		}
		t := &a.jump[h]
		acc = float64(t.w*acc) + float64(t.p*y) + float64(t.q*z) + float64(t.r*slope) + float64(t.s*xs)
		y = float64(t.d*y) + float64(t.e*z) + float64(t.f*slope) + float64(t.h*xs)
		z = float64(t.a*z) + float64(t.c*slope)
		gap -= h
	}
	a.y[j], a.z[j], a.sum[j] = y, z, acc
}
