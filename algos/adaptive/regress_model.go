package adaptive

import (
	"errors"
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/internal/expansion"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/stream"
)

// guesser is the model of the panel for numbers: f(x) = Σ_e w_e f_e(x).
type guesser struct {
	weights []float64 // by expert
	labels  labels
	kernels [1 + k1024]*kernelPart // nil: as the growing one
	inputs  *inputs
	linear  [numExperts - l1]*follower
	seed    uint64 // of the random features
	waves   *waves // nil: none
}

// Decision returns f(x).
func (m *guesser) Decision(x stream.Vec) float64 {
	var f [1]float64
	m.Decisions(f[:], []stream.Vec{x})
	return f[0]
}

// Decisions sets dst[i] = f(xs[i]).
func (m *guesser) Decisions(dst []float64, xs []stream.Vec) {
	var block [1 + k1024][]float64
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
	var scores [numGuessers]float64
	for i, x := range xs {
		z := m.inputs.apply(x)
		var phi stream.Vec
		if m.waves != nil {
			phi = m.waves.of(z)
		}
		guess(scores[:], &m.labels, func(e int) (float64, bool) {
			if block[e] == nil {
				return 0, false
			}
			return block[e][i], true
		}, func(e int) *follower { return m.linear[e] }, z, phi)
		dst[i] = weighted(m.weights, scores[:])
	}
}

// Info describes the model.
func (m *guesser) Info() algos.Info {
	lead := 0
	for e, w := range m.weights {
		if w > m.weights[lead] {
			lead = e
		}
	}
	i := algos.Info{Kind: algos.Mixture, Dim: len(m.inputs.mean), Text: fmt.Sprintf("%d experts, most weight on %s, %.2f", numGuessers, guesserNames[lead], m.weights[lead])}
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
		if m.inputs.wide {
			i.Dim = max(i.Dim, len(o.w))
		}
	}
	return i
}

// Compile returns the same function in a form that decides faster.
func (m *guesser) Compile() algos.Model {
	c := *m
	for e, k := range c.kernels {
		if k == nil {
			continue
		}
		if x, ok := k.model.(*expansion.Expansion); ok {
			c.kernels[e] = &kernelPart{k.transform, x.Compile()}
		}
	}
	return &c
}

// guesserWeights is the first field of an encoded guesser, by which it is known
// from a mixture.
const guesserWeights = "average"

func (m *guesser) fields(f *state.Fields) {
	f.Float64s(guesserWeights, &m.weights)
	f.Group("labels", m.labels.fields)
	for e := range m.kernels {
		f.Group("machine", func(f *state.Fields) { kernelFields(f, &m.kernels[e]) })
	}
	if f.Decoding() {
		m.inputs = new(inputs)
		for e := range m.linear {
			m.linear[e] = new(follower)
		}
	}
	f.Group("inputs", m.inputs.fields)
	for _, o := range m.linear {
		f.Float64s("w", &o.w)
		f.Float64("b", &o.b)
	}
	dim := wavesDim(m.waves)
	f.Int("random_features", &dim)
	f.Uint64("seed", &m.seed)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	var err error
	m.waves, err = wavesOf(dim, m.inputs.wide, m.seed)
	f.Fail("random_features", err)
	f.Fail(guesserWeights, m.check())
}

func (m *guesser) check() error {
	if len(m.weights) != numGuessers {
		return fmt.Errorf("%d for %d experts", len(m.weights), numGuessers)
	}
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
	for _, k := range m.kernels {
		if k != nil && m.kernels[growing] == nil {
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

// AppendBinary appends the encoded model.
func (m *guesser) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, m.fields) }
