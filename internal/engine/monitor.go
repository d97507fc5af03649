package engine

import (
	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
)

// monitor watches for signs that the stream does not match its configuration: whether
// labels differ, and how many of the latest records could not be used.
type monitor struct {
	first  float64 // the first label
	differ bool    // a label other than first has come

	refused []uint64 // numbers of the refused records among the last deadWindow; see prune
}

// The share of refused records is taken over the last deadWindow records: enough to
// know it within 3 percentage points, and few enough to notice wrong data within
// seconds. At the beginning of a stream it is taken over deadLeast, so that a few
// bad first records do not end a run that would be fine later on.
const (
	deadWindow = 1000
	deadLeast  = 100
)

// label records a label.
func (s *monitor) label(y float64, first bool) {
	if first {
		s.first = y
	}
	s.differ = s.differ || y != s.first
}

// refuse records that record n, the latest, could not be used.
func (s *monitor) refuse(n uint64) {
	s.refused = append(s.refused, n)
	s.prune(n)
}

// prune forgets refused records before the last deadWindow of n.
func (s *monitor) prune(n uint64) {
	i := 0
	for i < len(s.refused) && s.refused[i]+deadWindow <= n {
		i++
	}
	s.refused = s.refused[i:]
}

// judged returns the number of records without tombstones, which say nothing about
// whether the stream matches its configuration.
func (e *Engine) judged() uint64 { return e.counts.Consumed - e.counts.Tombstones }

// overDead reports whether the share of refused records would exceed most if the next
// record were refused too: then dead of the latest of records would have been refused.
func (e *Engine) overDead(most float64) (dead, of int, over bool) {
	n := e.judged() + 1
	e.monitor.prune(n)
	dead, of = len(e.monitor.refused)+1, int(min(n, deadWindow))
	return dead, of, float64(dead) > most*float64(max(of, deadLeast))
}

// noExample reports whether there has been no usable example so far.
func (e *Engine) noExample() bool {
	return e.counts.Labelled+e.counts.Unlabelled == 0 && (e.join == nil || e.join.len() == 0)
}

// OneLabel returns an error if there are examples but no model, because all labels so
// far are equal: a model would only repeat that label. Otherwise it returns nil.
func (e *Engine) OneLabel() *stream.OneLabelError {
	n := e.counts.Labelled + e.counts.Unlabelled
	if e.monitor.differ || n == 0 {
		return nil
	}
	one := &stream.OneLabelError{Examples: n, Labelled: e.counts.Labelled, Label: e.monitor.first, Regress: e.cfg.Task == algos.Regress}
	if e.classes != nil && one.Labelled > 0 {
		one.Class = e.classes.list[int(one.Label)]
	}
	return one
}

// monitorFields describes fields that are in a state only if there is something to
// store, so that other states keep the bytes that they had before these existed.
func (e *Engine) monitorFields(f *state.Fields) {
	s, c := &e.monitor, &e.counts
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
