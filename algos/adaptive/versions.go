package adaptive

import (
	"slices"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/stream"
)

// ensemble returns a view of the experts, without terms, and the member of each, -1 if missing.
func (l *Learner) ensemble() (m *ensemble, place []int) {
	m = &ensemble{inputs: &l.inputs, seed: l.env.Seed, fourier: l.fourier, splines: l.splines}
	if l.env.Task == algos.Regress {
		m.limits = new(limits)
	}
	for _, e := range l.experts {
		if k, ok := e.expert.(*kernelExpert); ok && k.alias() {
			place = append(place, place[growing])
			continue
		}
		f := e.function()
		if f == nil {
			place = append(place, -1)
			continue
		}
		if near, ok := f.(nearFunction); ok {
			m.near = near.neighbours
		}
		place = append(place, len(m.members))
		m.members = append(m.members, member{e.name, f})
	}
	return m, place
}

// Model returns a view of the present ensemble.
func (l *Learner) Model() algos.Model {
	if l.numbers != nil {
		return l.weighted(l.numbers.weights())
	}
	if l.mixer == nil {
		return new(ensemble)
	}
	return l.present(l.mixer, 0).shifted(l.shift())
}

// present returns a view of the present ensemble with the weights of x for the next example.
func (l *Learner) present(x *mixer, lane int) *ensemble {
	m, place := l.ensemble()
	n := len(l.experts)
	for e, k := range place {
		if k >= 0 {
			m.terms = append(m.terms, term{k, x.calibrators[lane][e].calibration, x.stack.w[e], 0})
		}
	}
	m.bias = x.stack.w[n]
	return m
}

// Published implements algos.Publisher.
func (l *Learner) Published() algos.Model {
	if l.numbers != nil {
		return l.weighted(l.numbers.published()).pruned()
	}
	return l.toPublish(l.mixer, 0, l.place).shifted(l.shift())
}

// toPublish returns one lane of the model to publish. latest holds the member of each expert in
// the latest version.
func (l *Learner) toPublish(x *mixer, lane int, latest []int) *ensemble {
	if x.published.versions == 0 {
		return l.present(x, lane)
	}
	m, place := l.ensemble()
	x.published.publish(m, lane, place, latest, x.calibrators[lane], x.stack, x.shares.weights(), x.center(l.rate())[0])
	if e, ok := x.published.alone(); ok && place[e] >= 0 {
		m.terms, m.bias, m.mixed, m.caps = []term{{place[e], x.published.calibrators[lane][e].calibration, 1, 0}}, 0, 0, nil
	}
	return m.pruned()
}

// rate returns the log odds of +1 for its rate so far.
func (l *Learner) rate() float64 {
	for _, e := range l.experts {
		if b, ok := e.expert.(*baseRate); ok && b.n > 0 {
			return b.logOdds()
		}
	}
	return 0
}

// Calibrated implements algos.Publisher: decisions are log odds plus the shift by class
// weights.
func (l *Learner) Calibrated() (shift float64, ok bool) { return l.shift(), l.numbers == nil }

// plan returns the schedule of versions; nil for one of several classes, which share one.
func (l *Learner) plan() *schedule {
	switch {
	case l.numbers != nil:
		return &l.numbers.schedule
	case l.mixer != nil:
		return &l.published.schedule
	}
	return nil
}

// Early implements algos.Publisher.
func (l *Learner) Early() uint64 { return l.plan().early }

// endBatch starts a version, if one is due.
func (l *Learner) endBatch() error {
	plan, examples, c := l.plan(), l.detector.Seen(), l.changes()
	if plan == nil || !plan.due(examples, c) {
		return nil
	}
	if err := l.makeVersion(); err != nil {
		return err
	}
	if l.numbers != nil {
		l.numbers.startVersion(examples, c)
		return nil
	}
	l.published.startVersion(examples, c, l.calibrators, l.stack, l.shares.weights(), l.center(l.rate()), l.place)
	if m := l.kernels[uncut]; m != nil && l.published.hopeless("uncut") {
		l.evals += m.evals()
		l.kernels[uncut] = nil
	}
	return nil
}

// makeVersion keeps a copy of the present experts as the latest version.
func (l *Learner) makeVersion() error {
	m, place := l.ensemble()
	now := slices.Clone(m.members)
	for k, e := range now {
		if e.fixed() {
			m.members[k].function = constant(0)
		}
	}
	data, err := m.AppendBinary(nil) // copies what may change
	if err == nil {
		m, err = decodeEnsemble(data)
	}
	for k, e := range now {
		if err == nil && e.fixed() {
			m.members[k] = e
		}
	}
	l.version, l.place = m, place
	return err
}

// fixed reports whether the function is a kernel expansion, which is immutable.
func (e member) fixed() bool {
	k, ok := e.function.(*kernelFunction)
	if ok {
		_, ok = k.model.(*expansion.Expansion)
	}
	return ok
}

// aged holds the scores of the latest version's experts for an example, nil if there are none,
// and the number of examples that it stands for; see schedule.judges.
type aged struct {
	scores []score
	stands float64
	out    outputs // of the version's rules, or a regression's proposals, if the label was late; may be nil
}

// lane returns the scores as one lane.
func (a aged) lane() [][]score {
	if a.scores == nil {
		return nil
	}
	return [][]score{a.scores}
}

// agedScores returns the latest version's scores for each of xs, which follow the given number
// of examples.
func (l *Learner) agedScores(xs []*stream.Example, seen uint64) []aged {
	out := make([]aged, len(xs))
	if l.version == nil {
		return out
	}
	plan := l.plan()
	if plan == nil {
		plan = l.shared
	}
	some, stands := plan.judges(xs, l.before+seen)
	scores := l.versionScores(some, l.common.inputsOf(l.version, seen, len(some)))
	for i, n := range stands {
		if n > 0 {
			out[i], scores = aged{scores[0], n, nil}, scores[1:]
		}
	}
	return out
}

// versionScores returns the latest version's scores by example and expert, nil if there is no
// version. b holds the inputs for xs; if nil, they are computed.
func (l *Learner) versionScores(xs []stream.Vec, b *inputBatch) [][]score {
	if l.version == nil {
		return nil
	}
	all := newRows(len(l.version.members), len(xs))
	if b == nil {
		b = l.version.inputsOf(xs)
	}
	l.version.scores(all, b)
	out, flat := make([][]score, len(xs)), make([]score, len(xs)*len(l.experts))
	for i := range xs {
		out[i] = flat[i*len(l.experts) : (i+1)*len(l.experts)]
		for e, k := range l.place {
			if k >= 0 {
				out[i][e] = score{all[k][i], true}
			}
		}
	}
	return out
}
