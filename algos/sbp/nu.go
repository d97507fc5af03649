package sbp

import (
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/internal/rng"
)

// nuStep bounds the factor by which ν changes at a time, since early averages
// are far from the optimum.
const nuStep = 4

// adapt sets ν to what belongs to λ as far as the average w can tell: the
// minimiser τ of
//
//	λ/2 τ²‖w‖² + mean_i max(0, 1 − τ m_i),   m_i = c_i + y_i b
//
// gives ν = mean hinge/‖τ w‖. It is exact at the optimum.
func (l *Learner) adapt() {
	if l.fixed || l.opt.Pilot > 0 || !l.solvable() || l.step == 0 {
		return
	}
	u, unit := l.u, l.scale
	if l.weight > 0 {
		u, unit = l.sumU, 1/l.weight
	}
	bias := l.bar.bias * l.barUnit
	m := make([]float64, len(l.y))
	norm2 := 0.0
	for i, y := range l.y {
		c := float64(y * float64(unit*u[i]))
		m[i] = c + float64(y*bias)
		norm2 += float64(l.coef(l.a[i], l.lag[i]) * c)
	}
	if nu, ok := bestNu(m, norm2, l.lambda()); ok {
		l.nu = min(max(nu, l.nu/nuStep), l.nu*nuStep)
	}
}

// bestNu returns mean hinge over norm of the best multiple of a function with
// the margins m, which it sorts, and the squared norm norm2.
func bestNu(m []float64, norm2, lambda float64) (float64, bool) {
	if !(norm2 > 0) {
		return 0, false
	}
	slices.Sort(m)
	n := float64(len(m))
	// With γ = 1/τ, the derivative has the sign of λ n‖w‖²/γ − Σ_{m_i<γ} m_i,
	// which falls as γ rises.
	goal := float64(lambda*n) * norm2
	sum, gamma, r := 0.0, math.Inf(1), 0
	for ; r < len(m); r++ {
		next := m[r]
		if sum > 0 && goal/sum <= next {
			gamma = goal / sum
			break
		}
		sum += next
		if next > 0 && sum > 0 && goal/sum <= next {
			gamma = next
			break
		}
	}
	if math.IsInf(gamma, 1) {
		if !(sum > 0) {
			return 0, false
		}
		gamma = goal / sum
	}
	water := 0.0
	for _, v := range m {
		water += max(0, gamma-v)
	}
	return water / (n * math.Sqrt(norm2)), true
}

// pilot sets ν from a solution of the regularised problem on the first
// examples, by dual coordinate ascent. An intercept takes part as a constant
// feature there, which the dual can do without a constraint.
func (l *Learner) pilot() {
	m := min(l.opt.Pilot, len(l.y))
	idx := make([]int32, m)
	for i := range idx {
		idx[i] = int32(i)
	}
	q := make([]float32, m*m)
	l.basis.Between(q, m, idx, 0, m)
	l.rows.evals += int64(m * m)
	constant := 0.0
	if l.opt.Intercept {
		constant = 1
	}
	lambda := l.opt.Lambda
	if math.IsNaN(lambda) {
		lambda = 1 / (l.opt.C * float64(m))
	}
	most := 1 / (lambda * float64(m))
	alpha, s := make([]float64, m), make([]float64, m)
	order := make([]int, m)
	for i := range order {
		order[i] = i
	}
	r := rng.New(uint64(m), "sbp.pilot")
	for range 100 {
		r.Shuffle(m, func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, i := range order {
			kii := float64(q[i*m+i]) + constant
			if !(kii > 0) {
				continue
			}
			next := min(max(alpha[i]+(1-float64(l.y[i]*s[i]))/kii, 0), most)
			d := (next - alpha[i]) * l.y[i]
			if d == 0 {
				continue
			}
			alpha[i] = next
			for j := range s {
				s[j] += float64(d * (float64(q[i*m+j]) + constant))
			}
		}
		var norm2, loss, dual float64
		for i, y := range l.y[:m] {
			norm2 += float64(alpha[i] * y * s[i])
			loss += max(0, 1-float64(y*s[i]))
			dual += alpha[i]
		}
		loss /= float64(m)
		if norm2 > 0 {
			l.nu = loss / math.Sqrt(norm2)
		}
		if primal, gap := lambda/2*norm2+loss, lambda*norm2+loss-lambda*dual; gap <= 1e-4*primal {
			break
		}
	}
	l.fixed = true
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

// certify bounds sup f minus f of the average: for any p in the simplex, with
// half of its mass in either class if there is an intercept,
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
	block := make([]float32, blockRows*n)
	for len(idx) > 0 {
		k := min(len(idx), blockRows)
		l.basis.Between(block, n, idx[:k], 0, n)
		l.rows.evals += int64(k * n)
		for r, i := range idx[:k] {
			norm2 += float64(p[i] * dot(block[r*n:(r+1)*n], p))
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
