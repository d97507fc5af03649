package gate

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
)

// alpha bounds the probability that the bound that decides a promotion is ever wrong
// during a trial.
const alpha = 0.05

func (s *ConfidenceSequence) all() (mean, low, high float64) {
	low, high = s.Bounds(alpha)
	return s.Mean(), low, high
}

// A trial ends undecided after this many times Rule.Examples. By then the current model
// has learned much more than the challenger.
const patience = 4

// A CUSUM of bets detects that a challenger, better at first, has become worse. It is
// the product of bets against the challenger, never less than 1. As long as the
// challenger is never worse than the margin, the product exceeds evidence at a given
// time with probability about 1/evidence (the e-detector of Shin, Ramdas and Rinaldo,
// 2024, in the form of Page's CUSUM).
const (
	bet      = 0.5
	evidence = 20.0
)

// Verdict is the decision about a challenger.
type Verdict string

// The verdicts.
const (
	Wait    Verdict = ""         // the trial goes on
	Promote Verdict = "promoted" // the challenger becomes the champion
	Reject  Verdict = "rejected" // the next challenger is tried
)

// Losses are the losses on one example, in [0,1].
type Losses struct {
	Challenger float64
	Champion   float64 // 0 without a champion
	Baseline   float64 // of the constant prediction from the earlier labels
}

// ChampionTest is the trial of a challenger against the champion. All its examples come
// after the challenger was taken, and it learns from none of them.
type ChampionTest struct {
	n        uint64
	gain     ConfidenceSequence // champion's loss − challenger's
	lately   float64            // the CUSUM
	loss     float64            // sum of the challenger's losses
	baseline float64            // sum of the baseline's losses
}

// Add adds the losses on the next example. A loss of 1 corresponds to scale in the unit of
// Rule.Margin.
func (t *ChampionTest) Add(r *Rule, l Losses, scale float64) {
	t.n++
	t.loss += l.Challenger
	t.baseline += l.Baseline
	d := l.Champion - l.Challenger
	t.gain.Add(d)
	t.lately = max(t.lately, 1) * (1 - float64(bet*min(max(d+r.Margin/scale, -1), 1)))
}

// N returns the number of examples.
func (t *ChampionTest) N() uint64 { return t.n }

// Gain returns the champion's mean loss minus the challenger's, and bounds of the
// difference.
func (t *ChampionTest) Gain() (mean, low, high float64) { return t.gain.all() }

// Loss returns the mean losses of the challenger and of the constant prediction.
func (t *ChampionTest) Loss() (challenger, baseline float64) {
	return t.loss / float64(max(t.n, 1)), t.baseline / float64(max(t.n, 1))
}

// Verdict returns the decision and its reason. Without a champion only the baseline, the
// limits of the rule and drift count. measures returns the challenger's measures over the
// trial by name, drift a description of how the inputs have changed during the trial, "" if
// they have not; both are called only if the challenger would be promoted otherwise. The
// wording is part of checkpoints.
func (t *ChampionTest) Verdict(r *Rule, champion bool, scale float64, measures func() map[string]float64, drift func() string) (Verdict, string) {
	_, low, high := t.Gain()
	margin := r.Margin / scale
	late := t.n >= uint64(patience*r.Examples)
	switch {
	case champion && high < -margin:
		return Reject, r.Measure + " is worse than that of the champion"
	case t.n < uint64(r.Examples):
		return Wait, TooFew
	case champion && low <= -margin && late:
		return Reject, fmt.Sprintf("%s has not been shown to be as good as the champion's after %d examples", r.Measure, t.n)
	case champion && t.lately >= evidence && late:
		return Reject, "it has recently been worse than the champion"
	case champion && t.lately >= evidence:
		return Wait, "it has recently been worse than the champion"
	case champion && low <= -margin:
		return Wait, r.Measure + " has not been shown to be as good as the champion's"
	}
	if loss, base := t.Loss(); !(loss <= base) {
		constant := "larger class"
		if r.Measure == MAE {
			constant = "mean of labels"
		}
		return Reject, fmt.Sprintf("%s is worse than that of the %s", r.Measure, constant)
	}
	if len(r.Limits) > 0 {
		all := measures()
		for _, l := range r.Limits {
			v, ok := all[l.Measure]
			if !ok {
				v = math.NaN()
			}
			if !(l.Least && v >= l.Value || !l.Least && v <= l.Value) {
				return Reject, fmt.Sprintf("%s is %.4g", l.Measure, v)
			}
		}
	}
	if how := drift(); how != "" {
		return Reject, "inputs have changed: " + how
	}
	if !champion {
		return Promote, "the first one"
	}
	return Promote, r.Measure + " is as good as the rule says"
}

// TooFew is the reason for which a trial continues at first.
const TooFew = "there are too few examples yet"

// Fields describes the state.
func (t *ChampionTest) Fields(f *state.Fields) {
	f.Uint64("examples", &t.n)
	f.Group("gain", t.gain.Fields)
	f.Float64("lately", &t.lately)
	f.Float64("loss", &t.loss)
	f.Float64("baseline", &t.baseline)
}

// RollbackTest finds out whether the champion is worse than the previous one.
type RollbackTest struct{ gain ConfidenceSequence }

// Add adds the losses of both on the next example, in [0,1].
func (t *RollbackTest) Add(champion, before float64) { t.gain.Add(champion - before) }

// N returns the number of examples.
func (t *RollbackTest) N() uint64 { return t.gain.N() }

// Gain returns the champion's mean loss minus the previous champion's, and bounds of
// the difference.
func (t *RollbackTest) Gain() (mean, low, high float64) { return t.gain.all() }

// Demote reports whether the previous champion should come back.
func (t *RollbackTest) Demote(r *Rule, scale float64) bool {
	_, low, _ := t.Gain()
	return r.Demote > 0 && low > r.Demote/scale
}

// Fields describes the state.
func (t *RollbackTest) Fields(f *state.Fields) { t.gain.Fields(f) }
