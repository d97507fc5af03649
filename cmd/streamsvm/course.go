package main

import (
	"fmt"
	"strings"

	"github.com/streamsvm/streamsvm/internal/app/chart"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/samplers"
)

// course is a hook of a run that remembers the course of a learner's weights, of
// which the sum is 1, and its cuts. It is no part of the state: of a run that
// goes on from a checkpoint it begins there.
type course struct {
	weights []chart.Series // X in labelled examples
	at      []uint64
	step    uint64 // least distance of two points
	cuts    []samplers.Cut
	// decisions of a gate
	decisions []engine.GateDecision
}

// Bounds of a course: its points, before every other one is dropped, and its cuts,
// of which the latest are kept.
const (
	maxCourse = 400
	maxCuts   = 1000
)

// Consumed implements engine.ConsumedHook.
func (c *course) Consumed(e *engine.Engine, _ int64) {
	_, cuts := e.Cuts()
	for _, cut := range cuts {
		if n := len(c.cuts); n == 0 || cut.At > c.cuts[n-1].At {
			c.cuts = append(c.cuts, cut)
		}
	}
	c.cuts = c.cuts[max(0, len(c.cuts)-maxCuts):]
	n := e.Counts().Labelled
	if k := len(c.at); !e.Started() || k > 0 && (n == c.at[k-1] || n < c.at[k-1]+c.step) {
		return
	}
	if len(c.at) == maxCourse {
		c.at = thin(c.at)
		for i := range c.weights {
			c.weights[i].X, c.weights[i].Y = thin(c.weights[i].X), thin(c.weights[i].Y)
		}
		c.step = 2 * (c.at[1] - c.at[0])
	}
	i := 0
	for _, g := range e.Report().Gauges {
		name, ok := strings.CutPrefix(g.Name, "weight_")
		if !ok {
			continue
		}
		if i == len(c.weights) {
			c.weights = append(c.weights, chart.Series{Name: name})
		}
		s := &c.weights[i]
		s.X, s.Y = append(s.X, float64(n)), append(s.Y, eval.Number(g.Value))
		i++
	}
	c.at = append(c.at, n)
}

// Decided implements engine.DecidedHook.
func (c *course) Decided(d engine.GateDecision) { c.decisions = append(c.decisions, d) }

// thin keeps every other element.
func thin[T any](list []T) []T {
	for k := range len(list) / 2 {
		list[k] = list[2*k]
	}
	return list[:len(list)/2]
}

// charts returns those of a run: the prequential measure, and the weights if
// there are any, both over the examples scored, with the cuts.
func (c *course) charts(e *engine.Engine, window int) []chart.Chart {
	scored := e.Prequential().Examples()
	if scored == 0 { // without labels there is no curve
		return nil
	}
	charts := []chart.Chart{chart.Curve(e.Prequential(), e.Curve(), window)}
	unscored := float64(e.Counts().Labelled - scored) // of the warm-up
	if len(c.weights) > 0 {
		w := chart.Chart{
			Title: "Weights", X: charts[0].X, Y: chart.Axis{Label: "weight", Percent: true, Zero: true},
			Caption: "The share of each expert in the vote.",
		}
		for _, s := range c.weights {
			after := chart.Series{Name: s.Name}
			for k, at := range s.X {
				if at >= unscored {
					after.X, after.Y = append(after.X, at-unscored), append(after.Y, s.Y[k])
				}
			}
			w.Series = append(w.Series, after)
		}
		charts = append(charts, w)
	}
	for _, cut := range c.cuts {
		if at := float64(cut.At) - unscored; at >= 0 {
			for i := range charts {
				charts[i].Marks, charts[i].MarkName = append(charts[i].Marks, at), fmt.Sprintf("cuts of the sample: %d", len(c.cuts))
			}
		}
	}
	s := e.Prequential().Summary()
	if r := chart.Reliability(&s); r != nil {
		charts = append(charts, *r)
	}
	return charts
}
