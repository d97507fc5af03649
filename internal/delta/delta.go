// Package delta says what has changed between two encodings of a model, and
// makes the newer one of the older one and that difference, to the bit.
//
// It knows nothing of models: a difference is a list of runs to copy from the
// base and of bytes to insert. A run may come from another offset than the one
// that it goes to, so that a number that takes a byte more, or an array that
// has grown, does not make all that lies behind it new.
//
// The bytes of a patch are described in docs/formats/delta.md. It has the
// hashes of base and result, so a patch that is applied to anything else than
// what it was made for is refused.
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
	// leastRun is the shortest run that is worth a copy where the shift stays
	// as it is, which costs about three bytes.
	leastRun = 8
	// leastMove is the shortest run for which the shift is changed.
	leastMove = 32
	// window is the number of bytes that are looked up, stride the distance of
	// the places in base that can be found: any run of window+stride-1 bytes
	// holds one of them.
	window, stride = 16, 32
)

// Diff returns a patch that makes next of base. It takes time linear in the
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

	index []uint32 // places in base by the hash of their window: 1 + place/stride, 0 none
	bits  int      // of a hash

	last int // shift of the last copy in out
}

func (d *differ) run() {
	var (
		at    int // in next: everything before is in out, or is about to be copied
		copyN int // bytes before at that are about to be copied
		shift int // from where
	)
	for at < len(d.next) {
		// Where the present run goes on, and what has to be inserted until then.
		i, s := d.find(at, shift)
		d.op(copyN, shift, d.next[at:i])
		at, shift = i, s
		copyN = d.same(at+shift, at)
		at += copyN
	}
	d.op(copyN, shift, nil)
}

// op appends one step: n bytes copied with the given shift, then those
// inserted.
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

// find returns the first place from at on where a run that is worth a copy
// begins, and its shift; without one, the end of next.
func (d *differ) find(at, shift int) (int, int) {
	look := at
	for i := at; i < len(d.next); i++ {
		if b := i + shift; b >= 0 && b+leastRun <= len(d.base) && i+leastRun <= len(d.next) && word(d.base, b) == word(d.next, i) {
			return i, shift
		}
		if i < look || i+window > len(d.next) || len(d.base) < window {
			continue
		}
		// The longer nothing is found, the less often it is looked for. The
		// steps are odd, so that stride of them meet every place modulo stride;
		// what they skip of a run is found backwards from where they meet it.
		look = i + min(1+2*((i-at)/512), 31)
		b, ok := d.lookup(i)
		if !ok {
			continue
		}
		n := d.same(b, i)
		if n < window {
			continue // another window of the same hash
		}
		// A refusal costs no more than leastMove comparisons.
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

// lookup returns a place in base whose window may equal that at i in next.
func (d *differ) lookup(i int) (int, bool) {
	if d.index == nil {
		d.build()
	}
	p := d.index[d.hash(d.next, i)]
	return int(p-1) * stride, p > 0
}

// build enters the places of base. Of those with the same hash the first one
// stays.
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

// same returns how many bytes agree from b in base and i in next on.
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

// read takes the header off a patch.
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

// Size returns the length of what the patch makes, as far as its header says
// so.
func Size(patch []byte) (int, error) {
	h, _, err := read(patch)
	return h.result, err
}

// Patch returns what patch makes of base, which it does not change. It copes
// with any patch: it is read to its end before the result is allocated, so that
// the result is as large as the patch says, which is for the caller to limit,
// see Size. Its errors are ErrBase and those that say what is wrong with the
// patch.
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
	_ = walk(ops, h, func(from, n int, insert []byte) { // it has just been checked
		out = append(append(out, base[from:from+n]...), insert...)
	})
	if sum := xxhash.Sum64(out); sum != h.resultSum {
		return nil, fmt.Errorf("delta: the result's hash is %016x, not %016x", sum, h.resultSum)
	}
	return out, nil
}

// walk calls do for every step, with the place and number of the bytes of base
// to copy and the bytes to insert.
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
