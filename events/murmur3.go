package events

import (
	"encoding/binary"
	"math/bits"
)

// murmur3 returns MurmurHash3_x86_32 of b with seed 0, the hash of scikit-learn's
// FeatureHasher.
func murmur3(b []byte) uint32 {
	mix := func(k uint32) uint32 { return bits.RotateLeft32(k*0xcc9e2d51, 15) * 0x1b873593 }
	h, n := uint32(0), uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h^mix(binary.LittleEndian.Uint32(b)), 13)*5 + 0xe6546b64
	}
	var tail [4]byte
	copy(tail[:], b)
	h ^= mix(binary.LittleEndian.Uint32(tail[:])) ^ n
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return h ^ h>>16
}
