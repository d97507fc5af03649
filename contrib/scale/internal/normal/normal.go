// Package normal accumulates the normal equations of a least-squares problem, or of a
// Newton step of the squared hinge loss, in integers. Integer addition is associative
// and commutative, so the sums over the parts of a stream add up to the sums over all
// of it, to the bit, however it is split and in whatever order the parts are added.
package normal

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/internal/vec"
)

const (
	// One stands for 1 in rows. Features between −1 and 1 are rounded to 12 bits.
	One = 2047
	// MaxDim bounds the coordinates of sums, which then take 1 GiB.
	MaxDim = 16384

	unit       = 256 // of weights, which are rounded to 1/256
	planes     = 20  // bits of a weight: it is less than 4,096
	block      = 512 // rows of a plane
	panel      = 16  // columns that are multiplied together
	panelSize  = panel * block
	maxWeights = math.MaxInt64 / (One * One) // about 8.6e9 examples of weight 1
)

// Sums are Σ w v vᵀ over examples, where w is the weight of the example and v its row:
// the constant, its random features, and its targets. So they hold the Gram matrix of
// the features and their products with the targets.
//
// There is one matrix for all targets. With a hinge there is one for each, over only the
// examples inside its margin. Memory of a matrix: 4 bytes times the square of its
// coordinates.
type Sums struct {
	dim, heads int
	hinge      bool
	n          uint64 // examples
	weight     uint64 // of all examples, in units
	grams      []gram
}

// gram is Σ w v vᵀ for rows v of int16. Rows are buffered by the bits of their weights:
// plane k holds the rows whose weight has bit k, and its products are multiplied by 2^k. A
// row of weight 1 is in one plane, so it costs no more than without weights; one of
// an arbitrary weight is in half of them.
type gram struct {
	size   int
	low    []uint64 // the lower triangle, by rows, in two's complement
	planes [planes]struct {
		rows int
		v    []int16 // by panels of columns, in each by pairs of rows, as in vec.Gram
	}
}

// New returns empty sums of rows with dim coordinates and heads targets.
func New(dim, heads int, hinge bool) (*Sums, error) {
	if dim < 1 || dim > MaxDim || heads < 1 {
		return nil, fmt.Errorf("sums of %d features, at most %d, and %d targets", dim, MaxDim, heads)
	}
	s := &Sums{dim: dim, heads: heads, hinge: hinge}
	s.layout()
	for i := range s.grams {
		g := &s.grams[i]
		g.low = make([]uint64, linear.Triangle(g.size))
	}
	return s, nil
}

// layout makes the matrices, without their numbers.
func (s *Sums) layout() {
	s.grams = []gram{{size: s.dim + s.heads}}
	if s.hinge {
		s.grams = make([]gram, s.heads)
		for i := range s.grams {
			s.grams[i].size = s.dim + 1
		}
	}
}

// Dim returns the number of coordinates besides the targets.
func (s *Sums) Dim() int { return s.dim }

// Heads returns the number of targets.
func (s *Sums) Heads() int { return s.heads }

// Hinge reports whether there is a matrix for each target.
func (s *Sums) Hinge() bool { return s.hinge }

// Len returns the number of examples.
func (s *Sums) Len() uint64 { return s.n }

// Mass returns the sum of their weights.
func (s *Sums) Mass() float64 { return float64(s.weight) / unit }

// Active returns the sum of the weights of the examples inside the margins.
func (s *Sums) Active() (sum float64) {
	for i := range s.grams {
		g := &s.grams[i]
		g.flush()
		sum += float64(g.low[0]/(One*One)) / unit
	}
	return sum
}

// Full reports whether so many examples have been added that more could overflow.
func (s *Sums) Full() bool { return s.weight > maxWeights/2 }

// AddHead makes room for one more target, which was −1 for all examples so far.
func (s *Sums) AddHead() {
	g := &s.grams[0]
	g.flush()
	for j := range g.size {
		g.low = append(g.low, -g.low[linear.Triangle(j)])
	}
	*g = gram{size: g.size + 1, low: append(g.low, g.low[0])}
	s.heads++
}

// Round sets row to the features z in units of One, and z to the rounded values.
func Round(row []int16, z []float32) {
	const shift = 3 << 22 // the last bit of a float32 of this size is 1
	for j, v := range z {
		r := float32(v*One) + shift
		row[j], z[j] = int16(math.Float32bits(r)), r-shift
	}
}

// Weight rounds a weight to multiples of 1/256 from 1/256 to 4,095.
func Weight(w float64) uint64 {
	return uint64(math.RoundToEven(float64(unit * min(max(w, 1./unit), 4095))))
}

// Count counts an example of weight w, a result of Weight.
func (s *Sums) Count(w uint64) {
	s.n++
	s.weight += w
}

// Add adds a row to matrix k, for an example that has been counted: each number is
// between −One and One, and the first is One.
func (s *Sums) Add(k int, row []int16, w uint64) {
	g := &s.grams[k]
	for b := range g.planes {
		p := &g.planes[b]
		if w>>b&1 == 0 {
			continue
		}
		if p.v == nil {
			p.v = make([]int16, (g.size+panel-1)/panel*panelSize)
		}
		at := p.rows/2*2*panel + p.rows%2
		for c := 0; c < g.size; c += panel {
			to := p.v[c*block+at:]
			for i, v := range row[c:min(c+panel, g.size)] {
				to[2*i] = v
			}
		}
		if p.rows++; p.rows == block {
			g.flushPlane(b)
		}
	}
}

func (g *gram) flush() {
	for b := range g.planes {
		g.flushPlane(b)
	}
}

// flushPlane adds the products of the rows of a plane. A product of two rows' numbers is
// at most One², so a sum over a block at most 512·2047² = 2,145,387,008 < 2³¹: int32
// cannot overflow. The sums in 64 bits cannot either, because they are at most One²
// times the total weight, which is limited.
func (g *gram) flushPlane(b int) {
	p := &g.planes[b]
	if p.rows == 0 {
		return
	}
	n := (p.rows + 1) / 2 * 2 * panel
	var sums [panel * panel]int32
	for i := 0; i < g.size; i += panel {
		for j := 0; j <= i; j += panel {
			vec.Gram(&sums, p.v[i*block:][:n], p.v[j*block:][:n])
			for r := i; r < min(i+panel, g.size); r++ {
				line := g.low[linear.Triangle(r):][:r+1]
				line = line[j:min(j+panel, r+1)]
				for c, v := range sums[(r-i)*panel:][:len(line)] {
					line[c] += uint64(int64(v)) << b
				}
			}
		}
	}
	clear(p.v)
	p.rows = 0
}

// Merge adds the sums of other examples.
func (s *Sums) Merge(o *Sums) error {
	switch {
	case s.dim != o.dim || s.heads != o.heads || s.hinge != o.hinge:
		return fmt.Errorf("sums of %d features and %d targets cannot be added to those of %d and %d", o.dim, o.heads, s.dim, s.heads)
	case s.weight+o.weight > maxWeights:
		return errFull
	}
	s.n += o.n
	s.weight += o.weight
	for i := range s.grams {
		g, h := &s.grams[i], &o.grams[i]
		h.flush()
		for j, v := range h.low {
			g.low[j] += v
		}
	}
	return nil
}

var (
	errFull     = errors.New("the weights of all examples are more than 8.6e9: their sums could overflow")
	errSingular = errors.New("the least-squares problem has no finite solution")
)

// Solution is a point x, and the objective there. For each target t, it is
//
//	1/(2 Σw) Σ w (zᵀx − t)² + ½ Σ_j ridge_j x_j²
//
// over all examples or, with a hinge, over those inside the margin at x.
type Solution struct {
	X         []float64 // Heads rows of Dim numbers
	Objective float64   // the sum over the targets
	Norm      float64   // of the gradient, over all targets
	Gap       float64   // bounds by how much the objective is above its minimum
}

// equations returns the matrix of target k, its right-hand side, and the mean square of
// the target, all divided by the total weight. The target is 1 or −1.
func (s *Sums) equations(k int) (a linear.Lower, b []float64, square float64) {
	g := &s.grams[0]
	if s.hinge {
		g, k = &s.grams[k], 0
	}
	g.flush()
	n := max(float64(s.weight), 1) * One * One
	a = make(linear.Lower, linear.Triangle(s.dim))
	for i := range a {
		a[i] = float64(int64(g.low[i])) / n
	}
	b = make([]float64, s.dim)
	for j, v := range g.low[linear.Triangle(s.dim+k):][:s.dim] {
		b[j] = float64(int64(v)) / n
	}
	return a, b, a[0]
}

// At returns the objective at x for ridges > 0. With a hinge it is the objective of the
// squared hinge loss if the sums cover the examples inside the margin at x.
func (s *Sums) At(x, ridge []float64) Solution {
	out := Solution{X: x}
	square := 0.0
	r := make([]float64, s.dim)
	for k := range s.heads {
		a, b, t2 := s.equations(k)
		x := x[k*s.dim:][:s.dim]
		for j := range r {
			r[j] = -b[j]
		}
		for i, v := range x {
			line := a.Row(i)
			r[i] += vec.Dot64(line[:i], x[:i]) + float64(line[i]*v)
			vec.Axpy64(v, line[:i], r[:i])
		}
		out.Objective += (t2 + vec.Dot64(r, x) - vec.Dot64(b, x)) / 2
		for j, v := range x {
			out.Objective += float64(ridge[j]*v) * v / 2
			r[j] += float64(ridge[j] * v)
			out.Gap += float64(r[j]*r[j]) / (2 * ridge[j])
		}
		square += vec.Dot64(r, r)
	}
	out.Norm = math.Sqrt(square)
	return out
}

// Solve minimises the objective of the examples in the sums, by Cholesky factorisation.
// With a hinge that is a Newton step. Coordinates that depend on the others to within
// rounding, which can occur only if the ridge is tiny, are 0.
func (s *Sums) Solve(ridge []float64) (Solution, error) {
	const tiny = 1e-13
	x := make([]float64, s.heads*s.dim)
	var c linear.Lower
	for k := range s.heads {
		a, b, _ := s.equations(k)
		if c == nil || s.hinge {
			for j, v := range ridge[:s.dim] {
				a.Row(j)[j] += v
			}
			a.Cholesky(s.dim, tiny, true)
			c = a
		}
		c.Solve(b)
		copy(x[k*s.dim:], b)
	}
	if linear.Finite(x) != nil {
		return Solution{}, errSingular
	}
	return s.At(x, ridge), nil
}

// Fields describes the sums. Decoding replaces them by the encoded ones.
func (s *Sums) Fields(f *state.Fields) {
	f.Int("dim", &s.dim)
	f.Int("heads", &s.heads)
	f.Bool("hinge", &s.hinge)
	f.Uint64("n", &s.n)
	f.Uint64("weight", &s.weight)
	if f.Decoding() {
		if s.dim < 1 || s.dim > MaxDim || s.heads < 1 || s.heads > MaxDim || s.weight > maxWeights || s.n > s.weight {
			f.Fail("dim", fmt.Errorf("%d features, %d targets, weight %d of %d examples", s.dim, s.heads, s.weight, s.n))
			return
		}
		s.layout()
	}
	for i := range s.grams {
		g := &s.grams[i]
		g.flush()
		f.Uint64s("low", &g.low)
		if f.Decoding() && f.Err() == nil {
			f.Fail("low", g.check(s.weight, s.hinge))
		}
	}
}

// check checks decoded numbers: none is larger than the first, the one of the
// constant.
func (g *gram) check(weight uint64, hinge bool) error {
	if len(g.low) != linear.Triangle(g.size) {
		return fmt.Errorf("%d numbers of %d coordinates", len(g.low), g.size)
	}
	first := int64(g.low[0])
	outside := func(v uint64) bool { return int64(v) > first || int64(v) < -first }
	if n := first / (One * One); first < 0 || first%(One*One) != 0 || uint64(n) > weight || !hinge && uint64(n) != weight || slices.ContainsFunc(g.low, outside) {
		return errors.New("numbers that are not those of sums")
	}
	return nil
}

// AppendBinary appends the sums.
func (s *Sums) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, s.Fields) }

// UnmarshalBinary restores them; after an error they are undefined. It is safe for
// any input.
func (s *Sums) UnmarshalBinary(data []byte) error { return state.Decode(data, s.Fields) }
