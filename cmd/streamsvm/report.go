package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/internal/app/report"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/version"
)

// writeReport writes a page about a replay.
func writeReport(dir string, e *engine.Engine, r *result) error {
	page := &report.Report{
		Title:  fmt.Sprintf("%s on %d examples", r.Learner, r.Examples),
		Lead:   "Prequential evaluation: the model predicts every example before it learns from it.",
		Tables: r.tables(),
		Foot:   version.Text(),
	}
	if e.Prequential().Examples() > 0 { // without labels there is no curve
		page.Plots = []report.Plot{curvePlot(e, r.Prequential.Window.Examples)}
	}
	_, err := report.Write(dir, page)
	return err
}

// curvePlot is the course of the prequential measure.
func curvePlot(e *engine.Engine, window int) report.Plot {
	p := e.Prequential()
	majority, regress := math.NaN(), p.Summary().MAE != nil
	if neg, pos := p.Classes(); !regress && neg+pos > 0 {
		majority = float64(max(neg, pos)) / float64(neg+pos)
	}
	return report.Prequential(e.Curve().Points(p), regress, window, majority)
}

// tables lists the result in words.
func (r *result) tables() []report.Table {
	sum := report.Table{Title: "Result", Rows: r.rows()}
	opts := report.Table{Title: "Options", Head: []string{"option", "value"}}
	var names []string
	for k := range r.Options {
		names = append(names, k)
	}
	slices.Sort(names)
	for _, k := range names {
		opts.Rows = append(opts.Rows, []string{k, fmt.Sprint(r.Options[k])})
	}
	tables := []report.Table{sum, opts}
	if len(r.tuned) > 0 {
		t := report.Table{Title: "Tuning", Head: []string{"options", "score", "loss", "examples", ""}}
		for _, row := range r.tuned {
			mark := ""
			if row.Chosen {
				mark = "chosen"
			}
			t.Rows = append(t.Rows, []string{row.Options, decimal(eval.Number(row.Score)), decimal(eval.Number(row.Loss)), fmt.Sprint(row.Examples), mark})
		}
		tables = append(tables, t)
	}
	return tables
}
