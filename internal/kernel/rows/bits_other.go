//go:build !amd64 || purego

package rows

func (b *bitset) groups(dst []float32, a *[bitFeatures / 64]uint64, w []uint64) {
	b.groupsGo(dst, a, w)
}
