package kernel

import (
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// A reduced set replaces the expansion f = Σ_i α_i K(z_i,·) by f' = Σ_m β_m
// K(p_m,·) with far fewer points (Schölkopf et al., "Input space versus feature
// space in kernel-based methods", IEEE Trans. Neural Networks 10, 1999). The
// points p_m are chosen among the z_i one after the other, each such that ‖f−f'‖
// in the kernel's Hilbert space H falls most, f' being the orthogonal projection
// of f on their span: orthogonal least squares, for kernels also called f/P-greedy
// interpolation. The columns of a Cholesky factor of the kernel matrix with these
// pivots (Fine and Scheinberg, "Efficient SVM training using low-rank kernel
// representations", JMLR 2, 2001) are an orthonormal basis of the span at the
// points (Müller and Schaback, "A Newton basis for kernel spaces", J.
// Approximation Theory 161, 2009), and give all that the choice needs:
//
//	r_j = (f−f')(z_j)
//	d_j = K(z_j,z_j) − Σ_m L_jm²  the squared distance of K(z_j,·) from the span
//
// and point j lowers ‖f−f'‖² by r_j²/d_j.
//
// The constant that Bias and the offset add to every decision is kept as it is.
// Everything is computed in float64, with kernel values of wide.

// Reduce returns an expansion over few of e's points with
//
//	|f(x) − f'(x)| ≤ bound·√K(x,x)  for every x
//
// and bound ≤ tol, or ok = false if it does not find one of at most that many
// points; it tries to notice early that there is none. K is the kernel without
// Bias, so the root is 1 for the kernels that depend on a distance. The bound is
// on the functions, and counts all rounding of its own computation. A decision
// that is computed from float32 kernel values is off by a few 1e-7 of the sum of
// its coefficients' absolute values, before and after.
//
// The cost is that of all kernel values between the points, in float64, plus about
// Len·most²/2 operations; giving up after a look at some of the points is cheaper.
// Reduce is a function of e alone, and leaves it as it is.
//
// The bound is the norm of f−f', which is far from attained where f has small
// coefficients in many places: see ReduceNear.
func (e *Expansion) Reduce(tol float64, most int) (reduced *Expansion, bound float64, ok bool) {
	reduced, _, bound, ok = e.reduce(nil, tol, 0, most)
	return reduced, bound, ok
}

// ReduceNear is Reduce with the demand that no decision at one of e's own
// points moves by more than tol, which takes far fewer points. near is the
// largest such move and bound that of Reduce. Support vectors are where
// decisions are close; of other points of the same source, the largest move is of
// the same size, and was up to twice that on public data. What is certain, but for
// rounding, is |f(x)−f'(x)| ≤ bound·P(x), where P(x), the distance of K(x,·) from
// the span of the new points, is at most √K(x,x) and small near them.
//
// scores, if not nil, are e's decisions at its own points, which then need not be
// computed, half of the cost. As float32 kernel values went into them, they
// cannot vouch for a bound, which is NaN then.
func (e *Expansion) ReduceNear(scores []float64, tol float64, most int) (reduced *Expansion, near, bound float64, ok bool) {
	return e.reduce(scores, 0, tol, most)
}

// reduce demands bound ≤ wantBound or near ≤ wantNear; the other one is 0.
func (e *Expansion) reduce(scores []float64, wantBound, wantNear float64, most int) (reduced *Expansion, near, bound float64, ok bool) {
	b := e.basis
	tolBound, tolNear := wantBound, wantNear
	most = min(most, b.Len())
	switch {
	case !(wantBound+wantNear > 0) || most < 0 || b.list != nil:
		return nil, 0, 0, false
	case b.Func.Kind == vec.Linear:
		return e.weights(wantBound, wantNear, most)
	case b.Func.Kind == vec.Polynomial && (b.Func.Coef0 < 0 || b.Func.Gamma < 0):
		return nil, 0, 0, false // has no Hilbert space
	}
	if points := min(probePoints, b.Len()/3); points >= 4*probeSteps && most > probeSteps && most < b.Len() {
		// If f' is not near f at some of the points, neither is it at all of them.
		g := newProbe(e, points)
		if g.run(0, wantBound+wantNear, probeSteps, most, probeSlack); g.hopeless {
			return nil, 0, 0, false
		}
	}
	g := newGreedy(e, scores)
	for range 4 {
		if !g.run(tolBound, tolNear, most, most, slack) {
			break
		}
		reduced, near, bound = g.finish(e.constant())
		if near-near != 0 || scores == nil && bound-bound != 0 {
			break
		}
		if (wantBound == 0 || bound <= wantBound) && (wantNear == 0 || near <= wantNear) {
			return reduced, near, bound, true
		}
		// Rounding that only the coefficients tell is in the way: aim lower.
		tolBound, tolNear = tolBound*0.9, tolNear*0.9
	}
	return nil, 0, 0, false
}

const (
	probePoints = 1024 // at most, among which a few steps show how fast f−f' falls
	probeSteps  = 64
	probeSlack  = 2   // less than slack, as f' comes near f sooner among few points
	slack       = 2.5 // see run; once f is known everywhere, going on is cheap

	batchSteps  = 8       // most pivots chosen between two passes over the factor
	batchList   = 64      // points among which they are chosen
	chunk       = 256     // rows of the factor that pass through the first-level cache together
	independent = 0x1p-34 // least d_j/K(z_j,z_j) of a pivot
)

// scoreDoubt keeps the choice from points whose d_j is so small that r_j²/d_j is
// mostly the rounding of scores that came from float32 kernel values: pivots of
// that kind make f' worse instead of better.
const scoreDoubt = 0x1p-10

// greedy chooses points among those of a Basis.
type greedy struct {
	basis *Basis    // the candidates
	doubt float64   // see scoreDoubt
	alpha []float64 // f's coefficients, if the candidates are all its points
	diag  []float64 // K(z_j,z_j)
	f     []float64 // f(z_j), without constants
	d, r  []float64
	tail  float64 // ‖f−f'‖², if the candidates are all points

	pivots []int32
	factor [][]float64 // a column for each pivot
	c      []float64   // f' in the orthonormal basis that the factor belongs to

	old      float64 // Σ_i |α_i|·√K(z_i,z_i)
	depth    float64 // additions that a sum in f went through
	rounding float64 // wideError
	hopeless bool
	history  []float64 // how large f−f' is, before and after each step

	// Scratch.
	room []float64 // batchSteps columns
	x    []float32
}

// newProbe starts with some of e's points, evenly spaced, and with float32 kernel
// values, for a look at how fast f−f' falls.
func newProbe(e *Expansion, points int) *greedy {
	idx, xs := make([]int32, points), make([]stream.Vec, points)
	for k := range idx {
		idx[k] = int32(k * e.basis.Len() / points)
		xs[k] = e.basis.Row(int(idx[k]))
	}
	g := &greedy{basis: e.basis.Subset(idx), f: make([]float64, points), doubt: scoreDoubt}
	e.Decisions(g.f, xs)
	constant := e.constant()
	for k := range g.f {
		g.f[k] -= constant
	}
	g.start()
	return g
}

// newGreedy starts with all points.
func newGreedy(e *Expansion, scores []float64) *greedy {
	n := e.basis.Len()
	g := &greedy{basis: e.basis, alpha: e.coef, f: make([]float64, n), rounding: e.basis.wideError()}
	if scores != nil {
		g.rounding, g.doubt = math.NaN(), scoreDoubt
		constant := e.constant()
		for i, s := range scores {
			g.f[i] = s - constant
		}
		g.start()
		return g
	}
	row, sums := make([]float64, n+vec.Width), make([]float64, n)
	for from := 0; from < n; from += vec.Width {
		// The kernel matrix is symmetric: of the rows of a panel, only the columns
		// from that panel on are computed. What they give the points below is summed
		// panel by panel, so that no sum is a long chain.
		to := min(n, from+vec.Width)
		for i := from; i < to; i++ {
			g.x = e.basis.wide(g.x, row, i, from)
			g.f[i] += vec.Dot64(row[:n-from], e.coef[from:])
			vec.Axpy64(e.coef[i], row[to-from:n-from], sums[to:])
		}
		vec.Axpy64(1, sums[to:], g.f[to:])
		clear(sums[to:])
	}
	g.depth = float64(n/32 + n/vec.Width + vec.Width + 8)
	g.tail = vec.Dot64(g.f, e.coef)
	g.start()
	return g
}

func (g *greedy) start() {
	n := len(g.f)
	g.diag = make([]float64, n)
	row := make([]float64, n+vec.Width)
	for j := range g.diag {
		g.diag[j] = 1
		if g.basis.Func.Kind == vec.Polynomial {
			from := j / vec.Width * vec.Width
			g.x = g.basis.wide(g.x, row, j, from)
			g.diag[j] = row[j-from]
		}
	}
	g.d, g.r = slices.Clone(g.diag), slices.Clone(g.f)
	for j, v := range g.alpha {
		g.old += float64(math.Abs(v) * math.Sqrt(g.diag[j]))
	}
}

// run adds points until a tolerance that is not 0 is met, and reports whether it
// is. It gives up at steps of them, or, setting hopeless, where the decay seen so
// far, with its rate taken times slack, does not meet it within most.
func (g *greedy) run(tolBound, tolNear float64, steps, most int, slack float64) bool {
	tol := max(tolBound, tolNear)
	value := g.measure(tolBound > 0)
	first := min(steps, 2*probeSteps) // look at the decay
	for value > tol && len(g.pivots) < steps {
		before := len(g.factor)
		chosen, columns := g.batch(min(max(1, min(batchSteps, before/16)), steps-before))
		if len(chosen) == 0 {
			return false
		}
		for b, p := range chosen {
			g.add(p, columns[b], before)
			if value = g.measure(tolBound > 0); value <= tol {
				break
			}
			m := len(g.pivots)
			if m < first || m%32 != 0 || most >= len(g.f) && g.alpha != nil {
				continue // with all points there is nothing left
			}
			// For smooth kernels f−f' falls about like exp(−a·m^(1/k)) in k dimensions,
			// and like a power of m where there are many. The square root is in between,
			// and what it gets wrong the slack makes up for.
			root := math.Sqrt(float64(m))
			times := int(slack * (math.Sqrt(float64(most)) - root) / (root - math.Sqrt(float64(m/2))))
			ahead, ratio := value, g.history[m]/g.history[m/2]
			for ; times > 0 && ahead > tol; times-- {
				ahead = float64(ahead * ratio)
				if !(ratio < 1) {
					break
				}
			}
			if !(ahead <= tol) {
				g.hopeless = true
				return false
			}
		}
	}
	return value <= tol
}

// measure returns what is to fall below the tolerance, and records how far f' has
// come: by the norm, or by the mean square of f−f' at the points, which falls
// more steadily than the largest.
func (g *greedy) measure(norm bool) float64 {
	if norm {
		// The error of the norm, were the new coefficients as large as the old ones.
		v := math.Sqrt(max(0, g.tail) + g.error(2*g.old))
		g.history = append(g.history[:len(g.pivots)], v)
		return v
	}
	near := 0.0
	for _, v := range g.r {
		near = max(near, math.Abs(v))
	}
	g.history = append(g.history[:len(g.pivots)], math.Sqrt(vec.Dot64(g.r, g.r)))
	return near
}

// batch chooses up to n pivots and returns them and their kernel columns, less
// the part in the span of the pivots before, not yet scaled. The choice is made
// among the best points of as many parts of the sample, exactly as if these were
// all, so that a pass over the factor serves n columns.
func (g *greedy) batch(n int) (chosen []int32, columns [][]float64) {
	total, old := len(g.d), len(g.factor)
	var list []int32
	for k := range batchList {
		best, at := 0.0, -1
		for j := k * total / batchList; j < (k+1)*total/batchList; j++ {
			if v := g.gain(g.r[j], g.d[j], j); v > best {
				best, at = v, j
			}
		}
		if at >= 0 {
			list = append(list, int32(at))
		}
	}
	w, size := len(list), (total+vec.Width-1)/vec.Width*vec.Width
	part := make([]float64, (old+n)*w) // the factor's rows of the list, a column after the other
	d, r := make([]float64, w), make([]float64, w)
	for q, l := range g.factor {
		for k, j := range list {
			part[q*w+k] = l[j]
		}
	}
	for k, j := range list {
		d[k], r[k] = g.d[j], g.r[j]
	}
	if cap(g.room) < batchSteps*size {
		g.room = make([]float64, batchSteps*size)
	}
	var places []int // of the chosen, in the list
	for len(chosen) < n {
		best, at := 0.0, -1
		for k, j := range list {
			if v := g.gain(r[k], d[k], int(j)); v > best {
				best, at = v, k
			}
		}
		if at < 0 {
			break
		}
		m := len(chosen)
		full := g.room[m*size:][:size]
		g.x = g.basis.wide(g.x, full, int(list[at]), 0)
		chosen, columns, places = append(chosen, list[at]), append(columns, full[:total]), append(places, at)
		l := part[(old+m)*w:][:w]
		for k, j := range list {
			l[k] = full[j]
		}
		for q := range old + m {
			vec.Axpy64(-part[q*w+at], part[q*w:(q+1)*w], l)
		}
		s := 1 / math.Sqrt(d[at])
		c := r[at] * s
		for k := range l {
			l[k] *= s
			d[k] -= float64(l[k] * l[k])
			r[k] -= float64(c * l[k])
		}
		d[at], r[at] = 0, 0
	}
	for from := 0; from < total; from += chunk {
		to := min(total, from+chunk)
		for q, l := range g.factor {
			for b, k := range places {
				vec.Axpy64(-part[q*w+k], l[from:to], columns[b][from:to])
			}
		}
	}
	return chosen, columns
}

// gain is what point j lowers ‖f−f'‖² by, 0 if it is in the span as far as its
// distance from it can be told.
func (g *greedy) gain(r, d float64, j int) float64 {
	if d > float64(independent*g.diag[j]) {
		return float64(r*r) / (d + float64(g.doubt*g.diag[j]))
	}
	return 0
}

// add makes p a pivot. Its column still has the part in the span of the pivots
// from number before on, which are of the same batch.
func (g *greedy) add(p int32, column []float64, before int) {
	l := slices.Clone(column)
	for _, q := range g.factor[before:] {
		vec.Axpy64(-q[p], q, l)
	}
	s := 1 / math.Sqrt(g.d[p])
	c := g.r[p] * s
	for j := range l {
		l[j] *= s
		g.d[j] -= float64(l[j] * l[j])
	}
	vec.Axpy64(-c, l, g.r)
	g.tail -= float64(c * c)
	g.d[p] = 0
	g.pivots, g.factor, g.c = append(g.pivots, p), append(g.factor, l), append(g.c, c)
	for _, q := range g.pivots {
		g.r[q] = 0
	}
}

// error bounds the rounding of the squared norm of Σ_i a_i K(z_i,·), of its
// kernel values and of the sums, for size = Σ_i |a_i|·√K(z_i,z_i).
func (g *greedy) error(size float64) float64 {
	const u = 0x1p-53
	return float64(float64(float64(g.rounding+float64(2*g.depth*u))*size) * size)
}

// finish returns f' over the pivots, and what it can vouch for: with the
// coefficients as they came out, all from f−f' anew.
func (g *greedy) finish(constant float64) (reduced *Expansion, near, bound float64) {
	m, n := len(g.pivots), len(g.f)
	beta := slices.Clone(g.c)
	for q := m - 1; q >= 0; q-- {
		for k := q + 1; k < m; k++ {
			beta[q] -= float64(g.factor[q][g.pivots[k]] * beta[k])
		}
		beta[q] /= g.factor[q][g.pivots[q]]
	}
	order := make([]int, m)
	for k := range order {
		order[k] = k
	}
	slices.SortFunc(order, func(a, b int) int { return int(g.pivots[a] - g.pivots[b]) })
	idx, coef := make([]int32, m), make([]float64, m)
	left := slices.Clone(g.f) // f−f' at all points
	row, sums := make([]float64, n+vec.Width), make([]float64, n)
	for k, o := range order {
		idx[k], coef[k] = g.pivots[o], beta[o]
		g.x = g.basis.wide(g.x, row, int(idx[k]), 0)
		vec.Axpy64(-coef[k], row[:n], sums)
		if k%vec.Width == vec.Width-1 || k == m-1 {
			vec.Axpy64(1, sums, left)
			clear(sums)
		}
	}
	size, newSize := g.old, 0.0
	norm := vec.Dot64(left, g.alpha)
	for k, i := range idx {
		newSize += float64(math.Abs(coef[k]) * math.Sqrt(g.diag[i]))
		norm -= float64(coef[k] * left[i])
	}
	for _, v := range left {
		near = max(near, math.Abs(v))
	}
	g.depth += float64(m/vec.Width + vec.Width)
	err := g.error(size + newSize)
	bound = math.Sqrt(max(norm, 0) + err)
	if all := size + newSize; all > 0 && err-err == 0 {
		near += float64(err / all * math.Sqrt(slices.Max(g.diag))) // a value's part of it
	}
	b := g.basis.Subset(idx)
	b.Func.Bias = 0
	return &Expansion{basis: b, coef: coef, offset: constant}, near, bound
}

// constant is what e adds to Σ_i α_i K(z_i,x) without Bias.
func (e *Expansion) constant() float64 {
	s := 0.0
	for _, v := range e.coef {
		s += v
	}
	return e.offset + float64(float64(e.basis.Func.Bias)*s)
}

// weights is reduce for the linear kernel, for which one point is enough: the
// weight vector Σ_i α_i z_i, but for its rounding to float32.
func (e *Expansion) weights(tolBound, tolNear float64, most int) (reduced *Expansion, near, bound float64, ok bool) {
	const u = 0x1p-53
	b := e.basis
	w := map[int32]float64{}
	size, largest := 0.0, 0.0
	for i, a := range e.coef {
		x := b.Row(i)
		for k, v := range x.Val {
			g := int32(k)
			if x.Idx != nil {
				g = x.Idx[k]
			}
			if v != 0 {
				w[g] += float64(a * float64(v))
			}
		}
		norm := math.Sqrt(squaredNorm(x))
		size += float64(math.Abs(a) * norm)
		largest = max(largest, norm)
	}
	point := stream.Vec{Idx: []int32{}}
	for g := range w {
		point.Idx = append(point.Idx, g)
	}
	slices.Sort(point.Idx)
	for _, g := range point.Idx {
		v := float32(w[g])
		point.Val = append(point.Val, v)
		d := w[g] - float64(v)
		bound += float64(d * d)
	}
	bound = float64(math.Sqrt(bound)*(1+0x1p-40)) + float64(float64(float64(len(e.coef)+4)*u)*size)
	near = bound * largest
	f := b.Func
	f.Bias = 0
	s := New(f)
	if b.rows != nil {
		s = NewSparse(f)
	}
	var coef []float64
	if len(point.Idx) > 0 {
		s.Append(point)
		coef = []float64{1}
	}
	ok = Finite(point) && len(coef) <= most && (tolBound == 0 || bound <= tolBound) && (tolNear == 0 || near <= tolNear)
	if !ok {
		return nil, 0, 0, false
	}
	return &Expansion{basis: s, coef: coef, offset: e.constant()}, near, bound, true
}
