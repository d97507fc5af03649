package kernel

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// Func is a kernel function plus a constant: K(x,z) + Bias. A positive Bias gives
// the expansion a regularised bias term.
type Func struct {
	vec.Kernel
	Bias float32
}

func (f *Func) fields(s *state.Fields) {
	kind := uint64(f.Kind)
	s.Uint64("kind", &kind)
	s.Float32("gamma", &f.Gamma)
	s.Float32("coef0", &f.Coef0)
	s.Int("degree", &f.Degree)
	s.Float32("bias", &f.Bias)
	if !s.Decoding() {
		return
	}
	f.Kind = vec.KernelKind(kind)
	switch {
	case kind > uint64(vec.Laplacian):
		s.Fail("kind", fmt.Errorf("unknown kernel %d", kind))
	case f.Kind == vec.Polynomial && (f.Degree < 1 || f.Degree > 64):
		s.Fail("degree", fmt.Errorf("%d is outside [1,64]", f.Degree))
	case f.Degree < 0: // the other kernels ignore it, but package vec panics
		s.Fail("degree", fmt.Errorf("%d is negative", f.Degree))
	}
}

// names are the names in the plain form of models.
var names = [...]string{vec.RBF: "rbf", vec.Linear: "linear", vec.Polynomial: "polynomial", vec.Laplacian: "laplacian"}

// Name returns the name of the kernel.
func (f Func) Name() string { return names[f.Kind] }

// String names the kernel and its parameters.
func (f Func) String() string {
	name := f.Name()
	if f.Kind != vec.Linear {
		name += fmt.Sprintf(" gamma=%.4g", f.Gamma)
	}
	if f.Kind == vec.Polynomial {
		name += fmt.Sprintf(" coef0=%.4g degree=%d", f.Coef0, f.Degree)
	}
	if f.Bias != 0 {
		name += fmt.Sprintf(" bias=%.4g", f.Bias)
	}
	return name
}

// Options are the learner options that choose a kernel function. Learners embed
// them in their options.
type Options struct {
	Kernel string  `opt:"kernel" default:"rbf" enum:"rbf,linear,poly,laplacian" doc:"kernel function"`
	Gamma  float64 `opt:"gamma" default:"auto" range:"(0,inf)" auto:"1/median squared distance of the first examples" tune:"log 0.01 30" doc:"kernel width: exp(-gamma |x-z|^2), (gamma <x,z> + coef0)^degree"`

	Degree int `opt:"degree" default:"3" range:"[1,16]" doc:"degree of the polynomial kernel"`

	Coef0 float64 `opt:"coef0" fixed:"1" range:"(-inf,inf)"` // constant of the polynomial kernel
}

// Check refuses a gamma outside the range of a float32.
func (o Options) Check() error {
	if g := float32(o.Gamma); g == 0 || math.IsInf(float64(g), 0) {
		return fmt.Errorf("option gamma = %g is outside the range of a float32", o.Gamma)
	}
	return nil
}

// Known reports whether Func needs no examples.
func (o Options) Known() bool { return o.Kernel == "linear" || !math.IsNaN(o.Gamma) }

// Warmup returns the number of examples that Func needs.
func (o Options) Warmup() int {
	if o.Known() {
		return 0
	}
	return Warmup
}

// Func returns the kernel function with bias added. If gamma is auto, AutoGamma
// chooses it from xs.
func (o Options) Func(bias float64, xs []stream.Vec) Func {
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
		gamma = AutoGamma(xs, k.Kind == vec.Laplacian)
	}
	k.Gamma = float32(gamma)
	return Func{Kernel: k, Bias: float32(bias)}
}
