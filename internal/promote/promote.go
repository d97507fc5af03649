// Package promote measures the versions that a trainer has published, and defines the
// champion/challenger gate that the engine calls. Package contrib/gate implements it.
package promote

import (
	"fmt"
	"math"
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/pipeline"
	"github.com/streamsvm/streamsvm/stream"
)

// Package contrib/gate sets these when it is imported; otherwise they are nil.
var (
	// New returns a gate with a rule. classes says that there are more than two classes.
	// schema is the schema of events, "" for vectors.
	New func(rule string, regress, classes bool, schema string) (Gate, error)
	// Check returns an error if the rule is invalid.
	Check func(rule string, regress bool) error
)

// Gate chooses a champion among snapshots of the model. It is a function of the
// stream and part of the state, and does not affect learning. The engine calls Warm,
// Add, Score, Due, Take and Fields; Run and Repromote call the others, to point an
// alias to the champion. Package contrib/gate implements it.
type Gate interface {
	// Warm takes the examples of the warm-up.
	Warm(warm []*stream.Example)
	// Add takes an example as it came, before preprocessing, and keeps its vector until
	// Score. Score is called before the learner learns from the examples added.
	Add(x *stream.Example)
	Score()
	// Due reports whether Take must be called after this number of labelled examples,
	// once all work due by then is done.
	Due(labelled uint64) bool
	// Take may make a snapshot of p the challenger, and reports whether it did. p is nil
	// if there is no model yet. about returns its Examples, Step, Offsets and Evaluation.
	// With late labels, arrived is the number of examples that have arrived, at least
	// the Seq of each; otherwise it is 0.
	Take(labelled, arrived uint64, p *pipeline.Pipeline, about func() stream.Update) (bool, error)
	// Fields describes the state. classes says that there are more than two classes.
	Fields(f *state.Fields, classes bool)
	// Report describes the current state to people.
	Report() *Report
	// Notify sets the functions called with each decision of the gate, and with the
	// champion's decision on each labelled example.
	Notify(decided func(Decision), answered func(decision float64))

	// Published tells the gate which version the challenger has been published as.
	Published(version uint64, created time.Time)
	// Changed reports whether there is a champion that Champion has not returned yet.
	Changed() bool
	// Champion returns the champion as an update without model name and epoch, or nil if
	// its version is unknown, and the reason why it is the champion.
	Champion() (*stream.Update, stream.Promotion, error)
	// Meta returns a text for the checkpoint to keep besides the state; Resume restores it.
	Meta() string
	Resume(meta string) error
}

// Decision is a decision of the gate about a challenger or the champion.
type Decision struct {
	// At is the number of labelled examples so far, and Model the number when the model
	// in question was taken: the one promoted or rejected, or the one that comes back.
	At    uint64 `json:"at"`
	Model uint64 `json:"model"`
	// Verdict is promoted, rejected or demoted.
	Verdict string `json:"verdict"`
	Why     string `json:"why"`
	// Examples is the number of examples in the comparison. Gain is the champion's mean
	// loss minus the other model's, with bounds Low and High.
	Examples uint64      `json:"examples"`
	Gain     eval.Number `json:"gain"`
	Low      eval.Number `json:"low"`
	High     eval.Number `json:"high"`
	// Loss is the mean loss of the model, Baseline the constant prediction's.
	Loss     eval.Number `json:"loss"`
	Baseline eval.Number `json:"baseline"`
}

// String describes the decision in a sentence. Checkpoints hold it.
func (d Decision) String() string {
	s := fmt.Sprintf("at %d: the model of %d examples is %s: %s", d.At, d.Model, d.Verdict, d.Why)
	if d.Gain == d.Gain {
		s += fmt.Sprintf("; gain %.4f, %.4f to %.4f, on %d examples", d.Gain, d.Low, d.High, d.Examples)
	}
	return s
}

// Report describes the current state of the gate.
type Report struct {
	Rule string `json:"rule"`
	// Champion and Challenger are the numbers of labelled examples after which they
	// were taken, 0 if there is none.
	Champion   uint64 `json:"champion"`
	Challenger uint64 `json:"challenger"`
	// These describe the trial, as in Decision; NaN without a challenger.
	Examples uint64      `json:"examples"`
	Gain     eval.Number `json:"gain"`
	Low      eval.Number `json:"low"`
	High     eval.Number `json:"high"`
	Waits    string      `json:"waits"` // why the challenger is not promoted yet
	// Decisions so far.
	Promotions uint64 `json:"promotions"`
	Rejections uint64 `json:"rejections"`
	Demotions  uint64 `json:"demotions"`
	// Served measures the predictions of the champions, each while it was champion, on the
	// labelled examples since the first promotion. ServedExamples is their number.
	Served         eval.Measures `json:"served"`
	ServedExamples uint64        `json:"served_examples"`
}

// Predictions are a model's decisions on several examples, or its scores for K classes.
type Predictions struct {
	Pipe *pipeline.Pipeline
	K    int // 1 for decisions
	V    []float64
}

// Predict predicts xs with a model.
func Predict(p *pipeline.Pipeline, xs []stream.Vec) *Predictions {
	a := &Predictions{Pipe: p, K: 1}
	if m, ok := p.Model.(algos.Scorer); ok && m.Classes() > 2 {
		a.K = m.Classes()
	}
	a.V = make([]float64, a.K*len(xs))
	if a.K > 1 {
		p.Scores(a.V, xs)
	} else {
		p.Decisions(a.V, xs)
	}
	return a
}

// Of returns the decision on example i, or the number of the predicted class, and the
// probability of a positive label, NaN if unknown.
func (a *Predictions) Of(i int) (decision, probability float64) {
	if a.K > 1 {
		return float64(algos.Largest(a.V[i*a.K : (i+1)*a.K])), math.NaN()
	}
	if a.Pipe.Probability == nil {
		return a.V[i], math.NaN()
	}
	return a.V[i], a.Pipe.Probability.Probability(a.V[i])
}

// Measure adds the prediction of example i to m, and returns the decision.
func (a *Predictions) Measure(m *eval.Prequential, i int, y float64) float64 {
	f, p := a.Of(i)
	m.Add(f, y)
	if p == p {
		m.AddProbability(p, y > 0)
	}
	return f
}
