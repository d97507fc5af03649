package engine

import (
	"context"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/promote"
	"github.com/streamsvm/streamsvm/stream"
)

// The quality of published predictions is not part of the state: when a live run
// publishes depends on the clock, and equal streams must give equal states. A checkpoint
// keeps these measures in a separate section, which the state hash excludes.

// sectionPublished is the name of that section.
const sectionPublished = "published.1"

// AsPublished reports the quality of the predictions that subscribers get, or would get
// with Config.PublishEvery; nil if nothing is published.
func (e *Engine) AsPublished() *promote.PublishedReport {
	if e.published == nil {
		return nil
	}
	return e.published.Report(e.Classes())
}

// FinalAsPublished is AsPublished with a confidence interval of the accuracy.
func (e *Engine) FinalAsPublished() *promote.PublishedReport {
	if e.published == nil {
		return nil
	}
	return e.published.Final(e.Classes())
}

// measurePublished starts measuring published predictions, unless it has already started.
func (e *Engine) measurePublished() {
	if e.published != nil {
		return
	}
	e.published = promote.NewPublished(e.cfg.PublishEvery, func(window bool) *eval.Prequential {
		size := 1
		if window {
			size = e.cfg.Window
		}
		if e.classes != nil {
			return eval.NewClasses(size)
		}
		return eval.New(e.cfg.Task == algos.Regress, size)
	})
	e.setCosts()
}

// publishDue takes the next version of a replay (see Config.PublishEvery), if one is due.
func (e *Engine) publishDue(ctx context.Context) error {
	every, consumed := e.cfg.PublishEvery, e.counts.Consumed
	if e.published == nil || every == 0 {
		return nil
	}
	due := e.published.Due(consumed)
	if _, early := e.learner.(algos.Publisher); !due && (!early || consumed < every || consumed%every%algos.EarlyAfter(every) != 0) {
		return nil
	}
	if e.started {
		if err := e.Settle(ctx); err != nil {
			return err
		}
	}
	if !e.early() && !due {
		return nil
	}
	e.noteEarly()
	return e.published.Take(consumed, e.Predictor())
}

// early reports whether a version has been due early since noteEarly, because of a change.
func (e *Engine) early() bool {
	p, ok := e.learner.(algos.Publisher)
	return ok && p.Early() != e.noted
}

// noteEarly is called when a version is published.
func (e *Engine) noteEarly() {
	if p, ok := e.learner.(algos.Publisher); ok {
		e.noted = p.Early()
	}
}

// readBack decodes a full update as subscribers do; nil if this program cannot read it.
// The previous version then goes on predicting. Any goroutine may call it.
func (e *Engine) readBack(u *stream.Update) *promote.PublishedVersion {
	v, err := promote.NewVersion(u.Version, u.Created, u.Payload)
	if err != nil {
		e.cfg.Log.Warn("there are no figures as published for this version", "err", err)
		return nil
	}
	return v
}

// adopt starts measuring version v of a live run. It ignores nil.
func (e *Engine) adopt(v *promote.PublishedVersion) {
	if v == nil || e.cfg.PublishEvery > 0 {
		return
	}
	e.measurePublished()
	e.published.Adopt(v)
}

// publishedSection appends the measures of published predictions in a live run to s.
func (e *Engine) publishedSection(s *checkpoint.Snapshot) error {
	if e.published == nil || e.cfg.PublishEvery > 0 {
		return nil
	}
	data, err := state.Append(nil, e.publishedFields)
	s.Sections = append(s.Sections, checkpoint.Section{Name: sectionPublished, Data: data})
	return err
}

// restorePublished continues the measures of a snapshot. If their section cannot be read,
// the state is still used, and the measures start over.
func (e *Engine) restorePublished(s *checkpoint.Snapshot) {
	data, there := s.Section(sectionPublished)
	if !there || e.cfg.PublishEvery > 0 {
		return
	}
	e.measurePublished()
	if err := state.Decode(data, e.publishedFields); err != nil {
		e.cfg.Log.Warn("the figures as published start again: those in the checkpoint cannot be read", "err", err)
		e.published = nil
		e.forecasts(func(at **promote.Forecast) { *at = nil })
	}
}

func (e *Engine) publishedFields(f *state.Fields) {
	var waiting []*promote.Forecast
	e.forecasts(func(at **promote.Forecast) { waiting = append(waiting, *at) })
	e.published.Fields(f, waiting)
	if f.Decoding() && f.Err() == nil {
		i := 0
		e.forecasts(func(at **promote.Forecast) { *at = waiting[i]; i++ })
	}
}

// forecasts calls do with the published prediction of each example that waits for its
// label, in order of arrival.
func (e *Engine) forecasts(do func(at **promote.Forecast)) {
	if e.join == nil {
		return
	}
	for w := range e.join.all() {
		do(&w.published)
	}
}

// evaluation returns the measures to publish with a version: the learner's, the sifting
// plan, and the quality of earlier versions.
func (cfg *RunConfig) evaluation(e *Engine) []stream.Measure {
	list := append(e.Evaluation(), e.Plan(cfg.budget)...)
	if p := e.AsPublished(); p != nil && p.Examples > 0 {
		list = append(list, p.List(e.classes != nil)...)
	}
	return list
}
