package samplers_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// centroid is a learner as one outside of this module could write it: f(x) is
// the product of x with the difference of the means of the classes in a sample,
// minus its middle.
type centroid struct {
	*samplers.Buffer
	steps uint64
	model mean
}

type mean struct {
	w [2]float64
	b float64
}

type options struct {
	Keep string `opt:"keep" default:"reservoir" enum:"window,reservoir,balanced" doc:"who stays"`
}

var spec = algos.Define(algos.SpecInfo{
	Name: "centroid", Summary: "the means of the classes", When: "tests", Paper: "none", Kind: algos.Linear,
}, nil, func(env algos.Env, o options) (algos.Learner, error) {
	b, err := samplers.New(samplers.Options{
		Policy: samplers.Policy(o.Keep), Size: 200, Hold: true, Seed: env.Seed, Every: 10, Warmup: 30,
	})
	return &centroid{Buffer: b}, err
}, decode)

// Limits implements algos.Limited: means take each example for one.
func (*centroid) Limits() algos.Limits { return algos.Limits{Unweighted: true} }

func (l *centroid) Step(ctx context.Context) (algos.Report, error) {
	if err := ctx.Err(); err != nil {
		return algos.Report{}, err
	}
	l.Take()
	l.steps++
	var sum [2][2]float64
	var n [2]float64
	for _, x := range l.Sample() {
		k := int(1+x.Y) / 2
		n[k]++
		for i, v := range x.X.Val {
			j := i
			if x.X.Idx != nil {
				j = int(x.X.Idx[i])
			}
			if j < 2 {
				sum[k][j] += float64(v)
			}
		}
	}
	m := mean{}
	for j := range m.w {
		a, c := sum[0][j]/max(n[0], 1), sum[1][j]/max(n[1], 1)
		m.w[j] = c - a
		m.b -= (c - a) * (c + a) / 2
	}
	if n[0]*n[1] == 0 {
		m = mean{b: math.Copysign(1, n[1]-n[0])}
	}
	l.model = m
	return l.Report(), nil
}

func (l *centroid) Finish(ctx context.Context) (algos.Report, error) {
	if len(l.Pending()) == 0 {
		return l.Report(), nil
	}
	return l.Step(ctx)
}

func (l *centroid) Report() algos.Report {
	r := algos.NewReport()
	r.Step, r.Sample = l.steps, l.Len()
	return r
}

func (l *centroid) Model() algos.Model { m := l.model; return &m }

func (l *centroid) fields(f *state.Fields) {
	f.Group("buffer", l.Buffer.Fields)
	f.Uint64("steps", &l.steps)
	f.Float64("w0", &l.model.w[0])
	f.Float64("w1", &l.model.w[1])
	f.Float64("b", &l.model.b)
	if !(math.Abs(l.model.w[0])+math.Abs(l.model.w[1])+math.Abs(l.model.b) < 1e30) {
		f.Fail("w", errors.New("not finite"))
	}
}

func (l *centroid) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, l.fields) }
func (l *centroid) UnmarshalBinary(data []byte) error       { return state.Decode(data, l.fields) }

func (m *mean) Decision(x stream.Vec) float64 {
	f := m.b
	for i, v := range x.Val {
		j := i
		if x.Idx != nil {
			j = int(x.Idx[i])
		}
		if j < 2 {
			f += m.w[j] * float64(v)
		}
	}
	return f
}

func (m *mean) Decisions(dst []float64, xs []stream.Vec) {
	for i, x := range xs {
		dst[i] = m.Decision(x)
	}
}

func (m *mean) Info() algos.Info { return algos.Info{Kind: algos.Linear, Dim: 2, Support: -1} }

func (m *mean) AppendBinary(dst []byte) ([]byte, error) {
	for _, v := range []float64{m.w[0], m.w[1], m.b} {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
	}
	return dst, nil
}

func decode(data []byte) (algos.Model, error) {
	m := &mean{}
	if len(data) != 24 {
		return m, errors.New("want 24 bytes")
	}
	for i, v := range []*float64{&m.w[0], &m.w[1], &m.b} {
		if *v = math.Float64frombits(binary.LittleEndian.Uint64(data[8*i:])); !(math.Abs(*v) < 1e30) {
			return m, errors.New("not finite")
		}
	}
	return m, nil
}

// A learner that embeds a Buffer and has no more than a Step passes the suite.
func TestLearnerOfOnesOwn(t *testing.T) {
	for _, keep := range []string{"window", "reservoir", "balanced"} {
		t.Run(keep, func(t *testing.T) {
			algostest.Run(t, spec, algostest.With(map[string]string{"keep": keep}), algostest.Accuracy(.7))
		})
	}
}
