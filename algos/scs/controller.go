package scs

import (
	"fmt"
	"log/slog"
	"math"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
)

// growthController decides from the draws T_k whether the sample should keep
// growing. It is a one-dimensional Kalman filter on the accuracy gained by doubling
// the sample. Prediction: with excess error a·m^-½ each doubling gains 1/√2 of the
// one before; the predicted variance is doubled, because the law is only
// approximate. Measurement: predictions on T_k before and after the doubling. They
// share their draws, so only predictions that were fixed or broken count.
type growthController struct {
	anchor int     // size of the sample when the last doubling began
	gain   float64 // accuracy that the last doubling gained
	spread float64 // variance of gain
	// Total weights of the errors and of the draws since growth stopped: plain, and
	// exponentially discounted.
	level, levelN, recent, recentN float64
	grown, held                    uint64 // events
}

func newGrowthController() growthController { return growthController{spread: math.Inf(1)} }

const (
	nearly2    = 1.5            // ratio of sizes that counts as a doubling
	decay      = math.Sqrt2 / 2 // gain of a doubling, relative to the one before
	roughness  = 2              // factor on the variance of the predicted gain
	z95        = 1.645          // standard deviations of a one-sided 95 % bound
	errorShare = 50             // a gain below 1/errorShare of the error does not count
	fading     = 7. / 8         // discount of recent errors, per step
	alarm      = 4.0            // standard deviations above the mean error at which growth resumes
)

// expected returns a 95 % upper bound on the gain of the next doubling, or 1 before
// the first measurement.
func (g *growthController) expected() float64 {
	if math.IsInf(g.spread, 1) {
		return 1
	}
	return decay * (g.gain + z95*math.Sqrt(g.spread))
}

// growthPays updates the filter with the draws, which are the points from m on, and
// reports whether the next doubling should be compared with the present sample. It
// counts errors of the predicted class, because users see those, not the errors of the
// classifiers.
func (l *Learner) growthPays(draws []*stream.Example, m int) bool {
	// n is the total weight of the draws, wrong the weight of the draws misclassified
	// by the present sample. fixed is the weight of the draws that only the present
	// sample classifies correctly, broken that only the previous one does. sumSq is the
	// sum of the squared weights of both.
	var n, wrong, fixed, broken, sumSq float64
	for i, x := range draws {
		// S has the scores under the present sample, S0 the scores from before the
		// last doubling.
		was := l.right(x, func(c *classifier) float64 { return c.p.S0[m+i] })
		is := l.right(x, func(c *classifier) float64 { return c.p.S[m+i] })
		v := x.Importance()
		n += v
		if !is {
			wrong += v
		}
		switch {
		case is && !was:
			fixed += v
			sumSq += float64(v * v)
		case was && !is:
			broken += v
			sumSq += float64(v * v)
		}
	}
	g := &l.growth
	if l.Holds() {
		return l.watch(m, wrong, n)
	}
	if float64(m) < nearly2*float64(g.anchor) {
		return false
	}
	if g.anchor > 0 && n > 0 {
		// The two predictions on a draw are dependent. Only draws on which they
		// differ carry information about the gain, as in McNemar's test: each
		// contributes ±v, so the second moment is the sum of v². The +1 keeps the
		// variance of few draws from being 0.
		gain := (fixed - broken) / n
		spread := ((sumSq+1)/n - float64(gain*gain)) / n
		// The sample may have grown by more or less than a doubling since the
		// anchor: scale the measurement to one doubling.
		doublings := math.Log2(float64(m) / float64(g.anchor))
		gain, spread = gain/doublings, spread/float64(doublings*doublings)
		if !math.IsInf(g.spread, 1) {
			// Kalman update: the weight of the measurement is the share of the
			// prediction's variance in the total.
			predicted, variance0 := decay*g.gain, decay*decay*roughness*g.spread
			weight := variance0 / (variance0 + spread)
			gain = predicted + float64(weight*(gain-predicted))
			spread *= weight
		}
		g.gain, g.spread = gain, spread
		// A gain below Gain is not worth the cost. If few examples are wrong, accuracy
		// gains are small, so the threshold is at most a fiftieth of the error.
		enough := min(l.opt.Gain, (wrong+1)/n/errorShare)
		if l.opt.Full == "replace" && m >= l.opt.holdLeast() && g.expected() < enough {
			// Later errors are compared with the present level.
			g.level, g.levelN, g.recent, g.recentN = wrong, n, wrong, n
			l.hold(m, "gain")
		}
	}
	g.anchor = m
	return true
}

// holdLeast returns the smallest size at which a sample may stop growing for lack of
// gain. Below it a doubling costs almost nothing, and too few draws measure its gain.
func (o *options) holdLeast() int {
	if o.TMax == 0 {
		return 16384
	}
	return 2 * o.TMax
}

// right reports whether the predicted class is the class of x. The prediction is the
// class with the largest score or, with two classes, the sign of the score.
func (l *Learner) right(x *stream.Example, score func(*classifier) float64) bool {
	if len(l.classifiers) == 1 {
		return x.Y*score(l.classifiers[0]) > 0
	}
	scores := make([]float64, len(l.classifiers))
	for k, c := range l.classifiers {
		scores[k] = score(c)
	}
	return algos.Largest(scores) == int(x.Y)
}

// hold stops growth.
func (l *Learner) hold(size int, why string) {
	if !l.Holds() {
		l.growth.held++
		l.log.Info("hold", slog.String("learner", "scs"), slog.Int("sample", size), slog.String("limit", why), slog.Float64("expected_gain", l.growth.expected()))
	}
	l.Hold(size)
}

// watch resumes growth if the error has risen since it stopped, and reports whether.
func (l *Learner) watch(m int, wrong, n float64) bool {
	g := &l.growth
	g.recent, g.recentN = float64(fading*g.recent)+wrong, float64(fading*g.recentN)+n
	rest := g.levelN + n
	g.level, g.levelN = g.level+wrong, rest
	// Recent draws are part of all draws, and the comparison means nothing before
	// there are older ones.
	if g.recentN >= rest {
		return false
	}
	mean := g.level / g.levelN
	// Standard deviation of the difference of two proportions, with a continuity
	// correction.
	deviation := math.Sqrt(float64(mean*(1-mean))*(1/g.levelN+1/g.recentN)) + 1/g.recentN
	if g.recent/g.recentN-mean > alarm*deviation {
		// The stream has changed. The gains of earlier doublings say nothing about the
		// new concept, so the filter starts again from the present size.
		*g = growthController{spread: math.Inf(1), anchor: m, grown: g.grown + 1, held: g.held}
		l.Resume()
		l.log.Info("grow", slog.String("learner", "scs"), slog.Int("sample", m))
		return true
	}
	return false
}

func (l *Learner) growthGauges() []stream.Measure {
	g, holds := &l.growth, 0.0
	if l.Holds() {
		holds = 1
	}
	return []stream.Measure{
		{Name: "holds", Value: holds},
		{Name: "grow_total", Value: float64(g.grown)},
		{Name: "hold_total", Value: float64(g.held)},
		{Name: "expected_gain", Value: g.expected()},
	}
}

func (g *growthController) fields(f *state.Fields) {
	f.Int("anchor", &g.anchor)
	f.Float64("gain", &g.gain)
	f.Float64("spread", &g.spread)
	f.Float64("level", &g.level)
	f.Float64("level_n", &g.levelN)
	f.Float64("recent", &g.recent)
	f.Float64("recent_n", &g.recentN)
	f.Uint64("grown", &g.grown)
	f.Uint64("held", &g.held)
	if f.Decoding() && f.Err() == nil && (g.anchor < 0 || !(g.spread >= 0)) {
		f.Fail("pace", fmt.Errorf("%d, %g", g.anchor, g.spread))
	}
}
