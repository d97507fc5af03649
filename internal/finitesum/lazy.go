package finitesum

import (
	"context"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/internal/rng"
)

// lazy holds what sparse rows need to leave the coordinates alone that a row
// does not have. Such a coordinate follows
//
//	x' = soft(x − η (g + λ1 x), η λ2) + (1−σ)(x − x^),  x^' = x
//
// with g fixed. That is linear where λ2 is 0, and elsewhere as long as the
// argument of soft stays on one side: k steps are then a linear map of
// (x, x^, g), tabulated for k up to the table's length. A coordinate at 0 with
// |g| ≤ λ2 stays there; one on its way there, which soft sends to 0 while its
// momentum dies away, follows a linear map, too.
type lazy struct {
	last  []int32 // the step that a coordinate has come to
	jump  []leap  // by number of steps
	fade  []leap  // by number of steps that soft sends to 0
	rec   recipe  // for which jump was made
	touch []int32
	u     []float64 // of Katyusha: c a_i
}

// leap is what k steps make of a coordinate: x is a x + b x^ + c g, the sum of
// what goes into the average p x + q x^ + r g.
type leap struct{ a, b, c, p, q, r float64 }

// recipe is everything that a leap depends on.
type recipe struct {
	eta, ridge, mom float64
	next            bool // the average is of x', not of x^'
	n               int
}

// vanished is what a coordinate that momentum alone keeps from 0 is taken for
// 0 at; it would else take a thousand steps to get there.
const vanished = 1e-40

// maxLeap is the longest leap tabulated; longer gaps take several.
const maxLeap = 1024

func (l *lazy) prepare(r recipe, d int) {
	if len(l.last) < d {
		l.last = make([]int32, d)
	}
	clear(l.last)
	if l.rec == r {
		return
	}
	l.rec = r
	l.jump = r.table(l.jump, 0)
	l.fade = r.table(l.fade, math.Inf(1))
}

// table makes leaps by running the recurrence on unit inputs.
func (r recipe) table(t []leap, lasso float64) []leap {
	t = slices.Grow(t[:0], r.n+1)[:r.n+1]
	t[0] = leap{a: 1}
	for unit := range 3 {
		v := [3]float64{}
		v[unit] = 1
		x, xh, g, acc := v[0], v[1], v[2], 0.0
		for k := 1; k <= r.n; k++ {
			x, xh = step(x, xh, g, r.eta, r.ridge, lasso, r.mom, 1)
			if r.next {
				acc += x
			} else {
				acc += xh
			}
			to := &t[k]
			switch unit {
			case 0:
				to.a, to.p = x, acc
			case 1:
				to.b, to.q = x, acc
			case 2:
				to.c, to.r = x, acc
			}
		}
	}
	return t
}

// catchUp brings coordinate j to step k.
func (s *Solver) catchUp(j int, k int32, grad []float64) {
	l := &s.lazy
	gap := int(k - l.last[j])
	if gap == 0 {
		return
	}
	l.last[j] = k
	x, xh, acc, g := s.x[j], s.xh[j], s.acc[j], grad[j]
	lambda := s.prob.Lasso
	if lambda == 0 || j < s.prob.first() {
		for gap > 0 {
			h := min(gap, l.rec.n)
			x, xh, acc = hop(l.jump, h, x, xh, acc, g)
			gap -= h
		}
		s.x[j], s.xh[j], s.acc[j] = x, xh, acc
		return
	}
	r := &l.rec
	for gap > 0 {
		if x == 0 && xh == 0 && math.Abs(g) <= lambda {
			break
		}
		h := 0
		if far := max(math.Abs(x), math.Abs(xh)); gap >= 4 && float64(r.eta*math.Abs(g))+float64(2*(1+float64(r.eta*r.ridge))*far) <= r.eta*lambda {
			// x' = (1−σ)(x − x^) from here on: |x| never exceeds twice far.
			if far < vanished {
				x, xh = 0, 0
				break
			}
			h = min(gap, r.n)
			x, xh, acc = hop(l.fade, h, x, xh, acc, 0)
			gap -= h
			continue
		}
		if gap >= 8 && x != 0 {
			// While |x_k| is within half of |x|, no step is longer than move.
			side := math.Copysign(lambda, x)
			move := max(math.Abs(x-xh), r.eta*(math.Abs(g+side)+float64(2*r.ridge*math.Abs(x)))/(1-r.mom))
			if math.Abs(x)/2*(1-float64(r.eta*r.ridge)) > r.eta*math.Abs(g+side) {
				h = gap
				if far := math.Abs(x) / 2 / move; far < float64(gap) {
					h = int(far)
				}
				h = min(h, r.n)
			}
			if h >= 4 {
				x, xh, acc = hop(l.jump, h, x, xh, acc, g+side)
				gap -= h
				continue
			}
		}
		for h = min(gap, 8); h > 0; h-- {
			x, xh = step(x, xh, g, r.eta, r.ridge, float64(r.eta*lambda), r.mom, 1)
			if r.next {
				acc += x
			} else {
				acc += xh
			}
			gap--
		}
	}
	s.x[j], s.xh[j], s.acc[j] = x, xh, acc
}

// hop takes 1 ≤ h < len(table) steps at once.
func hop(table []leap, h int, x, xh, acc, g float64) (float64, float64, float64) {
	t, u := &table[h], &table[h-1]
	return float64(t.a*x) + float64(t.b*xh) + float64(t.c*g),
		float64(u.a*x) + float64(u.b*xh) + float64(u.c*g),
		acc + (float64(t.p*x) + float64(t.q*xh) + float64(t.r*g))
}

// flush brings every coordinate to step k.
func (s *Solver) flush(k int, grad []float64) {
	for j := range s.x {
		s.catchUp(j, int32(k), grad)
	}
}

// sparseRun runs m inner steps that touch the coordinates of their rows only.
func (s *Solver) sparseRun(ctx context.Context, m int, places []int, draw *rng.Source, grad []float64) error {
	p, l := s.prob, &s.lazy
	first, batch := p.first(), s.par.Batch
	next := s.par.Snapshot == MeanNext
	lasso := float64(s.eta * p.Lasso)
	l.prepare(recipe{s.eta, p.Ridge, s.mom, next, min(m, maxLeap)}, len(s.x))
	share := 1 / float64(batch)
	s.rows = slices.Grow(s.rows[:0], batch)[:batch]
	for k := range m {
		if k%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		at := int32(k)
		if first == 1 {
			s.catchUp(0, at, grad)
		}
		l.touch = l.touch[:0]
		for b := range s.rows {
			i, w := s.sample.next(draw)
			r := &p.rows[i]
			if r.Idx != nil {
				for _, j := range r.Idx {
					s.catchUp(int(j)+first, at, grad)
				}
				l.touch = append(l.touch, r.Idx...)
			} else {
				for j := range r.Val {
					s.catchUp(j+first, at, grad)
					l.touch = append(l.touch, int32(j))
				}
			}
			s.rows[b] = s.at(i, w)
			p.axpy(float64(share*s.rows[b].c), i, s.rowF)
		}
		if len(places) > 0 && places[0] == k {
			places = places[1:]
			s.flush(k, grad)
			s.general(s.rowF, grad, s.thetaHere(k, s.rowF))
			for j := range s.x {
				l.last[j] = at + 1
			}
			clear(s.rowF)
		} else {
			if first == 1 {
				s.move(0, at, grad, 0, next)
			}
			for _, j := range l.touch {
				s.move(int(j)+first, at, grad, lasso, next)
			}
		}
		s.store(s.rows...)
	}
	s.flush(m, grad)
	return nil
}

// move is the step of coordinate j with what the scratch holds for it.
func (s *Solver) move(j int, at int32, grad []float64, lasso float64, next bool) {
	if s.lazy.last[j] > at {
		return // a batch may hold a feature more than once
	}
	s.lazy.last[j] = at + 1
	x, h := step(s.x[j], s.xh[j], s.rowF[j]+grad[j], s.eta, s.prob.Ridge, lasso, s.mom, 1)
	s.rowF[j] = 0
	s.x[j], s.xh[j] = x, h
	if next {
		h = x
	}
	s.acc[j] += h
}
