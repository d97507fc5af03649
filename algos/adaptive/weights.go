package adaptive

import (
	"errors"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/stream"
)

// An example that stands for several of a stream counts as often. Where examples
// have weights besides, as those of a rare class do, who is right says
// little: a panel that never names the rare class seldom errs. So, from the first
// example on whose weight is not 1,
//
//   - one-pass experts learn the logistic loss: with the hinge loss they
//     end up where no example of the rare class is above the margin, and order none;
//   - the growing machine is trusted by the squared errors of probabilities;
//   - an example's loss counts by its weight, in units of the largest so far: in a
//     vote, in trust and for a cut.

// logisticRates are those of AdaGrad, by expert.
var logisticRates = [numExperts - l1]float64{1, 0.5, 0.3, 0.1, 0.3, 0.1}

// mostCount bounds as how many examples one counts where experts are judged: their
// weights must not vanish.
const mostCount = 50

// weighted reports whether there have been weights.
func (l *Learner) weighted() bool { return l.heaviest > 0 }

// weigh takes note of the weight of an example and returns by how much it counts
// where experts are judged.
func (l *Learner) weigh(x *stream.Example) float64 {
	w := x.Importance() / x.Count()
	n := min(x.Count(), mostCount)
	if w == 1 && !l.weighted() {
		return n
	}
	if !l.weighted() {
		l.heaviest = max(1, w)
		l.useLogistic()
		// They begin with what is known, so that their scores are of one piece.
		for _, x := range l.cutting.Newest(l.sizes.whole) {
			z, phi := l.see(x)
			for e, o := range l.linear {
				if z := inputOf(l1+e, z, phi); z != nil {
					o.learn(*z, o.score(*z), x.Y, x.Importance())
				}
			}
		}
	}
	l.heaviest = max(l.heaviest, w)
	return n * w / l.heaviest
}

// useLogistic makes new one-pass experts, for the logistic loss.
func (l *Learner) useLogistic() {
	for e := range l.linear {
		l.linear[e] = &onePass{rate: logisticRates[e], adaptive: true, logistic: true}
	}
}

// judge compares the growing machine with the panel as it is weighed today: it
// may have learned since whom to believe.
func (l *Learner) judge(scores []float64, y, share float64) {
	panel := l.vote.mix(scores)
	if !l.weighted() {
		l.trust.compare((scores[growing] >= 0) != (y > 0), (panel >= 0) != (y > 0), share)
		return
	}
	l.trust.note(float64(share * (brier(l.vote.experts[growing].p(scores[growing]), y) - brier(panel+0.5, y))))
}

// compare tells for a cut who was wrong on an example of label y.
func (l *Learner) compare(scores []float64, y, share float64) {
	wrong := func(e int) bool { return (scores[e] >= 0) != (y > 0) }
	var by [k2048]float64
	for k := range by {
		switch other := wrong(k64 + k); {
		case wrong(growing) && !other:
			by[k] = share
		case other && !wrong(growing):
			by[k] = -share
		}
	}
	l.panel.compare(by)
}

// brier is the squared error of a probability of +1.
func brier(p, y float64) float64 {
	if y > 0 {
		p = 1 - p
	}
	return float64(p * p)
}

// power returns the probability of the label y by a score, to the given power.
func (o *opinion) power(s, y, share float64) float64 {
	loss := linear.Softplus(-float64(y * float64(o.slope*o.u(s))))
	return linear.ExpNeg(float64(share * min(max(loss, leastLoss), mostLogLoss)))
}

const (
	leastLoss   = 0.020202707317519466 // −ln 0.98
	mostLogLoss = 3.912023005428146    // −ln 0.02
)

var errWeight = errors.New("not a weight of at least 1")

// weightFields describes the largest weight, which is part of a state only where
// there have been weights.
func (l *Learner) weightFields(f *state.Fields) {
	if f.Decoding() {
		l.heaviest = 0
		for e, r := range rates {
			l.linear[e] = &r
		}
	}
	if !f.Next("heaviest") && (f.Decoding() || !l.weighted()) {
		return
	}
	f.Float64("heaviest", &l.heaviest)
	if f.Decoding() && f.Err() == nil {
		if !(l.heaviest >= 1 && l.heaviest < math.Inf(1)) {
			f.Fail("heaviest", errWeight)
			return
		}
		l.useLogistic()
	}
}
