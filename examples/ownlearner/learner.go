// Package ownlearner is a learner in a module of its own: the online
// passive-aggressive algorithm PA-I for linear classification (Crammer, Dekel,
// Keshet, Shalev-Shwartz, Singer: Online Passive-Aggressive Algorithms, JMLR 7,
// 2006, figure 1).
//
// What it is made of: options in a struct with tags, a [algos.Spec], the eight
// methods of [algos.Learner], and a model. Its test runs package algostest, and
// trains with it.
package ownlearner

import (
	"context"
	"fmt"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
)

// Options are the learner's options; the tags say what they mean.
type Options struct {
	C        float64 `opt:"c" default:"0.01" range:"(0,inf)" tune:"log 1e-4 1" paper:"C" doc:"the most that an example may change the weights"`
	Features int     `opt:"features" default:"1000000" range:"[1,100000000]" doc:"largest index of a feature"`
}

// Spec registers the learner.
var Spec = algos.Define(algos.SpecInfo{
	Name:    "pa",
	Summary: "online passive-aggressive algorithm, linear",
	When:    "an example of a learner of one's own",
	Paper:   "Crammer et al.: Online Passive-Aggressive Algorithms, JMLR 7 (2006), PA-I",
	Kind:    algos.Linear,
}, nil, func(_ algos.Env, o Options) (algos.Learner, error) { return &learner{opt: o}, nil }, decode)

type learner struct {
	opt     Options
	model   model
	steps   uint64
	pending []*stream.Example // at most one
}

// Limits implements algos.Limited.
func (l *learner) Limits() algos.Limits {
	return algos.Limits{Features: l.opt.Features, Option: "features"}
}

// Add keeps the example for the next step.
func (l *learner) Add(x *stream.Example) (algos.Fate, error) {
	if !x.Labelled {
		return algos.SampledOut, nil
	}
	if x.Y != 1 && x.Y != -1 {
		return 0, fmt.Errorf("label %v is neither +1 nor -1", x.Y)
	}
	if x.X.CheckFinite() >= 0 || x.X.Dim() > l.opt.Features {
		return 0, fmt.Errorf("a feature is not finite, or beyond %d", l.opt.Features)
	}
	l.pending = append(l.pending, x)
	return algos.Learned, nil
}

// Need asks for one example a step.
func (l *learner) Need() algos.Need { return algos.Need{Fresh: 1 - len(l.pending), Steps: 1} }

// Step learns the example that has come:
//
//	w ← w + τ y x,  τ = min(C, max(0, 1 − y⟨w,x⟩)/‖x‖²)
func (l *learner) Step(ctx context.Context) (algos.Report, error) {
	if err := ctx.Err(); err != nil {
		return algos.Report{}, err
	}
	for _, x := range l.pending {
		norm := 1.0 // of x and the constant feature of the offset
		for _, v := range x.X.Val {
			norm += float64(float64(v) * float64(v))
		}
		loss := max(0, 1-float64(x.Y*l.model.Decision(x.X)))
		l.model.add(float64(min(l.opt.C, loss/norm)*x.Y), x.X)
		l.steps++
	}
	l.pending = nil
	return l.Report(), nil
}

// Finish learns what is pending.
func (l *learner) Finish(ctx context.Context) (algos.Report, error) { return l.Step(ctx) }

// Report describes the present state.
func (l *learner) Report() algos.Report {
	r := algos.NewReport()
	r.Step = l.steps
	return r
}

// Model returns a view of the weights.
func (l *learner) Model() algos.Model { return &l.model }

func (l *learner) fields(f *state.Fields) {
	l.model.fields(f)
	f.Uint64("steps", &l.steps)
	f.List("pending", len(l.pending), 1, func(n int) { l.pending = make([]*stream.Example, n) }, func(f *state.Fields, i int) {
		if f.Decoding() {
			l.pending[i] = new(stream.Example)
		}
		x := l.pending[i]
		f.Float64("y", &x.Y)
		f.Int32s("index", &x.X.Idx)
		f.Float32s("value", &x.X.Val)
	})
}

// AppendBinary appends the complete state.
func (l *learner) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, l.fields) }

// UnmarshalBinary restores the state.
func (l *learner) UnmarshalBinary(data []byte) error { return state.Decode(data, l.fields) }

// model is f(x) = ⟨w,x⟩ + b.
type model struct {
	w []float64
	b float64
}

func decode(data []byte) (algos.Model, error) {
	m := new(model)
	return m, state.Decode(data, m.fields)
}

func (m *model) fields(f *state.Fields) {
	f.Float64s("weights", &m.w)
	f.Float64("offset", &m.b)
}

// add adds c·(x, 1) to the weights.
func (m *model) add(c float64, x stream.Vec) {
	if c == 0 {
		return
	}
	for len(m.w) < x.Dim() {
		m.w = append(m.w, 0)
	}
	for k, v := range x.Val {
		m.w[index(x, k)] += float64(c * float64(v))
	}
	m.b += c
}

// index is the feature of the k-th value.
func index(x stream.Vec, k int) int {
	if x.Sparse() {
		return int(x.Idx[k])
	}
	return k
}

// Decision implements algos.Model.
func (m *model) Decision(x stream.Vec) float64 {
	f := m.b
	for k, v := range x.Val {
		if j := index(x, k); j < len(m.w) {
			f += float64(m.w[j] * float64(v))
		}
	}
	return f
}

// Decisions implements algos.Model.
func (m *model) Decisions(dst []float64, xs []stream.Vec) {
	for i, x := range xs {
		dst[i] = m.Decision(x)
	}
}

// Info implements algos.Model.
func (m *model) Info() algos.Info {
	i := algos.Info{Kind: algos.Linear, Dim: len(m.w), Support: -1, Text: "linear, passive-aggressive"}
	for _, w := range m.w {
		if w != 0 {
			i.Nonzero++
		}
	}
	return i
}

// AppendBinary implements algos.Model.
func (m *model) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, m.fields) }
