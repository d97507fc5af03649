package adaptive

import (
	"fmt"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
)

// stack is a logistic regression on the experts' log odds x and a constant, by an extended
// Kalman filter with forgetting (dynamic logistic regression: Penny and Roberts,
// "Dynamic logistic regression", IJCNN 1999), which is an online Newton step:
//
//	p = σ(⟨w, x⟩), h = max(p(1−p), .01), k = P x/(φ + h xᵀP x)
//	w ← w + (y − p) k, P ← (P − h k xᵀP)/φ
//
// The trace of P is kept at or below its initial value: otherwise P would grow without bound in
// directions in which no data come.
type stack struct {
	keep   float64 // φ
	spread float64 // prior variance: P starts as spread·I
	w      []float64
	p      []float64 // P, by rows

	px []float64 // scratch
}

func newStack(n int, spread, keep float64) *stack {
	s := &stack{keep: keep, spread: spread, w: make([]float64, n), p: make([]float64, n*n), px: make([]float64, n)}
	s.restart()
	return s
}

// restart resets P to its initial value.
func (s *stack) restart() {
	clear(s.p)
	for i := range s.w {
		s.p[i*len(s.w)+i] = s.spread
	}
}

func dot(w, x []float64) float64 {
	var f float64
	for i, v := range x {
		f += float64(w[i] * v)
	}
	return f
}

// learn updates the weights with the log odds x of each lane. With two classes, y is 1 or 0.
// With more, y is a class number, p the softmax of ⟨w, x_k⟩ and x̄ = Σ p_k x_k; the gradient
// is x_y − x̄ and the Hessian Σ p_k (x_k − x̄)(x_k − x̄)ᵀ.
func (s *stack) learn(x [][]float64, y int, weight float64) {
	p := make([]float64, len(x))
	mixInto(p, s.w, x)
	chances(p, p)
	if len(x) == 1 {
		s.observe(x[0], weight*max(float64(p[0]*(1-p[0])), leastSpread), s.keep)
		s.move(x[0], weight*(float64(y)-p[0]))
	} else {
		mean, d := make([]float64, len(s.w)), make([]float64, len(s.w))
		for k, row := range x {
			for j, v := range row {
				mean[j] += float64(p[k] * v)
			}
		}
		keep := s.keep
		for k, row := range x {
			if p[k] < leastChance && k != y {
				continue
			}
			for j, v := range row {
				d[j] = v - mean[j]
			}
			s.observe(d, weight*max(p[k], leastSpread), keep)
			keep = 1
		}
		for j, v := range x[y] {
			d[j] = v - mean[j]
		}
		s.move(d, weight)
	}
	s.limit()
}

// limit scales P down if its trace exceeds its initial value.
func (s *stack) limit() {
	var trace float64
	for i := range s.w {
		trace += s.p[i*len(s.w)+i]
	}
	if most := s.spread * float64(len(s.w)); trace > most {
		shrink := most / trace
		for i := range s.p {
			s.p[i] *= shrink
		}
	}
}

// leastChance is the probability below which a class is left out.
const leastChance = 1e-3

// observe updates P with a direction x of curvature h.
func (s *stack) observe(x []float64, h, keep float64) {
	n := len(x)
	q := s.times(x)
	if !(q >= 0) { // rounding has made P indefinite
		s.restart()
		return
	}
	ratio := h / (keep + float64(h*q))
	for i, v := range s.px {
		row := s.p[i*n : i*n+n]
		c := ratio * v
		for j, u := range s.px[:i+1] {
			p := (row[j] - float64(c*u)) / keep
			row[j], s.p[j*n+i] = p, p
		}
	}
}

// times sets px to P x and returns xᵀP x.
func (s *stack) times(x []float64) (q float64) {
	n := len(x)
	for i := range s.px {
		var v float64
		for j, p := range s.p[i*n : i*n+n] {
			v += float64(p * x[j])
		}
		s.px[i] = v
		q += float64(v * x[i])
	}
	return q
}

// move adds step·P x to the weights.
func (s *stack) move(x []float64, step float64) {
	s.times(x)
	for i, v := range s.px {
		s.w[i] += float64(step * v)
	}
}

func (s *stack) fields(f *state.Fields) {
	n := len(s.w)
	f.Float64s("weights", &s.w)
	f.Float64s("covariance", &s.p)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	if len(s.w) != n || len(s.p) != n*n {
		f.Fail("weights", fmt.Errorf("%d and %d for %d", len(s.w), len(s.p), n))
		return
	}
	f.Fail("weights", linear.Finite(s.w, s.p))
}
