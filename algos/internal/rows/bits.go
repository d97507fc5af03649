package rows

import (
	"math/bits"

	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// bitFeatures is the number of features up to which points are kept as bits,
// too: a sixteenth of a cache line's worth of words.
const bitFeatures = 1024

// bitset holds the points as bits, one for each feature, for as long as every
// feature of every point is 0 or 1, as in one-hot coded nominal data. Squared
// distances and inner products are then small whole numbers, which are exact
// whichever way they are computed, so that a kernel value is looked up in a
// table, and is the one that the layout of the points would give, bit for bit.
// A row takes an exclusive or and a population count for 64 features.
type bitset struct {
	kernel kernel.Func
	dim    int // features that the words have room for
	words  []uint64
	odd    []bool // points that are not binary
	odds   int
	equal  bool // the sums are over features in common, not over differences
	table  [2 * bitFeatures]float32
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

// width is the number of words a point takes.
func (b *bitset) width() int { return (b.dim + 63) / 64 }

// active reports whether rows can be computed from bits.
func (b *bitset) active() bool { return b.odds == 0 && b.dim <= bitFeatures }

// set enters point i, which is at most one beyond the last.
func (b *bitset) set(i int, x stream.Vec) {
	if i == len(b.odd) {
		b.odd = append(b.odd, true)
		b.odds++
		b.words = append(b.words, make([]uint64, b.width())...)
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
	w := b.words[i*b.width() : (i+1)*b.width()]
	clear(w)
	odd := false
	for k, v := range x.Val {
		j := k
		if x.Idx != nil {
			j = int(x.Idx[k])
		}
		if v == 1 {
			w[j/64] |= 1 << (j % 64)
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

// widen makes room for dim features, or gives up.
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
	words := make([]uint64, len(b.odd)*now)
	for i := range b.odd {
		copy(words[i*now:], b.words[i*old:(i+1)*old])
	}
	b.words = words
}

// row sets dst[j] to the kernel value of points i and from+j.
func (b *bitset) row(dst []float32, i, from int) {
	n := b.width()
	a := b.words[i*n : (i+1)*n]
	w := b.words[from*n : (from+len(dst))*n]
	table := &b.table
	const mask = 2*bitFeatures - 1
	switch {
	case b.equal:
		for j := range dst {
			d := 0
			for k, v := range w[j*n : (j+1)*n] {
				d += bits.OnesCount64(v & a[k])
			}
			dst[j] = table[d&mask]
		}
	case n == 2:
		a0, a1 := a[0], a[1]
		for j := range dst {
			v := w[2*j : 2*j+2 : 2*j+2]
			dst[j] = table[(bits.OnesCount64(v[0]^a0)+bits.OnesCount64(v[1]^a1))&mask]
		}
	default:
		for j := range dst {
			d := 0
			for k, v := range w[j*n : (j+1)*n] {
				d += bits.OnesCount64(v ^ a[k])
			}
			dst[j] = table[d&mask]
		}
	}
}
