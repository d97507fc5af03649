package rows

import (
	"math/bits"

	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// bitFeatures is the largest number of features up to which points are also kept as
// bits.
const bitFeatures = 1024

//go:generate go -C asm run . -out ../bits_amd64.s -stubs ../bits_stubs_amd64.go -pkg rows

// group is the number of points looked up at once.
const group = 8

// bitset holds the points as bits, one per feature, as long as every feature of
// every point is 0 or 1, as in one-hot coded nominal data. Squared distances and
// inner products are then small integers, exact however they are computed. So kernel
// values can be looked up in a table, with the same bits as in either layout of the
// points. Each value takes one exclusive or (or and) and one population count per 64
// features.
type bitset struct {
	kernel kernel.Func
	dim    int // features that fit into the words
	// words holds the points in groups of eight: for each group the first word of
	// each point, then the second word of each, and so on, so that a vector register
	// can hold one word of every point of a group.
	words []uint64
	odd   []bool // odd[i]: point i is not binary
	odds  int    // number of such points
	equal bool   // sums are over shared features, not over differences
	table [2 * bitFeatures]float32
}

func newBitset(f kernel.Func) *bitset {
	b := &bitset{kernel: f, equal: f.Kind == vec.Linear || f.Kind == vec.Polynomial}
	for d := range b.table {
		b.table[d] = float32(d)
	}
	f.Apply(b.table[:])
	if f.Bias != 0 {
		for d := range b.table {
			b.table[d] += f.Bias
		}
	}
	return b
}

// width returns the number of words per point.
func (b *bitset) width() int { return (b.dim + 63) / 64 }

// active reports whether rows can be computed from bits.
func (b *bitset) active() bool { return b.odds == 0 && b.dim <= bitFeatures }

// set replaces point i, or appends it if i is the number of points.
func (b *bitset) set(i int, x stream.Vec) {
	if i == len(b.odd) {
		b.odd = append(b.odd, true)
		b.odds++
		if i%group == 0 && b.dim <= bitFeatures {
			b.words = append(b.words, make([]uint64, group*b.width())...)
		}
	}
	if b.dim > bitFeatures {
		return
	}
	if d := x.Dim(); d > b.dim {
		b.widen(d)
		if d > bitFeatures {
			return
		}
	}
	n := b.width()
	at := i/group*group*n + i%group
	for k := range n {
		b.words[at+k*group] = 0
	}
	odd := false
	for k, v := range x.Val {
		j := k
		if x.Idx != nil {
			j = int(x.Idx[k])
		}
		if v == 1 {
			b.words[at+j/64*group] |= 1 << (j % 64)
		} else if v != 0 {
			odd = true
			break
		}
	}
	if odd != b.odd[i] {
		b.odd[i] = odd
		if odd {
			b.odds++
		} else {
			b.odds--
		}
	}
}

// widen makes room for dim features, or drops the words if there are too many.
func (b *bitset) widen(dim int) {
	old := b.width()
	b.dim = dim
	if dim > bitFeatures {
		b.words = nil
		return
	}
	b.dim = b.width() * 64
	now := b.width()
	if now == old {
		return
	}
	groups := (len(b.odd) + group - 1) / group
	words := make([]uint64, groups*group*now)
	for g := range groups {
		copy(words[g*group*now:], b.words[g*group*old:(g+1)*group*old])
	}
	b.words = words
}

// point copies the words of point i to dst.
func (b *bitset) point(dst *[bitFeatures / 64]uint64, i int) {
	n := b.width()
	w := b.words[i/group*group*n+i%group:]
	for k := range n {
		dst[k] = w[k*group]
	}
}

// row sets dst[j] to the kernel value of points i and from+j.
func (b *bitset) row(dst []float32, i, from int) {
	n := b.width()
	if n == 0 { // no point has a feature
		for j := range dst {
			dst[j] = b.table[0]
		}
		return
	}
	var a [bitFeatures / 64]uint64
	b.point(&a, i)
	// Points before the first whole group and after the last are computed one by one.
	whole := (from + group - 1) / group * group
	last := (from + len(dst)) / group * group
	if whole >= last {
		b.some(dst, &a, from)
		return
	}
	b.some(dst[:whole-from], &a, from)
	b.groups(dst[whole-from:last-from], &a, b.words[whole*n:last*n])
	b.some(dst[last-from:], &a, last)
}

// some sets dst[j] to the kernel value of a and point from+j.
func (b *bitset) some(dst []float32, a *[bitFeatures / 64]uint64, from int) {
	var v [bitFeatures / 64]uint64
	for j := range dst {
		b.point(&v, from+j)
		d := 0
		for k, w := range v[:b.width()] {
			if b.equal {
				d += bits.OnesCount64(w & a[k])
			} else {
				d += bits.OnesCount64(w ^ a[k])
			}
		}
		dst[j] = b.table[d]
	}
}

// groupsGo sets dst to the kernel values of a and the points of the groups w.
func (b *bitset) groupsGo(dst []float32, a *[bitFeatures / 64]uint64, w []uint64) {
	n := b.width()
	for ; len(dst) > 0; dst, w = dst[group:], w[group*n:] {
		var sum [group]int
		for k := range n {
			v := (*[group]uint64)(w[k*group:])
			if b.equal {
				for j := range sum {
					sum[j] += bits.OnesCount64(v[j] & a[k])
				}
			} else {
				for j := range sum {
					sum[j] += bits.OnesCount64(v[j] ^ a[k])
				}
			}
		}
		for j, d := range sum {
			dst[j] = b.table[d&(len(b.table)-1)]
		}
	}
}
