package rff

// Phases returns the phases b of the block's features, in turns on [0,1).
func (f *Features) Phases(block uint64) []float32 { return f.phases(block) }

// Frequencies sets dst[i], for all Block features of the block, to the
// frequency of feature i at coordinate j ≥ 0, in turns. It keeps nothing.
func (f *Features) Frequencies(dst []float32, block uint64, j int) {
	f.draw(dst[:f.block], f.key(block, frequencySalt), j)
}
