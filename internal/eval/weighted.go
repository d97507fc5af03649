package eval

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
)

// Weighted has measures in which each example counts with its weight. If examples
// were sampled with probability p and have weight 1/p, they estimate the measures
// over the whole stream, up to noise; the other measures are about the examples that
// arrived.
type Weighted struct {
	Sum       float64 `json:"sum"`       // Σ w
	Effective float64 `json:"effective"` // (Σ w)²/Σ w²: the number of equally weighted examples that would be as informative
	Accuracy  Number  `json:"accuracy"`
	Error     Number  `json:"error"`
	Hinge     Number  `json:"hinge"`          // two classes only
	MAE       *Number `json:"mae,omitempty"`  // of a regression
	RMSE      *Number `json:"rmse,omitempty"` // of a regression
	// Window has the same measures over the latest examples.
	Window *Weighted `json:"window,omitempty"`
}

// weighing accumulates the sums for Weighted, starting at the first example whose
// weight is not 1.
type weighing struct {
	sums
	recent []float64 // weights of the window, parallel to Prequential.scores
}

type sums struct{ w, squares, wrong, hinge, abs, sq float64 }

func (s *sums) add(p *Prequential, score, label, w float64) {
	s.w += w
	s.squares += float64(w * w)
	switch {
	case p.regress:
		d := score - label
		s.abs += float64(w * math.Abs(d))
		s.sq += float64(w * float64(d*d))
		return
	case !p.several:
		s.hinge += float64(w * hinge(score, label))
		if class(score) == class(label) {
			return
		}
	case score == label:
		return
	}
	s.wrong += w
}

func (s *sums) measures(p *Prequential) *Weighted {
	nan := Number(math.NaN())
	m := &Weighted{Sum: s.w, Effective: s.w * s.w / s.squares, Accuracy: nan, Error: nan, Hinge: nan}
	if p.regress {
		mae, rmse := Number(s.abs/s.w), Number(math.Sqrt(s.sq/s.w))
		m.MAE, m.RMSE = &mae, &rmse
		return m
	}
	m.Error = Number(s.wrong / s.w)
	m.Accuracy = 1 - m.Error
	if !p.several {
		m.Hinge = Number(s.hinge / s.w)
	}
	return m
}

// AddWeighted is Add for an example of weight w > 0.
func (p *Prequential) AddWeighted(score, label, w float64) {
	if w != 1 && p.weights == nil {
		p.weights = p.unweighted()
	}
	if p.weights == nil {
		p.Add(score, label)
		return
	}
	at := int(p.n % uint64(p.size))
	p.Add(score, label)
	p.weights.add(p, score, label, w)
	if at == len(p.weights.recent) {
		p.weights.recent = append(p.weights.recent, 0)
	}
	p.weights.recent[at] = w
}

// unweighted returns the sums for examples that all had weight 1.
func (p *Prequential) unweighted() *weighing {
	n := float64(p.n)
	q := &weighing{sums: sums{w: n, squares: n, hinge: p.hinge, abs: p.absErr, sq: p.sqErr}, recent: make([]float64, len(p.scores))}
	for i := range q.recent {
		q.recent[i] = 1
	}
	all, right := p.total.sums()
	q.wrong = float64(all - right)
	return q
}

// Weighted returns the weighted measures, or nil while all weights are 1.
func (p *Prequential) Weighted() *Weighted {
	if p.weights == nil {
		return nil
	}
	m := p.weights.measures(p)
	var recent sums
	for i, w := range p.weights.recent {
		recent.add(p, p.scores[i], p.labels[i], w)
	}
	m.Window = recent.measures(p)
	return m
}

// weightedMeasures lists the weighted measures.
func (p *Prequential) weightedMeasures() []stream.Measure {
	if m := p.Weighted(); m != nil {
		return append(m.list(""), m.Window.list("_window")...)
	}
	return nil
}

// list returns m as measures for publication.
func (m *Weighted) list(suffix string) []stream.Measure {
	out := []stream.Measure{{Name: "weight_sum" + suffix, Value: m.Sum}, {Name: "weight_effective" + suffix, Value: m.Effective}}
	put := func(name string, v Number) {
		out = append(out, stream.Measure{Name: "prequential_weighted_" + name + suffix, Value: float64(v)})
	}
	if m.MAE != nil {
		put("mae", *m.MAE)
		put("rmse", *m.RMSE)
		return out
	}
	put("accuracy", m.Accuracy)
	if m.Hinge == m.Hinge {
		put("hinge", m.Hinge)
	}
	return out
}

// weightFields describes the weights, which are in a state only if one was not 1.
func (p *Prequential) weightFields(f *state.Fields) {
	if f.Decoding() {
		p.weights = nil
	}
	if !f.Next("weights") && (f.Decoding() || p.weights == nil) {
		return
	}
	if f.Decoding() {
		p.weights = new(weighing)
	}
	f.Group("weights", func(f *state.Fields) {
		s := p.weights
		for _, v := range []struct {
			name string
			sum  *float64
		}{{"sum", &s.w}, {"squares", &s.squares}, {"wrong", &s.wrong}, {"hinge", &s.hinge}, {"absolute_error", &s.abs}, {"squared_error", &s.sq}} {
			f.Float64(v.name, v.sum)
			if f.Decoding() && f.Err() == nil && math.IsNaN(*v.sum) {
				f.Fail(v.name, fmt.Errorf("%g", *v.sum))
			}
		}
		f.Float64s("window", &s.recent)
		if f.Decoding() && f.Err() == nil && len(s.recent) != len(p.scores) {
			f.Fail("window", fmt.Errorf("%d weights for %d scores", len(s.recent), len(p.scores)))
		}
	})
}
