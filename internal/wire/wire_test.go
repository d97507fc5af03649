package wire

import (
	"math/rand/v2"
	"testing"
)

// TestASCII: what looks at eight bytes at a time finds what a loop does.
func TestASCII(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 0))
	for range 100_000 {
		b := make([]byte, r.IntN(20))
		plain := true
		for i := range b {
			b[i] = byte(32 + r.IntN(95))
			if r.IntN(12) == 0 {
				b[i] = byte(r.Uint32())
			}
			plain = plain && b[i] < 0x80
		}
		if ASCII(b) != plain {
			t.Fatalf("%q: ASCII is %v", b, !plain)
		}
	}
}
