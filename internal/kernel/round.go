package kernel

import (
	"math"

	"github.com/streamsvm/streamsvm/internal/vec"
)

// Points on a grid take only a few bits per feature (PackedFields). Rounding them
// to a grid changes f = Σ_i α_i K(z_i,·) a great deal if coefficients are large.
// But with new coefficients, f' = Σ_i β_i K(r_i,·), the orthogonal projection of f
// on the span of the rounded points r_i in the kernel's Hilbert space H, is many
// times closer. For every x
//
//	|f(x) − f'(x)| = |⟨f−f', K(x,·)⟩| ≤ ‖f−f'‖ √K(x,x) = ‖f−f'‖
//
// with the kernel exp(−γ‖x−z‖²), where K(x,x) = 1. The norm is a double sum over
// both sets of points. Without more knowledge of x the bound is the best possible:
// some function with this norm attains it.

const (
	roundMost = 6144 // most points: the factor takes n²/2 numbers and n³/3 operations
	roundFew  = 256  // a feature with at most so many values, or n/4, is not rounded
	roundBits = 20   // most bits of a value; more would not help a float32
)

// Round returns n rounded points with coefficients such that
//
//	|f(x) − f'(x)| ≤ bound ≤ most  for all x
//
// for f(x) = Σ_i coef[i]·K(z_i,x), K without Bias, in exact arithmetic. The
// rounding of decisions in float32 comes on top, for f' as for f. Coefficients are
// float32. The grid is the coarsest one found that satisfies this. ok is false for
// kernels other than RBF (the Laplacian kernel has a kink, so the norm falls only with
// the root of the distance that points move), for sparse points, for too many points,
// if no feature has many values, or if no grid is found. The new Basis has no Bias.
//
// The cost is about n³ operations. Round is a function of its arguments alone.
func Round(b *Basis, coef []float64, most float64) (points *Basis, rounded []float64, bound float64, ok bool) {
	n := b.Len()
	if b.Func.Kind != vec.RBF || !(b.Func.Gamma >= 0) || b.rows != nil || n == 0 || n > roundMost || !(most > 0) {
		return nil, nil, 0, false
	}
	r := newRounding(b, coef)
	if r.largest == 0 {
		return nil, nil, 0, false
	}
	// The bound halves with each bit.
	failed := 0
	for bits := 8; bits > failed && bits <= roundBits && (!ok || bits < r.bits); {
		p, c, v := r.try(bits)
		if v <= most {
			points, rounded, bound, ok, r.bits = p, c, v, true, bits
			for bits--; bits > 1 && 4*v <= most; bits-- {
				v *= 2
			}
			continue
		}
		failed = bits
		for bits++; bits < roundBits && v > 2*most; bits++ {
			v /= 2
		}
	}
	return points, rounded, bound, ok
}

type rounding struct {
	basis   *Basis // without Bias
	coef    []float64
	many    []bool  // features to round
	largest float64 // largest absolute value of the features to round
	bits    int     // bits of the best grid so far
	scratch []float32
	row     []float64
}

func newRounding(b *Basis, coef []float64) *rounding {
	n, dim := b.Len(), b.Dim()
	r := &rounding{basis: b, coef: coef, many: make([]bool, dim), row: make([]float64, 2*n+2*vec.Width)}
	few := min(roundFew, max(2, n/4))
	seen := make([]map[float32]struct{}, dim)
	x := make([]float32, dim)
	for i := range n {
		b.panels.Row(x, i)
		for g, v := range x {
			if seen[g] == nil {
				seen[g] = map[float32]struct{}{}
			}
			if len(seen[g]) <= few {
				seen[g][v] = struct{}{}
			}
		}
	}
	for i := range n {
		b.panels.Row(x, i)
		for g, v := range x {
			if r.many[g] = len(seen[g]) > few; r.many[g] {
				r.largest = max(r.largest, math.Abs(float64(v)))
			}
		}
	}
	return r
}

// try rounds to the grid in which the largest value takes the given number of bits,
// including the sign. It returns the points, the coefficients and the bound, which is
// infinite if no projection is found.
func (r *rounding) try(bits int) (points *Basis, coef []float64, bound float64) {
	n, dim := r.basis.Len(), r.basis.Dim()
	_, e := math.Frexp(r.largest)
	step := math.Ldexp(1, e-bits+1)
	f := r.basis.Func
	f.Bias = 0
	points = New(f)
	points.panels = vec.NewPanels(dim)
	both := New(f) // the original points, then the rounded ones
	both.panels = vec.NewPanels(dim)
	x := make([]float32, dim)
	for i := range n {
		r.basis.panels.Row(x, i)
		both.panels.Append(x)
	}
	for i := range n {
		r.basis.panels.Row(x, i)
		for g, v := range x {
			if r.many[g] {
				x[g] = float32(math.RoundToEven(float64(v)/step)*step) + 0 // not −0, which is another value
			}
		}
		both.panels.Append(x)
		points.panels.Append(x)
	}
	coef = r.project(both)
	if coef == nil {
		return nil, nil, math.Inf(1)
	}
	return points, coef, r.norm(both, coef)
}

// project returns the coefficients of the projection, as float32, or nil if it is not
// found. The rounded points are the points of both from n on.
func (r *rounding) project(both *Basis) []float64 {
	n := r.basis.Len()
	from := n / vec.Width * vec.Width
	values := func(i int) []float64 {
		r.scratch = both.wide(r.scratch, r.row, i, from)
		return r.row[n-from:][:n]
	}
	// left is the residual of f if the rounded points have the old coefficients, factor
	// the lower half of the kernel matrix of the rounded points.
	left := make([]float64, n)
	for i, a := range r.coef {
		vec.Axpy64(a, values(i), left)
	}
	factor := make([][]float64, n)
	room := make([]float64, n*(n+1)/2)
	for i, a := range r.coef {
		k := values(n + i)
		vec.Axpy64(-a, k, left)
		factor[i], room = room[:i+1:i+1], room[i+1:]
		copy(factor[i], k)
		factor[i][i] += ridge
	}
	if !cholesky(factor) {
		return nil
	}
	for i, l := range factor {
		left[i] = (left[i] - vec.Dot64(l[:i], left[:i])) / l[i]
	}
	for i := n - 1; i >= 0; i-- {
		l := factor[i]
		left[i] /= l[i]
		vec.Axpy64(-left[i], l[:i], left[:i])
	}
	for i, a := range r.coef {
		left[i] = float64(float32(a + left[i]))
		if left[i]-left[i] != 0 {
			return nil
		}
	}
	return left
}

// ridge is added to the diagonal, so that coinciding points do not make the matrix
// singular. It has no visible effect on the bound.
const ridge = 0x1p-33

// together is the number of rows of the factor that each earlier row is applied to at
// once.
const together = 32

// cholesky replaces the lower half of a positive definite matrix with its Cholesky factor.
func cholesky(a [][]float64) bool {
	for from := 0; from < len(a); from += together {
		rows := a[from:min(from+together, len(a))]
		for j := range from + len(rows) {
			pivot := a[j]
			for k, l := range rows {
				switch i := from + k; {
				case i == j:
					d := l[j] - vec.Dot64(l[:j], l[:j])
					if !(d > 0) {
						return false
					}
					l[j] = math.Sqrt(d)
				case i > j:
					l[j] = (l[j] - vec.Dot64(l[:j], pivot[:j])) / pivot[j]
				}
			}
		}
	}
	return true
}

// norm returns an upper bound on ‖f−f'‖, rounding included.
func (r *rounding) norm(both *Basis, coef []float64) float64 {
	const u = 0x1p-53
	n := both.Len()
	c, size := make([]float64, 0, n), 0.0
	for _, v := range r.coef {
		c, size = append(c, v), size+math.Abs(v)
	}
	for _, v := range coef {
		c, size = append(c, -v), size+math.Abs(v)
	}
	// A sum over the pairs, in pieces, with a bound on the error of the additions.
	square, mass, steps := 0.0, 0.0, 0.0
	abs := make([]float64, n)
	for i, v := range c {
		abs[i] = math.Abs(v)
	}
	lost := 0.0 // the known rounding errors of the additions to square
	for i, v := range c {
		from := i / vec.Width * vec.Width
		r.scratch = both.wide(r.scratch, r.row, i, from)
		k := r.row[i-from:][:n-i]
		k[0] = 0.5 // the diagonal counts once, other pairs twice
		for at := 0; at < len(k); at += pieces {
			to := min(at+pieces, len(k))
			term := float64(2 * v * vec.Dot64(k[at:to], c[i+at:i+to]))
			// Neumaier's sum.
			s := square + term
			if math.Abs(square) >= math.Abs(term) {
				lost += (square - s) + term
			} else {
				lost += (term - s) + square
			}
			square = s
			mass += float64(2 * abs[i] * vec.Dot64(k[at:to], abs[i+at:i+to]))
			steps++
		}
	}
	// Errors come from: the products and sums within a piece, which vec.Dot64 adds up in
	// 32 lanes; the additions to lost; and the kernel values. A kernel value is a sum of
	// dim squared differences times gamma, whose relative error changes the value by at
	// most 1/e of it, and an exponential.
	errors := float64(mass*u) * (pieces/32 + 12)
	errors += float64(mass*u) * float64(4*steps*u)
	errors += float64(float64(size*size)*u) * (0.37*float64(both.Dim()+6) + 8)
	return float64(math.Sqrt(max(square+lost, 0)+1.01*errors) * (1 + 0x1p-40))
}

// pieces is the number of terms in a piece, which vec.Dot64 sums with plain rounding.
const pieces = 256
