package hinge

import (
	"fmt"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// KernelOptions are the options that choose a kernel function, for learners to
// embed in theirs.
type KernelOptions struct {
	Kernel string  `opt:"kernel" default:"rbf" enum:"rbf,linear,poly,laplacian" doc:"kernel function"`
	Gamma  float64 `opt:"gamma" default:"auto" range:"(0,inf)" auto:"1/median squared distance of the first examples" tune:"log 0.01 30" doc:"kernel width: exp(-gamma |x-z|^2), (gamma <x,z> + coef0)^degree"`
	Coef0  float64 `opt:"coef0" default:"1" range:"(-inf,inf)" doc:"constant of the polynomial kernel"`
	Degree int     `opt:"degree" default:"3" range:"[1,16]" doc:"degree of the polynomial kernel"`
}

// Check refuses a gamma that has no float32.
func (o KernelOptions) Check() error {
	if g := float32(o.Gamma); g == 0 || math.IsInf(float64(g), 0) {
		return fmt.Errorf("option gamma = %g is outside the range of a float32", o.Gamma)
	}
	return nil
}

// Known tells whether Func needs no examples.
func (o KernelOptions) Known() bool { return o.Kernel == "linear" || !math.IsNaN(o.Gamma) }

// Warmup returns the number of examples that Func needs. Where gamma is auto it
// is 128: they make 8,128 distances, whose median is known to a few per cent.
func (o KernelOptions) Warmup() int {
	if o.Known() {
		return 0
	}
	return 128
}

// Func returns the kernel function with bias added. A gamma of auto is chosen
// by Gamma from xs.
func (o KernelOptions) Func(bias float64, xs []stream.Vec) kernel.Func {
	k := vec.Kernel{Coef0: float32(o.Coef0), Degree: o.Degree}
	switch o.Kernel {
	case "linear":
		k.Kind = vec.Linear
	case "poly":
		k.Kind = vec.Polynomial
	case "laplacian":
		k.Kind = vec.Laplacian
	}
	gamma := o.Gamma
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
