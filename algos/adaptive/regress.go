package adaptive

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
)

// numberExperts returns the experts of a regression, in the order of predictions and weights.
// Kernel learners are kernel ridge regressions for either loss; the loss option applies to
// the other experts and the weights. The growing one drops its oldest examples once it is
// full.
func (l *Learner) numberExperts() []entry {
	list := make([]entry, 0, 24)
	for _, i := range [...]int{growing, k64, k256, k1024} {
		list = append(list, entry{names[i], &kernelExpert{panel: l.panel, at: i}, false})
	}
	list = append(list, entry{"uncut", &kernelExpert{panel: l.panel, at: uncut}, false})
	for _, i := range [...]int{l1, ada, r1} {
		list = append(list, entry{names[i], &linearExpert{p: l.panel, at: i - l1, form: formOf(i)}, false})
	}
	for _, rate := range [...]string{"0.1", "2"} {
		list = append(list, entry{"o" + rate, &fitted{panel: l, form: onRow, rate: rate}, false})
	}
	few, many := newNearExperts(&neighbours{number: true})
	return append(list,
		entry{"gam", &fitted{panel: l, form: onSplines, rate: gamRate}, false},
		entry{"ridge", &fitted{panel: l, form: onZ}, false},
		entry{"features", &fitted{panel: l, form: onPhi}, false},
		entry{"n512", few, false},
		entry{"n2048", many, false},
		entry{"last", &constantNumber{labels: &l.labels, value: &l.labels.last}, false},
		entry{"mean", &constantNumber{labels: &l.labels, value: &l.labels.mean}, false},
	)
}

// numbers weights the experts of a regression. Fixed share and recursive least squares
// propose weights for the next example, and a second fixed share mixes the proposals. All
// weights sum to 1, so predictions do not depend on the origin and scale of the labels.
//
// Published versions have their own weights, since those for the next example are not always
// best for them. A slow Hedge mixes four proposals: the weights for the next example, their
// fixed share alone, a fixed share learned from the predictions of versions during their
// lives, and the mean label. It judges the proposals frozen with the latest version. The third
// starts near the second, which is good from the first version on. The mean bounds the error
// where nothing that is learned stays true for the life of a version.
type numbers struct {
	labels           *labels // statistics so far
	share, rules     *average
	stack            squares
	agedShare, hedge *average // for published versions
	schedule
	frozen [][]float64

	f []float64 // scratch: the experts' predictions
}

// Rates for published versions. They are low because the errors during a version are
// correlated.
const (
	agedRate  = 0.1  // of the fixed share learned at age
	hedgeRate = 0.03 // of the Hedge over proposals
)

// hedgePrior holds the initial weights of the proposals for published versions.
var hedgePrior = []float64{0.36, 0.36, 0.25, 0.03}

func newNumbers(every, experts int, y *labels, absolute bool) *numbers {
	return &numbers{
		labels: y, schedule: newSchedule(every), f: make([]float64, experts),
		share: newAverage(absolute, uniform(experts)), rules: newAverage(absolute, uniform(2)),
		stack:     newSquares(experts, 0.02, ownKeep, absolute),
		agedShare: newAverage(absolute, uniform(experts)), hedge: newAverage(absolute, hedgePrior),
	}
}

// mixed returns the experts' weights: the proposals, mixed by weights.
func mixed(rules *average, proposals [][]float64) []float64 {
	out := make([]float64, len(proposals[0]))
	for r, v := range rules.weights() {
		for e, p := range proposals[r] {
			out[e] += float64(v * p)
		}
	}
	return out
}

// outputs returns what the proposals make of the experts' scores.
func (m *numbers) outputs(proposals [][]float64, scores []score) outputs {
	m.predictions(scores)
	g := make(outputs, len(proposals))
	for r, p := range proposals {
		g[r] = dot(p, m.f)
	}
	return g
}

// own returns the proposals for the next example.
func (m *numbers) own() [][]float64 { return [][]float64{m.share.weights(), m.stack.weights()} }

// weights returns the experts' weights for the next example.
func (m *numbers) weights() []float64 { return mixed(m.rules, m.own()) }

// proposals returns the proposals for a version that is published now.
func (m *numbers) proposals() [][]float64 {
	mean := make([]float64, len(m.f))
	mean[len(mean)-1] = 1 // as in numberExperts
	return [][]float64{m.weights(), m.share.weights(), m.agedShare.weights(), mean}
}

// published returns the experts' weights for a version that is published now.
func (m *numbers) published() []float64 { return mixed(m.hedge, m.proposals()) }

// startVersion begins a version after the given number of examples.
func (m *numbers) startVersion(examples uint64, c changes) {
	if m.began == 0 { // nothing has been learned at age yet
		m.agedShare.startFrom(m.share.weights())
	}
	m.begin(examples, c)
	m.frozen = m.proposals()
}

// predict returns the prediction, given the experts' scores.
func (m *numbers) predict(scores []score) float64 {
	w := shared(m.weights(), func(e int) bool { return scores[e].known() })
	m.predictions(scores)
	return m.limits().clip(dot(w, m.f))
}

// predictions sets f to the experts' predictions within the limits. An expert without one gets
// the mean of the others.
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

// learn updates the weights with label y. scores are the experts' predictions, old those of the
// latest version's. The first label changes nothing.
func (m *numbers) learn(scores []score, old aged, y, weight float64) {
	if m.labels.n == 0 {
		return
	}
	m.rules.learn(m.outputs(m.own(), scores), y, weight)
	m.share.learn(m.f, y, weight)
	m.stack.learn(m.f, y, weight)
	if old.scores != nil && m.began > 0 {
		weight *= old.stands * min(1, effective/m.life())
		if old.out == nil {
			old.out = m.outputs(m.frozen, old.scores)
		} else {
			m.predictions(old.scores)
		}
		m.hedge.learn(old.out, y, weight*hedgeRate)
		m.agedShare.learn(m.f, y, weight*agedRate)
	}
}

// known reports whether there is a prediction.
func (s score) known() bool { return s.ok && s.f-s.f == 0 }

// shared returns the weights of the experts that have predictions; the weight of the others,
// which predict their mean, is divided among them.
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
	m.schedule.fields(f)
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

// weighted returns a view of the experts with weights w.
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

// limits bounds predictions: the range of the labels so far and a tenth of it on either side.
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

// numbers sets dst to the weighted sums of predictions, which are given by member.
func (m *ensemble) numbers(dst []float64, predictions [][]float64) {
	for i := range dst {
		f := m.bias
		for _, t := range m.terms {
			f += float64(t.weight * m.limits.clip(predictions[t.member][i]))
		}
		dst[i] = m.limits.clip(f)
	}
}

// keepSum adjusts the largest weight so that the weights sum to 1.
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
