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
)

// legacyNames are the experts of models of earlier versions; those from legacyR1 on take random
// features.
var legacyNames = [...]string{"m", "k64", "k256", "k1024", "k2048", "l1", "l01", "a3", "a1", "r1", "r01"}

const legacyR1 = 9

// parts are the experts and weights of a model that earlier versions of this program published.
type parts struct {
	weights []float64
	kernels [1 + k2048]*kernelFunction // nil: same as the growing one
	// Of linear experts; nil if the growing SVM is the only expert.
	inputs  *inputs
	linear  []*onePass
	seed    uint64   // of the random features
	fourier *fourier // nil: none
}

// ensemble returns a view of the experts, each with one term. A missing kernel learner predicts
// as the growing one does; an expert that has learned nothing predicts a constant.
func (m *parts) ensemble(unknown float64) *ensemble {
	out := &ensemble{inputs: m.inputs, seed: m.seed, fourier: m.fourier}
	for e, w := range m.weights[:min(len(m.weights), len(legacyNames))] {
		k := len(out.members)
		f := function(constant(unknown))
		switch {
		case e < l1 && m.kernels[e] != nil:
			f = m.kernels[e]
		case e > growing && e < l1:
			f, k = nil, 0
		case e >= l1 && e < legacyR1:
			f = &linearFunction{onZ, m.linear[e-l1].w, m.linear[e-l1].b}
		case e >= legacyR1 && m.fourier != nil:
			f = &linearFunction{onPhi, m.linear[e-l1].w, m.linear[e-l1].b}
		}
		if f != nil {
			out.members = append(out.members, member{legacyNames[e], f})
		}
		out.terms = append(out.terms, term{member: k, weight: w})
	}
	return out
}

// fields describes all but the weights, which are encoded first. With a single weight, only
// the growing SVM follows.
func (m *parts) fields(f *state.Fields) {
	if f.Decoding() && len(m.weights) > 1 {
		m.inputs = new(inputs)
		for range len(legacyNames) - l1 {
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
	dim := m.fourier.features()
	f.Int("random_features", &dim)
	f.Uint64("seed", &m.seed)
	if f.Decoding() {
		m.fourier = restoredFourier(f, dim, m.inputs, m.seed)
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
func decodeAny(data []byte) (algos.Model, error) {
	m, err := ovr.DecodeModel(data, decode)
	if err != nil {
		return nil, err
	}
	m = together(m)
	if err := complete(m); err != nil {
		return nil, err
	}
	return m, nil
}

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
