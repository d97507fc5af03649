package adaptive

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/internal/plain"
	"github.com/streamsvm/streamsvm/internal/prep"
)

var (
	_ plain.Exporter = (*mixture)(nil)
	_ plain.Exporter = (*guesser)(nil)
)

// exported is the plain form of a mixture, as docs/formats/plain.md describes it.
type exported struct {
	Kind    string           `json:"kind"`
	Experts []exportedExpert `json:"experts"`
}

type exportedExpert struct {
	Name          string        `json:"name"`
	Weight        float64       `json:"weight"`
	Slope         float64       `json:"slope"`
	Square        float64       `json:"square"`
	Preprocessing prep.Exported `json:"preprocessing"`
	Model         any           `json:"model"`
}

type exportedLinear struct {
	Kind    string  `json:"kind"`
	Bias    float64 `json:"bias"`
	Weights any     `json:"weights"`
}

type exportedWaves struct {
	Kind        string    `json:"kind"`
	Features    int       `json:"features"`
	Offset      float64   `json:"offset"`
	Scale       float64   `json:"scale"`
	Coef        []float64 `json:"coef"`
	Frequencies []any     `json:"frequencies"`
	Phases      []float32 `json:"phases"`
	Weights     any       `json:"weights"`
}

// negligible is the factor of a feature that has not varied: as good as 0, which
// would mean something else.
const negligible = 1e-300

// Export returns the plain form of the mixture.
func (m *mixture) Export(o plain.Options) (any, error) {
	out := exported{Kind: "mixture"}
	for e, w := range m.weights {
		scale, model, err := m.export(e, o, 0)
		if err != nil {
			return nil, err
		}
		out.Experts = append(out.Experts, exportedExpert{names[e], w, m.opinions[e].slope, m.opinions[e].square, scale, model})
	}
	return out, nil
}

// export returns what an expert takes and is: a constant where it knows nothing.
func (m *parts) export(e int, o plain.Options, unknown float64) (prep.Exported, any, error) {
	switch {
	case e <= k2048:
		k := m.kernels[e]
		if k == nil {
			k = m.kernels[growing]
		}
		if k != nil {
			return k.export(o)
		}
	case e < r1:
		return m.inputs.export(), exportedLinear{"linear", m.linear[e-l1].b, plain.Vector(m.linear[e-l1].w)}, nil
	case e < numExperts && m.waves != nil:
		return m.inputs.export(), m.waves.export(m.linear[e-l1].w, m.linear[e-l1].b), nil
	}
	return new(prep.Transform).Export(), exportedLinear{"linear", unknown, []float64{}}, nil
}

func (k *kernelPart) export(o plain.Options) (prep.Exported, any, error) {
	x, ok := k.model.(*expansion.Expansion)
	if !ok {
		return prep.Exported{}, nil, fmt.Errorf("a %T has no plain form", k.model)
	}
	m, err := x.Export(o)
	return k.transform.Export(), m, err
}

// averaged is the plain form of a guesser.
type averaged struct {
	Kind    string           `json:"kind"`
	Experts []averagedExpert `json:"experts"`
}

type averagedExpert struct {
	Name          string        `json:"name"`
	Weight        float64       `json:"weight"`
	Preprocessing prep.Exported `json:"preprocessing"`
	Model         any           `json:"model"`
}

// Export returns the plain form of the average.
func (m *guesser) Export(o plain.Options) (any, error) {
	out := averaged{Kind: "average"}
	for e, w := range m.weights {
		number := m.labels.mean
		if e == last {
			number = m.labels.last
		}
		scale, model, err := m.export(e, o, number)
		if err != nil {
			return nil, err
		}
		out.Experts = append(out.Experts, averagedExpert{guesserNames[e], w, scale, model})
	}
	return out, nil
}

// export returns the scaling as a fitted one.
func (in *inputs) export() prep.Exported {
	x := new(prep.Transform).Export()
	x.Scale, x.Fill, x.Clip = prep.Standard, !in.wide, [2]float64{-clip, clip}
	for j, m := range in.mean {
		f := float64(negligible)
		if sd := math.Sqrt(in.m2[j] / max(in.n, 1)); sd > 0 {
			f = 1 / sd
		}
		x.Index, x.Shift, x.Factor = append(x.Index, int32(j)), append(x.Shift, m), append(x.Factor, f)
	}
	for j, v := range in.most {
		f := float64(negligible)
		if v > 0 {
			f = 1 / v
		}
		x.Index, x.Shift, x.Factor = append(x.Index, int32(j)), append(x.Shift, 0), append(x.Factor, f)
	}
	return x
}

// export returns an expert in random features.
func (w *waves) export(weights []float64, bias float64) exportedWaves {
	x := exportedWaves{Kind: "features", Features: math.MaxInt32, Offset: bias, Scale: math.Sqrt(2. / cosines), Coef: []float64{}, Frequencies: []any{}, Phases: []float32{}}
	row := make([]float32, w.dim)
	for i, c := range weights {
		if i == cosines {
			break
		}
		w.freq.Row(row, i)
		x.Coef, x.Phases, x.Frequencies = append(x.Coef, c), append(x.Phases, w.phase[i]), append(x.Frequencies, plain.Vector(row))
	}
	var rest []float64
	for _, c := range weights[min(cosines, len(weights)):] {
		rest = append(rest, c/math.Sqrt(float64(w.dim)))
	}
	x.Weights = plain.Vector(rest)
	return x
}
