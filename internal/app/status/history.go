// Package status shows people how a service or a replay is doing. It answers five
// questions: is it learning, is it drifting, what does it confuse, what does it
// refuse, and what has it published. Everything else is in the metrics and in the
// Grafana dashboard.
package status

import (
	"math"
	"sync"

	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/promote"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// History is a hook of a run that remembers how well it predicted, in bounded
// memory. It is not part of the state: after a restart it starts empty. Its
// methods may be called concurrently.
type History struct {
	mu      sync.Mutex
	points  []point
	step    uint64   // least distance between two points, in examples
	changes []uint64 // labelled examples before each change point
}

const (
	maxPoints  = 400  // every other one is dropped when there are more
	maxChanges = 1000 // the latest are kept
	maxFields  = 50
)

// point describes the predictions up to some example.
type point struct {
	at                 uint64 // examples scored
	all, window        float64
	majority, noChange float64   // accuracy of the baselines over the window
	psi                []float64 // by field
	events             uint64    // number that psi covers; they are read ahead of learning
}

// Snapshot is the current quality of predictions. The zero value is the state
// before the first example.
type Snapshot struct {
	Summary  eval.Summary
	Scored   uint64       // examples
	Unscored uint64       // labelled examples of the warm-up, before the first one scored
	Curve    []eval.Point // nil if only the History has it
	Classes  []string     // names; nil for a regression
	Fields   []codec.FieldCount
	Events   uint64 // number that Fields covers
	// AsPublished measures what subscribers get; nil if nothing is published.
	AsPublished *promote.PublishedReport
}

// Take returns the current quality of the predictions of e.
func Take(e *engine.Engine) *Snapshot {
	p := e.Prequential()
	s := &Snapshot{Summary: p.Summary(), Scored: p.Examples(), Curve: e.Curve().Points(p), Classes: e.Classes(), AsPublished: e.AsPublished()}
	if two := e.Labels(); s.Classes == nil && !p.Regression() {
		s.Classes = two[:]
	}
	s.Unscored = e.Counts().Labelled - s.Scored
	s.Summary.Name(s.Classes)
	s.Fields, s.Events, _ = e.Fields()
	return s
}

// Started implements engine.StartedHook.
func (h *History) Started(e *engine.Engine, _ stream.Source) { h.Consumed(e, 0) }

// Consumed implements engine.ConsumedHook.
func (h *History) Consumed(e *engine.Engine, _ int64) {
	h.mu.Lock()
	_, changes := e.ChangePoints()
	for _, c := range changes {
		if n := len(h.changes); n == 0 || c.At > h.changes[n-1] {
			h.changes = append(h.changes, c.At)
		}
	}
	h.changes = h.changes[max(0, len(h.changes)-maxChanges):]
	h.mu.Unlock()
	if e.Started() {
		h.Scored(e.Prequential(), e.Fields)
	}
}

// Scored adds a point if one is due. fields returns the counts of the fields of
// events, as codec.FieldCounts does.
func (h *History) Scored(p *eval.Prequential, fields func() ([]codec.FieldCount, uint64, uint64)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n, k := p.Examples(), len(h.points); n > 0 && (k == 0 || n > h.points[k-1].at && n >= h.points[k-1].at+h.step) {
		s := &Snapshot{Summary: p.Summary(), Scored: n}
		s.Fields, s.Events, _ = fields()
		h.thin()
		h.points = append(h.points, s.point())
	}
}

// thin makes room for a point. The memory stays bounded because every other point
// is dropped, and later points are twice as far apart.
func (h *History) thin() {
	if len(h.points) < maxPoints {
		return
	}
	for i := range maxPoints / 2 {
		h.points[i] = h.points[2*i]
	}
	h.points = h.points[:maxPoints/2]
	h.step = 2 * (h.points[1].at - h.points[0].at)
}

func (s *Snapshot) point() point {
	w := &s.Summary.Window
	p := point{at: s.Scored, events: s.Events, majority: math.NaN(), noChange: math.NaN()}
	if s.Summary.MAE != nil {
		p.all, p.window = float64(*s.Summary.MAE), float64(*w.MAE)
	} else {
		p.all, p.window = float64(s.Summary.Accuracy), float64(w.Accuracy)
		p.majority, p.noChange = float64(w.Baseline.Majority), float64(w.Baseline.NoChange)
	}
	for _, f := range s.Fields[:min(len(s.Fields), maxFields)] {
		p.psi = append(p.psi, f.PSI)
	}
	return p
}
