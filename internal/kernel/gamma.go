package kernel

import (
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/stream"
)

// Warmup is the number of examples from which learners choose gamma if it is auto.
// 128 examples have 8,128 distances, whose median is accurate to a few per cent.
const Warmup = 128

// gammaPoints bounds the quadratic work of AutoGamma.
const gammaPoints = 512

// AutoGamma returns 1/median of the squared distances (l1 distances if l1 is set)
// between the first points of xs. It ignores pairs of equal points, and returns 1 if
// there are no other pairs.
func AutoGamma(xs []stream.Vec, l1 bool) float64 {
	xs = xs[:min(len(xs), gammaPoints)]
	ds := make([]float64, 0, len(xs)*max(len(xs)-1, 0)/2)
	for i := range xs {
		for j := range i {
			ds = append(ds, distance(xs[i], xs[j], l1))
		}
	}
	return inverseMedian(ds)
}

// SampledGamma is AutoGamma for the distances of the given number of random pairs from
// all of xs, drawn by seed. If xs is small, it uses all pairs.
func SampledGamma(xs []stream.Vec, pairs int, seed uint64, l1 bool) float64 {
	n := len(xs)
	if n <= gammaPoints && n*(n-1)/2 <= pairs {
		return AutoGamma(xs, l1)
	}
	r := rng.New(seed, "median-gamma")
	ds := make([]float64, pairs)
	for k := range ds {
		i, j := r.IntN(n), r.IntN(n-1)
		if j >= i {
			j++
		}
		ds[k] = distance(xs[i], xs[j], l1)
	}
	return inverseMedian(ds)
}

// inverseMedian returns 1/median of the nonzero distances, or 1. For an even number
// of them it takes the upper middle one, which is an actual distance and needs no
// rounding.
func inverseMedian(ds []float64) float64 {
	ds = slices.DeleteFunc(ds, func(d float64) bool { return !(d > 0) })
	if len(ds) == 0 {
		return 1
	}
	slices.Sort(ds)
	return 1 / ds[len(ds)/2]
}

// distance returns the squared Euclidean or the l1 distance, summed in order of
// the features.
func distance(x, z stream.Vec, l1 bool) float64 {
	var sum float64
	add := func(a, b float32) {
		d := float64(a) - float64(b)
		if l1 {
			sum += math.Abs(d)
		} else {
			sum += float64(d * d)
		}
	}
	i, j := 0, 0
	for i < len(x.Val) || j < len(z.Val) {
		a, b := index(x, i), index(z, j)
		switch {
		case a == b:
			add(x.Val[i], z.Val[j])
			i++
			j++
		case a < b:
			add(x.Val[i], 0)
			i++
		default:
			add(0, z.Val[j])
			j++
		}
	}
	return sum
}

// index returns the feature at position k, or a large number past the end.
func index(x stream.Vec, k int) int {
	switch {
	case k >= len(x.Val):
		return math.MaxInt
	case x.Idx == nil:
		return k
	}
	return int(x.Idx[k])
}
