package hinge

import (
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// Func returns the kernel function that options name: kind is rbf, linear,
// poly or laplacian. A gamma that is NaN is chosen by Gamma from xs.
func Func(kind string, gamma, coef0 float64, degree int, bias float64, xs []stream.Vec) kernel.Func {
	k := vec.Kernel{Coef0: float32(coef0), Degree: degree}
	switch kind {
	case "linear":
		k.Kind = vec.Linear
	case "poly":
		k.Kind = vec.Polynomial
	case "laplacian":
		k.Kind = vec.Laplacian
	}
	if math.IsNaN(gamma) {
		gamma = Gamma(xs, k.Kind == vec.Laplacian)
	}
	k.Gamma = float32(gamma)
	return kernel.Func{Kernel: k, Bias: float32(bias)}
}

// gammaPoints bounds the work of Gamma, which is quadratic.
const gammaPoints = 512

// Gamma returns 1/median of the squared distances (of the l1 distances, if l1
// is set) between the first points of xs, or 1 where the median is 0.
func Gamma(xs []stream.Vec, l1 bool) float64 {
	xs = xs[:min(len(xs), gammaPoints)]
	var ds []float64
	for i := range xs {
		for j := range i {
			if d := distance(xs[i], xs[j], l1); d > 0 {
				ds = append(ds, d)
			}
		}
	}
	if len(ds) == 0 {
		return 1
	}
	slices.Sort(ds)
	return 1 / ds[len(ds)/2]
}

// distance returns the squared Euclidean or the l1 distance.
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
