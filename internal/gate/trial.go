package gate

import (
	"fmt"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/eval"
)

// alpha bounds the probability that the bound which lets a candidate in is wrong,
// at any time of its trial.
const alpha = 0.05

// A trial ends undecided after so many times Rule.Examples: the model of now has
// learned more than the candidate.
const patience = 4

// Lately finds out whether a candidate that was better has become worse. It is a
// sum of logarithms, kept at 0 or more, of bets against the candidate: if at no
// time it is worse than the margin, then at a given one their product is above
// 1/share with a probability of about share (the e-detector of Shin, Ramdas and
// Rinaldo, 2024, in the form of Page's CUSUM).
const (
	bet    = 0.5
	caught = 20.0
)

// Verdict is what is to become of a candidate.
type Verdict string

// The verdicts.
const (
	Wait    Verdict = ""         // go on
	Promote Verdict = "promoted" // it takes the champion's place
	Reject  Verdict = "rejected" // another one is to be tried
)

// Losses are those of models on one example, in [0,1].
type Losses struct {
	Candidate float64
	Champion  float64 // where there is one
	Baseline  float64 // of the larger class, of the mean of labels, before
}

// Trial is what is known of a candidate: the examples have all come after it was
// made, and it has not learned from them.
type Trial struct {
	n        uint64
	gain     Mean    // of champion's loss − candidate's; of 0 without a champion
	lately   float64 // product of bets that the candidate is worse
	loss     float64 // sums
	baseline float64
}

// Add takes the losses on the next example. scale is what a loss of 1 stands for in
// terms of Rule.Margin.
func (t *Trial) Add(r *Rule, l Losses, scale float64) {
	t.n++
	t.loss += l.Candidate
	t.baseline += l.Baseline
	d := l.Champion - l.Candidate
	t.gain.Add(d)
	t.lately = max(t.lately, 1) * (1 - float64(bet*min(max(d+r.Margin/scale, -1), 1)))
}

// N returns the number of examples.
func (t *Trial) N() uint64 { return t.n }

// Gain returns by how much the mean loss of the champion was higher than the
// candidate's, and bounds of that.
func (t *Trial) Gain() (mean, low, high float64) {
	low, high = t.gain.Bounds(alpha)
	return t.gain.Value(), low, high
}

// Loss returns the mean loss of the candidate, Baseline that of what it must not
// be worse than.
func (t *Trial) Loss() (candidate, baseline float64) {
	return t.loss / float64(max(t.n, 1)), t.baseline / float64(max(t.n, 1))
}

// Verdict says what is to become of the candidate, and why. m are its measures
// over the examples of the trial; where there is no champion yet only these
// count, and the baseline. changed says that the inputs have changed in the
// course of the trial, and how; it is asked only where a candidate would be
// promoted.
func (t *Trial) Verdict(r *Rule, champion bool, scale float64, m func() eval.Measures, changed func() string) (Verdict, string) {
	_, low, high := t.Gain()
	margin := r.Margin / scale
	enough := t.n >= uint64(r.Examples)
	switch {
	case champion && high < -margin:
		return Reject, fmt.Sprintf("%s is worse than that of the champion", r.Measure)
	case !enough:
		return Wait, "there are too few examples yet"
	case champion && low <= -margin && t.n >= uint64(patience*r.Examples):
		return Reject, fmt.Sprintf("%s is not known to be as good as that of the champion after %d examples", r.Measure, t.n)
	case champion && t.lately >= caught && t.n >= uint64(patience*r.Examples):
		return Reject, "it has become worse than the champion lately"
	case champion && t.lately >= caught:
		return Wait, "it has become worse than the champion lately"
	case champion && low <= -margin:
		return Wait, fmt.Sprintf("%s is not known to be as good as that of the champion", r.Measure)
	}
	if loss, base := t.Loss(); !(loss <= base) {
		return Reject, fmt.Sprintf("%s is worse than that of the %s", r.Measure, r.rule())
	}
	if len(r.Limits) > 0 {
		all := m()
		for _, l := range r.Limits {
			if v := l.of(&all); !(l.Least && v >= l.Value || !l.Least && v <= l.Value) {
				return Reject, fmt.Sprintf("%s is %.4g", l.Measure, v)
			}
		}
	}
	if how := changed(); how != "" {
		return Reject, "inputs have changed: " + how
	}
	if !champion {
		return Promote, "the first one"
	}
	return Promote, fmt.Sprintf("%s is as good as the rule says", r.Measure)
}

func (r *Rule) rule() string {
	if r.Measure == MAE {
		return "mean of labels"
	}
	return "larger class"
}

func (l *Limit) of(m *eval.Measures) float64 {
	number := func(n *eval.Number) float64 {
		return float64(*n)
	}
	switch l.Measure {
	case accuracy:
		return float64(m.Accuracy)
	case Error:
		return float64(m.Error)
	case "balanced_accuracy":
		return float64(m.BalancedAccuracy)
	case "kappa":
		return float64(m.Kappa)
	case "kappa_t":
		return float64(m.KappaT)
	case Brier:
		return float64(m.Brier)
	case "brier_skill":
		return float64(m.BrierSkill)
	case "ece":
		return float64(m.ECE)
	case "log_loss":
		return float64(m.LogLoss)
	case "auc":
		return float64(m.AUC)
	case MAE:
		return number(m.MAE)
	case "rmse":
		return number(m.RMSE)
	}
	return number(m.R2)
}

// Back finds out whether a champion is worse than the one before.
type Back struct{ gain Mean }

// Add takes the losses of both on the next example.
func (b *Back) Add(champion, before float64) { b.gain.Add(champion - before) }

// Gain returns by how much the mean loss of the champion was higher than that of
// the one before, and bounds of that.
func (b *Back) Gain() (mean, low, high float64) {
	low, high = b.gain.Bounds(alpha)
	return b.gain.Value(), low, high
}

// Demote reports whether the one before is to come back.
func (b *Back) Demote(r *Rule, scale float64) bool {
	_, low, _ := b.Gain()
	return r.Demote > 0 && low > r.Demote/scale
}

// Fields describes the state.
func (b *Back) Fields(f *state.Fields) { b.gain.Fields(f) }

// N returns the number of examples.
func (b *Back) N() uint64 { return b.gain.N() }

// Fields describes the state.
func (t *Trial) Fields(f *state.Fields) {
	f.Uint64("examples", &t.n)
	f.Group("gain", t.gain.Fields)
	f.Float64("lately", &t.lately)
	f.Float64("loss", &t.loss)
	f.Float64("baseline", &t.baseline)
}
