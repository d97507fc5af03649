//go:build !purego

package rows

import (
	"golang.org/x/sys/cpu"

	"github.com/streamsvm/streamsvm/internal/vec"
)

var wide = vec.Code() == "avx512" && cpu.X86.HasAVX512VPOPCNTDQ

// groups sets dst to the kernel values of a and the points of the groups w, at
// least one.
func (b *bitset) groups(dst []float32, a *[bitFeatures / 64]uint64, w []uint64) {
	switch {
	case !wide:
		b.groupsGo(dst, a, w)
	case b.equal:
		lookupAndAVX512(&dst[0], &b.table[0], &a[0], &w[0], b.width(), len(dst)/group)
	default:
		lookupXorAVX512(&dst[0], &b.table[0], &a[0], &w[0], b.width(), len(dst)/group)
	}
}
