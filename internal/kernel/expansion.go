package kernel

import (
	"fmt"
	"sync"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// Expansion is the model f(x) = Σ_j Coef[j]·(K(p_j, x) + Bias) + Offset over
// the points of a Basis. It implements algos.Model and is immutable.
type Expansion struct {
	basis   *Basis
	coef    []float64
	offset  float64
	scratch sync.Pool // of *work
}

var _ algos.Model = (*Expansion)(nil)

// NewExpansion returns the expansion over the points of b whose coefficient is
// not 0. It copies them. coef may be shorter than b; the rest is 0.
func NewExpansion(b *Basis, coef []float64) *Expansion { return NewOffset(b, coef, 0) }

// NewOffset is NewExpansion with an unregularised bias: a finite constant that
// is added to every decision.
func NewOffset(b *Basis, coef []float64, offset float64) *Expansion {
	var idx []int32
	var c []float64
	for i, v := range coef {
		if v != 0 {
			idx = append(idx, int32(i))
			c = append(c, v)
		}
	}
	return &Expansion{basis: b.Subset(idx), coef: c, offset: offset}
}

// View returns the expansion over all points of b. It shares b and coef, of
// equal length, and is valid until either changes.
func View(b *Basis, coef []float64) *Expansion { return &Expansion{basis: b, coef: coef} }

// Coef returns the coefficients; they must not be changed.
func (e *Expansion) Coef() []float64 { return e.coef }

// Offset returns the unregularised bias.
func (e *Expansion) Offset() float64 { return e.offset }

// Basis returns the support vectors; they must not be changed.
func (e *Expansion) Basis() *Basis { return e.basis }

// Decision returns f(x).
func (e *Expansion) Decision(x stream.Vec) float64 {
	var f [1]float64
	e.Decisions(f[:], []stream.Vec{x})
	return f[0]
}

// scoreRows and scoreCols bound the block of kernel values that is held at a
// time: 256 KiB, so that it stays in the second-level cache.
const (
	scoreRows = 64
	scoreCols = 1024
)

type work struct{ block, x []float32 }

// Decisions sets dst[i] = f(xs[i]).
func (e *Expansion) Decisions(dst []float64, xs []stream.Vec) {
	w, _ := e.scratch.Get().(*work)
	if w == nil {
		w = new(work)
	}
	defer e.scratch.Put(w)
	for len(xs) > 0 {
		// A run of vectors for which the same code computes kernel values.
		packed := e.basis.packs(xs[0])
		n := 1
		for n < min(len(xs), scoreRows) && e.basis.packs(xs[n]) == packed {
			n++
		}
		if packed {
			e.decidePacked(w, dst[:n], xs[:n])
		} else {
			e.decide(w, dst[:n], xs[:n])
		}
		if e.offset != 0 {
			for i := range dst[:n] {
				dst[i] += e.offset
			}
		}
		dst, xs = dst[n:], xs[n:]
	}
}

// decidePacked is Decisions for vectors that fit the dense layout.
func (e *Expansion) decidePacked(w *work, dst []float64, xs []stream.Vec) {
	p := e.basis.panels
	d := p.Dim()
	w.x = grow(w.x, len(xs)*d)
	for r, x := range xs {
		x.Dense(w.x[r*d : (r+1)*d])
	}
	e.basis.Func.Decide(dst, w.x, len(xs), p, e.coef, float64(e.basis.Func.Bias))
}

// decide is Decisions for the other layout and for vectors with features that
// no point has. The sum over a row is cut at the same columns whatever the
// number of rows, so a decision does not depend on its company.
func (e *Expansion) decide(w *work, dst []float64, xs []stream.Vec) {
	clear(dst)
	w.block = grow(w.block, scoreRows*scoreCols)
	n := e.basis.Len()
	for from := 0; from < n; from += scoreCols {
		to := min(n, from+scoreCols)
		w.x = e.basis.block(w.x, w.block, to-from, xs, from, to)
		for r := range xs {
			dst[r] += vec.DotMixed(w.block[r*(to-from):(r+1)*(to-from)], e.coef[from:to])
		}
	}
}

// Info describes the expansion.
func (e *Expansion) Info() algos.Info {
	return algos.Info{Kind: algos.Kernel, Dim: e.basis.Dim(), Support: len(e.coef), Nonzero: len(e.coef), Text: e.basis.Func.String()}
}

func (e *Expansion) fields(f *state.Fields) {
	f.Group("points", e.basis.Fields)
	f.Float64s("coef", &e.coef)
	if f.Decoding() && f.Err() == nil && len(e.coef) != e.basis.Len() {
		f.Fail("coef", fmt.Errorf("%d coefficients for %d points", len(e.coef), e.basis.Len()))
	}
	// Models without an offset are stored as they were before there was one.
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

// DecodeExpansion reads what AppendBinary wrote.
func DecodeExpansion(data []byte) (algos.Model, error) {
	e := &Expansion{basis: New(Func{})}
	if err := state.Decode(data, e.fields); err != nil {
		return nil, err
	}
	return e, nil
}
