package event

import (
	"encoding/binary"
	"math/bits"
)

// A murmur is MurmurHash3_x86_32, seed 0, of texts that begin alike: where it is
// behind that beginning.
type murmur struct {
	h    uint32 // of whole blocks of four bytes
	rest uint64 // the bytes behind them
	n    int    // bytes so far
}

func newMurmur(beginning string) murmur {
	m := murmur{n: len(beginning)}
	b := []byte(beginning)
	for ; len(b) >= 4; b = b[4:] {
		m.h = murmurBlock(m.h, binary.LittleEndian.Uint32(b))
	}
	m.rest = Short(b)
	return m
}

func murmurBlock(h, k uint32) uint32 {
	return bits.RotateLeft32(h^murmurWord(k), 13)*5 + 0xe6546b64
}

func murmurWord(k uint32) uint32 {
	return bits.RotateLeft32(k*0xcc9e2d51, 15) * 0x1b873593
}

// sum returns the hash of the beginning and text.
func (m murmur) sum(text []byte) uint32 {
	h, rest, shift := m.h, m.rest, 8*uint(m.n%4)
	n := uint32(m.n + len(text))
	for ; len(text) >= 4; text = text[4:] {
		rest |= uint64(binary.LittleEndian.Uint32(text)) << shift
		h = murmurBlock(h, uint32(rest))
		rest >>= 32
	}
	rest |= Short(text) << shift
	if shift+8*uint(len(text)) >= 32 {
		h = murmurBlock(h, uint32(rest))
		rest >>= 32
	}
	h ^= murmurWord(uint32(rest))
	h ^= n
	h ^= h >> 16
	h *= 0x85ebca6b
	h ^= h >> 13
	h *= 0xc2b2ae35
	return h ^ h>>16
}
