package eval

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/rng"
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
	resamples   = 1000
)

func (b *blocks) add(right bool) {
	if b.length == 0 {
		return
	}
	b.n++
	if right {
		b.open++
	}
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

// interval returns the middle 95 % of the accuracies of bootstrap samples of as
// many blocks, drawn with replacement (Carlstein, "The use of subseries values for
// estimating the variance of a general statistic from a stationary sequence",
// Annals of Statistics 14, 1986; Efron, Tibshirani, "An introduction to the
// bootstrap", 1993, section 13.3), or nil. The generator is fixed: equal blocks
// give equal intervals.
func (b *blocks) interval() *[2]Number {
	if len(b.right) < leastBlocks {
		return nil
	}
	k := len(b.right)
	if b.n > 0 {
		k++
	}
	r, accuracy := rng.New(1, "interval"), make([]float64, resamples)
	for i := range accuracy {
		var n, right uint64
		for range k {
			if j := r.IntN(k); j < len(b.right) {
				n, right = n+b.length, right+b.right[j]
			} else {
				n, right = n+b.n, right+b.open
			}
		}
		accuracy[i] = float64(right) / float64(n)
	}
	slices.Sort(accuracy)
	const tail = resamples / 40
	return &[2]Number{Number(accuracy[tail-1]), Number(accuracy[resamples-tail])}
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
