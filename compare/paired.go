package compare

import (
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/internal/rng"
)

const (
	firstBlock  = 16
	leastBlocks = 20
	mostBlocks  = 256
	resamples   = 1000
)

// PairedInterval returns a 95 % confidence interval of the mean of a−b, losses of two
// models on the same examples in order. It resamples blocks of consecutive examples,
// because their losses may depend on each other (Carlstein, "The use of subseries values
// for estimating the variance of a general statistic from a stationary sequence", Annals
// of Statistics 14, 1986). It returns nil for fewer than 320 examples.
func PairedInterval(a, b []float32) *[2]float64 {
	n := min(len(a), len(b))
	length := firstBlock
	for n/length >= mostBlocks {
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
	return BlockBootstrap("paired", sums, sizes)
}

// BlockBootstrap returns the middle 95 % of the means of samples of blocks, drawn with
// replacement. A block has a sum and a size. Equal arguments give equal results; name
// seeds the generator. See Efron, Tibshirani, "An introduction to the bootstrap", 1993,
// section 13.3.
func BlockBootstrap(name string, sums, sizes []float64) *[2]float64 {
	r, means := rng.New(1, name), make([]float64, resamples)
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
	return &[2]float64{means[tail-1], means[resamples-tail]}
}

// McNemar returns the probability of at least this many wins among wins+losses pairs if
// both models are equally likely to win: the one-sided sign test on the examples on which
// exactly one of them is right. It is exact up to 1000 pairs, and a normal approximation
// with continuity correction above.
func McNemar(wins, losses uint64) float64 {
	n := wins + losses
	if n > 1000 {
		return math.Erfc((float64(wins)-float64(losses)-1)/math.Sqrt(2*float64(n))) / 2
	}
	term, sum := 1.0, 0.0
	for range n {
		term /= 2
	}
	for k := uint64(0); k <= n; k++ {
		if k >= wins {
			sum += term
		}
		term *= float64(n-k) / float64(k+1)
	}
	return min(sum, 1)
}
