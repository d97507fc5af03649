package expansion

import "github.com/streamsvm/streamsvm/internal/plain"

var _ plain.Exporter = (*Expansion)(nil)

// exported is the plain form of an Expansion:
//
//	f(x) = offset + Σ_j coef[j]·(K(points[j], x) + bias)
type exported struct {
	Kind     string         `json:"kind"`
	Kernel   exportedKernel `json:"kernel"`
	Bias     float32        `json:"bias"`
	Offset   float64        `json:"offset"`
	Features int            `json:"features"`
	Coef     []float64      `json:"coef"`
	Points   []any          `json:"points"`
}

type exportedKernel struct {
	Name   string  `json:"name"`
	Gamma  float32 `json:"gamma"`
	Coef0  float32 `json:"coef0"`
	Degree int     `json:"degree"`
}

// Export returns the plain form of the expansion.
func (e *Expansion) Export(o plain.Options) (any, error) {
	b, f := e.basis, e.basis.Func
	n := b.Len()
	if err := o.Check("the support vectors", 1, b.Numbers()); err != nil {
		return nil, err
	}
	x := exported{
		Kind: "kernel", Kernel: exportedKernel{Name: f.Name(), Gamma: f.Gamma, Coef0: f.Coef0, Degree: f.Degree},
		Bias: f.Bias, Offset: e.offset, Features: b.Dim(),
		Coef: append([]float64{}, e.coef...), Points: make([]any, n),
	}
	for i := range n {
		if v := b.Row(i); v.Idx != nil {
			x.Points[i] = plain.Sparse[float32]{Index: v.Idx, Value: append([]float32{}, v.Val...)}
		} else {
			x.Points[i] = plain.Vector(v.Val)
		}
	}
	return x, nil
}
