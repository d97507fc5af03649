package adaptive

import (
	"errors"
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/stream"
)

// mixture is the model that earlier versions of this program published and that subscribers
// still read: f(x) = log(p/(1−p)) with p = Σ_e w_e p_e(x). With a single weight, f is the
// first expert's log odds.
type mixture struct {
	parts
	opinions []opinion // of each expert
	experts  *ensemble // the parts, with a term for each expert
}

// opinion maps an expert's scores to probabilities: a sigmoid of the score in units of its size.
type opinion struct {
	square, slope float64
}

// odds returns the log odds of +1 for a score.
func (o *opinion) odds(s float64) float64 {
	unit := 1.0
	if o.square > 0 {
		unit = math.Sqrt(o.square)
	}
	return float64(o.slope * (s / unit))
}

// p returns the probability of +1 for a score, as it enters the mixture.
func (o *opinion) p(s float64) float64 {
	u := bounded(s/math.Sqrt(o.square), 3)
	switch {
	case s == 0:
		u = 0
	case o.square == 0:
		u = math.Copysign(1, s)
	}
	return min(max(linear.Sigmoid(float64(o.slope*u)), 0.02), 0.98)
}

// Decision returns f(x).
func (m *mixture) Decision(x stream.Vec) float64 { return decision(m, x) }

// Decisions sets dst[i] = f(xs[i]).
func (m *mixture) Decisions(dst []float64, xs []stream.Vec) {
	scores := newRows(len(m.experts.members), len(xs))
	m.experts.scores(scores, m.experts.inputsOf(xs))
	for i := range dst {
		if m.inputs == nil {
			dst[i] = m.opinions[growing].odds(scores[growing][i])
			continue
		}
		var q float64
		for e, t := range m.experts.terms {
			q += float64(t.weight * (m.opinions[e].p(scores[t.member][i]) - 0.5))
		}
		dst[i] = math.Log((1 + 2*q) / (1 - 2*q))
	}
}

// Info describes the model.
func (m *mixture) Info() algos.Info { return m.experts.Info() }

// Compile returns the same function in a form that decides faster.
func (m *mixture) Compile() algos.Model {
	c := *m
	c.experts = m.experts.as(algos.Compiled)
	return &c
}

func (m *mixture) fields(f *state.Fields) {
	f.Float64s("weights", &m.weights)
	if f.Decoding() && f.Err() == nil {
		n := len(m.weights)
		if n != 1 && n != len(legacyNames) {
			f.Fail("weights", fmt.Errorf("there are %d", n))
			return
		}
		m.opinions = make([]opinion, n)
	}
	for e := range m.opinions {
		o := &m.opinions[e]
		f.Float64("square", &o.square)
		f.Float64("slope", &o.slope)
		if f.Decoding() && f.Err() == nil && !(o.square >= 0 && o.slope >= 0.05 && o.square+o.slope < math.Inf(1)) {
			f.Fail("slope", fmt.Errorf("%g, %g", o.square, o.slope))
		}
	}
	m.parts.fields(f)
	if f.Decoding() && f.Err() == nil {
		f.Fail("weights", m.check())
		m.experts = m.ensemble(0)
	}
}

// AppendBinary appends the encoded model.
func (m *mixture) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, m.fields) }

// averageWeights is the first field of the regressions that earlier versions published.
const averageWeights = "average"

// averageFields reads such a regression: a weighted mean of the panel's experts, the last
// number and the mean.
func averageFields(f *state.Fields) *ensemble {
	var x parts
	var y labels
	f.Float64s(averageWeights, &x.weights)
	f.Group("labels", func(f *state.Fields) {
		f.Float64("count", &y.n)
		f.Float64("last", &y.last)
		f.Float64("mean", &y.mean)
		f.Float64("m2", &y.m2)
	})
	if f.Err() == nil && len(x.weights) != len(legacyNames)+2 {
		f.Fail(averageWeights, fmt.Errorf("%d weights", len(x.weights)))
	}
	if f.Err() != nil {
		return nil
	}
	x.fields(f)
	if f.Err() == nil {
		f.Fail(averageWeights, errors.Join(x.check(), linear.Finite([]float64{y.last, y.mean})))
	}
	if f.Err() != nil {
		return nil
	}
	m := x.ensemble(y.mean)
	m.limits = &limits{-math.MaxFloat32, math.MaxFloat32}
	for i, e := range [...]member{{"last", constant(y.last)}, {"mean", constant(y.mean)}} {
		m.terms = append(m.terms, term{member: len(m.members), weight: x.weights[len(legacyNames)+i]})
		m.members = append(m.members, e)
	}
	return m
}
