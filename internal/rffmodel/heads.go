package rffmodel

import (
	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/ovr"
	"github.com/streamsvm/streamsvm/stream"
)

// heads is a model of several classes whose parts have the same features, which
// are computed once.
type heads struct {
	algos.Scorer
	parts []*Model
	blank bool // the learner has not taken a step
}

// NewHeads returns a model of several classes whose parts have the same features. blank says
// that the learner has not taken a step.
func NewHeads(parts []*Model, blank bool) algos.Scorer {
	list, blanks := make([]algos.Model, len(parts)), make([]bool, len(parts))
	for k, p := range parts {
		list[k], blanks[k] = p, blank
	}
	return &heads{ovr.NewModel(list, blanks), parts, blank}
}

// Parts makes ovr.Parts work.
func (m *heads) Parts() (parts []algos.Model, blank []bool) {
	parts, blank, _ = ovr.Parts(m.Scorer)
	return parts, blank
}

// Scores implements algos.Scorer.
func (m *heads) Scores(dst []float64, xs []stream.Vec) {
	first := m.parts[0]
	if first.Feats == nil {
		m.Scorer.Scores(dst, xs)
		return
	}
	w := first.scratch()
	defer first.pool.Put(w)
	w.score(m.parts, dst, xs)
}

// Pack returns the form for publishing, which takes fewer bytes.
func (m *heads) Pack() algos.Model {
	parts := make([]*Model, len(m.parts))
	for k, p := range m.parts {
		parts[k] = p.Pack().(*Model)
	}
	return NewHeads(parts, m.blank)
}

// Decision returns the number of the predicted class.
func (m *heads) Decision(x stream.Vec) float64 {
	var f [1]float64
	algos.Decide(m, f[:], []stream.Vec{x})
	return f[0]
}

// Decisions sets dst[i] to the number of the predicted class of xs[i].
func (m *heads) Decisions(dst []float64, xs []stream.Vec) { algos.Decide(m, dst, xs) }

// DecodeHeads decodes a model of any number of classes, whose parts may have the same
// features.
func DecodeHeads(data []byte) (algos.Model, error) {
	m, err := ovr.DecodeModel(data, Decode)
	if err != nil {
		return nil, err
	}
	list, blank, several := ovr.Parts(m)
	if !several {
		return m, nil
	}
	parts := make([]*Model, len(list))
	for k, p := range list {
		part, ok := p.(*Model)
		if !ok {
			return m, nil
		}
		parts[k] = part
		if first := parts[0]; blank[k] || parts[k].Fresh || !alike(first, parts[k]) {
			return m, nil
		}
		parts[k].Feats = parts[0].Feats
	}
	return NewHeads(parts, false), nil
}

// alike reports whether two models have the same features.
func alike(a, b *Model) bool {
	if a.Feats == nil || b.Feats == nil || len(a.Coef) != len(b.Coef) {
		return a.Feats == b.Feats
	}
	return a.Feats.Seed() == b.Feats.Seed() && a.Feats.Gamma() == b.Feats.Gamma() && a.Feats.Kind() == b.Feats.Kind() && a.Feats.Block() == b.Feats.Block()
}
