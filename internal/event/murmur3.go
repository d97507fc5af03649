package event

import "math/bits"

// murmur3 returns MurmurHash3_x86_32, seed 0, of name=text.
func murmur3(name string, text []byte) uint32 {
	const c1, c2 = 0xcc9e2d51, 0x1b873593
	n := len(name) + 1 + len(text)
	at := func(i int) uint32 {
		switch {
		case i < len(name):
			return uint32(name[i])
		case i == len(name):
			return '='
		}
		return uint32(text[i-len(name)-1])
	}
	var h uint32
	i := 0
	for ; i+4 <= n; i += 4 {
		k := at(i) | at(i+1)<<8 | at(i+2)<<16 | at(i+3)<<24
		h ^= bits.RotateLeft32(k*c1, 15) * c2
		h = bits.RotateLeft32(h, 13)*5 + 0xe6546b64
	}
	var k uint32
	for j := n - 1; j >= i; j-- {
		k = k<<8 | at(j)
	}
	h ^= bits.RotateLeft32(k*c1, 15) * c2
	h ^= uint32(n)
	h ^= h >> 16
	h *= 0x85ebca6b
	h ^= h >> 13
	h *= 0xc2b2ae35
	return h ^ h>>16
}
