package eval

import (
	"slices"

	"github.com/streamsvm/streamsvm/internal/rng"
)

// Paired returns the middle 95 % of the mean differences of a from b, losses on
// the same examples in order, in samples of blocks of consecutive examples drawn
// with replacement, as Summary.Interval does of one learner: what is hard for
// both does not blur the difference. It is nil where there are too few.
func Paired(a, b []float32) *[2]Number {
	n := min(len(a), len(b))
	length := firstBlock
	for n/length >= maxBlocks {
		length *= 2
	}
	if n/length < leastBlocks {
		return nil
	}
	var sums, sizes []float64
	for from := 0; from < n; from += length {
		sum, to := 0.0, min(from+length, n)
		for i := from; i < to; i++ {
			sum += float64(a[i]) - float64(b[i])
		}
		sums, sizes = append(sums, sum), append(sizes, float64(to-from))
	}
	r, means := rng.New(1, "paired"), make([]float64, resamples)
	for i := range means {
		sum, size := 0.0, 0.0
		for range sums {
			k := r.IntN(len(sums))
			sum, size = sum+sums[k], size+sizes[k]
		}
		means[i] = sum / size
	}
	slices.Sort(means)
	const tail = resamples / 40
	return &[2]Number{Number(means[tail-1]), Number(means[resamples-tail])}
}
