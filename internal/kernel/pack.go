package kernel

import (
	"cmp"
	"errors"
	"math"
	"math/bits"
	"slices"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// Coded points take as few bits as the values of their features need, without loss.
// Each feature is a column. If a column has few different values, they are in a list
// and a point stores an index; if all values are multiples of a power of two, a point
// stores the multiple; otherwise it stores the float32. If most features are 0, a
// point lists its nonzero features. This suits the usual data of kernel models:
// counts, one-hot codes, pixels and rounded measurements need far fewer than 32 bits.

const (
	packFeatures = 1 << 16 // most columns; each description takes 7 bytes
	listMost     = 1 << 10 // largest list of values
	gapsMost     = 16      // largest Rice parameter
	gapsSparse   = 3       // smallest Rice parameter for sparse rows: a feature takes at least 4 bits
)

// Values of column.exp other than the exponents of a grid, which are −126−23 to 127.
const (
	asList  = int16(0x7fff)
	asFloat = int16(0x7ffe)
)

// A column says how the values of a feature are coded.
type column struct {
	width uint8 // bits of a code
	// Code c stands for (base+c)·2^exp, for entry base+c of the list of values, or
	// for the float32 whose bits are c.
	exp  int16
	base int32
	size int32 // size of the list; used only for writing
}

// coded are coded points.
type coded struct {
	columns []column
	values  []float32 // lists of all columns
	gaps    int       // −1: points have all features; otherwise the Rice parameter for gaps between nonzeros
	count   int       // if gaps ≥ 0, the width in bits of a point's number of features
	bytes   []byte    // the points, each starting at a byte boundary
}

// columnStats are statistics of the values of a column.
type columnStats struct {
	n        int
	last     uint32              // the previous value
	few      map[uint32]struct{} // the distinct values; nil if there are too many
	minus    bool                // some value is −0 or not finite, which no grid can represent
	low      int                 // exponent of the lowest bit set in any value
	min, max float64
}

func newColumnStats() *columnStats { return &columnStats{few: map[uint32]struct{}{}, low: math.MaxInt} }

func (c *columnStats) add(v float32) {
	b := math.Float32bits(v)
	// A run of equal values, as zeros often are, needs no lookup.
	if c.n++; c.n > 1 && b == c.last {
		return
	}
	c.last = b
	if c.few != nil {
		if c.few[b] = struct{}{}; len(c.few) > listMost {
			c.few = nil
		}
	}
	if v == 0 || v-v != 0 {
		c.minus = c.minus || b != 0
	} else {
		m, e := b&(1<<23-1), int(b>>23&0xff)
		if e > 0 {
			m |= 1 << 23
		} else {
			e = 1
		}
		c.low = min(c.low, e-150+bits.TrailingZeros32(m))
	}
	c.min, c.max = min(c.min, float64(v)), max(c.max, float64(v))
	if c.n == 1 {
		c.min, c.max = float64(v), float64(v)
	}
}

// grid returns the column coded as multiples of a power of two, if possible in
// fewer than 32 bits.
func (c *columnStats) grid() (column, bool) {
	if c.minus {
		return column{}, false
	}
	if c.low == math.MaxInt { // all values are 0
		return column{}, true
	}
	lo, hi := math.Ldexp(c.min, -c.low), math.Ldexp(c.max, -c.low)
	if math.Abs(lo) > 1<<30 || math.Abs(hi) > 1<<30 {
		return column{}, false
	}
	return column{width: uint8(bits.Len64(uint64(hi - lo))), exp: int16(c.low), base: int32(lo)}, true
}

// Packable reports whether PackedFields can write the points: there are some, with
// not too many features, and enough bytes: see backed.
func (b *Basis) Packable() bool {
	dim, n := b.Dim(), 0
	if b.rows == nil && dim > denseLimit {
		row := make([]float32, dim)
		for i := range b.Len() {
			b.panels.Row(row, i)
			n += nonzero(stream.Vec{Val: row})
		}
		if !backed(n/8, b.Len(), dim) { // with its gap, a feature takes at least a bit
			return false
		}
	}
	return b.Len() > 0 && dim > 0 && dim <= packFeatures
}

// backed reports whether so many bytes may stand for n dense points: the reader allocates all
// their features.
func backed(bytes, n, dim int) bool { return dim <= denseLimit || bytes/n >= dim/denseLimit }

// pack codes the points in the fewest bytes: with lists of nonzeros, or with all
// features if that is shorter.
func (b *Basis) pack() *coded {
	dim, n := b.Dim(), b.Len()
	all := ordered{end: make([]int32, 0, n)}
	if b.rows == nil {
		all.idx, all.val = make([]int32, 0, n*dim), make([]float32, 0, n*dim)
	}
	row := make([]float32, dim)
	for i := range n {
		if b.rows != nil {
			all.append(b.rows.row(i))
		} else {
			b.panels.Row(row, i)
			all.append(stream.Vec{Val: row})
		}
	}
	by := make([]*columnStats, dim)
	for k, g := range all.idx {
		if by[g] == nil {
			by[g] = newColumnStats()
		}
		by[g].add(all.val[k])
	}
	// First code lists of nonzeros: the columns then describe only nonzero values.
	best := choose(by)
	if b.rows != nil {
		best.gaps = gapsSparse
	}
	size := best.plan(&all)
	// Then, unless nearly all features are 0, code all features of each point: zeros
	// become ordinary values.
	if b.rows == nil && 2*len(all.val) > dim*n/8 {
		for g := range by {
			if by[g] == nil {
				by[g] = newColumnStats()
			}
			if by[g].n < n {
				by[g].add(0)
				by[g].n = n
			}
		}
		full := choose(by)
		full.gaps = -1
		width := 0
		for _, c := range full.columns {
			width += int(c.width)
		}
		// The reader allocates all features, so a coded byte must not stand for
		// arbitrarily many.
		if s := n*((width+7)/8) + 4*len(full.values); s <= size && width > 0 && backed(n*((width+7)/8), n, dim) {
			best = full
		}
	}
	best.write(&all, dim)
	return best
}

// choose decides how to code each column. Lists are either one per column or one for
// all columns, whichever is shorter in total.
func choose(by []*columnStats) *coded {
	union := map[uint32]struct{}{}
	for _, c := range by {
		if c == nil || union == nil {
			continue
		}
		for v := range c.few {
			union[v] = struct{}{}
		}
		if c.few == nil || len(union) > listMost {
			union = nil
		}
	}
	// Pixels or counts have few values in all features together: one common list may
	// be shorter than a list for each feature.
	own, ownBits := &coded{}, 0
	common, commonBits := &coded{}, 32*len(union)
	if union != nil {
		common.values = listed(union)
	}
	for _, c := range by {
		if c == nil {
			own.columns, common.columns = append(own.columns, column{}), append(common.columns, column{})
			continue
		}
		col, cost := column{width: 32, exp: asFloat}, 32*c.n
		if g, ok := c.grid(); ok && c.n*int(g.width) <= cost {
			col, cost = g, c.n*int(g.width)
		}
		if union != nil {
			x, y := column{width: width(len(union)), exp: asList, size: int32(len(union))}, c.n*int(width(len(union)))
			if cost <= y {
				x, y = col, cost
			}
			common.columns, commonBits = append(common.columns, x), commonBits+y
		}
		if u := len(c.few); c.few != nil && c.n*int(width(u))+32*u < cost {
			col, cost = column{width: width(u), exp: asList, base: int32(len(own.values)), size: int32(u)}, c.n*int(width(u))+32*u
			own.values = append(own.values, listed(c.few)...)
		}
		own.columns, ownBits = append(own.columns, col), ownBits+cost
	}
	if union != nil && commonBits < ownBits {
		return common
	}
	return own
}

// width returns the number of bits that distinguish n values.
func width(n int) uint8 { return uint8(bits.Len(uint(n - 1))) }

func listed(set map[uint32]struct{}) []float32 {
	list := make([]float32, 0, len(set))
	for b := range set {
		list = append(list, math.Float32frombits(b))
	}
	slices.SortFunc(list, byBits)
	return list
}

func byBits(a, b float32) int { return cmp.Compare(math.Float32bits(a), math.Float32bits(b)) }

// plan chooses the codes for gaps and for numbers of features, and returns the
// approximate size of the points in bytes.
func (p *coded) plan(all *ordered) int {
	n, most, total := len(all.end), 0, 4*len(p.values)
	var low [gapsMost + 1]int
	for i := range n {
		x := all.row(i)
		most = max(most, len(x.Idx))
		sum, last := 0, int32(-1)
		for _, g := range x.Idx {
			sum += int(p.columns[g].width)
			for k, gap := 0, int(g-last-1); gap>>k > 0 && k < len(low); k++ {
				low[k] += gap >> k
			}
			last = g
		}
		total += sum / 8
	}
	for k := range low { // the end of each gap, and its low bits
		low[k] += len(all.idx) * (1 + k)
	}
	// low has the size for each Rice parameter; take the best. Sparse points start at
	// the smallest parameter allowed, which bounds the features that a hostile byte can
	// claim.
	for k := p.gaps; k <= gapsMost; k++ {
		if low[k] < low[p.gaps] {
			p.gaps = k
		}
	}
	p.count = bits.Len(uint(max(most, 1))) // at least 1, so that every point takes a byte
	return total + low[p.gaps]/8 + n*p.count/8 + n/2
}

func (p *coded) write(all *ordered, dim int) {
	var w bitWriter
	row := make([]float32, 0, dim)
	for i := range all.end {
		x := all.row(i)
		if p.gaps < 0 {
			row = row[:dim]
			x.Dense(row)
			for g, v := range row {
				p.put(&w, p.columns[g], v)
			}
			w.align()
			continue
		}
		w.put(uint32(len(x.Idx)), uint(p.count))
		last := int32(-1)
		for k, g := range x.Idx {
			w.gap(uint32(g-last-1), uint(p.gaps))
			p.put(&w, p.columns[g], x.Val[k])
			last = g
		}
		w.align()
	}
	p.bytes = w.out
}

func (p *coded) put(w *bitWriter, c column, v float32) {
	var code uint32
	switch {
	case c.width == 0:
	case c.exp == asFloat:
		code = math.Float32bits(v)
	case c.exp == asList:
		list, b := p.values[c.base:c.base+c.size], math.Float32bits(v)
		for n := uint32(len(list)); n > 1; { // slices.BinarySearchFunc would take a quarter of the total time
			half := n / 2
			if math.Float32bits(list[code+half]) <= b {
				code += half
			}
			n -= half
		}
	default:
		code = uint32(int64(math.Ldexp(float64(v), -int(c.exp))) - int64(c.base))
	}
	w.put(code, uint(c.width))
}

var errPacked = errors.New("the points cannot be read")

// PackedFields is Fields in fewer bytes, for Packable points, without loss. n is the
// number of points.
func (b *Basis) PackedFields(f *state.Fields, n int) {
	p, dim, sparse := &coded{}, b.Dim(), b.rows != nil
	if !f.Decoding() {
		p = b.pack()
	}
	var widths, exps []byte
	var bases []int32
	for _, c := range p.columns {
		widths = append(widths, c.width)
		exps = append(exps, byte(c.exp), byte(c.exp>>8))
		bases = append(bases, c.base)
	}
	f.Group("kernel", b.Func.fields)
	f.Int("dim", &dim)
	f.Bool("sparse", &sparse)
	f.Int("gaps", &p.gaps)
	f.Int("count", &p.count)
	f.Bytes("widths", &widths)
	f.Bytes("exponents", &exps)
	f.Int32s("bases", &bases)
	f.Float32s("values", &p.values)
	f.Bytes("bits", &p.bytes)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	// The bytes are untrusted. Everything that an allocation depends on is checked
	// before the allocation.
	if dim < 1 || dim > packFeatures || len(widths) != dim || len(exps) != 2*dim || len(bases) != dim || n < 1 ||
		!sparse && (dim > mostDense || !backed(len(p.bytes), n, dim)) || p.gaps < -1 || p.gaps > gapsMost || p.count < 0 || p.count > 31 || sparse && p.gaps < gapsSparse {
		f.Fail("dim", errPacked)
		return
	}
	total := 0
	for g, w := range widths {
		c := column{width: w, exp: int16(exps[2*g]) | int16(exps[2*g+1])<<8, base: bases[g]}
		if w > 32 || c.exp == asFloat && w != 32 || c.exp == asList && (c.base < 0 || int(c.base) >= len(p.values)) ||
			c.exp < asFloat && (c.exp < -149 || c.exp > 127) {
			f.Fail("widths", errPacked)
			return
		}
		p.columns, total = append(p.columns, c), total+int(w)
	}
	// n comes from the untrusted state: each point must be backed by bytes.
	if least := (total + 7) / 8; p.gaps < 0 && (least == 0 || len(p.bytes)/least != n) || len(p.bytes) < n {
		f.Fail("bits", errPacked)
		return
	}
	f.Fail("bits", b.unpack(p, n, dim, sparse))
}

// unpack sets the points of b to the decoded points of p.
func (b *Basis) unpack(p *coded, n, dim int, sparse bool) error {
	if sparse {
		b.rows, b.panels = newCSR(b.Func, dim), nil
	} else {
		b.rows, b.panels = nil, vec.NewPanels(dim)
		b.panels.Reserve(n)
	}
	r := bitReader{in: p.bytes}
	row := make([]float32, 0, dim)
	var idx []int32
	var val []float32
	for range n {
		if p.gaps < 0 {
			row = row[:0]
			for _, c := range p.columns {
				v, ok := p.get(&r, c)
				if !ok {
					return errPacked
				}
				row = append(row, v)
			}
			r.align()
			b.panels.Append(row)
			continue
		}
		idx, val = idx[:0], val[:0]
		last := int64(-1)
		for range r.get(uint(p.count)) {
			last += int64(r.gap(uint(p.gaps))) + 1
			if last >= int64(dim) || r.short {
				return errPacked
			}
			v, ok := p.get(&r, p.columns[last])
			if !ok {
				return errPacked
			}
			idx, val = append(idx, int32(last)), append(val, v)
		}
		r.align()
		x := stream.Vec{Idx: idx, Val: val}
		if sparse {
			b.rows.append(x)
		} else {
			row = row[:dim]
			x.Dense(row)
			b.panels.Append(row)
		}
	}
	// Trailing bytes would be a second encoding of the same points.
	if r.short || r.at != 8*len(p.bytes) {
		return errPacked
	}
	return nil
}

func (p *coded) get(r *bitReader, c column) (float32, bool) {
	code := r.get(uint(c.width))
	switch c.exp {
	case asFloat:
		return math.Float32frombits(code), true
	case asList:
		at := int64(c.base) + int64(code)
		if at >= int64(len(p.values)) {
			return 0, false
		}
		return p.values[at], true
	}
	return float32(math.Ldexp(float64(int64(c.base)+int64(code)), int(c.exp))), true
}
