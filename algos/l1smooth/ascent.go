package l1smooth

import (
	"math"

	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/internal/vec"
)

const (
	// dear is the cost of a Newton system, in passes, from which ascent is always
	// tried.
	dear = 16
	// round is the number of passes between two measurements of the gap.
	round = 4
	// reach is the number of Newton systems whose passes ascent may take to raise
	// the dual value to f at the present rate.
	reach = 1.5
	// precise is the gap, relative to the objective, at which ascent ends. Except
	// on wide data the gap must be at most η α, too.
	precise = 1e-3
	// roundEpochs bounds the epochs of a round on wide data, where few examples may be
	// left in list.
	roundEpochs = 20
	// patience bounds the passes, and the rounds, of ascent on wide data.
	patience = 1000
)

// ascent is the state of dual coordinate ascent. The dual problem is
//
//	max over 0 ≤ θ_i ≤ 1 of 1/N Σ v_i θ_i − λ/2 ‖w‖²,
//	w = S_l(z), z = 1/(λN) Σ v_i θ_i y_i x_i, l = μ/λ,
//
// where S_l is the soft threshold; measure evaluates it for θ = φ_α'. A step maximises
// along one θ_i, with the curvature at μ = 0, which is the largest (Hsieh, Chang,
// Lin, Keerthi, Sundararajan, "A dual coordinate descent method for large-scale
// linear SVM", ICML 2008, Algorithm 3; Shalev-Shwartz and Zhang, "Accelerated
// proximal stochastic dual coordinate ascent", ICML 2014, for S_l).
type ascent struct {
	theta   []float64
	z, w    []float64
	curve   []float64 // v_i ‖x_i‖²/(λN)
	u       []float64 // 1 − y_i ⟨w, x_i⟩, as of the last certify
	list    []int32   // the examples that are not set aside
	in      []bool    // whether an example is in list
	lo, hi  float64   // bounds of projected gradients in the last epoch
	best    []float64 // the weights with the smallest f, initially the previous ones
	f       float64   // objective of best
	value   float64   // dual value
	visited int       // number of examples visited
	free    float64   // number of θ_i between their bounds
	face    face
}

// price estimates the cost of a Newton system of all coordinates, in passes: a
// Hessian over all examples, and its factorisation unless it is too large.
func (s *solver) price() float64 {
	pairs := 0.0
	for k := range s.blocks {
		pairs += float64(s.blocks[k].pairs)
	}
	m := float64(min(s.size(), s.opt.Direct))
	return (pairs/2 + m*m*m/6) / (2 * float64(s.nnz))
}

// ascends reports whether the solve should begin with ascent: if a Newton system is
// expensive, or if the ridge is so strong that ascent needs fewer passes. The number of
// passes is about the mean curvature.
func (s *solver) ascends() bool {
	if s.opt.Start != "dual" || !(s.lambda > 0) {
		return false
	}
	price := s.price()
	return price >= dear || s.steepness() <= price
}

// wide reports whether ascent should do Newton steps on the dual. It should, with the
// l1 term, if the primal Newton system is expensive and too large to factor.
func (s *solver) wide() bool {
	return s.mu > 0 && s.size() > s.opt.Direct && s.price() >= dear
}

// steepness returns the mean of ‖x_i‖²/(λN).
func (s *solver) steepness() float64 {
	sum := 0.0
	for k := range s.blocks {
		sum += s.blocks[k].square
	}
	return (sum/float64(s.n) + float64(s.bias*s.bias)) / (s.lambda * s.mass)
}

// ascend begins a solve with coordinate ascent in the dual, from θ = 0. On wide
// data, steps of newtonDual follow rounds in which few θ_i reached or left a bound.
// It reports whether the gap is small enough for level goal. It gives up if it is slow
// or the gap does not fall by the factor β within the passes that a Newton system
// costs. Newton then continues at the level of the gap, from the best weights so far.
func (s *solver) ascend(seed uint64, goal int) bool {
	a, r := &s.ascent, rng.New(seed, "l1smooth/ascent")
	s.mount()
	since, least := 0, math.Inf(1)
	wide, free := s.wide(), 0.0
	for rounds := 0; ; rounds++ {
		before, value := a.visited, a.value
		for e := 0; a.visited < before+round*s.n && len(a.list) > 0 && !(wide && e == roundEpochs); e++ {
			r.Shuffle(len(a.list), func(i, j int) { a.list[i], a.list[j] = a.list[j], a.list[i] })
			s.epoch()
		}
		s.certify()
		steady := rounds > 0 && math.Abs(a.free-free) <= settled*a.free
		free = a.free
		if wide && steady && a.f-a.value > precise*a.f && s.newtonDual() {
			s.certify()
		}
		gap := a.f - a.value
		if gap <= precise*a.f && (wide || gap <= s.opt.Eta*s.alphas[goal]) {
			s.adopt()
			s.k = goal + 1
			return true
		}
		if gap <= s.opt.Beta*least {
			since, least = a.visited, gap
		}
		leave := before > 0 && s.slow(a.value-value, a.visited-before) || float64(a.visited-since) > s.price()*float64(s.n)
		if wide {
			leave = a.visited > patience*s.n || rounds == patience
		}
		if leave {
			s.adopt()
			for s.k < goal && s.alphas[s.k+1] >= gap {
				s.k++
			}
			return false
		}
		s.recall()
	}
}

// slow reports whether Newton would be faster, judging by the gain of the dual value
// over the last visits. On tall data the rate stays the same for a long time; then the
// value must be able to reach f within the cost of reach Newton systems.
func (s *solver) slow(gained float64, visits int) bool {
	a := &s.ascent
	rate := gained / float64(visits)
	return rate > a.value/float64(2*a.visited) && a.f-a.value > rate*reach*s.price()*float64(s.n)
}

// mount prepares ascent from θ = 0.
func (s *solver) mount() {
	a, n, m := &s.ascent, s.n, s.size()
	a.theta, a.curve, a.u, a.in = resize(a.theta, n), resize(a.curve, n), resize(a.u, n), resize(a.in, n)
	a.z, a.w, a.best, a.list = resize(a.z, m), resize(a.w, m), resize(a.best, m), resize(a.list, n)
	clear(a.theta)
	clear(a.z)
	c := 1 / (s.lambda * s.mass)
	for i := range n {
		b, at := s.example(i)
		a.list[i], a.in[i] = int32(i), true
		a.curve[i] = float64(c*b.weight.At(at)) * (b.norm2(at) + float64(s.bias*s.bias))
	}
	a.lo, a.hi, a.visited = math.Inf(-1), math.Inf(1), 0
	a.face.damping = firstDamping
	copy(a.w, s.w)
	a.f = math.Inf(1)
	s.certify()
	clear(a.w)
	a.value = 0
}

// example returns the position of example i.
func (d *data) example(i int) (b *block, at int) { return &d.blocks[i/blockRows], i % blockRows }

// epoch does a step along each θ_i in list. It sets aside each θ_i at a bound whose
// gradient points outwards by more than any projected gradient of the last epoch.
func (s *solver) epoch() {
	a := &s.ascent
	c, l := 1/(s.lambda*s.mass), s.mu/s.lambda
	lo, hi := math.Inf(1), math.Inf(-1)
	keep := a.list[:0]
	a.visited += len(a.list)
	for _, i := range a.list {
		b, at := s.example(int(i))
		y, theta := b.y[at], a.theta[i]
		g := float64(y*(float64(a.w[0]*s.bias)+b.dot(a.w, at))) - 1
		if theta == 0 && g > a.hi || theta == 1 && g < a.lo {
			a.in[i] = false
			continue
		}
		keep = append(keep, i)
		projected := g
		switch theta {
		case 0:
			projected = min(g, 0)
		case 1:
			projected = max(g, 0)
		}
		lo, hi = min(lo, projected), max(hi, projected)
		if projected == 0 {
			continue
		}
		next := min(max(theta-g/a.curve[i], 0), 1)
		a.theta[i] = next
		step := float64((next-theta)*c) * float64(y*b.weight.At(at))
		b.lift(a.z, a.w, at, step, l)
		a.z[0] += float64(step * s.bias)
		a.w[0] = soft(a.z[0], l)
	}
	a.list = keep
	if a.lo, a.hi = lo, hi; lo >= 0 {
		a.lo = math.Inf(-1)
	}
	if hi <= 0 {
		a.hi = math.Inf(1)
	}
}

// certify computes u, f, the dual value and the number of free θ_i.
func (s *solver) certify() {
	a := &s.ascent
	t := s.sum(nil, s.nnz, func(b *block, at int, _ []float64, t *totals) {
		u := a.u[at : at+len(b.y)]
		b.dots(u, a.w, s.bias)
		for i, y := range b.y {
			u[i] = 1 - float64(y*u[i])
			t[0] += float64(b.weight.At(i) * max(u[i], 0))
			t[1] += float64(b.weight.At(i) * a.theta[at+i])
			if theta := a.theta[at+i]; theta > 0 && theta < 1 {
				t[2]++
			}
		}
	})
	s.passes++
	square, norm := norms(a.w)
	ridge := float64(s.lambda / 2 * square)
	a.value = t[1]/s.mass - ridge
	a.free = t[2]
	if f := ridge + t[0]/s.mass + float64(s.mu*norm); f < a.f {
		a.f = f
		copy(a.best, a.w)
	}
}

// recall brings back examples that were set aside and whose θ_i can move again.
func (s *solver) recall() {
	a := &s.ascent
	for i, u := range a.u {
		if !a.in[i] && (a.theta[i] == 0 && u > 0 || a.theta[i] == 1 && u < 0) {
			a.in[i] = true
			a.list = append(a.list, int32(i))
		}
	}
}

// adopt uses the best weights.
func (s *solver) adopt() {
	a := &s.ascent
	s.passes += uint64(a.visited / s.n)
	copy(s.w, a.best)
	for j, w := range s.w {
		s.active[j] = w != 0
	}
	s.objective, s.gap = a.f, max(0, a.f-a.value)
	s.slope, s.length, s.known = math.NaN(), math.NaN(), false
}

// norms returns ‖w‖² and ‖w‖₁.
func norms(w []float64) (square, norm float64) {
	for _, v := range w {
		square += float64(v * v)
		norm += math.Abs(v)
	}
	return square, norm
}

// soft returns v moved by l towards 0, but not beyond it.
func soft(v, l float64) float64 { return max(v-l, 0) + min(v+l, 0) }

// norm2 returns ‖x_i‖².
func (b *block) norm2(i int) (s float64) {
	for _, v := range b.values(i) {
		s += float64(v * v)
	}
	return s
}

// lift adds c·x_i to z[1:], and brings w = S_l(z) up to date.
func (b *block) lift(z, w []float64, i int, c, l float64) {
	z, w = z[1:], w[1:]
	if b.width > 0 {
		z, w = z[:b.width], w[:b.width]
		vec.AxpyMixed(c, b.val[i*b.width:(i+1)*b.width], z)
		for j, v := range z {
			w[j] = soft(v, l)
		}
		return
	}
	idx, val := b.row(i)
	for k, j := range idx {
		v := c
		if val != nil {
			v = float64(c * float64(val[k]))
		}
		v += z[j]
		z[j], w[j] = v, soft(v, l)
	}
}
