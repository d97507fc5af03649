package gate

import (
	"errors"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/events"
	"github.com/streamsvm/streamsvm/internal/columns"
	"github.com/streamsvm/streamsvm/internal/pipeline"
	"github.com/streamsvm/streamsvm/stream"
)

// Fields implements promote.Gate. A state that was written with another rule keeps
// its champion, and the next challenger starts a new trial.
func (g *gate) Fields(f *state.Fields, classes bool) {
	if f.Decoding() {
		g.classes, g.constant.classes = classes, classes
		g.served, g.measures = g.noMeasures(), g.noMeasures()
	}
	rule := g.rule.String()
	f.String("rule", &rule)
	f.Uint64("at", &g.at)
	f.Uint64("labels", &g.labels)
	f.Uint64("promotions", &g.promotions)
	f.Uint64("rejections", &g.rejections)
	f.Uint64("demotions", &g.demotions)
	f.String("last", &g.last)
	f.Float64s("seen", &g.constant.seen)
	f.Float64("count", &g.constant.n)
	f.Float64("mean", &g.constant.mean)
	f.Float64("deviation", &g.constant.dev)
	f.Float64("scale", &g.scale)
	f.Group("champion", snapshotFields(&g.champion))
	f.Group("candidate", snapshotFields(&g.challenger))
	f.Group("before", snapshotFields(&g.before))
	f.Group("trial", g.trial.Fields)
	f.Group("back", g.rollback.Fields)
	f.Group("measures", g.measures.Fields)
	f.Group("served", g.served.Fields)
	if f.Next("inputs") || !f.Decoding() && g.inputs != nil {
		a, b := g.inputs, g.inputsBefore
		if a == nil {
			a, b = events.NewHistogram(nil), events.NewHistogram(nil)
		}
		f.Group("inputs", a.State)
		f.Group("inputs_before", b.State)
	}
	if f.Decoding() && f.Err() == nil {
		if g.champion != nil && g.regress && !(g.scale > 0) {
			f.Fail("scale", errors.New("there is none"))
		}
		if rule != g.rule.String() {
			g.challenger, g.rollback = nil, RollbackTest{}
		}
	}
}

// snapshotFields describes a snapshot that may be nil.
func snapshotFields(at **snapshot) func(f *state.Fields) {
	return func(f *state.Fields) {
		there := *at != nil
		f.Bool("there", &there)
		if !there || f.Err() != nil {
			if f.Decoding() {
				*at = nil
			}
			return
		}
		s := *at
		if f.Decoding() {
			s = new(snapshot)
		}
		u := &s.update
		f.Uint64("examples", &s.examples)
		f.Uint64("learned", &u.Examples)
		f.Uint64("steps", &u.Step)
		columns.Offsets(f, &u.Offsets)
		f.List("evaluation", len(u.Evaluation), 2, func(n int) { u.Evaluation = make([]stream.Measure, n) }, func(f *state.Fields, i int) {
			f.String("name", &u.Evaluation[i].Name)
			f.Float64("value", &u.Evaluation[i].Value)
		})
		if f.Next("arrived") || !f.Decoding() && s.arrived > 0 {
			f.Uint64("arrived", &s.arrived)
		}
		f.Bytes("payload", &s.payload)
		if !f.Decoding() || f.Err() != nil {
			return
		}
		var err error
		if s.pipe, err = pipeline.Decode(s.payload); err != nil {
			f.Fail("payload", err)
		}
		*at = s
	}
}
