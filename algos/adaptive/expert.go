package adaptive

import (
	"context"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
)

// score is an expert's prediction: its sign is the class, its scale is the expert's own. An
// expert that does not exist, or has learned nothing, has no score (ok is false): it gets no
// weight and is not judged.
type score struct {
	f  float64
	ok bool
}

// input is an example in the forms that the experts take.
type input struct {
	x   *stream.Example
	i   int        // its number in the batch
	z   stream.Vec // standardised
	row stream.Vec // see inputs.gradientRow
	phi stream.Vec // random features of z; empty if there are none
	hat stream.Vec // hat functions of its numbers and their products; empty if there are no splines

	votes   *[2]vote       // of the neighbours; nil: not computed yet
	learned *[2]stream.Vec // z and row for learning; nil: as they are
}

// toLearn returns the input that experts learn from.
func (in *input) toLearn() *input {
	if in.learned == nil {
		return in
	}
	out := *in
	out.z, out.row = in.learned[0], in.learned[1]
	return &out
}

// expert is a base learner. To add one, implement this interface and add a line to
// newExperts.
type expert interface {
	// begin is called with a batch, before its examples are predicted and learned from one
	// by one. fresh is false if their predictions will not be used.
	begin(batch []input, fresh bool)
	// predict returns the score of an example of the batch.
	predict(in *input) score
	// learn updates the expert with a labelled example; s is its score.
	learn(in *input, s score) error
	// step is called at every 16th example, for work done in batches. seen is the number
	// of examples so far.
	step(ctx context.Context, seen uint64) error
	// function returns the learned function, valid until the next call of learn or step;
	// nil if there is none.
	function() function
	// fields describes the state.
	fields(f *state.Fields)
}

// entry is an expert and its name, which appears in models, states and metrics.
type entry struct {
	name string
	expert
	// slow experts learn from long stretches of the stream. Their plain mean is a good
	// prediction as long as the weights are unknown.
	slow bool
}

// newExperts returns the experts; scores and weights have the same order.
func (l *Learner) newExperts() []entry {
	if l.env.Task == algos.Regress {
		return l.numberExperts()
	}
	list := make([]entry, 0, 24)
	for _, i := range [...]int{growing, k64, k256, k2048} {
		list = append(list, entry{names[i], &kernelExpert{panel: l.panel, at: i}, false})
	}
	list = append(list, entry{"uncut", &kernelExpert{panel: l.panel, at: uncut, m: list[0].expert.(*kernelExpert)}, false})
	for i := l1; i < numExperts; i++ {
		list = append(list, entry{names[i], &linearExpert{p: l.panel, at: i - l1, form: formOf(i)}, false})
	}
	for _, rate := range [...]string{"0.5", "2"} {
		list = append(list, entry{"o" + rate, newGradient(l.env, &l.inputs, onRow, rate), rate != "2"})
	}
	list = append(list, entry{"gam", newGradient(l.env, &l.inputs, onSplines, gamRate), true})
	few, many := newNearExperts(&neighbours{})
	return append(list,
		entry{"n512", few, false},
		entry{"n2048", many, false},
		entry{"last", &lastLabel{}, false},
		entry{"base", &baseRate{}, false},
		entry{"dsg", &randomFeatures{panel: l.panel}, true},
	)
}

// unbatched implements begin and step for experts that do no work in batches.
type unbatched struct{}

func (unbatched) begin([]input, bool)                {}
func (unbatched) step(context.Context, uint64) error { return nil }

// kernelExpert is kernel learner at of the panel, which trains and replaces it.
type kernelExpert struct {
	*panel
	at     int
	m      *kernelExpert // of expert uncut: expert m
	scores []float64     // by example of the batch; empty if there are none
	vecs   []stream.Vec
}

// alias reports whether the expert is uncut, of one of several classes, and m stands in for it:
// experts have scores for all classes or for none, but not every class has been cut.
func (e *kernelExpert) alias() bool {
	return e.m != nil && e.env.Against > 2 && e.kernels[e.at] == nil
}

func (e *kernelExpert) begin(batch []input, fresh bool) {
	e.scores, e.vecs = e.scores[:0], e.vecs[:0]
	m := e.kernels[e.at]
	if e.alias() {
		e.scores = append(e.scores, e.m.scores...)
	}
	if m == nil {
		return
	}
	for _, in := range batch {
		e.vecs = append(e.vecs, m.transform.Apply(in.x.X))
	}
	if fresh {
		e.scores = append(e.scores, make([]float64, len(batch))...)
		m.decide(e.scores, e.vecs)
	}
}

func (e *kernelExpert) predict(in *input) score {
	if len(e.scores) == 0 {
		return score{}
	}
	return score{e.scores[in.i], true}
}

func (e *kernelExpert) learn(in *input, _ score) error {
	if m := e.kernels[e.at]; m != nil {
		return m.add(in.x, e.vecs[in.i])
	}
	return nil
}

func (e *kernelExpert) step(context.Context, uint64) error { return nil } // see panel.maintain
func (e *kernelExpert) fields(*state.Fields)               {}             // panel.fields

func (e *kernelExpert) function() function {
	if m := e.kernels[e.at]; m != nil {
		return &kernelFunction{m.transform, m.model()}
	}
	return nil
}

// linearExpert is linear learner at of the panel.
type linearExpert struct {
	unbatched
	p    *panel
	at   int
	form form
}

func (e *linearExpert) predict(in *input) score {
	if z := in.form(e.form); z != nil {
		return score{e.p.linear[e.at].score(*z), true}
	}
	return score{}
}

func (e *linearExpert) learn(in *input, s score) error {
	if z := in.form(e.form); z != nil {
		e.p.linear[e.at].learn(*z, s.f, in.x.Y, in.x.Importance())
	}
	return nil
}

func (e *linearExpert) fields(*state.Fields) {} // panel.fields

func (e *linearExpert) function() function {
	if e.form == onPhi && e.p.fourier == nil {
		return nil
	}
	o := e.p.linear[e.at].line()
	return &linearFunction{e.form, o.w, o.b}
}

// form says which form of an example a linear function takes.
type form int

const (
	onZ form = iota
	onRow
	onPhi
	onSplines
)

// gamRate is the rate of learner online on splines.
const gamRate = "0.5"

func formOf(expert int) form {
	if expert >= r1 {
		return onPhi
	}
	return onZ
}

// form returns the example in form f; nil if it has none.
func (in *input) form(f form) *stream.Vec {
	switch {
	case f == onZ:
		return &in.z
	case f == onRow:
		return &in.row
	case f == onPhi && in.phi.Val != nil:
		return &in.phi
	case f == onSplines && in.hat.Val != nil:
		return &in.hat
	}
	return nil
}
