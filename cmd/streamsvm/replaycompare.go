package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/compare"
	"github.com/streamsvm/streamsvm/internal/app/chart"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/report"
	"github.com/streamsvm/streamsvm/internal/atomicfile"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/version"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/trainer"
)

// candidate is one of the learners that --compare compares.
type candidate struct {
	name     string
	unscored uint64 // labelled examples before the first one that was scored
	scored   uint64
	seconds  float64
	points   []eval.Point
	summary  eval.Summary
	losses   []float32 // on each example scored: wrong or not, or the absolute error
}

// candidateResult is the JSON form of a candidate.
type candidateResult struct {
	Name        string       `json:"name"`
	Examples    uint64       `json:"examples"` // scored
	Seconds     eval.Number  `json:"seconds"`
	Common      eval.Number  `json:"common"` // accuracy, or mean absolute error, on the examples that all have scored
	Prequential eval.Summary `json:"prequential"`
	// Behind is a 95 % interval of how much the loss is higher than that of the best, on
	// the examples that all have scored; null for the best itself.
	Behind *[2]float64 `json:"behind"`
}

// engineOf is a hook that keeps the engine of a run, and its losses. The latter are not
// known with more than two classes.
type engineOf struct {
	e       *engine.Engine
	regress bool
	losses  []float32
}

// Scored implements engine.ScoredHook.
func (h *engineOf) Scored(decision, _, label float64) {
	loss := float32(0)
	if h.regress {
		loss = float32(math.Abs(decision - label))
	} else if (decision >= 0) != (label > 0) {
		loss = 1
	}
	h.losses = append(h.losses, loss)
}

// Started implements engine.StartedHook.
func (h *engineOf) Started(e *engine.Engine, _ stream.Source) { h.e = e }

// checkCompare checks --compare, and makes its first learner that of the job. Every
// learner has its own options, so none can be set.
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

// runCompare runs all candidates at the same time over one stream, which is read and
// decoded once.
func (r *replay) runCompare(ctx context.Context) error {
	src, err := r.open(nil, r.passes)
	if err != nil {
		return err
	}
	defer src.Close()
	list := make([]*candidate, len(r.compare))
	if err := onePass(ctx, src, r.job.Decoder, len(list), func(ctx context.Context, i int, src stream.Source, dec stream.Decoder) (err error) {
		list[i], err = r.runCandidate(ctx, r.compare[i], src, dec)
		return err
	}); err != nil {
		return err
	}
	if r.report != "" {
		if _, err := report.Write(r.report, r.comparison(list)); err != nil {
			return err
		}
	}
	if r.json != "" {
		var out []candidateResult
		for _, v := range list {
			out = append(out, candidateResult{v.name, v.scored, eval.Number(v.seconds), eval.Number(v.from(start(list))), v.summary, behind(list, v)})
		}
		data, err := json.MarshalIndent(out, "", "  ")
		if err != nil {
			return err
		}
		data = append(data, '\n')
		if r.json == "-" {
			_, err = r.c.Out.Write(data)
			return err
		}
		if err := atomicfile.Write(r.json, data); err != nil {
			return err
		}
	}
	tw := tabwriter.NewWriter(r.c.Out, 0, 0, 2, ' ', 0)
	head, rows := r.table(list)
	for _, row := range append([][]string{head}, rows...) {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	if err := tw.Flush(); err != nil || r.job.Task == algos.Regress {
		return err
	}
	_, err = fmt.Fprintf(r.c.Out, "baselines: %s\n", list[0].summary.Baseline)
	return err
}

func (r *replay) runCandidate(ctx context.Context, name string, src stream.Source, dec stream.Decoder) (*candidate, error) {
	began := time.Now()
	job, h := r.job, &engineOf{regress: r.job.Task == algos.Regress}
	job.Learner, job.Decoder = name, dec
	job.Open = func(context.Context, stream.Offsets) (stream.Source, error) { return src, nil }
	job.Hooks = []trainer.Hook{h}
	res, err := trainer.Run(ctx, job)
	if err != nil {
		return nil, badOption(r.c, r.refuseFlags.explain(fmt.Errorf("learner %s: %w", name, err), &r.codecFlags, "", ""))
	}
	if !res.Ended {
		return nil, cli.Failf(cli.Temporary, "interrupted after %d records of learner %s", res.Counts().Consumed, name)
	}
	p := h.e.Prequential()
	return &candidate{
		name: name, unscored: h.e.Counts().Labelled - p.Examples(), scored: p.Examples(), seconds: time.Since(began).Seconds(),
		points: h.e.Curve().Points(p), summary: p.Final(), losses: h.losses,
	}, nil
}

// start returns how many labelled examples come before the first one that all have
// scored.
func start(list []*candidate) (n uint64) {
	for _, v := range list {
		n = max(n, v.unscored)
	}
	return n
}

// after returns the losses on the examples after the first n labelled ones.
func (v *candidate) after(n uint64) []float32 {
	return v.losses[min(n-min(n, v.unscored), uint64(len(v.losses))):]
}

// best returns the candidate with the least mean loss on the examples that all have
// scored, nil if losses are not known.
func best(list []*candidate) (first *candidate) {
	n, least := start(list), math.Inf(1)
	for _, v := range list {
		sum, losses := 0.0, v.after(n)
		for _, l := range losses {
			sum += float64(l)
		}
		if mean := sum / float64(len(losses)); mean < least {
			first, least = v, mean
		}
	}
	return first
}

// behind returns candidateResult.Behind.
func behind(list []*candidate, v *candidate) *[2]float64 {
	b, n := best(list), start(list)
	if b == nil || b == v || len(v.after(n)) != len(b.after(n)) {
		return nil
	}
	return compare.PairedInterval(v.after(n), b.after(n))
}

// from returns the accuracy, or the mean absolute error, on the examples after the first n
// labelled ones, to the nearest point of the curve; NaN without any.
func (v *candidate) from(n uint64) float64 {
	if len(v.points) == 0 {
		return math.NaN()
	}
	var before eval.Point
	for _, p := range v.points {
		if v.unscored+before.Examples >= n {
			break
		}
		before = p
	}
	end := v.points[len(v.points)-1]
	sum := end.All*float64(end.Examples) - before.All*float64(before.Examples)
	return sum / float64(end.Examples-before.Examples)
}

// table lists the candidates for people.
func (r *replay) table(list []*candidate) (head []string, rows [][]string) {
	n := start(list)
	regress := r.job.Task == algos.Regress
	head = []string{"", "accuracy", "of", fmt.Sprintf("after %d", n), fmt.Sprintf("last %d", r.window), "95 % interval", "behind the best", "kappa-temporal", "log loss", "seconds"}
	if regress {
		head = []string{"", "mean abs. error", "of", fmt.Sprintf("after %d", n), fmt.Sprintf("last %d", r.window), "behind the best", "RMSE", "R2", "seconds"}
	}
	for _, v := range list {
		s := &v.summary
		seconds, less := fmt.Sprintf("%.2f", v.seconds), "-"
		if b := behind(list, v); b != nil && regress {
			less = decimal(eval.Number(b[0])) + " to " + decimal(eval.Number(b[1]))
		} else if b != nil {
			less = eval.Percent(b[0]) + " to " + eval.Percent(b[1])
		} else if v == best(list) {
			less = "best"
		}
		if regress {
			rows = append(rows, []string{v.name, decimal(*s.MAE), fmt.Sprint(v.scored), decimal(eval.Number(v.from(n))), decimal(*s.Window.MAE), less, decimal(*s.RMSE), decimal(*s.R2), seconds})
			continue
		}
		interval := "-"
		if i := s.Interval; i != nil {
			interval = eval.Percent(i[0]) + " to " + eval.Percent(i[1])
		}
		rows = append(rows, []string{v.name, eval.Percent(s.Accuracy), fmt.Sprint(v.scored), eval.Percent(v.from(n)), eval.Percent(s.Window.Accuracy), interval, less, decimal(s.KappaT), decimal(s.LogLoss), seconds})
	}
	return head, rows
}

// comparison returns a page with all candidates in one chart.
func (r *replay) comparison(list []*candidate) *report.Report {
	c := chart.Chart{
		Title: fmt.Sprintf("Prequential accuracy, last %d examples", r.window), X: chart.Axis{Label: "labelled examples"}, Y: chart.Axis{Label: "accuracy", Percent: true},
		Caption: "Each example is predicted first and learned from afterwards. A learner begins when its warm-up has ended.",
	}
	if r.job.Task == algos.Regress {
		c.Title, c.Y = fmt.Sprintf("Prequential mean absolute error, last %d examples", r.window), chart.Axis{Label: "mean absolute error"}
	}
	for _, v := range list {
		s := chart.Series{Name: v.name}
		for _, p := range v.points {
			s.X, s.Y = append(s.X, float64(v.unscored+p.Examples)), append(s.Y, eval.Number(p.Window))
		}
		c.Series = append(c.Series, s)
	}
	head, rows := r.table(list)
	return &report.Report{
		Title: "Comparison on " + strings.Join(r.files, ", "), Lead: "Prequential evaluation: every example is predicted before it is learned from.",
		Charts: []chart.Chart{c}, Tables: []report.Table{{Title: "Result", Head: head, Rows: rows}}, Foot: version.Text(),
	}
}
