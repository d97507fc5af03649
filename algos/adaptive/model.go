package adaptive

import (
	"errors"
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/stream"
)

// kernelPart is a machine's part of a model.
type kernelPart struct {
	transform *prep.Transform
	model     algos.Model // *expansion.Expansion
}

// parts are the experts of a published model, and their weights.
type parts struct {
	weights []float64
	kernels [1 + k2048]*kernelPart // nil: as the growing one
	// Of linear experts; nil where the growing machine speaks alone.
	inputs *inputs
	linear []*onePass
	seed   uint64 // of the random features
	waves  *waves // nil: none
}

// parts returns a view of the experts.
func (l *panel) parts(weights []float64) parts {
	x := parts{weights: weights, inputs: &l.inputs, seed: l.env.Seed, waves: l.waves}
	for e, m := range l.machines {
		x.kernels[e] = m.part()
	}
	for _, o := range l.linear {
		x.linear = append(x.linear, o.line())
	}
	return x
}

func (m *machine) part() *kernelPart {
	if m == nil {
		return nil
	}
	return &kernelPart{m.transform, m.model()}
}

// scoreMachines returns the machines' scores of xs, none for one that is not
// there.
func (m *parts) scoreMachines(xs []stream.Vec) (block [1 + k2048][]float64) {
	zs := make([]stream.Vec, len(xs))
	for e, k := range m.kernels {
		if k == nil {
			continue
		}
		block[e] = make([]float64, len(xs))
		for i, x := range xs {
			zs[i] = k.transform.Apply(x)
		}
		k.model.Decisions(block[e], zs)
	}
	return block
}

// say sets scores to what the experts say of each x in turn, those who know
// nothing yet unknown, and calls heard.
func (m *parts) say(scores []float64, xs []stream.Vec, unknown float64, heard func(i int)) {
	block := m.scoreMachines(xs)
	for i, x := range xs {
		z := m.inputs.apply(x)
		var phi stream.Vec
		if m.waves != nil {
			phi = m.waves.of(z)
		}
		sayMachines(scores, &block, i, unknown)
		sayLinear(scores, m.linear, z, phi, unknown)
		heard(i)
	}
}

// info describes the experts, which have such names.
func (m *parts) info(names []string) algos.Info {
	lead := 0
	for e, w := range m.weights {
		if w > m.weights[lead] {
			lead = e
		}
	}
	i := algos.Info{Kind: algos.Mixture, Text: fmt.Sprintf("%d experts, most weight on %s, %.2f", len(names), names[lead], m.weights[lead])}
	for _, k := range m.kernels {
		if k != nil {
			info := k.model.Info()
			i.Dim = max(i.Dim, info.Dim)
			i.Support += info.Support
			i.Nonzero += info.Nonzero
		}
	}
	for _, o := range m.linear {
		i.Nonzero += expansion.Nonzero(o.w)
		if i.Dim = max(i.Dim, len(m.inputs.mean)); m.inputs.wide {
			i.Dim = max(i.Dim, len(o.w))
		}
	}
	return i
}

// machinesAs replaces machines by another form of them.
func (m *parts) machinesAs(form func(*expansion.Expansion) algos.Model) {
	for e, k := range m.kernels {
		if k == nil {
			continue
		}
		if x, ok := k.model.(*expansion.Expansion); ok {
			m.kernels[e] = &kernelPart{k.transform, form(x)}
		}
	}
}

// fields describes all but the weights, which come first: the growing machine
// speaks alone where there is but one.
func (m *parts) fields(f *state.Fields) {
	if f.Decoding() && len(m.weights) > 1 {
		m.inputs = new(inputs)
		for range numExperts - l1 {
			m.linear = append(m.linear, new(onePass))
		}
	}
	for e := range m.kernels {
		if e < len(m.weights) {
			f.Group("machine", func(f *state.Fields) { kernelFields(f, &m.kernels[e]) })
		}
	}
	if m.inputs == nil {
		return
	}
	f.Group("inputs", m.inputs.fields)
	for _, o := range m.linear {
		f.Float64s("w", &o.w)
		f.Float64("b", &o.b)
	}
	dim := m.waves.features()
	f.Int("random_features", &dim)
	f.Uint64("seed", &m.seed)
	if f.Decoding() {
		m.waves = restoredWaves(f, dim, m.inputs, m.seed)
	}
}

func (m *parts) check() error {
	sum := 0.0
	for _, w := range m.weights {
		if !(w >= 0) {
			return fmt.Errorf("weight %g", w)
		}
		sum += w
	}
	if !(math.Abs(sum-1) < 1e-6) {
		return fmt.Errorf("their sum is %g", sum)
	}
	for e, k := range m.kernels {
		if k == nil && e == growing && m.inputs == nil || k != nil && m.kernels[growing] == nil {
			return errors.New("the growing machine is missing")
		}
	}
	for _, o := range m.linear {
		if err := linear.Finite(o.w, []float64{o.b}); err != nil {
			return err
		}
	}
	return nil
}

func kernelFields(f *state.Fields, k **kernelPart) {
	there := *k != nil
	f.Bool("there", &there)
	if !there {
		return
	}
	var data []byte
	if f.Decoding() {
		*k = &kernelPart{transform: new(prep.Transform)}
	} else {
		var err error
		data, err = (*k).model.AppendBinary(nil)
		f.Fail("model", err)
	}
	f.Group("transform", (*k).transform.Fields)
	f.Bytes("model", &data)
	if f.Decoding() && f.Err() == nil {
		var err error
		(*k).model, err = expansion.Decode(data)
		f.Fail("model", err)
	}
}

// decode reads what AppendBinary wrote.
func decode(data []byte) (algos.Model, error) {
	var m algos.Model
	err := state.Decode(data, func(f *state.Fields) {
		switch {
		case f.Next(ensembleMembers):
			x := new(ensemble)
			x.fields(f)
			m = x
		case f.Next(guesserWeights):
			x := new(guesser)
			x.fields(f)
			m = x
		default:
			x := new(mixture)
			x.fields(f)
			m = x
		}
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}
