package adaptive

import (
	"slices"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/stream"
)

// ensemble returns a view of the experts, without terms, and the place of each.
func (l *Learner) ensemble() (m *ensemble, place []int) {
	m = &ensemble{inputs: &l.inputs, seed: l.env.Seed, fourier: l.fourier}
	if l.env.Task == algos.Regress {
		m.limits = new(limits)
	}
	for _, e := range l.experts {
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

// present returns a view of the present ensemble, with the weights of a mixer.
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

// toPublish returns a lane of what is to be published. latest has the member of each expert in
// the latest version.
func (l *Learner) toPublish(x *mixer, lane int, latest []int) *ensemble {
	if x.published.versions == 0 {
		return l.present(x, lane)
	}
	m, place := l.ensemble()
	x.published.publish(m, lane, place, latest, x.calibrators[lane], x.stack, x.shares.weights(), x.center(l.rate())[0])
	if e, ok := x.published.alone(); ok && place[e] >= 0 {
		m.terms, m.bias, m.mixed, m.caps = []term{{place[e], x.published.calibration(lane, e), 1, 0}}, 0, 0, nil
	}
	return m.pruned()
}

// rate returns the log odds of +1 by the share of the examples so far.
func (l *Learner) rate() float64 {
	for _, e := range l.experts {
		if b, ok := e.expert.(*baseRate); ok && b.n > 0 {
			return b.logOdds()
		}
	}
	return 0
}

// Calibrated implements algos.Publisher: decisions are log odds and what weights of classes
// add.
func (l *Learner) Calibrated() (shift float64, ok bool) { return l.shift(), l.numbers == nil }

// nextVersion returns after how many examples a version is due; 0: never.
func (l *Learner) nextVersion() uint64 {
	switch {
	case l.numbers != nil:
		return l.numbers.next
	case l.mixer != nil:
		return l.published.next
	}
	return 0
}

// endBatch takes a version, if one is due.
func (l *Learner) endBatch() error {
	examples := l.detector.Seen()
	if next := l.nextVersion(); next == 0 || examples < next {
		return nil
	}
	if err := l.makeVersion(nil); err != nil {
		return err
	}
	if l.numbers != nil {
		l.numbers.startVersion(examples)
		return nil
	}
	l.published.startVersion(examples, l.calibrators, l.stack, l.shares.weights(), l.center(l.rate()), l.place)
	return nil
}

// makeVersion makes a version of the present experts. It shares what depends on features
// alone with that of a learner that has seen the same examples, if there is one.
func (l *Learner) makeVersion(other *ensemble) error {
	m, place := l.ensemble()
	near := m.near
	if other != nil && near != nil {
		m.near = new(neighbours)
	}
	now := slices.Clone(m.members)
	for k, e := range now {
		if e.fixed() {
			m.members[k].function = constant(0)
		}
	}
	data, err := m.AppendBinary(nil) // a copy of what changes
	if err == nil {
		m, err = decodeEnsemble(data)
	}
	for k, e := range now {
		if err == nil && e.fixed() {
			m.members[k] = e
		}
	}
	if err == nil && other != nil {
		m.inputs, m.fourier = other.inputs, other.fourier
		if near != nil {
			*m.near = neighbours{points: other.near.points, y: slices.Clone(near.y), next: near.next}
		}
	}
	l.version, l.place = m, place
	return err
}

// fixed reports whether the function is an expansion, which is not changed once it is made.
func (e member) fixed() bool {
	k, ok := e.function.(*kernelFunction)
	if ok {
		_, ok = k.model.(*expansion.Expansion)
	}
	return ok
}

// versionScores returns the scores of the latest version for a batch, by example and expert;
// nil while there is none. Their inputs are b, if that is not nil.
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
