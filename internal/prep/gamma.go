package prep

import (
	"slices"

	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/stream"
)

// MedianGamma returns the RBF width γ = 1/median ‖x−z‖² over pairs of
// examples: all pairs if there are at most that many, else a sample that seed
// determines. Pairs of equal examples are left out if they are so many that
// the median would be 0; if all examples are equal, γ is 1.
func MedianGamma(examples []*stream.Example, pairs int, seed uint64) float64 {
	n := len(examples)
	var d []float64
	if n < 1<<20 && n*(n-1)/2 <= pairs {
		for i := range n {
			for j := range i {
				d = append(d, Distance2(examples[i].X, examples[j].X))
			}
		}
	} else {
		r := rng.New(seed, "median-gamma")
		for range pairs {
			i, j := r.IntN(n), r.IntN(n-1)
			if j >= i {
				j++
			}
			d = append(d, Distance2(examples[i].X, examples[j].X))
		}
	}
	slices.Sort(d)
	// The middle of an even number of values is the lower one: an observed
	// distance, and no rounding.
	m := 0.0
	if len(d) > 0 {
		m = d[(len(d)-1)/2]
	}
	if m == 0 {
		at, _ := slices.BinarySearchFunc(d, 0, func(v, zero float64) int {
			if v > zero {
				return 1
			}
			return -1
		})
		if d = d[at:]; len(d) == 0 {
			return 1
		}
		m = d[(len(d)-1)/2]
	}
	return 1 / m
}

// Distance2 returns ‖x−z‖² for any mixture of dense and sparse vectors, summed
// in order of the features.
func Distance2(x, z stream.Vec) float64 {
	var s float64
	add := func(d float64) { s += float64(d * d) }
	i, j := 0, 0
	for i < len(x.Val) && j < len(z.Val) {
		a, b := index(x, i), index(z, j)
		switch {
		case a < b:
			add(float64(x.Val[i]))
			i++
		case a > b:
			add(float64(z.Val[j]))
			j++
		default:
			add(float64(x.Val[i]) - float64(z.Val[j]))
			i++
			j++
		}
	}
	for ; i < len(x.Val); i++ {
		add(float64(x.Val[i]))
	}
	for ; j < len(z.Val); j++ {
		add(float64(z.Val[j]))
	}
	return s
}

func index(x stream.Vec, k int) int {
	if x.Idx == nil {
		return k
	}
	return int(x.Idx[k])
}
