package adaptive

import (
	"fmt"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/internal/plain"
	"github.com/streamsvm/streamsvm/internal/prep"
)

var (
	_ plain.Exporter = (*ensemble)(nil)
	_ plain.Exporter = (*mixture)(nil)
)

// exportedEnsemble is the plain form of an ensemble, as docs/formats/plain.md describes it.
type exportedEnsemble struct {
	Kind    string           `json:"kind"`
	Bias    float64          `json:"bias"`
	Mixed   float64          `json:"mixed"`
	Caps    []exportedCap    `json:"caps"`
	Center  float64          `json:"center"`
	Experts []exportedMember `json:"experts"`
}

type exportedMember struct {
	Name          string         `json:"name"`
	Preprocessing prep.Exported  `json:"preprocessing"`
	Model         any            `json:"model"`
	Terms         []exportedTerm `json:"terms"`
}

type exportedTerm struct {
	Square float64 `json:"square"`
	Slope  float64 `json:"slope"`
	Outer  float64 `json:"outer"`
	Offset float64 `json:"offset"`
	Weight float64 `json:"weight"`
	Share  float64 `json:"share"`
}

type exportedNeighbours struct {
	Kind    string    `json:"kind"`
	Mean    bool      `json:"mean,omitempty"` // regression: the vote is the mean of the labels
	Nearest int       `json:"nearest"`
	Points  []any     `json:"points"`
	Labels  []float64 `json:"labels"`
}

// exportedCap is the weight of At·tanh(d/At), d = f − center; of d if At is 0.
type exportedCap struct {
	At     float64 `json:"at"`
	Weight float64 `json:"weight"`
}

// Export returns the plain form of the ensemble.
func (m *ensemble) Export(o plain.Options) (any, error) {
	// Experts start at different times and can have seen different numbers of features.
	o.Features = max(o.Features, m.Info().Dim)
	if m.limits != nil {
		return m.exportAverage(o)
	}
	out := exportedEnsemble{Kind: "ensemble", Bias: m.bias, Mixed: m.mixed, Caps: []exportedCap{}, Center: m.center, Experts: []exportedMember{}}
	for i, w := range m.caps {
		out.Caps = append(out.Caps, exportedCap{caps[i], w})
	}
	for _, e := range m.members {
		x := exportedMember{Name: e.name, Terms: []exportedTerm{}}
		var err error
		if x.Preprocessing, x.Model, err = m.export(e.function, o); err != nil {
			return nil, fmt.Errorf("expert %s: %w", e.name, err)
		}
		out.Experts = append(out.Experts, x)
	}
	for _, t := range m.terms {
		e := &out.Experts[t.member]
		e.Terms = append(e.Terms, exportedTerm{t.square, t.slope, t.outer, t.offset, t.weight, t.share})
	}
	return out, nil
}

// exportAverage returns the plain form of a regression.
func (m *ensemble) exportAverage(o plain.Options) (any, error) {
	out := exported{Kind: "average", Low: &m.limits.low, High: &m.limits.high, Experts: []exportedExpert{}}
	for _, t := range m.terms {
		e := m.members[t.member]
		scale, model, err := m.export(e.function, o)
		if err != nil {
			return nil, fmt.Errorf("expert %s: %w", e.name, err)
		}
		out.Experts = append(out.Experts, exportedExpert{Name: e.name, Weight: t.weight, Preprocessing: scale, Model: model})
	}
	return out, nil
}

// export returns the scaling and the plain form of a member.
func (m *ensemble) export(f function, o plain.Options) (prep.Exported, any, error) {
	switch f := f.(type) {
	case *kernelFunction:
		return exportKernel(f.transform, f.model, o)
	case *linearFunction:
		switch f.form {
		case onPhi:
			return m.inputs.export(), m.fourier.export(f.w, f.b), nil
		case onSplines:
			return m.splines.preprocessing(m.inputs), m.splines.export(f.w, f.b), nil
		}
		in := m.inputs.export()
		in.UnitLength = f.form == onRow && m.inputs.wide
		return in, exportedLinear{"linear", f.b, plain.Vector(f.w)}, nil
	case nearFunction:
		if len(f.y) >= nearLeast && (!f.second || f.long()) {
			x, err := f.export(o)
			return m.inputs.export(), x, err
		}
	case constant:
		return unscaled(), exportedLinear{"linear", float64(f), []float64{}}, nil
	}
	return unscaled(), exportedLinear{"linear", 0, []float64{}}, nil
}

func unscaled() prep.Exported { return new(prep.Transform).Export() }

// export returns the points of the window in the order in which they are compared with an
// example: of points at equal distance, the first ones vote.
func (n nearFunction) export(o plain.Options) (any, error) {
	if err := o.Check("the points of nearest neighbours", 1, n.points.Numbers()); err != nil {
		return nil, err
	}
	window := nearFew
	if n.second {
		window = nearMany
	}
	x := exportedNeighbours{Kind: "neighbours", Mean: n.number, Nearest: nearest}
	for _, p := range n.newest(window) {
		for i := p.from; i < p.to; i++ {
			x.Points, x.Labels = append(x.Points, n.point(i)), append(x.Labels, n.y[i])
		}
	}
	return x, nil
}

// point returns the plain form of point i, without its leading −|p|²/2.
func (e *neighbours) point(i int) any {
	row := e.points.Row(i)
	if row.Idx == nil {
		return plain.Vector(row.Val[min(1, len(row.Val)):])
	}
	x := plain.Sparse[float32]{Index: []int32{}, Value: []float32{}}
	for k, j := range row.Idx {
		if j > 0 {
			x.Index, x.Value = append(x.Index, j-1), append(x.Value, row.Val[k])
		}
	}
	return x
}

// exported is the plain form of an average, and of a mixture.
type exported struct {
	Kind    string           `json:"kind"`
	Low     *float64         `json:"low,omitempty"`  // average: limits of the predictions, its own and the experts'
	High    *float64         `json:"high,omitempty"` // average only
	Experts []exportedExpert `json:"experts"`
}

type exportedExpert struct {
	Name          string        `json:"name"`
	Weight        float64       `json:"weight"`
	Slope         float64       `json:"slope,omitempty"`  // of a mixture
	Square        *float64      `json:"square,omitempty"` // of a mixture
	Preprocessing prep.Exported `json:"preprocessing"`
	Model         any           `json:"model"`
}

type exportedLinear struct {
	Kind    string  `json:"kind"`
	Bias    float64 `json:"bias"`
	Weights any     `json:"weights"`
}

type exportedFourier struct {
	Kind        string    `json:"kind"`
	Features    int       `json:"features"`
	Offset      float64   `json:"offset"`
	Scale       float64   `json:"scale"`
	Coef        []float64 `json:"coef"`
	Frequencies []any     `json:"frequencies"`
	Phases      []float32 `json:"phases"`
	Weights     any       `json:"weights"`
}

type exportedSplines struct {
	Kind     string         `json:"kind"`
	Bias     float64        `json:"bias"`
	Features []int32        `json:"features"`
	Knots    [][]float64    `json:"knots"`
	Coarse   [][]float64    `json:"coarse"`
	Weights  [][]float64    `json:"weights"`
	Pairs    []exportedPair `json:"pairs"`
}

type exportedPair struct {
	Features [2]int32    `json:"features"`
	Weights  [][]float64 `json:"weights"`
}

// negligible is the factor of a feature that has not varied. 0 would have another meaning.
const negligible = 1e-300

// Export returns the plain form of the mixture.
func (m *mixture) Export(o plain.Options) (any, error) {
	out := exported{Kind: "mixture"}
	for e, t := range m.experts.terms {
		scale, model, err := m.experts.export(m.experts.members[t.member].function, o)
		if err != nil {
			return nil, err
		}
		out.Experts = append(out.Experts, exportedExpert{legacyNames[e], t.weight, m.opinions[e].slope, &m.opinions[e].square, scale, model})
	}
	return out, nil
}

func exportKernel(t *prep.Transform, m algos.Model, o plain.Options) (prep.Exported, any, error) {
	e, ok := m.(plain.Exporter)
	if !ok {
		return prep.Exported{}, nil, fmt.Errorf("a %T has no plain form", m)
	}
	x, err := e.Export(o)
	return t.Export(), x, err
}

// export returns the standardisation as a fitted scaling.
func (in *inputs) export() prep.Exported {
	x := unscaled()
	x.Scale, x.Fill, x.Clip, x.OnlyListed = prep.Standard, !in.wide, [2]float64{-clip, clip}, true
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
	x.SetAsinh(in.asinh)
	return x
}

// preprocessing returns what makes the numbers.
func (s *splines) preprocessing(in *inputs) prep.Exported {
	if !in.wide {
		return in.export()
	}
	x := unscaled()
	x.Scale, x.Clip, x.OnlyListed = prep.Standard, [2]float64{-math.MaxFloat32, math.MaxFloat32}, true
	for _, j := range s.columns {
		x.Index, x.Shift, x.Factor = append(x.Index, j), append(x.Shift, 0), append(x.Factor, 1)
		if in.asinh != nil {
			a := in.asinh[min(int(j), len(in.asinh)-1)]
			if int(j) >= len(in.asinh) {
				a = prep.Asinh{}
			}
			x.AsinhCenter, x.AsinhSize = append(x.AsinhCenter, a.Center), append(x.AsinhSize, a.Size)
		}
	}
	return x
}

// export returns an expert on splines in plain form.
func (s *splines) export(weights []float64, bias float64) exportedSplines {
	x := exportedSplines{Kind: "splines", Bias: bias, Features: slices.Clone(s.columns), Pairs: []exportedPair{}}
	w := linear.Grow(slices.Clone(weights), s.size())
	next := func(n int) (out []float64) {
		out, w = w[:n:n], w[n:]
		return out
	}
	for j := range s.count() {
		if s.columns == nil {
			x.Features = append(x.Features, int32(j))
		}
		fine, coarse := s.of(j)
		x.Knots, x.Coarse = append(x.Knots, exportKnots(fine)), append(x.Coarse, exportKnots(coarse))
		x.Weights = append(x.Weights, next(fineEach)[:len(x.Knots[j])])
	}
	for n, j := range s.paired {
		for _, k := range s.paired[:n] {
			p := exportedPair{Features: [2]int32{x.Features[j], x.Features[k]}}
			for i := range coarseEach {
				if row := next(coarseEach); i < len(x.Coarse[j]) {
					p.Weights = append(p.Weights, row[:len(x.Coarse[k])])
				}
			}
			x.Pairs = append(x.Pairs, p)
		}
	}
	return x
}

// exportKnots returns the knots, as numbers of 64 bits, so that no digits are lost.
func exportKnots(knots []float32) []float64 {
	out := []float64{}
	for _, v := range knots {
		if v < math.MaxFloat32 || len(out) == 0 {
			out = append(out, float64(v))
		}
	}
	return out
}

// export returns an expert on random features in plain form.
func (w *fourier) export(weights []float64, bias float64) exportedFourier {
	x := exportedFourier{Kind: "features", Features: math.MaxInt32, Offset: bias, Scale: math.Sqrt(2. / cosines), Coef: []float64{}, Frequencies: []any{}, Phases: []float32{}}
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
