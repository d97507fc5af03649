package engine

import (
	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
)

// sight is what the engine keeps in order to tell whether the stream is what it
// is taken for: whether labels differ, and which of the latest records could not
// be used.
type sight struct {
	first  float64 // the first label
	differ bool    // another one has come

	refused []uint64 // numbers of the records among the last deadWindow; see prune
}

// A stream is judged by the deadWindow latest records, as many as windowed
// measures are taken over by default: enough for a share with an error of 3 %,
// and few enough for wrong data to be noticed within seconds. At its beginning
// deadLeast are awaited, so that a few bad records there end nothing that a
// longer look would let pass.
const (
	deadWindow = 1000
	deadLeast  = 100
)

// see takes note of a label.
func (s *sight) see(y float64, first bool) {
	if first {
		s.first = y
	}
	s.differ = s.differ || y != s.first
}

// refuse takes note that record n, the latest, could not be used.
func (s *sight) refuse(n uint64) {
	s.refused = append(s.refused, n)
	s.prune(n)
}

// prune forgets what was before the last deadWindow of n records.
func (s *sight) prune(n uint64) {
	i := 0
	for i < len(s.refused) && s.refused[i]+deadWindow <= n {
		i++
	}
	s.refused = s.refused[i:]
}

// judged returns the number of records but for tombstones, which say nothing
// about whether the stream is what it should be.
func (e *Engine) judged() uint64 { return e.counts.Consumed - e.counts.Tombstones }

// overDead reports whether more than the share most of the latest records
// could not be used if the next one, too, cannot, and how many of how many.
func (e *Engine) overDead(most float64) (dead, of int, over bool) {
	n := e.judged() + 1
	e.sight.prune(n)
	dead, of = len(e.sight.refused)+1, int(min(n, deadWindow))
	return dead, of, float64(dead) > most*float64(max(of, deadLeast))
}

// noExample reports whether all that has come, if anything, could not be used
// or is no example.
func (e *Engine) noExample() bool {
	return e.counts.Labelled+e.counts.Unlabelled == 0 && (e.join == nil || e.join.examples.len() == 0)
}

// OneLabel returns why there is no model although there are examples, or nil: a
// model of one class, or of one target, would only repeat it.
func (e *Engine) OneLabel() *stream.OneLabelError {
	n := e.counts.Labelled + e.counts.Unlabelled
	if e.sight.differ || n == 0 {
		return nil
	}
	one := &stream.OneLabelError{Examples: n, Labelled: e.counts.Labelled, Label: e.sight.first, Regress: e.cfg.Task == algos.Regress}
	if e.classes != nil && one.Labelled > 0 {
		one.Class = e.classes.list[int(one.Label)]
	}
	return one
}

// sightFields describes what is part of a state only where it says something,
// so that the state of a stream without is what it was before there was such a
// thing.
func (e *Engine) sightFields(f *state.Fields) {
	s, c := &e.sight, &e.counts
	s.prune(e.judged())
	if f.Decoding() {
		s.differ = c.Labelled > 0
	}
	if f.Next("only_label") || !f.Decoding() && c.Labelled > 0 && !s.differ {
		f.Float64("only_label", &s.first)
		s.differ = false
	}
	if f.Next("tombstones") || !f.Decoding() && c.Tombstones > 0 {
		f.Uint64("tombstones", &c.Tombstones)
	}
	if f.Next("refused") || !f.Decoding() && len(s.refused) > 0 {
		f.Uint64s("refused", &s.refused)
	}
}
