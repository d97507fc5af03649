// Package normal accumulates the normal equations of a least-squares problem. The sums
// over the parts of a stream add up to the sums over all of it, so each part can be
// summed on a machine of its own.
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

// Block is the number of examples after which old ones lose weight, and of which
// rows are held until they are added.
const Block = 64

// Sums are Σ w z zᵀ and, of K targets t, Σ w t z over examples with the features
// z, where w is the weight of the example. They are a function of the examples in
// their order alone: where they were stored and restored in between cannot be
// seen in their bits. Memory: Dim²/2 numbers in float64, and Block rows.
//
// With a half-life H, sums are multiplied by 2^(−Block/H) after each Block
// examples. So an example counts half as much after H others have come, and it is
// their number that counts, not the time.
type Sums struct {
	dim, heads int
	half       float64

	low    linear.Lower
	rhs    []float64 // heads rows of dim numbers
	mass   float64   // Σ w
	square float64   // Σ w t²
	n      uint64    // examples, however old

	// Examples that are not in the sums yet, at most Block.
	z []float32
	w []float64
	t []float64 // the target, or the head that it is 1 for
}

// New returns empty sums of examples with dim features, 1 to MaxDim, and as many
// targets as heads. One head has any number as a target. Of several the target of
// one is 1, those of the others −1. half is the half-life in examples, 0 for none.
func New(dim, heads int, half float64) (*Sums, error) {
	if dim < 1 || dim > MaxDim || heads < 1 || !(half >= 0) {
		return nil, fmt.Errorf("sums of %d features, at most %d, %d targets, half-life %g", dim, MaxDim, heads, half)
	}
	return &Sums{dim: dim, heads: heads, half: half, low: make(linear.Lower, linear.Triangle(dim)), rhs: make([]float64, dim*heads)}, nil
}

// MaxDim bounds the features of sums, which then take 1 GiB.
const MaxDim = 16384

// Dim returns the number of features, Heads that of targets.
func (s *Sums) Dim() int { return s.dim }

// Heads returns the number of targets.
func (s *Sums) Heads() int { return s.heads }

// Len returns the number of examples.
func (s *Sums) Len() uint64 { return s.n }

// Mass returns the sum of their weights.
func (s *Sums) Mass() float64 {
	s.flush()
	return s.mass
}

// AddHead makes room for one more target, which was −1 for all examples so far.
func (s *Sums) AddHead() {
	s.flush()
	s.heads++
	s.rhs = append(s.rhs, make([]float64, s.dim)...)
}

// Widen makes room for more features, which were 0 in all examples so far: dim in
// all, at most MaxDim.
func (s *Sums) Widen(dim int) {
	if dim <= s.dim {
		return
	}
	s.flush()
	s.low = append(s.low, make(linear.Lower, linear.Triangle(dim)-len(s.low))...)
	s.rhs = Widen(s.rhs, s.dim, dim)
	s.dim = dim
}

// Widen returns a matrix, in rows, that has as many more columns of zeros.
func Widen(rows []float64, columns, more int) []float64 {
	out := make([]float64, len(rows)/columns*more)
	for k := range len(rows) / columns {
		copy(out[k*more:], rows[k*columns:(k+1)*columns])
	}
	return out
}

// Add adds an example with the features z, Dim of them, and the weight w > 0. t is
// the target, or of several heads the number of that which is 1.
func (s *Sums) Add(z []float32, t, w float64) {
	s.z = append(s.z, z[:s.dim]...)
	s.t, s.w = append(s.t, t), append(s.w, w)
	s.n++
	if s.n%Block != 0 {
		return
	}
	s.flush()
	if s.half > 0 {
		s.fade(linear.ExpNeg(Block * math.Ln2 / s.half))
	}
}

// flush adds the rows that are held. Each number of the sums gets what each
// example adds to it in the order of the examples, wherever that is cut.
func (s *Sums) flush() {
	if len(s.w) == 0 {
		return
	}
	for j := range s.dim {
		line := s.low.Row(j)
		for r, w := range s.w {
			row := s.z[r*s.dim:]
			if c := w * float64(row[j]); c != 0 {
				vec.AxpyMixed(c, row[:j+1], line)
			}
		}
	}
	for r, w := range s.w {
		row, t := s.z[r*s.dim:(r+1)*s.dim], s.t[r]
		s.mass += w
		if s.heads > 1 {
			k := int(t)
			vec.AxpyMixed(w, row, s.rhs[k*s.dim:(k+1)*s.dim])
			continue
		}
		c := float64(w * t)
		vec.AxpyMixed(c, row, s.rhs)
		s.square += float64(c * t)
	}
	s.z, s.w, s.t = s.z[:0], s.w[:0], s.t[:0]
}

// fade multiplies the sums.
func (s *Sums) fade(f float64) {
	for _, list := range [][]float64{s.low, s.rhs} {
		for i := range list {
			list[i] *= f
		}
	}
	s.mass *= f
	s.square *= f
}

// Merge adds the sums of other examples, with as many targets. It widens s to the
// features of o.
func (s *Sums) Merge(o *Sums) error {
	if s.heads != o.heads || s.half != o.half {
		return fmt.Errorf("sums of %d targets with half-life %g cannot be added to those of %d with %g", o.heads, o.half, s.heads, s.half)
	}
	s.flush()
	o.flush()
	s.Widen(o.dim)
	vec.Axpy64(1, o.low, s.low[:len(o.low)])
	for k := range s.heads {
		vec.Axpy64(1, o.rhs[k*o.dim:(k+1)*o.dim], s.rhs[k*s.dim:k*s.dim+o.dim])
	}
	s.mass += o.mass
	s.square += o.square
	s.n += o.n
	return nil
}

// Solution is what minimises, for each target,
//
//	1/(2 Σw) Σ w (zᵀx − t)² + ½ Σ_j ridge_j x_j²
type Solution struct {
	X         []float64 // Heads rows of Dim numbers
	Objective float64   // the sum over the targets
	Norm      float64   // of the gradient, over all targets
}

var errSingular = errors.New("the least-squares problem has no finite solution")

// Solve solves the normal equations by Cholesky factorisation, once for all
// targets: O(Dim³/6). ridge has Dim numbers ≥ 0. Coordinates that the others
// explain to within rounding, which can occur only where ridge is 0 or tiny, are
// 0.
func (s *Sums) Solve(ridge []float64) (Solution, error) {
	const tiny = 1e-13
	s.flush()
	n := s.mass
	if s.n == 0 {
		n = 1
	}
	a := slices.Clone(s.low)
	for i := range a {
		a[i] /= n
	}
	for j, v := range ridge[:s.dim] {
		a.Row(j)[j] += v
	}
	c := slices.Clone(a)
	c.Cholesky(s.dim, tiny, true)
	out := Solution{X: make([]float64, s.heads*s.dim)}
	all := make([]float64, s.dim) // Σ w z, where there are several targets
	if s.heads > 1 {
		for k := range s.heads {
			vec.Axpy64(1, s.rhs[k*s.dim:(k+1)*s.dim], all)
		}
	}
	b, r := make([]float64, s.dim), make([]float64, s.dim)
	square := 0.0
	for k := range s.heads {
		x, square0 := out.X[k*s.dim:(k+1)*s.dim], s.square
		copy(b, s.rhs[k*s.dim:(k+1)*s.dim])
		if s.heads > 1 {
			square0 = s.mass
			for j := range b {
				b[j] = 2*b[j] - all[j]
			}
		}
		for j := range b {
			b[j] /= n
		}
		copy(x, b)
		c.Solve(x)
		if linear.Finite(x) != nil {
			return Solution{}, errSingular
		}
		// The gradient at x is A x − b, and the objective (t² − bᵀx)/2 where it is 0.
		for j := range r {
			r[j] = -b[j]
		}
		for i, v := range x {
			line := a.Row(i)
			r[i] += vec.Dot64(line[:i], x[:i]) + float64(line[i]*v)
			vec.Axpy64(v, line[:i], r[:i])
		}
		square += vec.Dot64(r, r)
		out.Objective += (square0/n - vec.Dot64(b, x) + vec.Dot64(r, x)) / 2
	}
	out.Norm = math.Sqrt(square)
	return out, nil
}

// Fields describes the sums. Decoding makes them those of the features, targets
// and half-life that were written.
func (s *Sums) Fields(f *state.Fields) {
	s.flush()
	f.Int("dim", &s.dim)
	f.Int("heads", &s.heads)
	f.Float64("half_life", &s.half)
	f.Float64s("low", (*[]float64)(&s.low))
	f.Float64s("rhs", &s.rhs)
	f.Float64("mass", &s.mass)
	f.Float64("square", &s.square)
	f.Uint64("n", &s.n)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	switch {
	case s.dim < 1 || s.dim > MaxDim || s.heads < 1 || !(s.half >= 0) || len(s.low) != linear.Triangle(s.dim) || len(s.rhs)%s.dim != 0 || len(s.rhs)/s.dim != s.heads:
		f.Fail("dim", fmt.Errorf("%d features, %d targets, half-life %g, sums of %d and %d numbers", s.dim, s.heads, s.half, len(s.low), len(s.rhs)))
	case !(s.mass >= 0) || math.IsInf(s.mass, 1) || !(s.square >= 0) || math.IsInf(s.square, 1) || s.n == 0 && s.mass != 0:
		f.Fail("mass", fmt.Errorf("weight %g, squares %g of %d examples", s.mass, s.square, s.n))
	default:
		f.Fail("low", linear.Finite(s.low, s.rhs))
	}
}

// AppendBinary appends the sums.
func (s *Sums) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, s.Fields) }

// UnmarshalBinary restores them; after an error they are undefined. It copes with
// any input.
func (s *Sums) UnmarshalBinary(data []byte) error {
	s.z, s.w, s.t = s.z[:0], s.w[:0], s.t[:0]
	return state.Decode(data, s.Fields)
}
