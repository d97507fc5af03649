// Package delta computes binary patches between two encodings of a model, and
// applies them.
//
// It does not depend on the form of models: a patch is a list of runs to copy from
// the base and of bytes to insert. A run may move to another offset. So if a number
// takes one byte more, or an array grows, the bytes after it can still be copied.
//
// docs/formats/delta.md describes the bytes of a patch. A patch has the hashes of
// base and result, so it is refused if it is applied to anything other than its
// base.
package delta

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

const magic = "ssd1"

const (
	// leastRun is the shortest run worth copying with the current shift. A copy
	// takes about three bytes.
	leastRun = 8
	// leastMove is the shortest run worth a change of the shift.
	leastMove = 32
	// window is the number of bytes looked up in an index of base. The index has every
	// stride-th position: any run of window+stride-1 bytes contains such a window.
	window, stride = 16, 32
)

// Diff returns a patch that turns base into next. It takes time linear in the
// lengths of both and, besides the patch, memory of at most a quarter of base.
func Diff(base, next []byte) []byte {
	d := differ{base: base, next: next}
	d.out = append(d.out, magic...)
	d.out = binary.AppendUvarint(d.out, uint64(len(base)))
	d.out = binary.AppendUvarint(d.out, uint64(len(next)))
	d.out = binary.LittleEndian.AppendUint64(d.out, xxhash.Sum64(base))
	d.out = binary.LittleEndian.AppendUint64(d.out, xxhash.Sum64(next))
	d.run()
	return d.out
}

type differ struct {
	base, next, out []byte

	index []uint32 // positions in base by the hash of their window: 1 + position/stride, 0 for none
	bits  int      // bits of a hash

	last int // shift of the last copy in out
}

func (d *differ) run() {
	var (
		at    int // position in next: everything before it is in out or in the pending copy
		copyN int // number of bytes of the pending copy, which ends at at
		shift int // its shift
	)
	for at < len(d.next) {
		// Find the next run; the bytes before it must be inserted.
		i, s := d.find(at, shift)
		d.op(copyN, shift, d.next[at:i])
		at, shift = i, s
		copyN = d.same(at+shift, at)
		at += copyN
	}
	d.op(copyN, shift, nil)
}

// op appends one step: a copy of n bytes with the given shift, then an insertion.
func (d *differ) op(n, shift int, insert []byte) {
	if n == 0 && len(insert) == 0 {
		return
	}
	d.out = binary.AppendUvarint(d.out, uint64(n))
	if n > 0 {
		d.out = binary.AppendVarint(d.out, int64(shift-d.last))
		d.last = shift
	}
	d.out = binary.AppendUvarint(d.out, uint64(len(insert)))
	d.out = append(d.out, insert...)
}

// find returns the first position, from at on, of a run that is worth copying, and
// its shift. If there is none, it returns the end of next.
func (d *differ) find(at, shift int) (int, int) {
	look := at
	for i := at; i < len(d.next); i++ {
		if b := i + shift; b >= 0 && b+leastRun <= len(d.base) && i+leastRun <= len(d.next) && word(d.base, b) == word(d.next, i) {
			return i, shift
		}
		if i < look || i+window > len(d.next) || len(d.base) < window {
			continue
		}
		// The longer nothing is found, the less often we look. The steps are odd,
		// so that stride of them in a row meet every position modulo stride. Bytes
		// of a run that they skip are found by extending it backwards.
		look = i + min(1+2*((i-at)/512), 31)
		b, ok := d.lookup(i)
		if !ok {
			continue
		}
		n := d.same(b, i)
		if n < window {
			continue // a different window with the same hash
		}
		// A rejected candidate costs at most leastMove comparisons.
		back := 0
		for back < i-at && back < b && d.base[b-back-1] == d.next[i-back-1] {
			back++
		}
		if n+back >= leastMove {
			return i - back, b - i
		}
	}
	return len(d.next), shift
}

// lookup returns a position in base whose window may equal the one at i in next.
func (d *differ) lookup(i int) (int, bool) {
	if d.index == nil {
		d.build()
	}
	p := d.index[d.hash(d.next, i)]
	return int(p-1) * stride, p > 0
}

// build indexes the positions of base. The first position with a given hash stays.
func (d *differ) build() {
	n := (len(d.base)-window)/stride + 1
	d.bits = max(bits.Len(uint(n)), 4)
	d.index = make([]uint32, 1<<d.bits)
	for i := range n {
		if p := &d.index[d.hash(d.base, i*stride)]; *p == 0 {
			*p = uint32(i + 1)
		}
	}
}

func (d *differ) hash(b []byte, i int) uint64 {
	h := word(b, i)*0x9e3779b97f4a7c15 ^ bits.RotateLeft64(word(b, i+8)*0xc2b2ae3d27d4eb4f, 31)
	return h * 0x9e3779b97f4a7c15 >> (64 - d.bits)
}

func word(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }

// same returns the number of equal bytes starting at b in base and i in next.
func (d *differ) same(b, i int) int {
	if b < 0 || b > len(d.base) {
		return 0
	}
	x, y := d.base[b:], d.next[i:]
	n := min(len(x), len(y))
	k := 0
	for ; k+8 <= n; k += 8 {
		if diff := word(x, k) ^ word(y, k); diff != 0 {
			return k + bits.TrailingZeros64(diff)/8
		}
	}
	for k < n && x[k] == y[k] {
		k++
	}
	return k
}

// ErrBase is returned for a patch that was made for another base.
var ErrBase = errors.New("delta: the patch was made for another base")

var errFormat = errors.New("delta: not a patch of a known version")

type header struct {
	base, result       int
	baseSum, resultSum uint64
}

// read parses the header of a patch.
func read(patch []byte) (h header, ops []byte, err error) {
	if len(patch) < len(magic) || string(patch[:len(magic)]) != magic {
		return h, nil, errFormat
	}
	b := patch[len(magic):]
	for _, v := range []*int{&h.base, &h.result} {
		n, k := binary.Uvarint(b)
		if k <= 0 || n > 1<<48 {
			return h, nil, fmt.Errorf("%w: a length cannot be read", errFormat)
		}
		*v, b = int(n), b[k:]
	}
	if len(b) < 16 {
		return h, nil, fmt.Errorf("%w: it ends in the header", errFormat)
	}
	h.baseSum, h.resultSum = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	return h, b[16:], nil
}

// Size returns the length of the result according to the patch's header.
func Size(patch []byte) (int, error) {
	h, _, err := read(patch)
	return h.result, err
}

// Patch applies patch to base, which it does not change. It is safe for untrusted
// patches: it validates the whole patch before allocating the result, whose size is
// in the header. The caller must limit the size, see Size. It returns ErrBase, or
// another error if the patch is invalid.
func Patch(base, patch []byte) ([]byte, error) {
	h, ops, err := read(patch)
	if err != nil {
		return nil, err
	}
	if len(base) != h.base || xxhash.Sum64(base) != h.baseSum {
		return nil, ErrBase
	}
	if err := walk(ops, h, func(int, int, []byte) {}); err != nil {
		return nil, err
	}
	out := make([]byte, 0, h.result)
	_ = walk(ops, h, func(from, n int, insert []byte) { // validated above
		out = append(append(out, base[from:from+n]...), insert...)
	})
	if sum := xxhash.Sum64(out); sum != h.resultSum {
		return nil, fmt.Errorf("delta: the result's hash is %016x, not %016x", sum, h.resultSum)
	}
	return out, nil
}

// walk calls do for every step, with the position and number of bytes to copy from
// base and the bytes to insert.
func walk(ops []byte, h header, do func(from, n int, insert []byte)) error {
	at, shift := 0, 0
	for len(ops) > 0 {
		n, k := binary.Uvarint(ops)
		if k <= 0 || n > uint64(h.base) || n > uint64(h.result-at) {
			return fmt.Errorf("delta: a copy at %d cannot be right", at)
		}
		ops = ops[k:]
		from := 0
		if n > 0 {
			s, k := binary.Varint(ops)
			if k <= 0 || s < -1<<48 || s > 1<<48 {
				return fmt.Errorf("delta: the shift at %d cannot be right", at)
			}
			ops = ops[k:]
			shift += int(s)
			if from = at + shift; from < 0 || from > h.base-int(n) {
				return fmt.Errorf("delta: a copy at %d lies outside the base", at)
			}
		}
		at += int(n)
		m, k := binary.Uvarint(ops)
		if k <= 0 || m > uint64(len(ops)-k) || m > uint64(h.result-at) {
			return fmt.Errorf("delta: an insertion at %d cannot be right", at)
		}
		do(from, int(n), ops[k:k+int(m)])
		ops, at = ops[k+int(m):], at+int(m)
	}
	if at != h.result {
		return fmt.Errorf("delta: the patch makes %d of %d bytes", at, h.result)
	}
	return nil
}
