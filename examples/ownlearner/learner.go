// Package ownlearner is a learner in its own module: the online
// passive-aggressive algorithm PA-I for linear classification (Crammer, Dekel,
// Keshet, Shalev-Shwartz, Singer: Online Passive-Aggressive Algorithms, JMLR 7,
// 2006, figure 1). Its test runs the suite of package algostest, and trains
// a model with the learner.
package ownlearner

import (
	"context"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/model"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// Options are the learner's options; their tags document them.
type Options struct {
	C    float64 `opt:"c" default:"0.01" range:"(0,inf)" tune:"log 1e-4 1" paper:"C" doc:"the most that an example may change the weights"`
	Dims int     `opt:"dims" default:"1000000" range:"[1,100000000]" doc:"most features of an example, counted up to its last one"`
}

// Spec registers the learner.
var Spec = algos.Define(algos.SpecInfo{
	Name:    "pa",
	Summary: "online passive-aggressive algorithm, linear",
	When:    "an example of a learner of your own",
	Paper:   "Crammer et al.: Online Passive-Aggressive Algorithms, JMLR 7 (2006), PA-I",
	Kind:    algos.Linear,
}, nil, newLearner, model.DecodeLinear)

// learner gets Add and Need from its buffer.
type learner struct {
	*samplers.Buffer
	opt   Options
	w     []float64
	b     float64
	steps uint64
}

func newLearner(_ algos.Env, o Options) (algos.Learner, error) {
	b, err := samplers.New(samplers.Options{Features: o.Dims, Every: 1})
	return &learner{Buffer: b, opt: o}, err
}

// Limits says which examples Add accepts.
func (l *learner) Limits() algos.Limits { return algos.Limits{Features: l.opt.Dims, Option: "dims"} }

// Step learns from the pending example, with a constant feature of 1:
//
//	w ← w + τ y x,  τ = min(C, max(0, 1 − y⟨w,x⟩)/‖x‖²)
func (l *learner) Step(ctx context.Context) (algos.Report, error) {
	if err := ctx.Err(); err != nil {
		return algos.Report{}, err
	}
	for _, x := range l.Take().Join {
		norm := 1.0
		for _, v := range x.X.Val {
			norm += float64(float64(v) * float64(v)) // the conversion forbids fusing: equal bits on any CPU
		}
		loss := max(0, 1-float64(x.Y*l.Model().Decision(x.X)))
		l.move(float64(min(l.opt.C*x.Importance(), loss/norm)*x.Y), x.X)
		l.steps++
	}
	return l.Report(), nil
}

// move adds c·(x, 1) to the weights.
func (l *learner) move(c float64, x stream.Vec) {
	if c == 0 {
		return
	}
	if n := x.Dim() - len(l.w); n > 0 {
		l.w = append(l.w, make([]float64, n)...)
	}
	for k, v := range x.Val {
		j := k
		if x.Sparse() {
			j = int(x.Idx[k])
		}
		l.w[j] += float64(c * float64(v))
	}
	l.b += c
}

// Finish learns from a pending example.
func (l *learner) Finish(ctx context.Context) (algos.Report, error) { return l.Step(ctx) }

// Report describes the present state.
func (l *learner) Report() algos.Report {
	r := algos.NewReport()
	r.Step = l.steps
	return r
}

// Model returns a view of the weights.
func (l *learner) Model() algos.Model { return model.NewLinear(l.w, l.b) }

func (l *learner) fields(f *state.Fields) {
	l.Buffer.Fields(f)
	f.Float64s("weights", &l.w)
	f.Float64("offset", &l.b)
	f.Uint64("steps", &l.steps)
}

// AppendBinary appends the complete state.
func (l *learner) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, l.fields) }

// UnmarshalBinary restores the state.
func (l *learner) UnmarshalBinary(data []byte) error { return state.Decode(data, l.fields) }
