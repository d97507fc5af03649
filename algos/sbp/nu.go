package sbp

import (
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/internal/kernel/rows"
	"github.com/streamsvm/streamsvm/internal/vec"
)

// nuStep bounds the factor by which ν changes at a time, since early averages are
// far from the optimum.
const nuStep = 4

// adapt sets ν to the value that corresponds to λ, as far as the average w can
// tell. The minimiser τ of
//
//	λ/2 τ²‖w‖² + min_β mean_i max(0, 1 − y_i (τ ⟨w,Φ(x_i)⟩ + β))
//
// gives ν = mean hinge/‖τ w‖, exactly so at the optimum. With γ = 1/τ the losses
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
// each·m_j = goal, for ascending m. There is none if goal is 0 or the sum of all m
// is not above 0.
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

// addDual adds p* to its running sum.
func (l *Learner) addDual() {
	share := 1 / float64(max(l.cur.under, 1))
	for i := range l.ptSum {
		if l.cur.has(i, l.u, l.y) {
			l.ptSum[i] += share
		}
	}
}

// certify bounds sup f minus f of the average. For any p in the simplex, with half
// of its mass in either class if there is an intercept,
//
//	sup f ≤ ‖Σ p_i y_i Φ(x_i)‖ + V max p_i
//
// p is the mean of the p*.
func (l *Learner) certify() {
	l.uncertified = 0
	l.gap = math.NaN()
	if !l.solvable() || l.step == 0 {
		return
	}
	var mass [2]float64
	for i, p := range l.ptSum {
		mass[l.classOf(i)] += p
	}
	if l.opt.Intercept && (mass[0] == 0 || mass[1] == 0) || mass[0]+mass[1] == 0 {
		return
	}
	var norm2, most float64
	p := make([]float64, len(l.ptSum))
	var idx []int32
	for i, v := range l.ptSum {
		if v == 0 {
			continue
		}
		if l.opt.Intercept {
			p[i] = v / (2 * mass[l.classOf(i)])
		} else {
			p[i] = v / (mass[0] + mass[1])
		}
		most = max(most, p[i])
		p[i] *= l.y[i]
		idx = append(idx, int32(i))
	}
	n := len(p)
	block := make([]float32, rows.Block*n)
	for len(idx) > 0 {
		k := min(len(idx), rows.Block)
		l.basis.Between(block, n, idx[:k], 0, n)
		l.rows.Evals += int64(k * n)
		for r, i := range idx[:k] {
			norm2 += float64(p[i] * vec.DotMixed(block[r*n:(r+1)*n], p))
		}
		idx = idx[k:]
	}
	upper := math.Sqrt(max(norm2, 0)) + float64(l.volume()*most)
	l.gap = max(0, upper-l.bar.gamma*l.barUnit)
}

func (l *Learner) classOf(i int) int {
	if l.y[i] < 0 {
		return 1
	}
	return 0
}
