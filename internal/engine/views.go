package engine

import (
	"slices"

	"maps"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/compare"
	"github.com/streamsvm/streamsvm/internal/calibrate"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/pipeline"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/internal/tune"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// Counts returns the numbers of records so far, by outcome.
func (e *Engine) Counts() Counts {
	c := e.counts
	c.Pending += uint64(len(e.block))
	if e.join != nil {
		c.Joined, c.Late = e.join.stats.joined(), e.join.stats.late()
		c.Pending += uint64(e.join.len()) + e.join.unused
	}
	return c
}

// Join returns the counts of the labels that are joined; nil if none are.
func (e *Engine) Join() *JoinStats {
	if !e.cfg.Join.Used() {
		return nil
	}
	s := e.join.stats
	s.Examples, s.Labels = uint64(e.join.len()), e.join.unused
	return &s
}

// Offsets returns a copy of the positions up to which records have been consumed.
func (e *Engine) Offsets() stream.Offsets { return e.positions().Clone() }

// Options returns the learner's complete options, as tuned.
func (e *Engine) Options() map[string]string { return maps.Clone(e.options) }

// Tuned returns the tuner's table, or nil.
func (e *Engine) Tuned() []tune.Row { return e.tuned }

// Started reports whether the warm-up has ended.
func (e *Engine) Started() bool { return e.started }

// Warmup returns how many examples of the warm-up have come, and how many it needs.
func (e *Engine) Warmup() (n, of int) { return len(e.warm), e.cfg.Warmup }

// Finished reports whether Finish has been called.
func (e *Engine) Finished() bool { return e.finished }

// Prequential returns the prequential measures.
func (e *Engine) Prequential() *eval.Prequential { return e.preq }

// Curve returns the history of the prequential measures.
func (e *Engine) Curve() *eval.Curve { return e.curve }

// Clipped returns the values and features that the preprocessing has clipped.
func (e *Engine) Clipped() prep.Clipped {
	if e.transform == nil {
		return prep.Clipped{}
	}
	return e.transform.Clipped()
}

// Report returns the learner's report, an empty one before the warm-up ends.
func (e *Engine) Report() algos.Report {
	if e.learner == nil {
		return algos.NewReport()
	}
	return e.learner.Report()
}

// ChangePoints returns the number of change points at which the learner has cut its
// sample, and the latest ones; 0 if it never does.
func (e *Engine) ChangePoints() (total uint64, latest []compare.ChangePoint) {
	if c, ok := e.learner.(algos.DriftReporter); ok {
		return c.ChangePoints()
	}
	return 0, nil
}

// Predictor returns the current model with its preprocessing, or nil before the
// warm-up ends and while all labels are equal (see OneLabel). It shares memory with
// the engine: encode it before the engine goes on.
func (e *Engine) Predictor() *pipeline.Pipeline {
	if e.learner == nil || !e.monitor.differ {
		return nil
	}
	p := &pipeline.Pipeline{Learner: e.cfg.Spec.Name, Task: e.cfg.Task, Options: e.options, Signature: e.signature(), Transform: e.transform, Model: e.learner.Model()}
	shift, calibrated := 0.0, false
	if l, ok := e.learner.(algos.Publisher); ok {
		p.Model = l.Published()
		shift, calibrated = l.Calibrated()
	}
	switch {
	case e.calib != nil && calibrated:
		p.Probability = calibrate.Shifted(shift)
	case e.calib != nil && e.calib.Known():
		p.Probability = e.calib.Map()
	}
	if e.soft != nil {
		if m, known := e.soft.Map(); calibrated {
			p.Softmax = &calibrate.Softmax{Slope: 1, Scale: 1}
		} else if known {
			p.Softmax = &m
		}
	}
	p.Costs = slices.Clone(e.preq.Costs)
	return p
}

// Signature describes the data that the engine is for; see [codec.Signature].
func (e *Engine) Signature() codec.Signature { return e.cfg.Signature }

// Fields returns what has been noticed in the fields of events since the start of
// Run; see [codec.FieldCounts].
func (e *Engine) Fields() (fields []codec.FieldCount, events, unlisted uint64) {
	return codec.FieldCounts(e.decoder)
}
