package linear

import "github.com/streamsvm/streamsvm/internal/plain"

var _ plain.Exporter = (*Model)(nil)

// exported is the plain form of a Model: f(x) = bias + Σ_j weights[j]·x_j.
type exported struct {
	Kind     string  `json:"kind"`
	Bias     float64 `json:"bias"`
	Features int     `json:"features"`
	Weights  any     `json:"weights"`
}

// Export returns the plain form of the model.
func (m *Model) Export(o plain.Options) (any, error) {
	set := 0
	for _, v := range m.w {
		if v != 0 {
			set++
		}
	}
	if err := o.Check("the weights", 1, min(2*set, len(m.w))); err != nil {
		return nil, err
	}
	return exported{Kind: "linear", Bias: m.bias, Features: len(m.w), Weights: plain.Vector(m.w)}, nil
}
