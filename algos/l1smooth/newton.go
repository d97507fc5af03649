package l1smooth

import (
	"math"

	"github.com/streamsvm/streamsvm/internal/linear"
)

// params are the constants of a solve.
type params struct {
	lambda, mu float64
	eta        float64 // a level is solved once |d^T g| < eta·α
	c1, sMin   float64 // sufficient decrease, least step
	final      bool    // activate until nothing is left at the last level
	exact      bool    // look for the minimum along d where the model's fails
	direct     int     // largest active set for Cholesky
}

const (
	// enlargements is the most activations at the last level with final (E8).
	enlargements = 50
	// negligible is the share of the largest possible φ'' below which an
	// example is left out of the Hessian. Weights fall like (u/α)⁻³, so those
	// left out sum to 5·10⁻⁵ of the whole where margins are spread evenly.
	negligible = 1e-6
)

// work counts what a solve has cost.
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
// for α = alphas[0], alphas[1], …, each from the solution of the one before:
// the corrected Algorithms 1 to 3. w, active, k, adjust, enlarged and begin
// are its state; everything else is scratch.
type solver struct {
	params
	*data
	alphas []float64

	w      []float64
	active []bool // Ī: w_j ≠ 0 or activated
	k      int    // level
	last   int    // the level at which final applies
	// adjust: the active set may still be enlarged at this level. begin: the
	// active set is to be made from the gradient, as at the start.
	adjust, begin bool
	enlarged      int
	work

	// objective is f(w), not smoothed. gap bounds f(w) − min f, or is NaN.
	objective, gap float64
	slope          float64 // d^T g of the last direction
	length         float64 // s of the last accepted step

	known   bool // pt.u belongs to w
	pt      point
	ghat, g []float64
	d       []float64
	set     []int32 // A, then the support of d
	places  places
	H, F    square
	squares [][]float64
	q, q2   []float64
	dw      []float64
	ws, ds  []float64
	next    []float64 // w on the support after the step
	cross   []crossing
	cg      cg
}

// restart begins a solve at level k on changed data: the margins are unknown
// and the active set is made anew (Algorithm 1, lines 2 to 4).
func (s *solver) restart(k int) {
	s.k, s.adjust, s.begin, s.enlarged, s.known = k, true, true, 0, false
}

// grow gives new features the weight 0.
func (s *solver) grow() {
	s.w = linear.Grow(s.w, s.size())
	for len(s.active) < len(s.w) {
		s.active = append(s.active, false)
	}
}

// advance goes to the next level.
func (s *solver) advance() {
	s.k++
	s.adjust, s.enlarged = true, 0
}

// support returns |Ī| as far as it has weight.
func (s *solver) support() int {
	n := 0
	for _, v := range s.w {
		if v != 0 {
			n++
		}
	}
	return n
}

// newton is one pass of the loop of Algorithm 1: it takes a step, or goes to
// the next level and takes none. It reports whether it took a step.
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
	if math.Abs(slope) < s.eta*alpha {
		added := s.enlarge()
		if added == 0 {
			s.slope = slope
			s.advance()
			return s.exact && s.k <= s.last && s.predict(alpha)
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

// measure computes objective and gap from the point. The dual value of θ_i =
// φ_α'(u_i) is mean θ − ‖S_μ(v)‖²/(2λ), v = 1/N Σ θ_i y_i x_i, which is minus
// the gradient of the loss. Without ridge, θ is shrunk until ‖v‖_∞ ≤ μ.
func (s *solver) measure() {
	var square, norm, excess, most float64
	for j, w := range s.w {
		square += float64(w * w)
		norm += math.Abs(w)
		v := math.Abs(s.pt.grad[j])
		most = max(most, v)
		if e := v - s.mu; e > 0 {
			excess += float64(e * e)
		}
	}
	s.objective = float64(s.lambda/2*square) + s.pt.hinge + float64(s.mu*norm)
	switch {
	case s.lambda > 0:
		s.gap = max(0, s.objective-(s.pt.theta-excess/(2*s.lambda)))
	case s.mu > 0:
		shrink := 1.0
		if most > s.mu {
			shrink = s.mu / most
		}
		s.gap = max(0, s.objective-float64(shrink*s.pt.theta))
	default:
		s.gap = math.NaN()
	}
}

// subgradient sets ghat, the subgradient g of least norm, and A (section 2.2;
// the soft threshold where w_j = 0 only, E5).
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
		// Without the l1 term there is no active set, but a coordinate that
		// no example has is none either.
		if s.mu == 0 && (w != 0 || e != 0) || s.active[j] && (w != 0 || violates) {
			s.set = append(s.set, int32(j))
		}
	}
	s.begin = false
}

// direction solves H_AA d_A = −g_A. Weights at 0 that would leave it against
// their gradient are taken out of A, and the system is solved again (E6).
func (s *solver) direction(alpha float64) {
	if len(s.set) == 0 {
		return
	}
	least := negligible / (2 * alpha * float64(s.n))
	s.hessians++
	if len(s.set) > s.direct {
		for s.conjugate(least) && len(s.set) > 0 {
		}
		return
	}
	n := len(s.set)
	s.H = resize(s.H, n*(n+1)/2)
	s.places.set(s.set, s.size())
	s.hessian(s.H, &s.places, s.pt.h, least, &s.squares)
	s.H.shift(n, s.lambda)
	for {
		s.factor()
		x := s.ds[:0]
		for _, j := range s.set {
			x = append(x, -s.g[j])
		}
		s.F.solve(x)
		s.ds = x
		if !s.drop(x) || len(s.set) == 0 {
			return
		}
	}
}

// factor factors the part of H that belongs to set, with as little ridge as it
// takes.
func (s *solver) factor() {
	n := len(s.set)
	s.F = resize(s.F, n*(n+1)/2)
	tau := 0.0
	for {
		for a, j := range s.set {
			from, to := s.H.row(int(s.places.at[j])), s.F.row(a)
			for c, i := range s.set[:a+1] {
				to[c] = from[s.places.at[i]]
			}
		}
		t := s.F.trace(n)
		s.F.shift(n, tau)
		if cholesky(s.F, n) {
			return
		}
		if tau == 0 {
			tau = max(1e-12*t/float64(n), math.SmallestNonzeroFloat64/1e-16)
		} else {
			tau *= 10
		}
	}
}

// drop writes x to d, or takes the coordinates that have the wrong sign out of
// the set and reports true.
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

// predict goes along the path of solutions as α falls from the value for which
// the last direction was made to that of the present level: with H_AA at hand,
// H_AA p_A = −g_A − Δα ∂ĝ_A/∂α. It reports whether it took a step.
func (s *solver) predict(alpha float64) bool {
	if len(s.set) == 0 {
		return false
	}
	next := s.alphas[s.k]
	s.tangent(&s.pt, alpha)
	s.passes++
	if len(s.set) > s.direct {
		return false
	}
	x := s.ds[:0]
	for _, j := range s.set {
		x = append(x, float64((alpha-next)*s.pt.grad[j])-s.g[j])
	}
	s.F.solve(x)
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

// enlarge activates the weights at 0 that violate optimality, with a gradient
// step, once a level (Algorithm 3). It returns their share of the slope, or 0
// if there are none or it is not time.
func (s *solver) enlarge() (slope float64) {
	if s.mu == 0 || !s.adjust {
		return 0
	}
	// Coordinates in the set that were not dropped have w ≠ 0 or d ≠ 0; those
	// at 0 with d = 0 are there with g = 0 only.
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
	s.adjust = s.final && s.k >= s.last && s.enlarged < enlargements
	return slope
}

// search finds the step: the minimiser of the quadratic model with the l1 term
// kept exact (section 2.4), halved until f_α falls enough. Weights whose sign
// would change become 0 before the test, not after it (E7).
func (s *solver) search(alpha, slope, first float64) bool {
	step := first
	var hits []int32
	s.q = resize(s.q, s.n)
	a := s.along(s.q, s.d, s.pt.h)
	s.passes++
	var b float64
	s.ws, s.ds = s.ws[:0], s.ds[:0]
	for _, j := range s.set {
		a += float64(s.lambda * float64(s.d[j]*s.d[j]))
		b += float64(s.d[j] * s.ghat[j])
		s.ws, s.ds = append(s.ws, s.w[j]), append(s.ds, s.d[j])
	}
	a /= 2
	if first > 0 {
	} else if s.mu == 0 {
		step = -b / (2 * a)
	} else {
		var ok bool
		if step, hits, ok = minimise(s.ws, s.ds, a, b, s.mu, &s.cross); !ok {
			step = 1 // the model has no minimum, but f has
		}
	}
	if !(step > 0) || math.IsInf(step, 0) {
		return false
	}
	clip := true
	for tries := 0; ; tries++ {
		change, mean := s.try(alpha, step, hits, clip)
		if change <= float64(s.c1*float64(step*slope)) {
			s.accept(mean)
			s.length = step
			return true
		}
		if step < s.sMin {
			return false
		}
		switch {
		case !s.exact || tries > 1:
			step, hits, clip = step/2, nil, true
		case tries == 0:
			step, hits = s.minimum(alpha, slope, step)
		default:
			clip = false // the minimum itself
		}
	}
}

// try makes the point at the given step the trial point and returns the change
// of f_α and the mean hinge there. With clip, weights whose sign would change
// become 0.
func (s *solver) try(alpha, step float64, hits []int32, clip bool) (change, mean float64) {
	q, t := s.q, step
	if s.trial(step, hits, clip) {
		s.dw = resize(s.dw, s.size())
		clear(s.dw)
		for i, j := range s.set {
			s.dw[j] = s.next[i] - s.ws[i]
		}
		s.q2 = resize(s.q2, s.n)
		s.along(s.q2, s.dw, s.pt.h)
		s.passes++
		q, t = s.q2, 1
	}
	change, mean = s.rise(s.pt.u, q, t, alpha)
	s.values++
	for i, v := range s.next {
		w := s.ws[i]
		change += float64(s.lambda/2*float64((v-w)*(v+w))) + float64(s.mu*(math.Abs(v)-math.Abs(w)))
	}
	return change, mean
}

// trial sets next to w + step·d on the support, and reports whether a sign was
// clipped other than at a hit, where the change is rounding.
func (s *solver) trial(step float64, hits []int32, clip bool) (clipped bool) {
	s.next = s.next[:0]
	for i, w := range s.ws {
		s.next = append(s.next, w+float64(step*s.ds[i]))
	}
	for _, i := range hits {
		s.next[i] = 0
	}
	if s.mu == 0 || !clip {
		return false
	}
	for i, w := range s.ws {
		if v := s.next[i]; w != 0 && v != 0 && (v < 0) != (w < 0) {
			s.next[i] = 0
			clipped = true
		}
	}
	return clipped
}

// curvature is the share of the slope that is left where minimum stops.
const curvature = 0.1

// minimum returns about the minimiser over 0 < s ≤ most of f_α along d, and
// the positions of the weights that are 0 there if it is on a kink: first by
// bisection over the kinks, then by Newton's method on the derivative, which
// never falls, within a bracket.
func (s *solver) minimum(alpha, slope, most float64) (step float64, hits []int32) {
	lo, hi := 0.0, most
	if s.mu > 0 {
		s.cross = crossings(s.cross, s.ws, s.ds)
		from, to := 0, 0
		for to < len(s.cross) && s.cross[to].at < most {
			to++
		}
		for from < to {
			mid := from + (to-from)/2
			sigma := s.cross[mid].at
			d1, _ := s.derivatives(alpha, sigma, sigma)
			first, end := mid, mid
			var jump float64
			for first > 0 && s.cross[first-1].at == sigma {
				first--
			}
			for end = first; end < len(s.cross) && s.cross[end].at == sigma; end++ {
				jump += float64(s.mu * math.Abs(s.ds[s.cross[end].j]))
			}
			switch {
			case d1-jump > 0:
				hi, to = sigma, first
			case d1+jump < 0:
				lo, from = sigma, end
			default:
				for _, c := range s.cross[first:end] {
					hits = append(hits, c.j)
				}
				return sigma, hits
			}
		}
	}
	at := lo + 0.5*(hi-lo)
	for range 20 {
		d1, d2 := s.derivatives(alpha, at, lo+0.5*(hi-lo))
		if math.Abs(d1) <= -curvature*slope {
			return at, nil
		}
		if d1 > 0 {
			hi = at
		} else {
			lo = at
		}
		next := at - d1/d2
		if !(next > lo+0.05*(hi-lo) && next < hi-0.05*(hi-lo)) {
			// Far too long a step is the rule: approach from above first.
			next = lo + 0.25*(hi-lo)
		}
		at = next
	}
	return lo + 0.5*(hi-lo), nil
}

// derivatives returns the first and the second derivative of f_α at w + at·d
// along d, where weights have the signs that they have at w + signs·d, and
// those at 0 there count nothing to the first.
func (s *solver) derivatives(alpha, at, signs float64) (d1, d2 float64) {
	d1, d2 = s.slopes(s.pt.u, s.q, at, alpha)
	s.values++
	for i, d := range s.ds {
		w := s.ws[i]
		d1 += float64(s.lambda * float64((w+float64(at*d))*d))
		d2 += float64(s.lambda * float64(d*d))
		if s.mu == 0 {
			continue
		}
		switch sign := w * d; {
		case sign < 0 && -w/d > signs: // still on its way to 0
			d1 -= float64(s.mu * math.Abs(d))
		case sign < 0 && -w/d == signs:
		default:
			d1 += float64(s.mu * math.Abs(d))
		}
	}
	return d1, d2
}

// accept takes the trial point. mean is its mean hinge.
func (s *solver) accept(mean float64) {
	for i, j := range s.set {
		s.w[j] = s.next[i]
	}
	s.known = false
	var square, norm float64
	for j, w := range s.w {
		s.active[j] = w != 0
		square += float64(w * w)
		norm += math.Abs(w)
	}
	s.objective = float64(s.lambda/2*square) + mean + float64(s.mu*norm)
	s.gap = math.NaN()
}
