package adaptive

import (
	"fmt"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/checkpoint/state"
)

// The rules that propose weights for the next example. All weights sum to 1, so that a
// blend does not depend on the origin and scale of the numbers.
const (
	numberShare  = iota // by fixed share
	numberStack         // by recursive least squares
	numberLeader        // the expert with the least loss of late
	numberMean
	numNumberRules
)

const (
	numberSpread = 0.02  // of the stack's weights at first
	numberKeep   = 0.999 // φ of the stack
	leaderKeep   = 0.99  // discount of the experts' losses, per example
)

// blend weights the experts' predictions of a number: for the next example, and in
// published for examples to come. Weights are proposed by several rules and mixed by
// fixed share.
type blend struct {
	absolute  bool
	labels    labels
	share     *average // of the experts
	stack     squares
	losses    []float64 // of the experts, discounted
	rules     *average
	published *publishedNumbers

	f []float64 // scratch: the experts' predictions
}

func newBlend(every int, experts []entry, absolute bool) *blend {
	n := len(experts)
	return &blend{
		absolute: absolute, share: newAverage(absolute, n), stack: newSquares(n, numberSpread, numberKeep, absolute),
		losses: make([]float64, n), rules: newAverage(absolute, numNumberRules), published: newPublishedNumbers(every, experts, absolute),
		f: make([]float64, n),
	}
}

// limits returns those of predictions by the numbers so far.
func (b *blend) limits() *limits {
	r := beyond * (b.labels.high - b.labels.low)
	return &limits{b.labels.low - r, b.labels.high + r}
}

// predictions sets f to what the experts predict within the limits, the mean of the others
// for those that have no prediction, and returns the mean; fallback if there is none.
func predictions(f []float64, scores []score, within *limits, fallback float64) (mean float64) {
	n := 0.0
	for e, s := range scores {
		if s.known() {
			f[e] = within.clip(s.f)
			n++
			mean += float64((f[e] - mean) / n)
		}
	}
	if n == 0 {
		mean = fallback
	}
	for e, s := range scores {
		if !s.known() {
			f[e] = mean
		}
	}
	return mean
}

// proposed returns the weights by rule.
func (b *blend) proposed() [numNumberRules][]float64 {
	n := len(b.f)
	leader := make([]float64, n)
	leader[slices.Index(b.losses, slices.Min(b.losses))] = 1
	return [...][]float64{numberShare: b.share.weights(), numberStack: b.stack.weights(), numberLeader: leader, numberMean: uniform(n)}
}

// weights returns those of the experts for the next example.
func (b *blend) weights() []float64 {
	out := make([]float64, len(b.f))
	v := b.rules.weights()
	for r, w := range b.proposed() {
		for e := range out {
			out[e] += float64(v[r] * w[e])
		}
	}
	return out
}

// predict returns the prediction by those of the experts.
func (b *blend) predict(scores []score) float64 {
	within := b.limits()
	predictions(b.f, scores, within, b.labels.mean)
	w := shared(b.weights(), func(e int) bool { return scores[e].known() })
	return within.clip(dot(w, b.f))
}

// shared returns the weights of the experts that are there: they share those of the others,
// which count as the mean of theirs.
func shared(w []float64, there func(e int) bool) []float64 {
	var missing, n float64
	for e, v := range w {
		if there(e) {
			n++
		} else {
			missing += v
			w[e] = 0
		}
	}
	for e := range w {
		if n > 0 && there(e) {
			w[e] += missing / n
		}
	}
	return w
}

// known reports whether there is a number.
func (s score) known() bool { return s.ok && s.f-s.f == 0 }

// learn returns the prediction for an example and updates the weights with y. aged are the
// predictions of the latest version's experts, nil if there were none.
func (b *blend) learn(scores, aged []score, y, weight float64) float64 {
	f := b.predict(scores)
	var g [numNumberRules]float64
	for r, w := range b.proposed() {
		g[r] = dot(w, b.f)
	}
	if b.labels.n > 0 { // nothing is known before the first number
		b.rules.learn(g[:], f, y, weight)
		b.share.learn(b.f, g[numberShare], y, weight)
		b.stack.learn(b.f, y, weight)
		for e, v := range b.f {
			b.losses[e] = float64(leaderKeep*b.losses[e]) + float64(weight*errorOf(b.absolute, v, y))
		}
		b.published.learn(aged, b.limits(), y, weight)
	}
	b.labels.learn(y)
	return f
}

func (b *blend) fields(f *state.Fields) {
	f.Group("labels", b.labels.fields)
	f.Group("share", b.share.fields)
	f.Group("stack", b.stack.fields)
	f.Float64s("losses", &b.losses)
	if f.Decoding() && f.Err() == nil {
		f.Fail("losses", checkLosses(b.losses, len(b.f)))
	}
	f.Group("rules", b.rules.fields)
	f.Group("published", b.published.fields)
}

func checkLosses(list []float64, n int) error {
	if len(list) != n {
		return fmt.Errorf("%d losses of %d", len(list), n)
	}
	for _, v := range list {
		if !(v >= 0 && v < math.Inf(1)) {
			return fmt.Errorf("loss %g", v)
		}
	}
	return nil
}

// squares is recursive least squares with forgetting on the experts' predictions f. The
// weights are w_e = 1/n + d_e − mean(d), and the coefficients d start at 0, as in a stack:
//
//	x = (f − mean(f))/σ, r = (y − mean(f))/σ − ⟨d, x⟩, at most ±3,
//	k = P x/(φ + xᵀP x), d ← d + r k, P ← (P − k xᵀP)/φ,
//
// where σ² is the mean of the squared errors of late. Neither the origin nor the scale of
// the numbers matters, and one that is far out moves the weights as one at 3σ does. With
// the absolute loss σ is the mean absolute error, and r at most ±1.
type squares struct {
	stack
	absolute bool
	n        float64 // errors so far
	noise    float64 // their mean loss, σ² or σ

	x []float64 // scratch
}

func newSquares(n int, spread, keep float64, absolute bool) squares {
	return squares{stack: *newStack(n, spread, keep), absolute: absolute, x: make([]float64, n)}
}

const noiseKeep = 0.01 // rate at which σ follows

func (s *squares) learn(f []float64, y, weight float64) {
	var mean, most float64
	for e, v := range f {
		mean += float64((v - mean) / float64(e+1))
	}
	if most = 3; s.absolute {
		most = 1
	}
	for e, v := range f {
		s.x[e] = v - mean
	}
	r := y - mean - dot(s.w, s.x)
	loss := errorOf(s.absolute, r, 0)
	if s.n++; s.noise > 0 {
		loss = min(loss, most*most*s.noise)
	}
	s.noise += float64(max(noiseKeep, 1/s.n) * (loss - s.noise))
	sigma := s.noise
	if !s.absolute {
		sigma = math.Sqrt(s.noise)
	}
	if !(sigma > 0) {
		return
	}
	for e := range s.x {
		s.x[e] /= sigma
	}
	s.observe(s.x, weight, s.keep)
	s.move(s.x, float64(weight*bounded(r/sigma, most)))
	s.limit()
}

// weights returns those of the predictions.
func (s *squares) weights() []float64 {
	n := float64(len(s.w))
	var mean float64
	for _, d := range s.w {
		mean += d / n
	}
	w := make([]float64, len(s.w))
	for e, d := range s.w {
		w[e] = 1/n + d - mean
	}
	return w
}

func (s *squares) fields(f *state.Fields) {
	s.stack.fields(f)
	f.Float64("errors", &s.n)
	f.Float64("noise", &s.noise)
	if f.Decoding() && f.Err() == nil && !(s.n >= 0 && s.noise >= 0 && s.n+s.noise < math.Inf(1)) {
		f.Fail("noise", fmt.Errorf("%g of %g", s.noise, s.n))
	}
}
