package adaptive

import (
	"errors"
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/ovr"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/stream"
)

// parts are the experts of a published model, and their weights.
type parts struct {
	weights []float64
	kernels [1 + k2048]*kernelFunction // nil: as the growing one
	// Of linear experts; nil where the growing machine speaks alone.
	inputs *inputs
	linear []*onePass
	seed   uint64 // of the random features
	waves  *waves // nil: none
}

// scoreMachines returns the machines' scores of xs, none for one that is not
// there.
func (m *parts) scoreMachines(xs []stream.Vec) (block [1 + k2048][]float64) {
	for e, k := range m.kernels {
		if k != nil {
			block[e] = make([]float64, len(xs))
			k.scores(block[e], &inputBatch{xs: xs})
		}
	}
	return block
}

// predict sets scores to what the experts predict for each x in turn, unknown for those
// that know nothing yet, and calls done.
func (m *parts) predict(scores []float64, xs []stream.Vec, unknown float64, done func(i int)) {
	block := m.scoreMachines(xs)
	for i, x := range xs {
		z := m.inputs.apply(x)
		var phi stream.Vec
		if m.waves != nil {
			phi = m.waves.of(z)
		}
		machineScores(scores, &block, i, unknown)
		linearScores(scores, m.linear, z, phi, unknown)
		done(i)
	}
}

// machineScores is scoresOf for machines: one that is not there predicts what the growing
// one does.
func machineScores(dst []float64, block *[1 + k2048][]float64, i int, unknown float64) {
	dst[growing] = unknown
	for e, scores := range block {
		dst[e] = dst[growing]
		if len(scores) > 0 {
			dst[e] = scores[i]
		}
	}
}

// linearScores is scoresOf for the others.
func linearScores[E interface{ score(stream.Vec) float64 }](dst []float64, linear []E, z, phi stream.Vec, unknown float64) {
	for e, x := range linear {
		if z := inputOf(l1+e, z, phi); z != nil {
			dst[l1+e] = x.score(*z)
		} else {
			dst[l1+e] = unknown
		}
	}
}

// inputOf returns what a linear expert takes, nil for nothing yet.
func inputOf(e int, z, phi stream.Vec) *stream.Vec {
	switch {
	case e < r1:
		return &z
	case phi.Val != nil:
		return &phi
	}
	return nil
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
			k.info(&i)
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
		if k != nil {
			m.kernels[e] = k.as(form)
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

func kernelFields(f *state.Fields, k **kernelFunction) {
	there := *k != nil
	f.Bool("there", &there)
	if !there {
		return
	}
	if f.Decoding() {
		*k = &kernelFunction{transform: new(prep.Transform)}
	}
	(*k).fields(f, expansion.Decode)
}

// decodeAny reads a model of two or more classes, or of a regression.
func decodeAny(data []byte) (algos.Model, error) { return ovr.DecodeModel(data, decode) }

// decode reads what AppendBinary wrote.
func decode(data []byte) (algos.Model, error) {
	var m algos.Model
	err := state.Decode(data, func(f *state.Fields) {
		switch {
		case f.Next(ensembleMembers) || f.Next(ensembleLimits):
			x := new(ensemble)
			x.fields(f)
			m = x
		case f.Next(averageWeights):
			m = averageFields(f)
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
