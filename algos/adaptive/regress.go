package adaptive

import (
	"fmt"
	"math"
	"slices"

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
	for _, rate := range [...]string{"0.1", "0.5", "2"} {
		list = append(list, entry{"o" + rate, &fitted{panel: l, form: onRow, rate: rate}, false})
	}
	near := &neighbours{number: true}
	return append(list,
		entry{"ridge", &fitted{panel: l, form: onZ}, false},
		entry{"features", &fitted{panel: l, form: onPhi}, false},
		entry{"n512", &nearExpert{neighbours: near}, false},
		entry{"n2048", &nearExpert{neighbours: near, second: true}, false},
		entry{"last", &lastNumber{labels: &l.labels}, false},
		entry{"mean", &meanNumber{labels: &l.labels}, false},
	)
}

// compareNumbers tells the drift detector which machines were nearer to y.
func (l *Learner) compareNumbers(p *prediction, y, weight float64) {
	var by [k2048]float64
	for e, x := range l.experts {
		if k, ok := x.expert.(*kernelExpert); ok && k.at > growing && l.machines[k.at] != nil && p.scores[e].ok {
			by[k.at-k64] = weight * better(p.scores[e].f-y, p.scores[0].f-y)
		}
	}
	l.cutting.Compare(by[:])
}

// better is 1 where the first error is the smaller one, −1 where it is the larger one.
func better(a, b float64) float64 {
	switch a, b := math.Abs(a), math.Abs(b); {
	case a < b:
		return 1
	case a > b:
		return -1
	}
	return 0
}

// numbers weights the experts of a regression. Rules propose weights: fixed share, recursive
// least squares, and the mean of all; a fixed share mixes them. All weights sum to 1, so
// that a prediction does not depend on the origin and scale of the numbers.
//
// What is published has weights of its own, as in published: learned from what the experts
// of the latest version predict for the examples since. They have two more rules, the
// weights for the next example and their fixed share, and single experts, so that no
// version is worse than the mean of the numbers for long. Rules are judged by the proposals
// that were frozen with the version.
type numbers struct {
	labels    *labels // so far
	own, aged weighing
	every     uint64
	began     uint64 // examples when the latest version was taken; 0: there is none
	next      uint64 // examples at which the next one is due
	frozen    [][]float64
	single    []int // experts that are rules

	f []float64 // scratch: the experts' predictions
}

// weighing makes weights by rules.
type weighing struct {
	share, rules *average
	stack        squares
	slow         [2]float64 // how much less an example counts to share and rules
}

// The weights at age count an example little, since those of one version's life depend on
// one another, and forget little.
func newNumbers(every int, experts []entry, y *labels, absolute bool) *numbers {
	if every <= 0 {
		every = defaultEvery
	}
	n := len(experts)
	m := &numbers{labels: y, every: uint64(every), next: firstVersion, f: make([]float64, n)}
	for e, x := range experts {
		if slices.Contains([]string{"m", "ridge", "features", "last", "mean"}, x.name) {
			m.single = append(m.single, e)
		}
	}
	m.own = weighing{newAverage(absolute, n), newAverage(absolute, 3), newSquares(n, 0.02, ownKeep, absolute), [2]float64{1, 1}}
	m.aged = weighing{newAverage(absolute, n), newAverage(absolute, 5+len(m.single)), newSquares(n, ageSpread, 1, absolute), [2]float64{0.4, 0.06}}
	return m
}

func (w *weighing) proposals() [][]float64 {
	return [][]float64{w.share.weights(), w.stack.weights(), uniform(len(w.stack.w))}
}

// mixed returns the weights of the experts that follow from proposals.
func (w *weighing) mixed(proposals [][]float64) []float64 {
	out := make([]float64, len(w.stack.w))
	for r, v := range w.rules.weights() {
		for e, p := range proposals[r] {
			out[e] += float64(v * p)
		}
	}
	return out
}

func (w *weighing) learn(f []float64, proposals [][]float64, y, weight float64) {
	g := make([]float64, len(proposals))
	for r, p := range proposals {
		g[r] = dot(p, f)
	}
	w.share.learn(f, y, weight*w.slow[0])
	w.rules.learn(g, y, weight*w.slow[1])
	w.stack.learn(f, y, weight)
}

func (w *weighing) fields(f *state.Fields) {
	f.Group("share", w.share.fields)
	f.Group("rules", w.rules.fields)
	f.Group("stack", w.stack.fields)
}

// weights returns those for the next example.
func (m *numbers) weights() []float64 { return m.own.mixed(m.own.proposals()) }

// proposals returns what the rules propose for a version now.
func (m *numbers) proposals() [][]float64 {
	list := append(m.aged.proposals(), m.weights(), m.own.share.weights())
	for _, e := range m.single {
		list = append(list, make([]float64, len(m.f)))
		list[len(list)-1][e] = 1
	}
	return list
}

// published returns the weights for a version.
func (m *numbers) published() []float64 {
	if m.began == 0 {
		return m.weights()
	}
	return m.aged.mixed(m.proposals())
}

// take takes note of a version after so many examples.
func (m *numbers) take(examples uint64) {
	if m.began == 0 { // there is nothing to go by but the weights for the next example
		copy(m.aged.stack.w, m.weights())
	}
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
	m.own.learn(m.f, m.own.proposals(), y, weight)
	if aged != nil && m.began > 0 {
		m.predictions(aged)
		m.aged.learn(m.f, m.frozen, y, weight*min(1, effective/float64(m.next-m.began)))
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
	f.Group("own", m.own.fields)
	f.Group("aged", m.aged.fields)
	f.Uint64("began", &m.began)
	f.Uint64("next", &m.next)
	if f.Decoding() {
		m.frozen = nil
		if m.began > 0 {
			m.frozen = make([][]float64, len(m.aged.rules.prior))
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
