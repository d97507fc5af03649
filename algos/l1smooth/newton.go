package l1smooth

import (
	"math"

	"github.com/streamsvm/streamsvm/internal/linear"
)

const (
	// enlargements bounds the activations at the last level with KKT final (E8).
	enlargements = 50
	// negligible is the fraction of the largest possible φ'' below which an example
	// is left out of the Hessian. φ'' falls like (u/α)⁻³, so the examples left out sum
	// to 5·10⁻⁵ of the whole if margins are spread evenly.
	negligible = 1e-6
	// leastAlpha is the smoothing of the last level that may be solved for a
	// certificate. certifyingEta is the factor of η for it (see eta).
	leastAlpha    = 1e-6
	certifyingEta = 1e-4
)

// work counts the cost of a solve.
type work struct {
	steps    uint64 // accepted steps
	passes   uint64 // products with all examples, or sums over them
	hessians uint64 // Hessians built
	values   uint64 // function values in line searches
	failures uint64 // line searches that found no step
	products uint64 // Hessian-vector products of conjugate gradients
}

// solver minimises
//
//	f_α(w) = λ/2 ‖w‖² + 1/N Σ φ_α(1 − y_i ⟨w, x_i⟩) + μ ‖w‖₁
//
// for α = alphas[0], alphas[1], …, each from the previous solution: the corrected
// Algorithms 1 to 3. w, active, k, adjust, enlarged and begin are its state;
// everything else is scratch.
type solver struct {
	opt *options
	*data
	alphas []float64
	levels int // number of levels down to alpha_min; the rest are for a certificate

	lambda, mu float64

	w      []float64
	active []bool // Ī: w_j ≠ 0 or activated
	k      int    // level
	last   int    // the level at which kkt = final applies
	// adjust says that the active set may still be enlarged at this level, begin that
	// it must be built from the gradient, as at the start.
	adjust, begin bool
	enlarged      int
	work

	// objective is f(w), without smoothing. gap bounds f(w) − min f, or is NaN.
	objective, gap float64
	slope          float64 // d^T g of the last direction
	length         float64 // s of the last accepted step

	known   bool // pt.u belongs to w
	pt      point
	ghat, g []float64
	d       []float64
	set     []int32 // A, then the support of d
	H, F    linear.Lower
	q, q2   []float64
	dw      []float64
	ws, ds  []float64
	next    []float64 // w on the support after the step
	cross   []crossing
	cg      cg
	ascent  ascent
}

// restart begins a solve at level k on changed data: the margins are unknown and
// the active set is rebuilt (Algorithm 1, lines 2 to 4).
func (s *solver) restart(k int) {
	s.k, s.adjust, s.begin, s.enlarged, s.known = k, true, true, 0, false
}

// grow gives new features the weight 0.
func (s *solver) grow() {
	s.w = linear.Grow(s.w, s.size())
	s.active = append(s.active, make([]bool, len(s.w)-len(s.active))...)
}

// advance goes to the next level.
func (s *solver) advance() {
	s.k++
	s.adjust, s.enlarged = true, 0
}

// support returns the number of nonzero weights.
func (s *solver) support() (n int) {
	for _, v := range s.w {
		if v != 0 {
			n++
		}
	}
	return n
}

// newton does one pass of the loop of Algorithm 1. It either does a step or moves to
// the next level, and reports whether it did a step.
func (s *solver) newton() bool {
	alpha := s.alphas[s.k]
	s.evaluate(&s.pt, s.w, alpha, s.known)
	s.known = true
	s.passes++
	s.measure()
	s.subgradient()
	s.direction(alpha)
	slope := 0.0
	for _, j := range s.set {
		slope += float64(s.d[j] * s.g[j])
	}
	if math.Abs(slope) < s.eta()*alpha {
		added := s.enlarge()
		if added == 0 {
			s.slope = slope
			s.advance()
			return s.opt.Search == "exact" && s.k <= s.last && s.predict(alpha)
		}
		slope += added
	}
	s.slope = slope
	if !s.search(alpha, slope, 0) {
		s.failures++
		s.advance()
		return false
	}
	s.steps++
	return true
}

// certified reports whether the gap is small enough to end a full solve. The paper and
// its preset end at α_min whatever the gap, and so does μ = 0.
func (s *solver) certified() bool {
	return s.mu == 0 || s.opt.KKT != "final" || s.gap <= precise*s.objective
}

// eta returns η. From α_min on it is smaller as long as there is no certificate,
// because with a small λ the gap is far more sensitive to the gradient than f.
func (s *solver) eta() float64 {
	if s.k < s.levels-1 || s.certified() {
		return s.opt.Eta
	}
	return certifyingEta * s.opt.Eta
}

// measure computes objective and gap from the point. The dual value of θ_i =
// φ_α'(u_i) is mean θ − ‖S_μ(v)‖²/(2λ), where v = 1/N Σ θ_i y_i x_i is minus the
// gradient of the loss. If the ridge is weak or 0, shrinking θ until ‖v‖_∞ ≤ μ gives a
// greater value.
func (s *solver) measure() {
	square, norm := norms(s.w)
	var excess, most float64
	for _, v := range s.pt.grad {
		v = math.Abs(v)
		most = max(most, v)
		if e := v - s.mu; e > 0 {
			excess += float64(e * e)
		}
	}
	s.objective = float64(s.lambda/2*square) + s.pt.hinge + float64(s.mu*norm)
	bound := math.NaN()
	if s.lambda > 0 {
		bound = s.pt.theta - excess/(2*s.lambda)
	}
	if s.mu > 0 {
		if shrunk := float64(min(1, s.mu/most) * s.pt.theta); !(bound >= shrunk) {
			bound = shrunk
		}
	}
	if s.gap = s.objective - bound; s.gap < 0 {
		s.gap = 0
	}
}

// subgradient computes ghat, the subgradient g of smallest norm, and A (section
// 2.2; the soft threshold only where w_j = 0, E5).
func (s *solver) subgradient() {
	n := s.size()
	s.ghat, s.g, s.d = resize(s.ghat, n), resize(s.g, n), resize(s.d, n)
	clear(s.d)
	s.set = s.set[:0]
	for j, w := range s.w {
		e := s.pt.grad[j] + float64(s.lambda*w)
		s.ghat[j] = e
		violates := math.Abs(e) > s.mu
		if s.begin {
			s.active[j] = w != 0 || violates
		}
		switch {
		case w > 0:
			e += s.mu
		case w < 0:
			e -= s.mu
		case e > s.mu:
			e -= s.mu
		case e < -s.mu:
			e += s.mu
		default:
			e = 0
		}
		s.g[j] = e
		// Without the l1 term all coordinates are active, except the ones that no
		// example has.
		if s.mu == 0 && (w != 0 || e != 0) || s.active[j] && (w != 0 || violates) {
			s.set = append(s.set, int32(j))
		}
	}
	s.begin = false
}

// direction solves H_AA d_A = −g_A. Weights at 0 that would move against their
// gradient are removed from A, and the system is solved again (E6).
func (s *solver) direction(alpha float64) {
	if len(s.set) == 0 {
		return
	}
	least := negligible / (2 * alpha * float64(s.n))
	s.hessians++
	if len(s.set) > s.opt.Direct {
		for s.conjugate(least) && len(s.set) > 0 {
		}
		return
	}
	n := len(s.set)
	s.H = resize(s.H, linear.Triangle(n))
	s.hessian(s.H, s.set, s.pt.h, least)
	s.H.Shift(n, s.lambda)
	for {
		s.factor()
		x := s.ds[:0]
		for _, j := range s.set {
			x = append(x, -s.g[j])
		}
		s.F.Solve(x)
		s.ds = x
		if !s.drop(x) || len(s.set) == 0 {
			return
		}
	}
}

// factor computes the Cholesky factor of the part of H in set, adding a ridge only as
// large as necessary.
func (s *solver) factor() {
	n := len(s.set)
	s.F = resize(s.F, linear.Triangle(n))
	tau := 0.0
	for {
		for a, j := range s.set {
			from, to := s.H.Row(int(s.at[j])), s.F.Row(a)
			for c, i := range s.set[:a+1] {
				to[c] = from[s.at[i]]
			}
		}
		t := s.F.Trace(n)
		s.F.Shift(n, tau)
		if s.F.Cholesky(n, 1e-14, false) {
			return
		}
		if tau == 0 {
			tau = max(1e-12*t/float64(n), math.SmallestNonzeroFloat64/1e-16)
		} else {
			tau *= 10
		}
	}
}

// drop writes x to d, or removes the coordinates with the wrong sign from the set
// and reports true.
func (s *solver) drop(x []float64) bool {
	keep := s.set[:0]
	dropped := false
	for a, j := range s.set {
		if s.mu > 0 && s.w[j] == 0 && x[a] != 0 && (x[a] > 0) == (s.g[j] > 0) {
			dropped = true
			s.d[j] = 0
			continue
		}
		s.d[j] = x[a]
		keep = append(keep, j)
	}
	s.set = keep
	return dropped
}

// predict follows the path of solutions as α falls from its value at the last
// direction to the value of the present level. It solves H_AA p_A = −g_A − Δα ∂ĝ_A/∂α
// with the available factor of H_AA. It reports whether it did a step.
func (s *solver) predict(alpha float64) bool {
	if len(s.set) == 0 {
		return false
	}
	next := s.alphas[s.k]
	s.tangent(&s.pt, alpha)
	s.passes++
	if len(s.set) > s.opt.Direct {
		return false
	}
	x := s.ds[:0]
	for _, j := range s.set {
		x = append(x, float64((alpha-next)*s.pt.grad[j])-s.g[j])
	}
	s.F.Solve(x)
	s.ds = x
	for a, j := range s.set {
		s.d[j] = x[a]
	}
	s.evaluate(&s.pt, s.w, next, true)
	s.passes++
	slope := 0.0
	for _, j := range s.set {
		w, d := s.w[j], s.d[j]
		s.ghat[j] = s.pt.grad[j] + float64(s.lambda*w)
		slope += float64(s.ghat[j] * d)
		if w > 0 || w == 0 && d > 0 {
			slope += float64(s.mu * d)
		} else {
			slope -= float64(s.mu * d)
		}
	}
	s.slope = slope
	if !(slope < 0) || !s.search(next, slope, 1) {
		return false
	}
	s.steps++
	return true
}

// enlarge activates the weights at 0 that violate optimality, with a gradient step,
// once per level (Algorithm 3), or repeatedly at the last one with KKT final. It
// returns their part of the slope, or 0 if there are none or it may not enlarge.
func (s *solver) enlarge() (slope float64) {
	if s.mu == 0 || !s.adjust {
		return 0
	}
	// Coordinates in the set that were not dropped have w ≠ 0 or d ≠ 0, or else
	// w = d = g = 0.
	added := false
	for j, w := range s.w {
		if w == 0 && s.d[j] == 0 && s.g[j] != 0 {
			s.d[j] = -s.g[j]
			slope -= float64(s.g[j] * s.g[j])
			s.active[j] = true
			added = true
		}
	}
	if !added {
		return 0
	}
	s.set = s.set[:0]
	for j, v := range s.d {
		if v != 0 {
			s.set = append(s.set, int32(j))
		}
	}
	s.enlarged++
	s.adjust = s.opt.KKT == "final" && s.k >= s.last && s.enlarged < enlargements
	return slope
}
