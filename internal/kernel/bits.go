package kernel

import "encoding/binary"

// bitWriter appends numbers of any bit width to bytes, lowest bit first.
type bitWriter struct {
	out  []byte
	room uint64 // bits not yet in out
	used uint   // number of bits in room, below 32
}

func (w *bitWriter) put(v uint32, width uint) {
	w.room |= uint64(v) << w.used
	if w.used += width; w.used >= 32 {
		w.out = binary.LittleEndian.AppendUint32(w.out, uint32(w.room))
		w.room, w.used = w.room>>32, w.used-32
	}
}

// gap writes v in Rice coding: v>>low ones, a zero, and the low bits of v. Gaps
// between nonzeros are roughly geometric, and Rice codes are close to optimal for
// this distribution.
func (w *bitWriter) gap(v uint32, low uint) {
	for range v >> low {
		w.put(1, 1)
	}
	w.put(0, 1)
	w.put(v&(1<<low-1), low)
}

// align fills up the last byte.
func (w *bitWriter) align() {
	for ; w.used > 0; w.used -= min(w.used, 8) {
		w.out = append(w.out, byte(w.room))
		w.room >>= 8
	}
}

// bitReader reads what a bitWriter wrote. Past the end it reads zeros and sets short.
type bitReader struct {
	in    []byte
	at    int // position in bits
	short bool
}

func (r *bitReader) get(width uint) uint32 {
	at := r.at
	if at+int(width) > 8*len(r.in) {
		r.short = true
		return 0
	}
	r.at += int(width)
	var next [8]byte
	copy(next[:], r.in[at>>3:])
	return uint32(binary.LittleEndian.Uint64(next[:]) >> (at & 7) & (1<<width - 1))
}

func (r *bitReader) gap(low uint) uint32 {
	q := uint32(0)
	for r.get(1) == 1 {
		q++
	}
	return q<<low | r.get(low)
}

func (r *bitReader) align() { r.at = (r.at + 7) &^ 7 }
