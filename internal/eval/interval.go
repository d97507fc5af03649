package eval

import (
	"fmt"
	"math/bits"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/compare"
)

// blocks counts correct predictions in blocks of equal length. When there are
// maxBlocks of them, they are joined in pairs, and the length doubles.
type blocks struct {
	length uint64   // 0: an older state did not count from the first example, so nothing is known
	right  []uint64 // by complete block
	n      uint64   // examples in the incomplete block
	open   uint64   // correct ones among them
}

const (
	firstBlock = 16
	maxBlocks  = 256
	// leastBlocks is the number of blocks needed for an interval: with fewer, their
	// spread is too uncertain.
	leastBlocks = 20
)

func (b *blocks) add(right bool) {
	if b.length == 0 {
		return
	}
	b.n++
	b.open += one(right)
	if b.n < b.length {
		return
	}
	b.right = append(b.right, b.open)
	b.n, b.open = 0, 0
	if len(b.right) == maxBlocks {
		for k := range maxBlocks / 2 {
			b.right[k] = b.right[2*k] + b.right[2*k+1]
		}
		b.right = b.right[:maxBlocks/2]
		b.length *= 2
	}
}

// interval returns a confidence interval of the accuracy, see compare.BlockBootstrap, or
// nil for too few blocks.
func (b *blocks) interval() *[2]Number {
	if len(b.right) < leastBlocks {
		return nil
	}
	var sums, sizes []float64
	for _, right := range b.right {
		sums, sizes = append(sums, float64(right)), append(sizes, float64(b.length))
	}
	if b.n > 0 {
		sums, sizes = append(sums, float64(b.open)), append(sizes, float64(b.n))
	}
	i := compare.BlockBootstrap("interval", sums, sizes)
	return &[2]Number{Number(i[0]), Number(i[1])}
}

// fields describes the blocks of n examples.
func (b *blocks) fields(f *state.Fields, n uint64) {
	f.Uint64("length", &b.length)
	f.Uint64s("right", &b.right)
	f.Uint64("open", &b.open)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	b.n = n - uint64(len(b.right))*b.length
	bad := b.length != 0 && (b.length < firstBlock || bits.OnesCount64(b.length) != 1 || b.n >= b.length) || b.length == 0 && len(b.right) > 0
	for _, right := range b.right {
		bad = bad || right > b.length
	}
	if bad || len(b.right) >= maxBlocks || b.open > b.n {
		f.Fail("length", fmt.Errorf("%d blocks of %d after %d examples", len(b.right), b.length, n))
	}
	if b.length == 0 {
		b.n = 0
	}
}
