package scs

import (
	"fmt"
	"log/slog"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
)

// pace is the growth controller: it decides from the draws T_k whether the sample
// should keep growing. The gain of a doubling is estimated by a scalar Kalman filter.
// Its prediction step uses a power law: with excess error a·m^-½ each doubling gains
// 1/√2 of what the one before gained; the variance is doubled because the law is rough.
// Its update step uses the gain measured on T_k, from the predictions that the larger
// sample has fixed and broken (McNemar's counts).
type pace struct {
	anchor int     // size of the sample that the last doubling began with
	gain   float64 // accuracy that the last doubling gained
	spread float64 // variance of gain
	// Errors on draws since the sample holds its size, of all and, fading, of
	// the last ones.
	level, levelN, recent, recentN float64
	grown, held                    uint64 // events
}

func newPace() pace { return pace{spread: math.Inf(1)} }

const (
	nearly2    = 1.5            // what is near enough to a doubling
	fall       = math.Sqrt2 / 2 // of the gain from one doubling to the next
	roughness  = 2              // factor on the variance of a gain foretold
	sure       = 1.645          // standard deviations of a one-sided 95 % bound
	errorShare = 50             // a gain below 1/errorShare of the error is none
	fading     = 7. / 8         // weight of recent errors, per step
	alarm      = 4.0            // standard deviations
)

// expected bounds what the next doubling gains from above.
func (g *pace) expected() float64 {
	if math.IsInf(g.spread, 1) {
		return 1
	}
	return fall * (g.gain + sure*math.Sqrt(g.spread))
}

// judge looks at the draws from m on, whose scores are those of the model of
// the present sample in S and of the sample before its last doubling in S0.
func (g *pace) judge(l *Learner, m int) {
	p := l.p
	var wrong, mended, broken, varied float64
	for i := m; i < p.Len(); i++ {
		before, after := p.W[i]*p.S0[i] <= 0, p.W[i]*p.S[i] <= 0
		v := p.V.At(i)
		if after {
			wrong += v
		}
		switch {
		case before && !after:
			mended += v
			varied += float64(v * v)
		case after && !before:
			broken += v
			varied += float64(v * v)
		}
	}
	if g.weigh(l, m, p.Weight(m, p.Len()), wrong, mended, broken, varied) {
		p.Mark()
	}
}

// weigh is judge with what has become of draws of weight n: so many are wrong with
// the present sample; the larger one has mended and broken so many, the squares of
// whose weights sum up to varied. It reports whether the present sample is that to
// compare the next one with.
func (g *pace) weigh(l *Learner, m int, n, wrong, mended, broken, varied float64) bool {
	if l.Holds() {
		return g.watch(l, m, wrong, n)
	}
	if float64(m) < nearly2*float64(g.anchor) {
		return false
	}
	if g.anchor > 0 && n > 0 {
		gain := (mended - broken) / n
		spread := ((varied+1)/n - float64(gain*gain)) / n
		doublings := math.Log2(float64(m) / float64(g.anchor))
		gain, spread = gain/doublings, spread/float64(doublings*doublings)
		if !math.IsInf(g.spread, 1) {
			foretold, spread0 := fall*g.gain, fall*fall*roughness*g.spread
			weight := spread0 / (spread0 + spread)
			gain = foretold + float64(weight*(gain-foretold))
			spread *= weight
		}
		g.gain, g.spread = gain, spread
		enough := min(l.opt.Gain, (wrong+1)/n/errorShare)
		if l.opt.Full == "replace" && m >= l.holdLeast() && g.expected() < enough {
			g.level, g.levelN, g.recent, g.recentN = wrong, n, wrong, n
			g.hold(l, m, "gain")
		}
	}
	g.anchor = m
	return true
}

// holdLeast is the smallest sample that may stop growing for want of a gain:
// below, a doubling costs next to nothing and few draws measure what it gains.
func (l *Learner) holdLeast() int {
	if l.opt.TMax == 0 {
		return 16384
	}
	return 2 * l.opt.TMax
}

// hold stops the growth.
func (g *pace) hold(l *Learner, size int, why string) {
	if !l.Holds() {
		g.held++
		l.log.Info("hold", slog.String("learner", "scs"), slog.Int("sample", size), slog.String("limit", why), slog.Float64("expected_gain", g.expected()))
	}
	l.Hold(size)
}

// watch lets a sample that holds its size grow again where the error has risen.
func (g *pace) watch(l *Learner, m int, wrong, n float64) bool {
	g.recent, g.recentN = float64(fading*g.recent)+wrong, float64(fading*g.recentN)+n
	rest := g.levelN + n
	g.level, g.levelN = g.level+wrong, rest
	if g.recentN >= rest {
		return false
	}
	mean := g.level / g.levelN
	deviation := math.Sqrt(float64(mean*(1-mean))*(1/g.levelN+1/g.recentN)) + 1/g.recentN
	if g.recent/g.recentN-mean > alarm*deviation {
		*g = pace{spread: math.Inf(1), anchor: m, grown: g.grown + 1, held: g.held}
		l.Resume()
		l.log.Info("grow", slog.String("learner", "scs"), slog.Int("sample", m))
		return true
	}
	return false
}

func (l *Learner) paceGauges() []stream.Measure {
	g, holds := &l.pace, 0.0
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

func (g *pace) fields(f *state.Fields) {
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
