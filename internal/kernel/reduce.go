package kernel

import (
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/internal/par"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// A reduced set replaces the expansion f = Σ_i α_i K(z_i,·) by f' = Σ_m β_m
// K(p_m,·) with far fewer points (Schölkopf et al., "Input space versus feature
// space in kernel-based methods", IEEE Trans. Neural Networks 10, 1999). The points
// p_m are chosen among the z_i one after the other, each such that ‖f−f'‖ in the
// kernel's Hilbert space H decreases most, f' being the orthogonal projection of f
// on their span: orthogonal least squares, for kernels also called f/P-greedy
// interpolation. The columns of a Cholesky factor of the kernel matrix with these
// pivots (Fine and Scheinberg, "Efficient SVM training using low-rank kernel
// representations", JMLR 2, 2001) are an orthonormal basis of the span at the
// points (Müller and Schaback, "A Newton basis for kernel spaces", J. Approximation
// Theory 161, 2009), and give everything that the choice needs:
//
//	r_j = (f−f')(z_j)
//	d_j = K(z_j,z_j) − Σ_m L_jm²  the squared distance of K(z_j,·) from the span
//
// and point j lowers ‖f−f'‖² by r_j²/d_j.
//
// Everything is computed in float64, with kernel values from wide.

// Reduce returns few of the points, with coefficients, such that
//
//	|f(z_j) − f'(z_j)| ≤ tol  at every point z_j
//
// for f(x) = Σ_i coef[i]·K(z_i,x), K without Bias; scores has its values at the points.
// near is the largest such difference. The points of an expansion are where its
// decisions are close to 0. At other points from the same source the largest difference
// is of the same size, at most twice as large on public data. ok is false if no such
// set of at most most points is found; Reduce tries to detect this early. The new Basis
// has no Bias.
//
// The cost is the kernel values between all points and the chosen ones, in float64,
// plus about Len·most²/2 operations. Giving up after a probe of some of the points is
// cheaper. Reduce is a function of its arguments alone.
func Reduce(b *Basis, coef, scores []float64, tol float64, most int) (points *Basis, reduced []float64, near float64, ok bool) {
	most = min(most, b.Len())
	b.own()
	switch {
	case !(tol > 0) || most < 0:
		return nil, nil, 0, false
	case b.Func.Kind == vec.Linear:
		return weights(b, coef, tol, most)
	case b.Func.Kind == vec.Polynomial && (b.Func.Coef0 < 0 || b.Func.Gamma < 0):
		return nil, nil, 0, false // the kernel has no Hilbert space
	}
	if n := min(probePoints, b.Len()/3); n >= 4*probeSteps && most > probeSteps && most < b.Len() {
		// If f' is not close to f at a subset of the points, it is not close at all
		// of them.
		g := newProbe(b, coef, n)
		if g.run(tol, probeSteps, most, probeSlack); g.hopeless {
			return nil, nil, 0, false
		}
	}
	g := &greedy{basis: b, all: true, f: scores}
	g.start()
	aim := tol
	for range 4 {
		if !g.run(aim, most, most, slack) {
			break
		}
		points, reduced, near = g.finish()
		if near-near != 0 {
			break
		}
		if near <= tol {
			return points, reduced, near, true
		}
		// Rounding errors that show only in the final coefficients exceeded the
		// tolerance: aim lower.
		aim *= 0.9
	}
	return nil, nil, 0, false
}

const (
	probePoints = 1024 // most points of the probe: a few steps on them show how fast f−f' falls
	probeSteps  = 64
	probeSlack  = 2   // less than slack, because f' approaches f sooner among few points
	slack       = 2.5 // see run; once f is known everywhere, continuing is cheap

	batchSteps  = 8       // most pivots chosen between two passes over the factor
	batchList   = 64      // number of points that pivots are chosen from
	chunk       = 256     // rows of the factor that pass through the first-level cache together
	independent = 0x1p-34 // smallest d_j/K(z_j,z_j) of a pivot
)

// doubt penalises points whose d_j is so small that r_j²/d_j is mostly rounding errors
// of the float32 scores. Such pivots make f' worse.
const doubt = 0x1p-10

// greedy selects points from a Basis.
type greedy struct {
	basis *Basis    // the candidates
	all   bool      // the candidates are all points, not a probe
	diag  []float64 // K(z_j,z_j)
	f     []float64 // f(z_j)
	d, r  []float64

	pivots []int32
	factor [][]float64 // one column per pivot
	c      []float64   // f' in the orthonormal basis of the factor

	hopeless bool
	history  []float64 // size of f−f' before and after each step

	// Scratch memory.
	room []float64 // batchSteps columns
	x    []float32
}

// newProbe starts with a subset of the points, evenly spaced, to see how fast f−f'
// falls.
func newProbe(b *Basis, coef []float64, points int) *greedy {
	idx, xs := make([]int32, points), make([]stream.Vec, points)
	for k := range idx {
		idx[k] = int32(k * b.Len() / points)
		xs[k] = b.Row(int(idx[k]))
	}
	g := &greedy{basis: b.Subset(idx), f: make([]float64, points)}
	b.Decide(g.f, xs, coef, 0)
	constant := b.Constant(coef)
	for k := range g.f {
		g.f[k] -= constant
	}
	g.start()
	return g
}

// Constant returns the part of every decision that comes from Bias.
func (b *Basis) Constant(coef []float64) float64 {
	s := 0.0
	for _, v := range coef {
		s += v
	}
	return float64(float64(b.Func.Bias) * s)
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
}

// run adds points until the tolerance is met, and reports whether it is. It gives up
// once there are steps points. It also gives up, and sets hopeless, if the decay so
// far, with its rate multiplied by slack, would not meet the tolerance within most
// points.
func (g *greedy) run(tol float64, steps, most int, slack float64) bool {
	value := g.measure()
	first := min(steps, 2*probeSteps) // number of points from which the decay is checked
	for value > tol && len(g.pivots) < steps {
		before := len(g.factor)
		chosen, columns := g.batch(min(max(1, min(batchSteps, before/16)), steps-before))
		if len(chosen) == 0 {
			return false
		}
		for b, p := range chosen {
			g.add(p, columns[b], before)
			if value = g.measure(); value <= tol {
				break
			}
			m := len(g.pivots)
			if m < first || m%32 != 0 || most >= len(g.f) && g.all {
				continue // with all points there is nothing left
			}
			// For smooth kernels f−f' falls roughly like exp(−a·m^(1/k)) in k
			// dimensions, and like a power of m in many dimensions. The square root
			// is a compromise, and the slack covers its error.
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

// measure returns the largest |f−f'| at the points, and records the root of the sum of
// squares, which falls more steadily.
func (g *greedy) measure() float64 {
	near := 0.0
	for _, v := range g.r {
		near = max(near, math.Abs(v))
	}
	g.history = append(g.history[:len(g.pivots)], math.Sqrt(vec.Dot64(g.r, g.r)))
	return near
}

// batch chooses up to n pivots and returns them with their kernel columns, unscaled and
// minus the part in the span of earlier pivots. It splits the points into batchList
// parts and chooses among the best point of each part, exactly as if there were no
// others, so that one pass over the factor serves n columns.
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
	part := make([]float64, (old+n)*w) // the listed rows of the factor, column by column
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
	var places []int // positions of the chosen points in the list
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
	c := make([]float64, len(places)*old) // factors for each column
	for b, k := range places {
		for q := range old {
			c[b*old+q] = -part[q*w+k]
		}
	}
	par.Split(total, chunk, float64(total*len(c))/4, func(from, end int) {
		for ; from < end; from += chunk {
			to := min(end, from+chunk)
			for b, column := range columns {
				for q, v := range c[b*old : (b+1)*old] {
					vec.Axpy64(v, g.factor[q][from:to], column[from:to])
				}
			}
		}
	})
	return chosen, columns
}

// gain returns how much point j lowers ‖f−f'‖², or 0 if the point is in the span up to
// rounding.
func (g *greedy) gain(r, d float64, j int) float64 {
	if d > float64(independent*g.diag[j]) {
		return float64(r*r) / (d + float64(doubt*g.diag[j]))
	}
	return 0
}

// add makes p a pivot. Its column still contains the part in the span of the earlier
// pivots of the same batch, which are the pivots from number before on.
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
	g.d[p] = 0
	g.pivots, g.factor, g.c = append(g.pivots, p), append(g.factor, l), append(g.c, c)
	for _, q := range g.pivots {
		g.r[q] = 0
	}
}

// finish returns f' as an expansion over the pivots, and the largest |f−f'| at the
// points, recomputed with the final coefficients.
func (g *greedy) finish() (points *Basis, coef []float64, near float64) {
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
	idx := make([]int32, m)
	coef = make([]float64, m)
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
	for _, v := range left {
		near = max(near, math.Abs(v))
	}
	points = g.basis.Subset(idx)
	points.Func.Bias = 0
	return points, coef, near
}

// weights is Reduce for the linear kernel, where one point is enough: the weight
// vector Σ_i α_i z_i, up to its rounding to float32.
func weights(b *Basis, coef []float64, tol float64, most int) (points *Basis, reduced []float64, near float64, ok bool) {
	const u = 0x1p-53
	w := map[int32]float64{}
	size, largest := 0.0, 0.0
	for i, a := range coef {
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
	off := 0.0 // difference between the point and the weight vector
	for _, g := range point.Idx {
		v := float32(w[g])
		point.Val = append(point.Val, v)
		d := w[g] - float64(v)
		off += float64(d * d)
	}
	off = float64(math.Sqrt(off)*(1+0x1p-40)) + float64(float64(float64(len(coef)+4)*u)*size)
	near = off * largest
	f := b.Func
	f.Bias = 0
	points = New(f)
	if b.rows != nil {
		points = NewSparse(f)
	}
	if len(point.Idx) > 0 {
		points.Append(point)
		reduced = []float64{1}
	}
	if !Finite(point) || len(reduced) > most || !(near <= tol) {
		return nil, nil, 0, false
	}
	return points, reduced, near, true
}
