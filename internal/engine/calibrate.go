package engine

import (
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
)

// judge takes note of what has been decided on an example, before it was
// learned from, and of its label. The map to probabilities is fed in the order
// of learning: where labels come late, the decision is that of when the example
// came, and the map that of when its label has.
func (e *Engine) judge(decision, label, weight float64) {
	e.preq.AddWeighted(decision, label, weight)
	p := math.NaN()
	if e.calib != nil {
		known := e.calib.Known()
		if told := e.calib.Learn(decision, label > 0); known {
			p = told
		}
	}
	if !math.IsNaN(p) {
		e.preq.AddProbability(p, label > 0)
	}
	e.curve.Add(e.preq)
	if e.scored != nil {
		e.scored(decision, p, label)
	}
}

// calibrationFields describes what is part of a state only where something has
// been scored. A state of before there was such a thing begins anew.
func (e *Engine) calibrationFields(f *state.Fields) {
	if e.calib != nil && (f.Next("calibration") || !f.Decoding() && e.preq.Examples() > 0) {
		f.Group("calibration", e.calib.Fields)
	}
	if e.soft != nil && (f.Next("calibration") || !f.Decoding() && e.preq.Examples() > 0) {
		f.Group("calibration", e.soft.Fields)
	}
}
