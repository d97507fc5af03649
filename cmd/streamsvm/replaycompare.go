package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/page"
	"github.com/streamsvm/streamsvm/internal/atomicfile"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/version"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/trainer"
)

// The rules that do not look at the features, by their names in --compare.
const (
	ruleMajority = "majority"
	ruleNoChange = "no-change"
)

// rival is what --compare knows of a learner, or of a rule.
type rival struct {
	name     string
	rule     bool
	unscored uint64 // labelled examples before the first one that was scored
	scored   uint64
	seconds  float64
	points   []eval.Point
	summary  eval.Summary
	losses   []float32 // on each example scored: wrong or not, or the absolute error; none of more than two classes
}

// compared is the JSON form of a rival.
type compared struct {
	Name        string       `json:"name"`
	Examples    uint64       `json:"examples"` // scored
	Seconds     eval.Number  `json:"seconds"`
	Common      eval.Number  `json:"common"` // accuracy, or mean absolute error, on those that all have scored
	Prequential eval.Summary `json:"prequential"`
	// Behind is by how much the loss is higher than that of the best, on those that
	// all have scored, as an interval of 95 % by a bootstrap of pairs; null of the
	// best.
	Behind *[2]eval.Number `json:"behind"`
}

// engineOf is a hook that keeps the engine of a run, and its losses.
type engineOf struct {
	e       *engine.Engine
	regress bool
	losses  []float32
}

// Scored implements engine.ScoredHook.
func (h *engineOf) Scored(decision, _, label float64) {
	h.losses = append(h.losses, loss(decision, label, h.regress))
}

// loss is 1 for a wrong decision, or the absolute error.
func loss(decision, label float64, regress bool) float32 {
	switch {
	case regress:
		return float32(math.Abs(decision - label))
	case (decision >= 0) != (label > 0):
		return 1
	}
	return 0
}

// Started implements engine.StartedHook.
func (h *engineOf) Started(e *engine.Engine, _ stream.Source) { h.e = e }

// checkCompare returns what is wrong with --compare, and makes the first learner
// in it that of the job. The learners have their own options, so none can be
// given.
func (r *replay) checkCompare() error {
	c := r.c
	if r.several() && c.Origin("compare").Source != cli.FromDefault {
		return c.Bad("compare", errors.New("--learner lists learners already"))
	}
	if r.several() {
		r.compare = strings.Split(r.learner, ",")
	} else if c.Origin("learner").Source != cli.FromDefault {
		return c.Bad("compare", errors.New("it cannot be combined with --learner, which can list learners itself"))
	}
	for _, flag := range []string{"preset", "set", "model", "test", "holdout", "checkpoint", "join", "promote", "scores"} {
		if c.Origin(flag).Source != cli.FromDefault {
			return c.Bad("compare", fmt.Errorf("it cannot be combined with --%s", flag))
		}
	}
	first := true
	for i, name := range r.compare {
		switch {
		case slices.Contains(r.compare[:i], name):
			return c.Bad("compare", fmt.Errorf("%s is there twice", name))
		case name == ruleMajority && algos.Task(r.task) == algos.Regress:
			return c.Bad("compare", errors.New("there is no majority of numbers"))
		case name == ruleMajority || name == ruleNoChange:
		default:
			o := trainer.Options{Learner: name, Task: algos.Task(r.task)}
			if list := optionErrors(o.Validate()); len(list) > 0 {
				return c.Bad("compare", list[0].Err)
			}
			if first {
				r.learner, first = name, false
			}
		}
	}
	if first {
		return c.Bad("compare", errors.New("there is no learner among them"))
	}
	return nil
}

// runCompare runs all rivals over the stream at once, which is read and decoded
// once.
func (r *replay) runCompare(ctx context.Context) error {
	src, err := r.open(nil, r.passes)
	if err != nil {
		return err
	}
	defer src.Close()
	list := make([]*rival, len(r.compare))
	if err := onePass(ctx, src, r.job.Decoder, len(list), func(ctx context.Context, i int, src stream.Source, dec stream.Decoder) (err error) {
		list[i], err = r.runRival(ctx, r.compare[i], src, dec)
		return err
	}); err != nil {
		return err
	}
	if r.report != "" {
		if _, err := page.Write(r.report, r.comparison(list)); err != nil {
			return err
		}
	}
	if r.json != "" {
		var out []compared
		for _, v := range list {
			out = append(out, compared{v.name, v.scored, eval.Number(v.seconds), eval.Number(v.from(start(list))), v.summary, behind(list, v)})
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
	return tw.Flush()
}

func (r *replay) runRival(ctx context.Context, name string, src stream.Source, dec stream.Decoder) (*rival, error) {
	began := time.Now()
	if name == ruleMajority || name == ruleNoChange {
		v, err := r.runRule(ctx, name, src, dec)
		if v != nil {
			v.seconds = time.Since(began).Seconds()
		}
		return v, err
	}
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
	return &rival{
		name: name, unscored: h.e.Counts().Labelled - p.Examples(), scored: p.Examples(), seconds: time.Since(began).Seconds(),
		points: h.e.Curve().Points(p), summary: p.Final(), losses: h.losses,
	}, nil
}

// runRule predicts the labels of the stream by a rule. Records that only an
// engine would refuse count.
func (r *replay) runRule(ctx context.Context, name string, src stream.Source, dec stream.Decoder) (*rival, error) {
	sig := codec.SignatureOf(r.job.Decoder)
	p, curve, numbers := newQuality(r.job.Task, sig.Classes(), r.window), eval.NewCurve(), numbersOf(sig)
	var last float64 // label
	var losses []float32
	var recs []stream.Record
	var examples uint64
	for {
		var err error
		recs, err = src.Fetch(ctx, recs[:0])
		if errors.Is(err, io.EOF) {
			return &rival{name: name, rule: true, scored: p.Examples(), points: curve.Points(p), summary: p.Final(), losses: losses}, nil
		}
		if err != nil {
			return nil, err
		}
		for i := range recs {
			var ex stream.Example
			if recs[i].Value == nil || dec.Decode(recs[i].Value, &ex) != nil {
				continue
			}
			keep := r.job.Labels == nil || r.job.Labels(examples)
			examples++
			if !ex.Labelled || !keep {
				continue
			}
			score, y := last, numbers.of(&ex)
			switch {
			case name == ruleMajority:
				score = p.Majority()
			case p.Examples() == 0 && sig.Classes() > 2:
				score = y + 1 // as in eval.Baseline
			case p.Examples() == 0 && r.job.Task != algos.Regress:
				score = -y
			}
			p.Add(score, y)
			curve.Add(p)
			if sig.Classes() <= 2 {
				losses = append(losses, loss(score, y, r.job.Task == algos.Regress))
			}
			last = y
		}
	}
}

// start returns how many labelled examples come before those that all have
// scored.
func start(list []*rival) (n uint64) {
	for _, v := range list {
		n = max(n, v.unscored)
	}
	return n
}

// after returns the losses on the examples after the first n labelled ones.
func (v *rival) after(n uint64) []float32 {
	return v.losses[min(n-min(n, v.unscored), uint64(len(v.losses))):]
}

// best returns the rival whose mean loss on the examples that all have scored is
// the least, nil where losses are not known.
func best(list []*rival) (first *rival) {
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

// behind is compared.Behind.
func behind(list []*rival, v *rival) *[2]eval.Number {
	b, n := best(list), start(list)
	if b == nil || b == v || len(v.after(n)) != len(b.after(n)) {
		return nil
	}
	return eval.Paired(v.after(n), b.after(n))
}

// from returns the accuracy, or the mean absolute error, on the examples after the
// first n labelled ones, to the nearest point of the curve; NaN if there are
// none.
func (v *rival) from(n uint64) float64 {
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

// table lists the rivals for people.
func (r *replay) table(list []*rival) (head []string, rows [][]string) {
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
			less = decimal(b[0]) + " to " + decimal(b[1])
		} else if b != nil {
			less = eval.Percent(b[0]) + " to " + eval.Percent(b[1])
		} else if v == best(list) {
			less = "best"
		}
		if regress {
			rows = append(rows, []string{v.name, decimal(*s.MAE), fmt.Sprint(v.scored), decimal(eval.Number(v.from(n))), decimal(*s.Window.MAE), less, decimal(*s.RMSE), decimal(*s.R2), seconds})
			continue
		}
		interval, loss := "-", "-"
		if i := s.Interval; i != nil {
			interval = eval.Percent(i[0]) + " to " + eval.Percent(i[1])
		}
		if !v.rule { // which gives no probability
			loss = decimal(s.LogLoss)
		}
		rows = append(rows, []string{v.name, eval.Percent(s.Accuracy), fmt.Sprint(v.scored), eval.Percent(v.from(n)), eval.Percent(s.Window.Accuracy), interval, less, decimal(s.KappaT), loss, seconds})
	}
	return head, rows
}

// comparison returns a page with all candidates in one chart.
func (r *replay) comparison(list []*rival) *page.Page {
	c := page.Prequential(r.job.Task == algos.Regress, fmt.Sprintf(", last %d examples", r.window))
	c.Caption += " A learner starts when its warm-up has ended."
	for _, v := range list {
		s := page.Series{Name: v.name}
		for _, p := range v.points {
			s.Add(float64(v.unscored+p.Examples), p.Window)
		}
		c.Series = append(c.Series, s)
	}
	head, rows := r.table(list)
	return &page.Page{
		Title: "Comparison on " + strings.Join(r.files, ", "), Foot: version.Text(),
		Sections: []page.Section{{ID: "comparison", Title: "Comparison", Charts: []page.Chart{c}, Tables: []page.Table{{Title: "Result", Head: head, Rows: rows}}}},
	}
}
