package adaptive

import (
	"errors"
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/internal/expansion"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/stream"
)

// logOdds returns log(p/(1−p)) for p = ½ + q.
func logOdds(q float64) float64 { return math.Log((1 + 2*q) / (1 - 2*q)) }

// mix returns the probability of +1 that the experts agree on, less ½.
func (c *vote) mix(scores []float64) float64 {
	for e := range scores {
		c.p[e] = c.experts[e].p(scores[e])
	}
	return blend(c.weights(), c.p)
}

func blend(w, p []float64) float64 {
	var sum float64
	for e, v := range w {
		sum += float64(v * (p[e] - 0.5))
	}
	return sum
}

// kernelPart is a machine's part of a model.
type kernelPart struct {
	transform *prep.Transform
	model     algos.Model // *expansion.Expansion
}

// mixture is the model of the panel: f(x) = log(p/(1−p)) with p = Σ_e w_e p_e(x).
type mixture struct {
	opinions []opinion // by expert
	weights  []float64
	kernels  [1 + k1024]*kernelPart // nil: as the growing one
	// Of one-pass experts; nil where the growing machine speaks alone.
	inputs *inputs
	linear []*onePass
	seed   uint64 // of the random features
	waves  *waves // nil: none
}

// mixture returns a view of the panel.
func (l *Learner) mixture() *mixture {
	x := &mixture{opinions: l.vote.experts, seed: l.env.Seed}
	if m := l.machines[growing]; m != nil && l.trust.given(m.rows) {
		x.kernels[growing] = &kernelPart{m.transform, m.model()}
		x.opinions, x.weights = x.opinions[:1], []float64{1}
		return x
	}
	x.weights, x.inputs, x.waves = l.vote.weights(), &l.inputs, l.waves
	for e, m := range l.machines {
		if m != nil {
			x.kernels[e] = &kernelPart{m.transform, m.model()}
		}
	}
	for e := range l.linear {
		x.linear = append(x.linear, &l.linear[e])
	}
	return x
}

// Decision returns f(x).
func (m *mixture) Decision(x stream.Vec) float64 {
	var f [1]float64
	m.Decisions(f[:], []stream.Vec{x})
	return f[0]
}

// Decisions sets dst[i] = f(xs[i]).
func (m *mixture) Decisions(dst []float64, xs []stream.Vec) {
	var block [1 + k1024][]float64
	zs := make([]stream.Vec, len(xs))
	for e, k := range m.kernels {
		if k == nil {
			block[e] = block[growing] // the first one is never nil where others are not
			continue
		}
		block[e] = make([]float64, len(xs))
		for i, x := range xs {
			zs[i] = k.transform.Apply(x)
		}
		k.model.Decisions(block[e], zs)
	}
	if m.inputs == nil {
		for i, s := range block[growing] {
			dst[i] = m.opinions[growing].odds(s)
		}
		return
	}
	var p [numExperts]float64
	for i, x := range xs {
		for e := range m.kernels {
			s := 0.0
			if block[e] != nil {
				s = block[e][i]
			}
			p[e] = m.opinions[e].p(s)
		}
		z := m.inputs.apply(x)
		var phi stream.Vec
		if m.waves != nil {
			phi = m.waves.of(z)
		}
		for e, o := range m.linear {
			s := 0.0
			switch {
			case e+l1 < r1:
				s = o.score(z)
			case m.waves != nil:
				s = o.score(phi)
			}
			p[l1+e] = m.opinions[l1+e].p(s)
		}
		dst[i] = logOdds(blend(m.weights, p[:]))
	}
}

// Info describes the model.
func (m *mixture) Info() algos.Info {
	lead := 0
	for e, w := range m.weights {
		if w > m.weights[lead] {
			lead = e
		}
	}
	i := algos.Info{Kind: algos.Mixture}
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
	if m.inputs == nil {
		i.Text = "of " + fmt.Sprint(numExperts) + " experts one is trusted: " + m.kernels[growing].model.Info().Text
	} else {
		i.Text = fmt.Sprintf("%d experts, most weight on %s, %.2f", numExperts, names[lead], m.weights[lead])
	}
	return i
}

// Compile returns the same function in a form that decides faster.
func (m *mixture) Compile() algos.Model {
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

func (m *mixture) fields(f *state.Fields) {
	f.Float64s("weights", &m.weights)
	if f.Decoding() && f.Err() == nil {
		n := len(m.weights)
		if n != 1 && n != numExperts {
			f.Fail("weights", fmt.Errorf("there are %d", n))
			return
		}
		m.opinions = make([]opinion, n)
		if n > 1 {
			m.inputs = new(inputs)
			for range numExperts - l1 {
				m.linear = append(m.linear, new(onePass))
			}
		}
	}
	for e := range m.opinions {
		f.Float64("square", &m.opinions[e].square)
		f.Float64("slope", &m.opinions[e].slope)
	}
	for e := range m.kernels {
		if e < len(m.weights) {
			f.Group("machine", func(f *state.Fields) { kernelFields(f, &m.kernels[e]) })
		}
	}
	if m.inputs != nil {
		f.Group("inputs", m.inputs.fields)
		for _, o := range m.linear {
			f.Float64s("w", &o.w)
			f.Float64("b", &o.b)
		}
		dim := 0
		if m.waves != nil {
			dim = m.waves.dim
		}
		f.Int("random_features", &dim)
		f.Uint64("seed", &m.seed)
		if f.Decoding() && f.Err() == nil {
			if dim < 0 || dim > len(m.inputs.mean) {
				f.Fail("random_features", fmt.Errorf("of %d features", dim))
			} else if dim > 0 {
				m.waves = newWaves(dim, m.seed)
			}
		}
	}
	if f.Decoding() && f.Err() == nil {
		f.Fail("weights", m.check())
	}
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

func (m *mixture) check() error {
	sum := 0.0
	for e, w := range m.weights {
		if !(w >= 0) {
			return fmt.Errorf("weight %g", w)
		}
		sum += w
		o := m.opinions[e]
		if !(o.square >= 0 && o.slope >= 0.05 && o.square+o.slope < math.Inf(1)) {
			return fmt.Errorf("%g, %g", o.square, o.slope)
		}
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

// AppendBinary appends the encoded model.
func (m *mixture) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, m.fields) }

// decode reads what AppendBinary wrote.
func decode(data []byte) (algos.Model, error) {
	var m algos.Model
	err := state.Decode(data, func(f *state.Fields) {
		if f.Next(guesserWeights) {
			x := new(guesser)
			x.fields(f)
			m = x
			return
		}
		x := new(mixture)
		x.fields(f)
		m = x
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}
