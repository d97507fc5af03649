package adaptive

import (
	"context"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/model"
	"github.com/streamsvm/streamsvm/algos/online"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
)

// gradient is learner online at a fixed rate: logistic regression by normalised adaptive
// gradient steps.
type gradient struct {
	unbatched
	inputs *inputs
	form   form
	rate   string
	l      algos.Sequential
	n      uint64 // examples learned from

	x   stream.Example // scratch
	xs  [1]*stream.Example
	dst [1]float64
}

func newGradient(env algos.Env, in *inputs, f form, rate string) *gradient {
	e := &gradient{inputs: in, form: f, rate: rate}
	l, err := online.Spec.New(algos.Env{Seed: env.Seed, Log: env.Log}, map[string]string{"rate": rate})
	if err != nil {
		panic(err) // the rate is a constant
	}
	e.l = l.(algos.Sequential)
	e.xs[0] = &e.x
	return e
}

func (e *gradient) predict(in *input) score {
	z := in.form(e.form)
	if e.n == 0 || z == nil {
		return score{}
	}
	return score{e.l.Model().Decision(*z), true}
}

func (e *gradient) learn(in *input, _ score) error {
	z := in.form(e.form)
	if z == nil {
		return nil
	}
	e.x = *in.x
	e.x.X = *z
	e.n++
	_, _, err := e.l.Follow(context.Background(), e.dst[:], e.xs[:])
	return err
}

func (e *gradient) function() function {
	if e.n == 0 {
		return nil
	}
	m := e.l.Model().(*model.Linear)
	return e.inputs.ofZ(&linearFunction{e.form, m.Weights(), m.Bias()})
}

func (e *gradient) fields(f *state.Fields) {
	f.Uint64("learned", &e.n)
	f.Nested("learner", e.l.AppendBinary, e.l.UnmarshalBinary)
}
