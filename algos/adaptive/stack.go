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
// The trace of P does not exceed what it was at first: without that, P would grow in
// directions in which nothing comes.
type stack struct {
	keep   float64 // φ
	spread float64 // of each weight at first: P is spread·I
	w      []float64
	p      []float64 // P, by rows

	px []float64 // scratch
}

func newStack(n int, spread, keep float64) *stack {
	s := &stack{keep: keep, spread: spread, w: make([]float64, n), p: make([]float64, n*n), px: make([]float64, n)}
	s.restart()
	return s
}

// restart sets P to what it is at first.
func (s *stack) restart() {
	clear(s.p)
	for i := range s.w {
		s.p[i*len(s.w)+i] = s.spread
	}
}

// logOdds returns ⟨w, x⟩, within bounds.
func (s *stack) logOdds(x []float64) float64 { return bounded(dot(s.w, x), mostLogOdds) }

func dot(w, x []float64) float64 {
	var f float64
	for i, v := range x {
		f += float64(w[i] * v)
	}
	return f
}

// learn updates the weights. y is 1 or 0.
func (s *stack) learn(x []float64, y, weight float64) {
	n := len(x)
	p := linear.Sigmoid(s.logOdds(x))
	h := weight * max(float64(p*(1-p)), leastSpread)
	var q float64
	for i := range s.px {
		var v float64
		for j, xj := range x {
			v += float64(s.p[i*n+j] * xj)
		}
		s.px[i] = v
		q += float64(v * x[i])
	}
	if !(q >= 0) { // rounding has made P indefinite
		s.restart()
		return
	}
	den := s.keep + float64(h*q)
	step := weight * (y - p) / den
	ratio := h / den
	var trace float64
	for i, v := range s.px {
		s.w[i] += float64(step * v)
		row := s.p[i*n : i*n+n]
		c := ratio * v
		for j, u := range s.px[:i+1] {
			p := (row[j] - float64(c*u)) / s.keep
			row[j], s.p[j*n+i] = p, p
		}
		trace += row[i]
	}
	if most := s.spread * float64(n); trace > most {
		shrink := most / trace
		for i := range s.p {
			s.p[i] *= shrink
		}
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
