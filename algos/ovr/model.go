package ovr

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
)

// magic starts an encoded model; the digit is the format's version.
const magic = "streamsvm-rest-1\n"

// model is a view of the models of the classifiers.
type model struct {
	parts []algos.Model
	blank []bool // the classifier has not taken a step
}

var _ algos.Scorer = (*model)(nil)

// Model returns a view of the present model.
func (l *learner) Model() algos.Model {
	parts, blank := make([]algos.Model, len(l.classifiers)), make([]bool, len(l.classifiers))
	for k, h := range l.classifiers {
		parts[k], blank[k] = h.Model(), !h.begun
	}
	return NewModel(parts, blank)
}

// NewModel returns a multi-class model from one model per class. The score of a blank
// class is Blank.
func NewModel(parts []algos.Model, blank []bool) algos.Scorer { return &model{parts, blank} }

// Classes implements algos.Scorer.
func (m *model) Classes() int { return len(m.parts) }

// Scores implements algos.Scorer.
func (m *model) Scores(dst []float64, xs []stream.Vec) {
	n := len(m.parts)
	if first, ok := m.parts[0].(interface {
		ScoreTogether(dst []float64, parts []algos.Model, xs []stream.Vec)
	}); ok && !slices.Contains(m.blank, true) {
		first.ScoreTogether(dst, m.parts, xs)
		return
	}
	f := make([]float64, len(xs))
	for k, h := range m.parts {
		if !m.blank[k] {
			h.Decisions(f, xs)
		}
		for i, v := range f {
			if m.blank[k] {
				v = Blank
			}
			dst[i*n+k] = v
		}
	}
}

// Means returns the feature means of the first model, or nil if it has none.
func (m *model) Means() []float64 {
	if p, ok := m.parts[0].(interface{ Means() []float64 }); ok {
		return p.Means()
	}
	return nil
}

// Decision returns the number of the predicted class.
func (m *model) Decision(x stream.Vec) float64 {
	var f [1]float64
	m.Decisions(f[:], []stream.Vec{x})
	return f[0]
}

// Decisions sets dst[i] to the number of the predicted class of xs[i].
func (m *model) Decisions(dst []float64, xs []stream.Vec) { algos.Decide(m, dst, xs) }

// Info describes the model.
func (m *model) Info() algos.Info {
	all := m.parts[0].Info()
	for _, h := range m.parts[1:] {
		i := h.Info()
		all.Dim = max(all.Dim, i.Dim)
		if all.Support >= 0 {
			all.Support += i.Support
		}
		all.Nonzero += i.Nonzero
	}
	all.Text = fmt.Sprintf("%d classes, each against the rest: %s", len(m.parts), all.Text)
	return all
}

// Compile returns the same function in a form that predicts faster.
func (m *model) Compile() algos.Model { return m.with(algos.Compiled) }

// Pack returns the form for publishing, which takes fewer bytes.
func (m *model) Pack() algos.Model { return m.with(algos.Packed) }

// with returns m with f applied to each part.
func (m *model) with(f func(algos.Model) algos.Model) algos.Model {
	c := &model{parts: make([]algos.Model, len(m.parts)), blank: m.blank}
	for k, h := range m.parts {
		c.parts[k] = f(h)
	}
	return c
}

// AppendBinary appends the encoded model.
func (m *model) AppendBinary(dst []byte) ([]byte, error) {
	return state.Append(append(dst, magic...), func(f *state.Fields) { m.fields(f, nil) })
}

// DecodeModel decodes a model of this package, using part for its parts. It also decodes
// a single part.
func DecodeModel(data []byte, part func([]byte) (algos.Model, error)) (algos.Model, error) {
	data, several := bytes.CutPrefix(data, []byte(magic))
	if !several {
		return part(data)
	}
	m := new(model)
	if err := state.Decode(data, func(f *state.Fields) { m.fields(f, part) }); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *model) fields(f *state.Fields, decode func([]byte) (algos.Model, error)) {
	n := len(m.parts)
	f.List("heads", n, 4, func(k int) {
		n = k
		m.parts, m.blank = make([]algos.Model, k), make([]bool, k)
	}, func(f *state.Fields, k int) {
		f.Bool("blank", &m.blank[k])
		f.Nested("model", func(dst []byte) ([]byte, error) { return m.parts[k].AppendBinary(dst) }, func(data []byte) (err error) {
			m.parts[k], err = decode(data)
			return err
		})
	})
	if f.Decoding() && f.Err() == nil && n < 3 {
		f.Fail("heads", errFew)
	}
}

// Parts returns the model of each class and whether it is blank. ok is false if m is not
// a multi-class model.
func Parts(m algos.Model) (parts []algos.Model, blank []bool, ok bool) {
	if m, ok := m.(interface {
		Parts() ([]algos.Model, []bool)
	}); ok {
		parts, blank = m.Parts()
		return parts, blank, true
	}
	return nil, nil, false
}

// Parts returns the model of each class, and whether it is blank.
func (m *model) Parts() (parts []algos.Model, blank []bool) { return m.parts, m.blank }
