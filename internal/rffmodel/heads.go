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
}

// NewHeads returns a model of several classes whose parts have the same features.
func NewHeads(parts []*Model) algos.Scorer {
	list := make([]algos.Model, len(parts))
	for k, p := range parts {
		list[k] = p
	}
	return &heads{ovr.NewModel(list, make([]bool, len(parts))), parts}
}

// Parts makes ovr.Parts work.
func (m *heads) Parts() (parts []algos.Model, blank []bool) {
	parts, blank, _ = ovr.Parts(m.Scorer)
	return parts, blank
}

// Scores implements algos.Scorer.
func (m *heads) Scores(dst []float64, xs []stream.Vec) {
	first, k := m.parts[0], len(m.parts)
	if first.Feats == nil {
		m.Scorer.Scores(dst, xs)
		return
	}
	w, _ := first.pool.Get().(*scoring)
	if w == nil {
		w = new(scoring)
	}
	defer first.pool.Put(w)
	b := first.Feats.Block()
	for len(xs) > 0 {
		n := min(len(xs), Rows)
		w.points.Pack(xs[:n])
		if len(w.z) < n*b {
			w.z = make([]float32, n*b)
		}
		first.sumsOf(m.parts, dst[:n*k], w.z, &w.points)
		dst, xs = dst[n*k:], xs[n:]
	}
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
	return NewHeads(parts), nil
}

// alike reports whether two models have the same features.
func alike(a, b *Model) bool {
	if a.Feats == nil || b.Feats == nil || len(a.Coef) != len(b.Coef) {
		return a.Feats == b.Feats
	}
	return a.Feats.Seed() == b.Feats.Seed() && a.Feats.Gamma() == b.Feats.Gamma() && a.Feats.Kind() == b.Feats.Kind() && a.Feats.Block() == b.Feats.Block()
}
