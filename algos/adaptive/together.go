package adaptive

import (
	"bytes"
	"errors"
	"slices"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/ovr"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
)

// together lets the models of several classes share what is equal in them: statistics of the
// features, knots, and the points of the neighbours. ScoreTogether then computes with these once.
func together(m algos.Model) algos.Model {
	parts, _, _ := ovr.Parts(m)
	all := new(ensemble)
	for _, p := range parts {
		e, ok := p.(*ensemble)
		if !ok || e.inputs == nil {
			continue
		}
		if all.inputs == nil {
			all.inputs, all.seed = e.inputs, e.seed
		}
		if e.seed != all.seed || e.inputs != all.inputs && !equalStates(e.inputs.fields, all.inputs.fields) {
			continue
		}
		e.inputs = all.inputs
		all.addForms(e)
		if e.fourier.features() == all.fourier.features() {
			e.fourier = all.fourier
		}
		knots := func(s *splines) func(f *state.Fields) {
			return func(f *state.Fields) { splineFields(f, &s, e.inputs) }
		}
		if e.splines != nil && e.splines != all.splines && equalStates(knots(e.splines), knots(all.splines)) {
			e.splines = all.splines
		}
		near, first := e.near, all.near
		if near == nil || near == first || near.points == nil || first.points == nil || near.next != first.next {
			continue
		}
		switch {
		case near.missing() && len(near.y) == first.points.Len():
			near.points = first.points
		case near.points.Equal(first.points):
			e.near = &neighbours{points: first.points, y: near.y, next: near.next, number: near.number, shared: true}
		}
	}
	return m
}

// missing reports whether the points were encoded with another class, and are not there yet.
func (e *neighbours) missing() bool { return e.shared && e.points.Len() == 0 }

// complete returns an error if points of m are missing.
func complete(m algos.Model) error {
	parts, _, ok := ovr.Parts(m)
	if !ok {
		parts = []algos.Model{m}
	}
	for _, p := range parts {
		if e, ok := p.(*ensemble); ok && e.near != nil && e.near.points != nil && e.near.missing() {
			return errors.New("neighbours: the points are missing")
		}
	}
	return nil
}

// addForms adds the forms of inputs that m lacks and e has.
func (m *ensemble) addForms(e *ensemble) {
	if m.fourier == nil {
		m.fourier = e.fourier
	}
	if m.splines == nil {
		m.splines = e.splines
	}
	if m.near == nil {
		m.near = e.near
	}
}

// equalStates reports whether two values of the same type have equal encodings.
func equalStates(a, b func(*state.Fields)) bool {
	x, err := state.Append(nil, a)
	y, other := state.Append(nil, b)
	return err == nil && other == nil && bytes.Equal(x, y)
}

// ScoreTogether sets dst[i*K+k] to the decision of parts[k] for xs[i], for K parts, of which m is
// the first.
func (m *ensemble) ScoreTogether(dst []float64, parts []algos.Model, xs []stream.Vec) {
	all := new(ensemble)
	for _, p := range parts {
		e, ok := p.(*ensemble)
		if !ok || e.inputs == nil || all.inputs != nil && e.inputs != all.inputs {
			continue
		}
		all.inputs = e.inputs
		all.addForms(e)
	}
	f := make([]float64, chunk)
	for some := range slices.Chunk(xs, chunk) {
		b := all.inputsOf(some)
		for k, p := range parts {
			if e, ok := p.(*ensemble); ok && e.within(all) {
				e.decide(f[:len(some)], b)
			} else {
				p.Decisions(f[:len(some)], some)
			}
			for i, v := range f[:len(some)] {
				dst[i*len(parts)+k] = v
			}
		}
		dst = dst[len(some)*len(parts):]
	}
}

// within reports whether the inputs of all are those of m.
func (m *ensemble) within(all *ensemble) bool {
	return m.inputs == nil || m.inputs == all.inputs && (m.fourier == nil || m.fourier == all.fourier) &&
		(m.splines == nil || m.splines == all.splines) && (m.near == nil || m.near.points == all.near.points)
}
