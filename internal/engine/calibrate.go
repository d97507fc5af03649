package engine

import (
	"math"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
)

// measureBinary scores a decision that was made before its example was learned
// from, against the label. The probability map is updated in the order of learning.
// With late labels the decision is from the time when the example arrived, the map
// from the time when its label did: a decision can be scored only as it was made,
// but the map to use is the best one known.
func (e *Engine) measureBinary(decision, label, weight float64) {
	e.preq.AddWeighted(decision, label, weight)
	p := math.NaN()
	if e.calib != nil {
		known := e.calib.Known()
		if q := e.calib.Learn(decision, label > 0); e.calibrated() {
			p = linear.Sigmoid(decision)
		} else if known {
			p = q
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

// calibrated reports whether the learner's decisions are log odds, so that they need no
// map to probabilities. It does not check whether they are so at the moment: the learner
// may have learned from more examples than have been measured.
func (e *Engine) calibrated() bool {
	_, ok := e.learner.(algos.Publisher)
	return ok && !e.weighted
}

// calibrationFields describes the calibration. It is in a state only once something
// has been scored; states written before calibration existed start with a new map.
func (e *Engine) calibrationFields(f *state.Fields) {
	if e.calib != nil && (f.Next("calibration") || !f.Decoding() && e.preq.Examples() > 0) {
		f.Group("calibration", e.calib.Fields)
	}
	if f.Next("weighted") || !f.Decoding() && e.weighted {
		f.Bool("weighted", &e.weighted)
	}
	if e.soft != nil && (f.Next("calibration") || !f.Decoding() && e.preq.Examples() > 0) {
		f.Group("calibration", e.soft.Fields)
	}
}
