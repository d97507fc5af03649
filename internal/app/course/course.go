// Package course remembers how learning has gone, in bounded memory, and shows
// it to a person: a live page and a report have their charts and tables from
// here.
package course

import (
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/streamsvm/streamsvm/algos/model"
	"github.com/streamsvm/streamsvm/compare"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// Course is a hook of a run that remembers its course. It is no part of the
// state: of a run that goes on from a checkpoint it begins there. Its methods may
// be called at the same time.
type Course struct {
	mu       sync.Mutex
	points   []point
	step     uint64 // least distance of two points, in examples
	weighted []string
	cuts     []compare.ChangePoint
	tuned    float64  // how often options have been chosen anew
	told     bool     // tuned is known: a run that goes on may begin with any number
	tunes    []uint64 // after so many labelled examples
	versions []version
}

// Bounds of what is kept: points, before every other one is dropped, and marks
// and versions, of which the latest are kept.
const (
	maxPoints   = 400
	maxMarks    = 1000
	maxVersions = 64
	maxAliases  = 5
)

// point is how it was after some examples.
type point struct {
	at                              uint64 // examples scored
	all, window                     float64
	auc, balanced, larger, noChange eval.Number // over the window
	share                           []float64   // of the labels in the window, by class
	weight                          []float64   // by weighted
	psi                             []float64   // by field
	events                          uint64      // that psi is of: they are read ahead
}

// version is a model as it was published.
type version struct {
	number, examples uint64
	created          time.Time
	kind             stream.UpdateKind
	bytes            int
	measures         []stream.Measure
}

// Now is how it is at the moment. The zero Now is before the first example.
type Now struct {
	Summary eval.Summary
	Scored  uint64 // examples
	// Unscored labelled examples came before the first that was scored.
	Unscored uint64
	Curve    []eval.Point // nil where only a Course knows
	Classes  []string     // their names; nil for a regression
	Fields   []codec.FieldCount
	Events   uint64
	// Of a linear model: its constant term, the weights of largest magnitude, and
	// the schema that names their features, "" where they have numbers only.
	Bias    float64
	Weights []model.Weight
	Schema  string
}

// Bounds of what is shown.
const (
	maxFields   = 50
	maxWeights  = 20
	maxMeasures = 60
	maxSorted   = 1 << 14 // weights: more would take long to sort
)

// Look returns how it is with e.
func Look(e *engine.Engine) *Now {
	p := e.Prequential()
	n := &Now{Summary: p.Summary(), Scored: p.Examples(), Curve: e.Curve().Points(p), Classes: classes(e)}
	n.Unscored = e.Counts().Labelled - n.Scored
	n.Summary.Name(n.Classes)
	n.Fields, n.Events, _ = e.Fields()
	if p := e.Predictor(); p != nil {
		if m, ok := p.Model.(*model.Linear); ok && p.Transform.HashDim() == 0 {
			n.Linear(m, p.Signature.Schema)
		}
	}
	return n
}

// Linear notes the weights of a linear model whose features are not hashed, and
// the schema of its events, if it is for events.
func (n *Now) Linear(m *model.Linear, schema string) {
	if m.Info().Nonzero <= maxSorted {
		n.Bias, n.Weights, n.Schema = m.Bias(), m.Largest(maxWeights), schema
	}
}

// classes returns the names of the classes of e, nil for a regression.
func classes(e *engine.Engine) []string {
	if names := e.Classes(); names != nil {
		return names
	}
	if e.Prequential().Regression() {
		return nil
	}
	two := e.Labels()
	return two[:]
}

// Consumed implements engine.ConsumedHook.
func (c *Course) Consumed(e *engine.Engine, _ int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, cuts := e.ChangePoints()
	for _, cut := range cuts {
		if n := len(c.cuts); n == 0 || cut.At > c.cuts[n-1].At {
			c.cuts = append(c.cuts, cut)
		}
	}
	c.cuts = c.cuts[max(0, len(c.cuts)-maxMarks):]
	p := e.Prequential()
	due := e.Started() && c.due(p.Examples())
	gauges := e.Report().Gauges
	for _, g := range gauges {
		if g.Name == "tune_total" {
			if c.told && g.Value > c.tuned {
				c.tunes = append(c.tunes, e.Counts().Labelled)
				c.tunes = c.tunes[max(0, len(c.tunes)-maxMarks):]
			}
			c.tuned, c.told = g.Value, true
		}
	}
	if !due {
		return
	}
	s := p.Summary()
	s.Name(classes(e))
	fields, events, _ := e.Fields()
	c.points = append(c.points, newPoint(p.Examples(), &s, fields, events))
	at := &c.points[len(c.points)-1]
	for _, g := range gauges {
		name, ok := strings.CutPrefix(g.Name, "weight_")
		if !ok {
			continue
		}
		if len(at.weight) == len(c.weighted) {
			c.weighted = append(c.weighted, name)
		}
		at.weight = append(at.weight, g.Value)
	}
}

// Scored is told of the measures of predictions, of which the labels have come,
// where no engine is; fields is what has been noticed in those of so many events.
func (c *Course) Scored(p *eval.Prequential, classes []string, fields []codec.FieldCount, events uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.due(p.Examples()) {
		s := p.Summary()
		s.Name(classes)
		c.points = append(c.points, newPoint(p.Examples(), &s, fields, events))
	}
}

// due reports whether there is to be a point after n examples, and makes room
// for it.
func (c *Course) due(n uint64) bool {
	k := len(c.points)
	if n == 0 || k > 0 && (n <= c.points[k-1].at || n < c.points[k-1].at+c.step) {
		return false
	}
	if k == maxPoints {
		for i := range maxPoints / 2 {
			c.points[i] = c.points[2*i]
		}
		clear(c.points[maxPoints/2:])
		c.points = c.points[:maxPoints/2]
		c.step = 2 * (c.points[1].at - c.points[0].at)
	}
	return true
}

func newPoint(n uint64, s *eval.Summary, fields []codec.FieldCount, events uint64) point {
	w := &s.Window
	at := point{at: n, events: events, auc: w.AUC, balanced: w.BalancedAccuracy, larger: w.Baseline.Majority, noChange: w.Baseline.NoChange}
	if s.MAE != nil {
		at.all, at.window = float64(*s.MAE), float64(*w.MAE)
	} else {
		at.all, at.window = float64(s.Accuracy), float64(w.Accuracy)
		for _, k := range perClass(&w.Measures, nil) {
			at.share = append(at.share, float64(k.Examples)/float64(w.Examples))
		}
	}
	for _, f := range fields[:min(len(fields), maxFields)] {
		at.psi = append(at.psi, f.PSI)
	}
	return at
}

// perClass describes each class of m; names are of two classes.
func perClass(m *eval.Measures, names []string) []eval.Class {
	if m.Classes != nil || m.MAE != nil {
		return m.Classes
	}
	list := make([]eval.Class, 2)
	for k := range list {
		list[k] = eval.Class{Examples: m.Hits[k][0] + m.Hits[k][1], Recall: m.Recall(k), Precision: m.Precision(k)}
		if k < len(names) {
			list[k].Label = names[k]
		}
	}
	return list
}

// Published implements engine.PublishedHook.
func (c *Course) Published(u *stream.Update, _ time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.versions = append(c.versions, version{u.Version, u.Examples, u.Created, u.Kind, len(u.Payload), slices.Clone(u.Evaluation[:min(len(u.Evaluation), maxMeasures)])})
	c.versions = c.versions[max(0, len(c.versions)-maxVersions):]
}

// measure returns one of those taken when the model was published; NaN where it
// was not.
func (v *version) measure(name string) float64 {
	for _, m := range v.measures {
		if m.Name == name {
			return m.Value
		}
	}
	return math.NaN()
}
