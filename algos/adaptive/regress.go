package adaptive

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
)

// numberExperts returns the experts of a regression, in the order of predictions and
// weights. Machines are kernel ridge regressions whatever the loss, which is that of the
// other experts and of the weights; the growing one slides once it holds as many examples
// as it may.
func (l *Learner) numberExperts() []entry {
	list := make([]entry, 0, 24)
	for _, i := range [...]int{growing, k64, k256, k1024} {
		list = append(list, entry{names[i], &kernelExpert{panel: l.panel, at: i}, false})
	}
	for i := l1; i <= r01; i++ {
		list = append(list, entry{names[i], &linearExpert{p: l.panel, at: i - l1, form: formOf(i)}, false})
	}
	for _, rate := range [...]string{"0.1", "2"} {
		list = append(list, entry{"o" + rate, &fitted{panel: l, form: onRow, rate: rate}, false})
	}
	few, many := newNearExperts(&neighbours{number: true})
	return append(list,
		entry{"ridge", &fitted{panel: l, form: onZ}, false},
		entry{"features", &fitted{panel: l, form: onPhi}, false},
		entry{"n512", few, false},
		entry{"n2048", many, false},
		entry{"last", &constantNumber{labels: &l.labels, value: &l.labels.last}, false},
		entry{"mean", &constantNumber{labels: &l.labels, value: &l.labels.mean}, false},
	)
}

// numbers weights the experts of a regression. Fixed share and recursive least squares
// propose weights for the next example, and a fixed share mixes the proposals. All weights
// sum to 1, so that a prediction does not depend on the origin and scale of the numbers.
//
// What is published has weights of its own, since the best weights for a version are not
// always those for the next example. A slow Hedge mixes four proposals: the weights for the
// next example, their fixed share, a fixed share that has learned from what the experts of
// versions predicted in their lives, and the mean of the numbers. It judges the proposals
// that were frozen with the latest version. It starts near the first two, which are good as
// soon as there is a version. The mean bounds the errors where nothing that is learned lasts
// as long as a version.
type numbers struct {
	labels           *labels // so far
	share, rules     *average
	stack            squares
	agedShare, hedge *average // of what is published
	every            uint64
	began            uint64 // examples when the latest version was taken; 0: there is none
	next             uint64 // examples at which the next one is due
	frozen           [][]float64

	f []float64 // scratch: the experts' predictions
}

// Of what is published: an example counts little, since those of one version's life depend
// on one another.
const (
	agedRate  = 0.4  // of its fixed share
	hedgeRate = 0.03 // of its Hedge
)

// hedgePrior has the first weights of proposals for a version.
var hedgePrior = []float64{0.48, 0.48, 0.03, 0.01}

func newNumbers(every, experts int, y *labels, absolute bool) *numbers {
	if every <= 0 {
		every = defaultEvery
	}
	return &numbers{
		labels: y, every: uint64(every), next: firstVersion, f: make([]float64, experts),
		share: newAverage(absolute, uniform(experts)), rules: newAverage(absolute, uniform(2)),
		stack:     newSquares(experts, 0.02, ownKeep, absolute),
		agedShare: newAverage(absolute, uniform(experts)), hedge: newAverage(absolute, hedgePrior),
	}
}

// mixed returns the weights of the experts that follow from proposals.
func mixed(rules *average, proposals [][]float64) []float64 {
	out := make([]float64, len(proposals[0]))
	for r, v := range rules.weights() {
		for e, p := range proposals[r] {
			out[e] += float64(v * p)
		}
	}
	return out
}

// judge updates the weights of rules by what their proposals made of the predictions f.
func judge(rules *average, f []float64, proposals [][]float64, y, weight float64) {
	g := make([]float64, len(proposals))
	for r, p := range proposals {
		g[r] = dot(p, f)
	}
	rules.learn(g, y, weight)
}

// own returns the proposals for the next example.
func (m *numbers) own() [][]float64 { return [][]float64{m.share.weights(), m.stack.weights()} }

// weights returns those for the next example.
func (m *numbers) weights() []float64 { return mixed(m.rules, m.own()) }

// proposals returns those for a version now.
func (m *numbers) proposals() [][]float64 {
	mean := make([]float64, len(m.f))
	mean[len(mean)-1] = 1 // as in numberExperts
	return [][]float64{m.weights(), m.share.weights(), m.agedShare.weights(), mean}
}

// published returns the weights for a version.
func (m *numbers) published() []float64 { return mixed(m.hedge, m.proposals()) }

// startVersion takes note of a version after so many examples.
func (m *numbers) startVersion(examples uint64) {
	m.began, m.next, m.frozen = examples, min(2*examples, examples-examples%m.every+m.every), m.proposals()
}

// predict returns the prediction by the experts'.
func (m *numbers) predict(scores []score) float64 {
	w := shared(m.weights(), func(e int) bool { return scores[e].known() })
	m.predictions(scores)
	return m.limits().clip(dot(w, m.f))
}

// predictions sets f to what the experts predict, within the limits; the mean of the others
// for those that have no prediction.
func (m *numbers) predictions(scores []score) {
	within, mean, n := m.limits(), m.labels.mean, 0.0
	for e, s := range scores {
		if s.known() {
			m.f[e] = within.clip(s.f)
			if n++; n == 1 {
				mean = 0
			}
			mean += float64((m.f[e] - mean) / n)
		}
	}
	for e, s := range scores {
		if !s.known() {
			m.f[e] = mean
		}
	}
}

// learn updates the weights with y, by the experts' predictions and those of the latest
// version's, nil if there were none. Nothing is known before the first number.
func (m *numbers) learn(scores, aged []score, y, weight float64) {
	if m.labels.n == 0 {
		return
	}
	m.predictions(scores)
	judge(m.rules, m.f, m.own(), y, weight)
	m.share.learn(m.f, y, weight)
	m.stack.learn(m.f, y, weight)
	if aged != nil && m.began > 0 {
		m.predictions(aged)
		weight *= min(1, effective/float64(m.next-m.began))
		judge(m.hedge, m.f, m.frozen, y, weight*hedgeRate)
		m.agedShare.learn(m.f, y, weight*agedRate)
	}
}

// known reports whether there is a prediction.
func (s score) known() bool { return s.ok && s.f-s.f == 0 }

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

func (m *numbers) fields(f *state.Fields) {
	f.Group("labels", m.labels.fields)
	f.Group("share", m.share.fields)
	f.Group("rules", m.rules.fields)
	f.Group("stack", m.stack.fields)
	f.Group("aged_share", m.agedShare.fields)
	f.Group("hedge", m.hedge.fields)
	f.Uint64("began", &m.began)
	f.Uint64("next", &m.next)
	if f.Decoding() {
		m.frozen = nil
		if m.began > 0 {
			m.frozen = make([][]float64, len(hedgePrior))
		}
		if f.Err() == nil && m.next <= m.began {
			f.Fail("next", fmt.Errorf("%d after %d", m.next, m.began))
		}
	}
	for r := range m.frozen {
		f.Float64s("proposal", &m.frozen[r])
		if f.Decoding() && f.Err() == nil && len(m.frozen[r]) != len(m.f) {
			f.Fail("proposal", fmt.Errorf("%d weights for %d experts", len(m.frozen[r]), len(m.f)))
		}
		f.Fail("proposal", linear.Finite(m.frozen[r]))
	}
}

// weighted returns a view of the experts with such weights.
func (l *Learner) weighted(w []float64) *ensemble {
	m, place := l.ensemble()
	m.limits = l.numbers.limits()
	w = shared(w, func(e int) bool { return place[e] >= 0 })
	for e, k := range place {
		if k >= 0 {
			m.terms = append(m.terms, term{member: k, weight: w[e]})
		}
	}
	return m
}

// limits bound predictions: the range of the numbers seen and a tenth of it on either side.
type limits struct{ low, high float64 }

func (b *limits) clip(v float64) float64 { return min(max(v, b.low), b.high) }

func (m *numbers) limits() *limits {
	r := (m.labels.high - m.labels.low) / 10
	return &limits{m.labels.low - r, m.labels.high + r}
}

// ensembleLimits is the first field of the model of a regression.
const ensembleLimits = "low"

func (m *ensemble) limitFields(f *state.Fields) {
	if f.Decoding() {
		if m.limits = nil; f.Next(ensembleLimits) {
			m.limits = new(limits)
		}
	}
	if b := m.limits; b != nil {
		f.Float64(ensembleLimits, &b.low)
		f.Float64("high", &b.high)
		if f.Decoding() && f.Err() == nil && !(b.low <= b.high && b.high-b.low < math.Inf(1)) {
			f.Fail(ensembleLimits, fmt.Errorf("%g to %g", b.low, b.high))
		}
	}
}

// numbers sets dst to the weighted sums of the members' predictions, which are given by
// member.
func (m *ensemble) numbers(dst []float64, predictions [][]float64) {
	for i := range dst {
		f := m.bias
		for _, t := range m.terms {
			f += float64(t.weight * m.limits.clip(predictions[t.member][i]))
		}
		dst[i] = m.limits.clip(f)
	}
}

// keepSum adds to the heaviest weight what their sum lacks of 1.
func (m *ensemble) keepSum() {
	if len(m.terms) == 0 {
		return
	}
	at, sum := 0, 1.0
	for i, t := range m.terms {
		sum -= t.weight
		if math.Abs(t.weight) > math.Abs(m.terms[at].weight) {
			at = i
		}
	}
	m.terms[at].weight += sum
}
