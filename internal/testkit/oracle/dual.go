// Package oracle solves small kernel SVM problems to high accuracy by stochastic
// dual coordinate ascent, independently of the code under test.
package oracle

import (
	"math"

	"github.com/streamsvm/streamsvm/internal/rng"
)

// Solution is an optimum of λ/2 α'Qα + 1/m Σ max(0, 1 − w_i (Qα)_i).
type Solution struct {
	Alpha     []float64
	Objective float64 // primal objective at Alpha
	Gap       float64 // primal minus dual objective
	Epochs    int
}

// Solve runs until the relative duality gap is at most tol, for at most epochs
// passes. q is the kernel matrix, including a bias if wanted; w are labels ±1. It
// computes Qα by plain sums and shares no code with the learners.
//
// (Shalev-Shwartz and Zhang, "Stochastic Dual Coordinate Ascent Methods for
// Regularized Loss Minimization", JMLR 2013.)
func Solve(q [][]float64, w []float64, lambda, tol float64, epochs int) Solution {
	m := len(w)
	c := 1 / (lambda * float64(m))
	alpha, s := make([]float64, m), make([]float64, m)
	order := make([]int, m)
	for i := range order {
		order[i] = i
	}
	r := rng.New(1, "dual")
	sol := Solution{Alpha: alpha}
	for sol.Epochs < epochs {
		sol.Epochs++
		r.Shuffle(m, func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, i := range order {
			if q[i][i] <= 0 {
				continue
			}
			a := w[i] * min(max(w[i]*alpha[i]+(1-w[i]*s[i])/q[i][i], 0), c)
			d := a - alpha[i]
			if d == 0 {
				continue
			}
			alpha[i] = a
			for j, k := range q[i] {
				s[j] += d * k
			}
		}
		sol.Objective, sol.Gap = evaluate(q, w, alpha, s, lambda)
		if sol.Gap <= tol*math.Abs(sol.Objective) {
			break
		}
	}
	return sol
}

// evaluate recomputes Qα into s and returns objective and gap.
func evaluate(q [][]float64, w, alpha, s []float64, lambda float64) (objective, gap float64) {
	var ridge, loss, lin float64
	for i := range w {
		s[i] = 0
		for j, k := range q[i] {
			s[i] += k * alpha[j]
		}
		ridge += alpha[i] * s[i]
		loss += max(0, 1-w[i]*s[i])
		lin += w[i] * alpha[i]
	}
	m := float64(len(w))
	objective = lambda/2*ridge + loss/m
	return objective, objective - (lambda*lin - lambda/2*ridge)
}
