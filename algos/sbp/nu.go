package sbp

import (
	"math"
	"slices"
)

// nuStep bounds the factor by which ν changes at each restart, since early averages
// are far from the optimum.
const nuStep = 4

// adapt sets ν to the value that corresponds to λ, estimated from the average w. The
// minimiser τ of
//
//	λ/2 τ²‖w‖² + min_β mean_i max(0, 1 − y_i (τ ⟨w,Φ(x_i)⟩ + β))
//
// gives ν = mean hinge/‖τ w‖, which is exact at the optimum. With γ = 1/τ the losses
// are the water up to γ, so the minimiser satisfies γ Σ_{m_i<γ} m_i = λ n ‖w‖². The
// m_i are the responses or, with a bias, half the sums of the pairs that fill up
// together, each counted twice.
func (l *Learner) adapt() {
	if l.fixed || !l.solvable() || l.step == 0 {
		return
	}
	// Frozen examples are part of the norm; without them ν would be too small.
	u, unit, norm2 := l.u, l.scale, l.r2
	if l.weight > 0 {
		u, unit, norm2 = l.sumU, 1/l.weight, max(0, l.sum2)/float64(l.weight*l.weight)
	}
	var m [2][]float64
	for i, y := range l.y {
		c := float64(y * float64(unit*u[i]))
		class := 0
		if l.opt.Intercept {
			class = l.classOf(i)
		}
		m[class] = append(m[class], c)
	}
	slices.Sort(m[0])
	each := 1.0
	if l.opt.Intercept {
		slices.Sort(m[1])
		each = 2
		m[0] = m[0][:min(len(m[0]), len(m[1]))]
		for j := range m[0] {
			m[0][j] = (m[0][j] + m[1][j]) / 2
		}
	}
	n := float64(len(l.y))
	if nu, ok := bestNu(m[0], each, float64(l.lambda()*n)*norm2); ok {
		nu /= n * math.Sqrt(norm2)
		l.nu = min(max(nu, l.nu/nuStep), l.nu*nuStep)
	}
}

// bestNu returns the water Σ each·max(0, γ − m_j) at the γ with γ Σ_{m_j<γ}
// each·m_j = goal, for ascending m. It returns false if there is no such γ: if goal is
// not positive, or no partial sum of m is.
func bestNu(m []float64, each, goal float64) (float64, bool) {
	if !(goal > 0) {
		return 0, false
	}
	sum, gamma := 0.0, 0.0
	for r, v := range m {
		if sum += float64(each * v); sum <= 0 {
			continue
		}
		// If the sum jumps past the goal, γ is where it jumps.
		gamma = max(goal/sum, v)
		if r+1 == len(m) || gamma <= m[r+1] {
			break
		}
	}
	if gamma <= 0 {
		return 0, false
	}
	water := 0.0
	for _, v := range m {
		water += float64(each * max(0, gamma-v))
	}
	return water, true
}

func (l *Learner) classOf(i int) int {
	if l.y[i] < 0 {
		return 1
	}
	return 0
}
