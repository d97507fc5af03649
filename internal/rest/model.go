package rest

import (
	"bytes"
	"fmt"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
)

// magic starts an encoded model; the digit is the format's version.
const magic = "streamsvm-rest-1\n"

// model is a view of the classifiers' models.
type model struct {
	classifiers []algos.Model
	blank       []bool // the classifier has done no step
}

var _ algos.Scorer = (*model)(nil)

// Model returns a view of the present model.
func (l *learner) Model() algos.Model {
	classifiers, blank := make([]algos.Model, len(l.classifiers)), make([]bool, len(l.classifiers))
	for k, h := range l.classifiers {
		classifiers[k], blank[k] = h.Model(), !h.begun
	}
	return NewModel(classifiers, blank)
}

// NewModel returns a model of several classes. Blank ones have the score −1,
// whatever their part predicts.
func NewModel(parts []algos.Model, blank []bool) algos.Scorer { return &model{parts, blank} }

// Classes implements algos.Scorer.
func (m *model) Classes() int { return len(m.classifiers) }

// Scores implements algos.Scorer.
func (m *model) Scores(dst []float64, xs []stream.Vec) {
	n := len(m.classifiers)
	f := make([]float64, len(xs))
	for k, h := range m.classifiers {
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

// Decision returns the number of the predicted class.
func (m *model) Decision(x stream.Vec) float64 {
	var f [1]float64
	m.Decisions(f[:], []stream.Vec{x})
	return f[0]
}

// Decisions sets dst[i] to the number of the class predicted for xs[i].
func (m *model) Decisions(dst []float64, xs []stream.Vec) { algos.Decide(m, dst, xs) }

// Info describes the model.
func (m *model) Info() algos.Info {
	all := m.classifiers[0].Info()
	for _, h := range m.classifiers[1:] {
		i := h.Info()
		all.Dim = max(all.Dim, i.Dim)
		if all.Support >= 0 {
			all.Support += i.Support
		}
		all.Nonzero += i.Nonzero
	}
	all.Text = fmt.Sprintf("%d classes, each against the rest: %s", len(m.classifiers), all.Text)
	return all
}

// Compile returns the same function in a form that decides faster.
func (m *model) Compile() algos.Model {
	return m.with(func(h algos.Model) algos.Model {
		if x, ok := h.(interface{ Compile() algos.Model }); ok {
			return x.Compile()
		}
		return h
	})
}

// Pack returns the form for publishing, which takes fewer bytes.
func (m *model) Pack() algos.Model {
	return m.with(func(h algos.Model) algos.Model {
		if x, ok := h.(interface{ Pack() algos.Model }); ok {
			return x.Pack()
		}
		return h
	})
}

// with returns m with its parts transformed by f.
func (m *model) with(f func(algos.Model) algos.Model) algos.Model {
	c := &model{classifiers: make([]algos.Model, len(m.classifiers)), blank: m.blank}
	for k, h := range m.classifiers {
		c.classifiers[k] = f(h)
	}
	return c
}

// AppendBinary appends the encoded model.
func (m *model) AppendBinary(dst []byte) ([]byte, error) {
	return state.Append(append(dst, magic...), func(f *state.Fields) { m.fields(f, nil) })
}

// DecodeModel decodes what AppendBinary of a model of this package wrote, its parts
// with part. It also decodes a single part.
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
	n := len(m.classifiers)
	f.List("heads", n, 4, func(k int) {
		n = k
		m.classifiers, m.blank = make([]algos.Model, k), make([]bool, k)
	}, func(f *state.Fields, k int) {
		var data []byte
		if !f.Decoding() {
			var err error
			data, err = m.classifiers[k].AppendBinary(nil)
			f.Fail("model", err)
		}
		f.Bool("blank", &m.blank[k])
		f.Bytes("model", &data)
		if f.Decoding() && f.Err() == nil {
			var err error
			m.classifiers[k], err = decode(data)
			f.Fail("model", err)
		}
	})
	if f.Decoding() && f.Err() == nil && n < 3 {
		f.Fail("heads", errFew)
	}
}

// Parts returns the parts of m, if it is a model of this package or contains one,
// and which of them are blank.
func Parts(m algos.Model) (parts []algos.Model, blank []bool, ok bool) {
	if m, ok := m.(interface {
		Parts() ([]algos.Model, []bool)
	}); ok {
		parts, blank = m.Parts()
		return parts, blank, true
	}
	return nil, nil, false
}

// Parts returns the parts, and which of them are blank.
func (m *model) Parts() (parts []algos.Model, blank []bool) { return m.classifiers, m.blank }
