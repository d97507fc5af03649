package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/page"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/internal/version"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/trainer"
)

// engineOf is a hook that keeps the engine of a run, and its losses.
type engineOf struct {
	e                *engine.Engine
	regress, classes bool
	losses           []float32
}

// Started implements engine.StartedHook.
func (h *engineOf) Started(e *engine.Engine, _ stream.Source) {
	h.e, h.classes = e, e.Classes() != nil
}

// Scored implements engine.ScoredHook.
func (h *engineOf) Scored(decision, _, label float64) {
	h.losses = append(h.losses, loss(decision, label, h.regress, h.classes))
}

// checkCompare checks --compare, and makes its first learner the job's. Every learner
// has its own options, so none can be set.
func (r *replay) checkCompare() error {
	c := r.c
	for _, flag := range []string{"learner", "preset", "set", "model", "test", "holdout", "checkpoint", "join", "promote", "scores"} {
		if c.Origin(flag).Source != cli.FromDefault {
			return c.Bad("compare", fmt.Errorf("it cannot be combined with --%s", flag))
		}
	}
	for i, name := range r.compare {
		if slices.Contains(r.compare[:i], name) {
			return c.Bad("compare", fmt.Errorf("%s is there twice", name))
		}
		if name == "majority" || name == "no-change" {
			return c.Bad("compare", fmt.Errorf("%s has been removed from the list: both baselines are printed below the table", name))
		}
		o := trainer.Options{Learner: name, Task: algos.Task(r.task)}
		if list := optionErrors(o.Validate()); len(list) > 0 {
			return c.Bad("compare", list[0].Err)
		}
	}
	r.learner = r.compare[0]
	return nil
}

// runCompare runs all learners at the same time over one stream, which is read and
// decoded once.
func (r *replay) runCompare(ctx context.Context) error {
	src, err := r.open(nil, r.passes)
	if err != nil {
		return err
	}
	defer src.Close()
	r.prog.reads(src, false)
	all := comparison{list: make([]*candidate, len(r.compare)), regress: r.job.Task == algos.Regress, window: r.window}
	if err := onePass(ctx, src, r.job.Decoder, len(all.list), func(ctx context.Context, i int, src stream.Source, dec stream.Decoder) (err error) {
		all.list[i], err = r.runCandidate(ctx, r.compare[i], src, dec)
		return err
	}); err != nil {
		return err
	}
	r.prog.stopped()
	if r.report != "" {
		if _, err := page.Write(r.report, all.page(r.files)); err != nil {
			return err
		}
	}
	if r.json != "" {
		if err := writeJSON(r.json, r.c.Out, all.results()); err != nil || r.json == "-" {
			return err
		}
	}
	return all.print(r.c.Out)
}

func (r *replay) runCandidate(ctx context.Context, name string, src stream.Source, dec stream.Decoder) (*candidate, error) {
	began := time.Now()
	job, h := r.job, &engineOf{regress: r.job.Task == algos.Regress}
	job.Learner, job.Decoder = name, dec
	job.Open = func(context.Context, stream.Offsets) (stream.Source, error) { return src, nil }
	if job.Hooks = []trainer.Hook{h}; name == r.compare[0] {
		job.Hooks = append(job.Hooks, r.prog)
	}
	res, err := trainer.Run(ctx, job)
	if err != nil {
		return nil, badOption(r.c, r.refuseFlags.explain(fmt.Errorf("learner %s: %w", name, err), &r.codecFlags, "", ""), "")
	}
	if !res.Ended {
		return nil, cli.Failf(cli.Temporary, "interrupted after %d records of learner %s", res.Counts().Consumed, name)
	}
	p := h.e.Prequential()
	return &candidate{
		name: name, unscored: h.e.Counts().Labelled - p.Examples(), losses: h.losses, seconds: time.Since(began).Seconds(),
		points: h.e.Curve().Points(p), summary: p.Final(), published: h.e.FinalAsPublished(),
	}, nil
}

// page returns a page with all candidates in one chart.
func (c *comparison) page(files []string) *page.Page {
	ch := page.Prequential(c.regress, fmt.Sprintf(", last %d examples", c.window))
	ch.Caption += " A learner starts when its warm-up has ended."
	for _, v := range c.list {
		s := page.Series{Name: v.name}
		for _, p := range v.points {
			s.Add(float64(v.unscored+p.Examples), p.Window)
		}
		ch.Series = append(ch.Series, s)
	}
	head, rows := c.table()
	return &page.Page{
		Title: "Comparison on " + strings.Join(files, ", "), Foot: version.Text(),
		Sections: []page.Section{{ID: "comparison", Title: "Comparison", Charts: []page.Chart{ch}, Tables: []page.Table{{Title: "Result", Head: head, Rows: rows}}}},
	}
}
