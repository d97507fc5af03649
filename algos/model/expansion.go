package model

import (
	"fmt"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/stream"
)

// Kernel is a kernel function plus a constant.
type Kernel struct {
	// Name is "rbf" for exp(−Gamma‖x−z‖²), "laplacian" for exp(−Gamma‖x−z‖₁),
	// "poly" for (Gamma⟨x,z⟩ + Coef0)^Degree or "linear" for ⟨x,z⟩.
	Name string
	// Gamma is above 0 and within the range of a float32; Degree is from 1 to 16.
	// Kernels without these parameters ignore them and Coef0.
	Gamma, Coef0 float64
	Degree       int
	// Bias is added to every kernel value, which gives an expansion a regularised
	// bias; 0 for none.
	Bias float64
}

// NewExpansion returns the model
//
//	f(x) = Σ_j coef[j]·(K(points[j], x) + Bias) + offset
//
// coef has an element for each point. Both are copied, without points whose
// coefficient is 0. Kernel values are computed in single precision, sums in double
// precision. NewExpansion returns an error for numbers that are not finite, features
// of 10¹⁸ or more, and indices that do not increase or have no value each.
func NewExpansion(k Kernel, points []stream.Vec, coef []float64, offset float64) (algos.Model, error) {
	f, err := k.function()
	if err != nil {
		return nil, err
	}
	if len(points) != len(coef) {
		return nil, fmt.Errorf("model: %d coefficients for %d points", len(coef), len(points))
	}
	if offset-offset != 0 {
		return nil, fmt.Errorf("model: offset %g", offset)
	}
	for j, x := range points {
		if !valid(x) || coef[j]-coef[j] != 0 {
			return nil, fmt.Errorf("model: point %d with coefficient %g has numbers that cannot be used", j, coef[j])
		}
	}
	basis := kernel.New(f)
	if kernel.SparsePays(points) {
		basis = kernel.NewSparse(f)
	}
	for _, x := range points {
		basis.Append(x)
	}
	return expansion.New(basis, coef, offset), nil
}

func (k Kernel) function() (kernel.Func, error) {
	o := kernel.Options{Kernel: k.Name, Gamma: 1, Coef0: k.Coef0, Degree: 1}
	switch k.Name {
	case "poly":
		o.Gamma, o.Degree = k.Gamma, k.Degree
	case "rbf", "laplacian":
		o.Gamma = k.Gamma
	case "linear":
	default:
		return kernel.Func{}, fmt.Errorf("model: kernel %q is not one of rbf, laplacian, poly and linear", k.Name)
	}
	if err := o.Check(); err != nil || !(o.Gamma > 0) {
		return kernel.Func{}, fmt.Errorf("model: gamma %g of the kernel", o.Gamma)
	}
	if o.Degree < 1 || o.Degree > 16 {
		return kernel.Func{}, fmt.Errorf("model: degree %d of the kernel is outside [1,16]", o.Degree)
	}
	f := o.Func(k.Bias, nil)
	if !kernel.Finite(stream.Vec{Val: []float32{f.Bias, f.Coef0}}) {
		return kernel.Func{}, fmt.Errorf("model: bias %g, coef0 %g of the kernel", k.Bias, k.Coef0)
	}
	return f, nil
}

func valid(x stream.Vec) bool {
	if x.Idx != nil && len(x.Idx) != len(x.Val) {
		return false
	}
	last := int32(-1)
	for _, i := range x.Idx {
		if i <= last {
			return false
		}
		last = i
	}
	return kernel.Finite(x)
}

// DecodeExpansion decodes the output of AppendBinary of a model of [NewExpansion]. It
// is the decoder for the Spec of a learner that returns such models.
func DecodeExpansion(data []byte) (algos.Model, error) { return expansion.Decode(data) }
