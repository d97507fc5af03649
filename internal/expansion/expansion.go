// Package expansion implements the kernel expansion, the model of kernel learners,
// with its compiled, packed and reduced forms and its encoding. Package algos/model
// makes one from plain rows for learners outside this module; it is a separate
// package so that its API does not expose kernel.Basis.
package expansion

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// Expansion is the model f(x) = Σ_j Coef[j]·(K(p_j, x) + Bias) + Offset over the
// points of a kernel.Basis. It implements algos.Model and is immutable.
type Expansion struct {
	basis  *kernel.Basis
	coef   []float64
	offset float64
	packed bool             // encoded in the packed form
	fast   *kernel.Compiled // nil unless compiled
}

var _ algos.Model = (*Expansion)(nil)

// New returns the expansion over the points of b with a nonzero coefficient, which
// it copies. coef may be shorter than b; missing coefficients are 0. offset is an
// unregularised bias: a finite constant added to every decision.
func New(b *kernel.Basis, coef []float64, offset float64) *Expansion {
	idx, c := support(coef)
	return &Expansion{basis: b.Subset(idx), coef: c, offset: offset}
}

// Brief is New, valid until b changes: it copies no sparse points, which takes longer than a few
// decisions.
func Brief(b *kernel.Basis, coef []float64, offset float64) *Expansion {
	idx, c := support(coef)
	e := &Expansion{basis: kernel.New(b.Func), coef: c, offset: offset}
	e.basis.Pick(kernel.Part{Basis: b, Idx: idx})
	return e
}

// support returns the nonzero coefficients and their indices.
func support(coef []float64) (idx []int32, c []float64) {
	for i, v := range coef {
		if v != 0 {
			idx, c = append(idx, int32(i)), append(c, v)
		}
	}
	return idx, c
}

// View returns the expansion over all points of b. It shares b and coef, which must
// have equal lengths, and is valid until either changes. offset is as for New.
func View(b *kernel.Basis, coef []float64, offset float64) *Expansion {
	return &Expansion{basis: b, coef: coef, offset: offset}
}

// Nonzero returns the number of nonzero coefficients.
func Nonzero(coef []float64) (n int) {
	for _, v := range coef {
		if v != 0 {
			n++
		}
	}
	return n
}

// Coef returns the coefficients; they must not be changed.
func (e *Expansion) Coef() []float64 { return e.coef }

// Decision returns f(x).
func (e *Expansion) Decision(x stream.Vec) float64 {
	var f [1]float64
	e.Decisions(f[:], []stream.Vec{x})
	return f[0]
}

// Decisions sets dst[i] = f(xs[i]).
func (e *Expansion) Decisions(dst []float64, xs []stream.Vec) {
	if e.fast != nil {
		e.fast.Decide(dst, xs)
		return
	}
	e.basis.Decide(dst, xs, e.coef, e.offset)
}

// Reduce returns an expansion over few of the points (kernel.Reduce), at most most,
// that changes no decision at a point of e by more than tol, and the largest such
// change. ok is false if there is none. scores are e's decisions at its points. The
// constant part of every decision, from Bias and offset, is kept.
func (e *Expansion) Reduce(scores []float64, tol float64, most int) (reduced *Expansion, near float64, ok bool) {
	constant := e.offset + e.basis.Constant(e.coef)
	f := make([]float64, len(scores))
	for i, s := range scores {
		f[i] = s - constant
	}
	points, coef, near, ok := kernel.Reduce(e.basis, e.coef, f, tol, most)
	if !ok {
		return nil, 0, false
	}
	return &Expansion{basis: points, coef: coef, offset: constant}, near, true
}

// Compile returns the same function in a form that decides several times faster
// (kernel.Compile), if there is one. Decision and Decisions of the result agree in
// every bit. e must not change while the result is in use.
func (e *Expansion) Compile() algos.Model {
	c := *e
	c.fast = kernel.Compile(e.basis, e.coef, e.offset)
	return &c
}

// Pack returns the form for publishing, whose encoding takes a fraction of the
// bytes: the points are exact, the coefficients are rounded to float32, as in a
// compiled expansion. A decision changes by at most 2^−24 times the sum of the
// coefficients' absolute values times the largest kernel value; the part from Bias
// is kept. If e cannot be packed, Pack returns e. e must not change while the result
// is in use.
func (e *Expansion) Pack() algos.Model {
	if e.packed || !e.basis.Packable() {
		return e
	}
	c := *e
	c.packed, c.fast, c.coef = true, nil, make([]float64, len(e.coef))
	for i, v := range e.coef {
		r := float64(float32(v))
		if r-r != 0 || r == 0 && v != 0 {
			return e // out of range
		}
		c.coef[i] = r
	}
	c.offset += e.basis.Constant(e.coef) - e.basis.Constant(c.coef)
	if c.offset-c.offset != 0 {
		return e
	}
	return &c
}

// Round returns a packed expansion whose points take fewer bits (kernel.Round). If no
// rounding is found, an unpacked RBF or Laplacian expansion is only packed. For every x
// the decision differs from e's by at most bound ≤ most, in exact arithmetic.
func (e *Expansion) Round(most float64) (rounded algos.Model, bound float64, ok bool) {
	size := math.Abs(e.offset)
	for _, v := range e.coef {
		size += math.Abs(float64(e.basis.Func.Bias) * v)
	}
	off := float64(size * 0x1p-52 * float64(len(e.coef)+4)) // error of the constant
	points, coef, bound, ok := kernel.Round(e.basis, e.coef, most-off)
	if !ok {
		p, same := e.Pack().(*Expansion)
		if k := e.basis.Func.Kind; !same || e.packed || !p.packed || k != vec.RBF && k != vec.Laplacian {
			return nil, 0, false
		}
		for i, v := range e.coef {
			off += math.Abs(v - p.coef[i])
		}
		return p, off, off <= most
	}
	return &Expansion{basis: points, coef: coef, offset: e.offset + e.basis.Constant(e.coef), packed: true}, bound + off, true
}

// Info describes the expansion.
func (e *Expansion) Info() algos.Info {
	return algos.Info{Kind: algos.Kernel, Dim: e.basis.Dim(), Support: len(e.coef), Nonzero: len(e.coef), Text: e.basis.Func.String()}
}

func (e *Expansion) fields(f *state.Fields) {
	if e.packed = e.packed || f.Next("coef32"); e.packed {
		// Each point took at least 4 bytes, which bounds the allocation.
		var coef []float32
		for _, v := range e.coef {
			coef = append(coef, float32(v))
		}
		f.Float32s("coef32", &coef)
		if f.Decoding() {
			for _, v := range coef {
				e.coef = append(e.coef, float64(v))
			}
		}
		f.Group("points", func(f *state.Fields) { e.basis.PackedFields(f, len(coef)) })
	} else {
		f.Group("points", e.basis.Fields)
		f.Float64s("coef", &e.coef)
	}
	if f.Decoding() && f.Err() == nil && len(e.coef) != e.basis.Len() {
		f.Fail("coef", fmt.Errorf("%d coefficients for %d points", len(e.coef), e.basis.Len()))
	}
	// Models without an offset keep the encoding from before offsets existed.
	if f.Decoding() && !f.More() || !f.Decoding() && e.offset == 0 {
		return
	}
	f.Float64("offset", &e.offset)
	if f.Decoding() && (e.offset == 0 || e.offset-e.offset != 0) {
		f.Fail("offset", fmt.Errorf("%g", e.offset))
	}
}

// AppendBinary appends the encoded model.
func (e *Expansion) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, e.fields) }

// Decode decodes the output of AppendBinary.
func Decode(data []byte) (algos.Model, error) {
	e := &Expansion{basis: kernel.New(kernel.Func{})}
	if err := state.Decode(data, e.fields); err != nil {
		return nil, err
	}
	return e, nil
}
