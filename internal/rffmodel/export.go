package rffmodel

import (
	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/internal/plain"
)

var _ plain.Exporter = (*Model)(nil)

// exported is the plain form of a Model, without features whose coefficient is 0:
//
//	f(x) = offset + scale·Σ_j coef[j]·cos(2π(⟨frequencies[j], x⟩ + phases[j]))
type exported struct {
	Kind        string    `json:"kind"`
	Kernel      string    `json:"kernel"`
	Gamma       float64   `json:"gamma"`
	Scale       float64   `json:"scale"`
	Offset      float64   `json:"offset"`
	Features    int       `json:"features"`
	Coef        []float64 `json:"coef"`
	Phases      []float32 `json:"phases"`
	Frequencies []any     `json:"frequencies"`
}

// Export returns the plain form of the model, with the numbers of its random
// features. Random features have a frequency for every feature of x, seen or not. The
// export has the frequencies for all features that the model has seen, and for at
// least o.Features features.
func (m *Model) Export(o plain.Options) (any, error) {
	x := exported{Kind: "features", Features: max(m.Dim, o.Features), Coef: []float64{}, Phases: []float32{}, Frequencies: []any{}}
	if m.Feats == nil {
		return x, nil
	}
	if err := o.Check("the frequencies of random features", expansion.Nonzero(m.Coef), x.Features); err != nil {
		return nil, err
	}
	x.Kernel, x.Gamma, x.Scale, x.Offset = string(m.Feats.Kind()), m.Feats.Gamma(), m.Scale, m.Offset
	b := m.Feats.Block()
	column := make([]float32, b)
	for s := 0; s*b < len(m.Coef); s++ {
		block := m.block(s)
		var at []int // the features of the block that are exported
		for i, c := range m.Coef[s*b : (s+1)*b] {
			if c != 0 {
				at = append(at, i)
			}
		}
		if len(at) == 0 {
			continue
		}
		rows := make([]float32, len(at)*x.Features)
		for j := range x.Features {
			m.Feats.Frequencies(column, block, j)
			for k, i := range at {
				rows[k*x.Features+j] = column[i]
			}
		}
		phases := m.Feats.Phases(block)
		for k, i := range at {
			x.Coef = append(x.Coef, m.Coef[s*b+i])
			x.Phases = append(x.Phases, phases[i])
			x.Frequencies = append(x.Frequencies, plain.Vector(rows[k*x.Features:(k+1)*x.Features]))
		}
	}
	return x, nil
}
