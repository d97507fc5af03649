// Package kernel evaluates kernel functions fast: it keeps sets of points in packed
// or sparse layouts and computes kernel values, decisions of kernel expansions, and
// reduced sets of them.
package kernel

import (
	"fmt"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/par"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// Points of up to denseLimit features are kept in packed dense panels: streaming zeros through
// the vector units is faster than gathering the few nonzeros. So are points of up to mostDense
// features of which one in denseShare is not 0.
const (
	denseLimit = 1024
	mostDense  = 16384
	denseShare = 6
)

// Basis is a growing list of points, with kernel values between any vectors and a
// range of points. Points are kept in dense panels, or in compressed sparse rows: see
// denseLimit; the point that has the most features so far decides. A value depends on the
// two points and the layout, never on how the work is split into calls.
type Basis struct {
	Func   Func
	panels *vec.Panels // dense layout
	rows   *csr        // sparse layout; exactly one of the two is set
	planes bool        // see InPlanes

	// Scratch memory.
	x []float32 // rows of one Block call
}

// New returns an empty Basis.
func New(f Func) *Basis { return &Basis{Func: f, panels: vec.NewPanels(0)} }

// Len returns the number of points.
func (b *Basis) Len() int {
	if b.rows != nil {
		return b.rows.len()
	}
	return b.panels.Len()
}

// Dim returns the number of features seen.
func (b *Basis) Dim() int {
	if b.rows != nil {
		return b.rows.dim
	}
	return b.panels.Dim()
}

// Sparse reports whether the points are in compressed sparse rows. The last bits of
// a kernel value depend on the layout.
func (b *Basis) Sparse() bool { return b.rows != nil }

// Append adds a copy of x and returns its index.
func (b *Basis) Append(x stream.Vec) int {
	b.own()
	b.admit(x)
	if b.rows != nil {
		return b.rows.append(x)
	}
	b.x = grow(b.x, b.panels.Dim())
	x.Dense(b.x)
	return b.panels.Append(b.x)
}

// Set replaces point i with a copy of x.
func (b *Basis) Set(i int, x stream.Vec) {
	b.own()
	b.admit(x)
	if b.rows != nil {
		b.rows.set(i, x)
		return
	}
	b.x = grow(b.x, b.panels.Dim())
	x.Dense(b.x)
	b.panels.Set(i, b.x)
}

// admit makes room for a point with the features of x, changing the layout if necessary.
func (b *Basis) admit(x stream.Vec) {
	dim := x.Dim()
	switch {
	case b.rows != nil:
		b.rows.dim = max(b.rows.dim, dim)
	case dim <= b.panels.Dim():
	case dim <= denseLimit || dim <= mostDense && denseShare*nonzero(x) >= dim:
		// Widening copies all rows, so do it in growing steps.
		b.panels.Widen(max(dim, min(denseLimit, b.panels.Dim()+b.panels.Dim()/4)))
		if b.panels.Len() == 0 && b.panels.Dim() != dim {
			b.panels = vec.NewPanels(dim)
		}
	default:
		b.toSparse()
		b.rows.dim = dim
	}
}

func nonzero(x stream.Vec) (n int) {
	for _, v := range x.Val {
		if v != 0 {
			n++
		}
	}
	return n
}

func (b *Basis) toSparse() {
	rows := newCSR(b.Func, b.panels.Dim())
	for i := range b.panels.Len() {
		rows.append(b.Row(i))
	}
	b.rows, b.panels = rows, nil
}

// Row returns a copy of point i, sparse if that is the layout.
func (b *Basis) Row(i int) stream.Vec { return b.RowIn(nil, i) }

// RowIn is Row in the caller's memory v, if v is large enough and the layout is dense.
func (b *Basis) RowIn(v []float32, i int) stream.Vec {
	if b.rows != nil {
		return b.rows.row(i).Clone()
	}
	v = grow(v, b.panels.Dim())
	b.panels.Row(v, i)
	return stream.Vec{Val: v}
}

// Truncate drops the points from n on.
func (b *Basis) Truncate(n int) {
	b.own()
	if b.rows != nil {
		b.rows.truncate(n)
		return
	}
	b.panels.Truncate(n)
}

// Subset returns a new Basis with the points idx, in that order and in the same
// layout.
func (b *Basis) Subset(idx []int32) *Basis {
	s := New(b.Func)
	s.Select(b, idx)
	return s
}

// Clone returns a copy in the same layout.
func (b *Basis) Clone() *Basis {
	all := make([]int32, b.Len())
	for i := range all {
		all[i] = int32(i)
	}
	return b.Subset(all)
}

// Select sets b to from.Subset(idx), reusing b's memory.
func (b *Basis) Select(from *Basis, idx []int32) {
	b.Func = from.Func
	if from.rows != nil {
		b.panels, b.rows = nil, newCSR(b.Func, from.rows.dim)
		for _, i := range idx {
			b.rows.append(from.rows.row(int(i)))
		}
		return
	}
	d := from.panels.Dim()
	if b.rows != nil || b.panels.Dim() != d {
		b.panels, b.rows = vec.NewPanels(d), nil
	}
	b.panels.Truncate(0)
	b.panels.AppendFrom(from.panels, idx)
}

// Block sets dst[r*ld+(j-from)] = K(xs[r], point j) + Bias for all r and from ≤ j <
// to. ld ≥ to-from. It is not safe for concurrent use.
func (b *Basis) Block(dst []float32, ld int, xs []stream.Vec, from, to int) {
	b.x = b.Values(b.x, dst, ld, xs, from, to)
}

// Between is Block for points of the Basis itself: row r belongs to point idx[r].
func (b *Basis) Between(dst []float32, ld int, idx []int32, from, to int) {
	b.x = b.Among(b.x, dst, ld, idx, from, to)
}

// Among is Between with the caller's scratch memory, which makes it safe for concurrent
// use. It returns the scratch, grown if necessary.
func (b *Basis) Among(scratch, dst []float32, ld int, idx []int32, from, to int) []float32 {
	if b.rows != nil {
		b.sparse(dst, ld, len(idx), func(r int) stream.Vec { return b.rows.row(int(idx[r])) }, from, to)
		return scratch
	}
	d := b.panels.Dim()
	scratch = grow(scratch, len(idx)*d)
	for r, i := range idx {
		b.panels.Row(scratch[r*d:(r+1)*d], int(i))
	}
	b.fromPanels(dst, ld, scratch, len(idx), from, to)
	return scratch
}

// sparse sets dst to the kernel values, with Bias, of n vectors and the sparse rows.
func (b *Basis) sparse(dst []float32, ld, n int, x func(r int) stream.Vec, from, to int) {
	par.Split(n, 1, b.Work(n*(to-from)), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			b.rows.kernelRow(dst[r*ld:r*ld+to-from], b.Func, x(r), from)
		}
	})
}

// fromPanels sets dst to the kernel values, with Bias, of n dense vectors and the panels.
func (b *Basis) fromPanels(dst []float32, ld int, x []float32, n, from, to int) {
	if work := b.Work(n * (to - from)); par.Pays(work) {
		first := from / vec.Width * vec.Width // pieces are whole panels
		par.Split(to-first, vec.Width, work, func(lo, hi int) {
			lo = max(first+lo, from)
			b.packedPiece(dst[lo-from:], ld, x, n, lo, first+hi)
		})
		return
	}
	b.packedPiece(dst, ld, x, n, from, to)
}

func (b *Basis) packedPiece(dst []float32, ld int, x []float32, n, from, to int) {
	b.Func.Block(dst, ld, x, n, b.panels, from, to)
	b.addBias(dst, ld, n, to-from)
}

// Work estimates how many nanoseconds n kernel values take, for par.Split.
func (b *Basis) Work(n int) float64 {
	if b.rows != nil {
		return 2 * float64(n) // at least
	}
	return float64(n) * (0.5 + float64(b.panels.Dim())/25)
}

// Values is Block with the caller's scratch memory, which makes it safe for concurrent
// use. It returns the scratch, grown if necessary.
func (b *Basis) Values(scratch, dst []float32, ld int, xs []stream.Vec, from, to int) []float32 {
	if b.rows != nil {
		b.sparse(dst, ld, len(xs), func(r int) stream.Vec { return xs[r] }, from, to)
		return scratch
	}
	d := b.panels.Dim()
	scratch = grow(scratch, len(xs)*d)
	for r, x := range xs {
		inside(x, d).Dense(scratch[r*d : (r+1)*d])
	}
	if !slices.ContainsFunc(xs, func(x stream.Vec) bool { return x.Dim() > d }) {
		b.fromPanels(dst, ld, scratch, len(xs), from, to)
		return scratch
	}
	b.Func.Block(dst, ld, scratch, len(xs), b.panels, from, to)
	for r, x := range xs {
		if x.Dim() > d {
			b.outside(dst[r*ld:r*ld+to-from], x)
		}
	}
	b.addBias(dst, ld, len(xs), to-from)
	return scratch
}

// inside returns x without the features from d on.
func inside(x stream.Vec, d int) stream.Vec {
	if x.Idx == nil {
		return stream.Vec{Val: x.Val[:min(len(x.Val), d)]}
	}
	n, _ := slices.BinarySearch(x.Idx, int32(d))
	return stream.Vec{Idx: x.Idx[:n], Val: x.Val[:n]}
}

// outside adds the effect of the features of x that no point has to a row of kernel
// values computed without them. They add equally to the distance from every point, so
// the row is multiplied by one factor; inner products do not depend on them.
func (b *Basis) outside(row []float32, x stream.Vec) {
	out := x.Val[len(inside(x, b.panels.Dim()).Val):]
	var s float64
	switch b.Func.Kind {
	case vec.RBF:
		s = squaredNorm(stream.Vec{Val: out})
	case vec.Laplacian:
		s = l1Norm(stream.Vec{Val: out})
	default:
		return
	}
	factor := [1]float32{float32(s)}
	b.Func.Apply(factor[:])
	for j := range row {
		row[j] *= factor[0]
	}
}

func (b *Basis) addBias(dst []float32, ld, n, m int) {
	if b.Func.Bias == 0 {
		return
	}
	for r := range n {
		vec.Shift(dst[r*ld:r*ld+m], b.Func.Bias)
	}
}

// Diag returns K(p,p) + Bias for point i.
func (b *Basis) Diag(i int) float64 {
	if b.Func.Kind == vec.RBF || b.Func.Kind == vec.Laplacian {
		return 1 + float64(b.Func.Bias)
	}
	var k [1]float32
	b.Between(k[:], 1, []int32{int32(i)}, i, i+1)
	return float64(k[0])
}

func grow(s []float32, n int) []float32 {
	if cap(s) < n {
		return make([]float32, n)
	}
	return s[:n]
}

// Numbers returns how many numbers describe the points: their features or, in sparse
// rows, their indices and values.
func (b *Basis) Numbers() int {
	if b.rows != nil {
		return 2 * b.rows.nonzeros()
	}
	return b.Len() * b.Dim()
}

// Fields describes the points, for checkpoints and models. Rows are stored sparse
// if that is shorter.
func (b *Basis) Fields(f *state.Fields) {
	f.Group("kernel", b.Func.fields)
	dim, n, sparse := b.Dim(), b.Len(), b.rows != nil
	f.Int("dim", &dim)
	f.Int("points", &n)
	f.Bool("sparse", &sparse)
	var all ordered
	if !f.Decoding() {
		all.end = make([]int32, 0, n)
		var row []float32
		if !sparse {
			row = make([]float32, dim)
		}
		for i := range n {
			if sparse {
				all.append(b.rows.row(i))
				continue
			}
			b.panels.Row(row, i)
			all.append(stream.Vec{Val: row})
		}
	}
	full := !sparse && (dim > denseLimit || 2*len(all.val) > n*dim)
	f.Bool("full", &full)
	if full {
		b.fullFields(f, dim, n)
		return
	}
	f.Int32s("ends", &all.end)
	f.Int32s("idx", &all.idx)
	f.Float32s("val", &all.val)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	if err := all.check(n, dim); err != nil {
		f.Fail("idx", err)
		return
	}
	if !sparse && (dim > denseLimit || dim < 0) {
		f.Fail("dim", fmt.Errorf("%d features do not fit the dense layout", dim))
		return
	}
	if sparse {
		b.rows, b.panels = newCSR(b.Func, dim), nil
		b.rows.idx, b.rows.val = make([]int32, 0, len(all.idx)), make([]float32, 0, len(all.val))
		for i := range n {
			b.rows.append(all.row(i))
		}
		return
	}
	// Panels take n*dim floats, which is not bounded by the nonzeros on the wire: a
	// hostile message could claim a row of 1024 features with none. A point costs
	// at least four bytes on the wire, so the amplification is bounded.
	b.rows, b.panels = nil, vec.NewPanels(dim)
	b.panels.Reserve(n)
	row := make([]float32, dim)
	for i := range n {
		all.row(i).Dense(row)
		b.panels.Append(row)
	}
}

// Equal reports whether b and o have the same kernel, layout and points.
func (b *Basis) Equal(o *Basis) bool {
	if b == o {
		return true
	}
	same := b.Func == o.Func && b.Sparse() == o.Sparse() && b.Len() == o.Len() && b.Dim() == o.Dim()
	var x, y stream.Vec
	for i := 0; same && i < b.Len(); i++ {
		x, y = b.RowIn(x.Val, i), o.RowIn(y.Val, i)
		same = slices.Equal(x.Idx, y.Idx) && slices.Equal(x.Val, y.Val)
	}
	return same
}

// InPlanes returns b in the form for publishing, in which Fields writes dense points in
// byte planes: first the lowest bytes of all values, feature by feature, and so on. The
// highest bytes of a feature are much alike, which helps compression.
func (b *Basis) InPlanes() *Basis {
	c := *b
	c.planes = true
	return &c
}

func (b *Basis) fullFields(f *state.Fields, dim, n int) {
	var val []float32
	if !f.Decoding() {
		val = make([]float32, n*dim)
		for i := range n {
			b.panels.Row(val[i*dim:(i+1)*dim], i)
		}
	}
	if b.planes = b.planes || f.Next("planes"); b.planes {
		planeFields(f, &val, n)
	} else {
		f.Float32s("val", &val)
	}
	if !f.Decoding() || f.Err() != nil {
		return
	}
	// The product of two claimed numbers may overflow, so divide. Points without
	// features are never written in full.
	if n < 0 || dim < 1 || dim > mostDense || len(val)%dim != 0 || len(val)/dim != n {
		f.Fail("val", fmt.Errorf("%d numbers do not make %d points of %d features", len(val), n, dim))
		return
	}
	b.rows, b.panels = nil, vec.NewPanels(dim)
	b.panels.Reserve(n)
	for i := range n {
		b.panels.Append(val[i*dim : (i+1)*dim])
	}
}

// planeFields describes the values of n points in byte planes: byte k of value j of point
// i is at (k·dim + j)·n + i.
func planeFields(f *state.Fields, val *[]float32, n int) {
	data := make([]byte, 4*len(*val))
	n = max(n, 1) // the caller rejects any other n
	dim := len(*val) / n
	planes := func(j int) (a, b, c, d []byte) {
		plane := func(k int) []byte { return data[(k*dim+j)*n:][:n] }
		return plane(0), plane(1), plane(2), plane(3)
	}
	for j := range dim {
		a, b, c, d := planes(j)
		for i := range n {
			v := math.Float32bits((*val)[i*dim+j])
			a[i], b[i], c[i], d[i] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
		}
	}
	f.Bytes("planes", &data)
	if !f.Decoding() {
		return
	}
	if len(data)%4 != 0 {
		f.Fail("planes", fmt.Errorf("%d bytes are not 4 for each value", len(data)))
	}
	*val = make([]float32, len(data)/4)
	dim = len(*val) / n
	for j := range dim {
		a, b, c, d := planes(j)
		for i := range n {
			(*val)[i*dim+j] = math.Float32frombits(uint32(a[i]) | uint32(b[i])<<8 | uint32(c[i])<<16 | uint32(d[i])<<24)
		}
	}
}

// Finite reports whether every value of x is finite and small enough for squared
// distances in float32.
func Finite(x stream.Vec) bool {
	for _, v := range x.Val {
		if a := math.Abs(float64(v)); !(a < 1e18) {
			return false
		}
	}
	return true
}
