package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/compare"
	"github.com/streamsvm/streamsvm/internal/app/describe"
	"github.com/streamsvm/streamsvm/internal/app/page"
	"github.com/streamsvm/streamsvm/internal/atomicfile"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/internal/promote"
	"github.com/streamsvm/streamsvm/internal/spell"
	"github.com/streamsvm/streamsvm/internal/tune"
	"github.com/streamsvm/streamsvm/internal/version"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/trainer"
)

// result is what replay reports. Its JSON form is a contract: numbers that do
// not apply are null, and nothing else is added.
type result struct {
	Learner           string         `json:"learner"`
	Options           map[string]any `json:"options"` // complete, defaults included
	Seed              uint64         `json:"seed"`
	Examples          uint64         `json:"examples"` // records that are examples
	Labelled          uint64         `json:"labelled"`
	Unlabelled        uint64         `json:"unlabelled"`
	Dead              uint64         `json:"dead"`       // records that could not be used
	Tombstones        uint64         `json:"tombstones"` // records without a value that were skipped
	Seconds           eval.Number    `json:"seconds"`
	ExamplesPerSecond eval.Number    `json:"examples_per_second"`
	Delay             int            `json:"delay"` // of labels, in examples
	Prequential       eval.Summary   `json:"prequential"`
	// AsPublished is there with --publish-every.
	AsPublished *promote.PublishedReport `json:"as_published,omitempty"`
	Test        *eval.Test               `json:"test"`
	Folds       *folds                   `json:"folds"` // of a short stream
	Model       *modelResult             `json:"model"`
	Train       trainResult              `json:"train"`
	// Cuts are the latest cuts of the learner's sample, in order.
	Cuts []cutResult `json:"cuts"`
	// Gate is there with --promote.
	Gate *gateResult `json:"gate,omitempty"`
	// Warnings are sentences about what the user should know.
	Warnings     []string `json:"warnings"`
	PeakRSSBytes *int64   `json:"peak_rss_bytes"`
	StateHash    string   `json:"state_hash"`

	preprocessing, text string
	tuned               []tune.Row
	cuts                uint64    // in all
	labels              [2]string // of the classes, the negative one first
}

// decisions is a hook that records the decisions of a gate.
type decisions struct{ list []promote.Decision }

// Decided implements engine.DecidedHook.
func (d *decisions) Decided(one promote.Decision) { d.list = append(d.list, one) }

// gateResult is the state of the gate at the end, and all its decisions in order.
type gateResult struct {
	promote.Report
	Decisions []promote.Decision `json:"decisions"`
}

// cutResult is a compare.ChangePoint.
type cutResult struct {
	At   uint64      `json:"at"`
	From int         `json:"from"`
	To   int         `json:"to"`
	Z    eval.Number `json:"z"`
}

type modelResult struct {
	Kind    algos.Kind `json:"kind"`
	Support *int       `json:"support"`
	Nonzero *int       `json:"nonzero"`
	Bytes   int        `json:"bytes"`
}

type trainResult struct {
	Steps             uint64      `json:"steps"`
	Objective         eval.Number `json:"objective"`
	Certificate       eval.Number `json:"certificate"`
	KernelEvaluations *int64      `json:"kernel_evaluations"`
	Sample            int         `json:"sample"`
}

func newResult(e *engine.Engine, p *predictor.Predictor, o trainer.Options, took time.Duration, test *eval.Test) (*result, error) {
	h, err := e.Hash()
	if err != nil {
		return nil, err
	}
	spec, err := registry.Lookup(o.Learner)
	if err != nil {
		return nil, err
	}
	n, rep := e.Counts(), e.Report()
	r := &result{
		Learner: spec.Name, Options: options(spec, e.Options()), Seed: o.Seed,
		Examples: n.Labelled + n.Unlabelled, Labelled: n.Labelled, Unlabelled: n.Unlabelled, Dead: n.Dead, Tombstones: n.Tombstones,
		Seconds: eval.Number(took.Seconds()), ExamplesPerSecond: eval.Number(float64(n.Labelled+n.Unlabelled) / took.Seconds()),
		Delay: o.Delay, Prequential: e.Prequential().Final(), Test: test,
		Train:     trainResult{Steps: rep.Step, Objective: eval.Number(rep.Objective), Certificate: eval.Number(rep.Certificate), Sample: rep.Sample},
		StateHash: describe.Hash(h), tuned: e.Tuned(),
		Cuts: []cutResult{}, Warnings: warnings(e), labels: e.Labels(),
	}
	r.Prequential.Name(e.Classes())
	r.AsPublished = e.FinalAsPublished()
	if test != nil {
		eval.Name(test.Classes, e.Classes())
	}
	var cuts []compare.ChangePoint
	r.cuts, cuts = e.ChangePoints()
	for _, c := range cuts {
		r.Cuts = append(r.Cuts, cutResult{c.At, c.From, c.To, eval.Number(c.Z)})
	}
	if rep.KernelEvals >= 0 {
		r.Train.KernelEvaluations = &rep.KernelEvals
	}
	if rss := peakRSS(); rss > 0 {
		r.PeakRSSBytes = &rss
	}
	if p != nil {
		data, err := p.AppendBinary(nil)
		if err != nil {
			return nil, err
		}
		info := p.Info()
		r.Model = &modelResult{Kind: info.Kind, Bytes: len(data)}
		r.Model.Support, r.Model.Nonzero = known(info.Support), known(info.Nonzero)
		r.preprocessing, r.text = p.Preprocessing()+clipped(e.Clipped()), info.Text
	}
	return r, nil
}

// clipped describes what was clipped after scaling, as text to append to the
// description of the scaling.
func clipped(c prep.Clipped) string {
	if c.Values == 0 {
		return ""
	}
	noun, features := "feature", []string(nil)
	if len(c.Features) > 1 {
		noun = "features"
	}
	for _, j := range c.Features {
		features = append(features, strconv.Itoa(int(j)+1))
	}
	return fmt.Sprintf("; clipped %d values in %d examples, first in %s %s", c.Values, c.Examples, noun, strings.Join(features, ", "))
}

// warnings returns sentences about what the user should know.
func warnings(e *engine.Engine) []string {
	s := e.Prequential().Summary()
	list := append([]string{}, s.Warnings(e.Prequential().Examples())...)
	if text := lostLabels(e.Join()); text != "" {
		list = append(list, text)
	}
	return list
}

// known returns nil for -1, which stands for a number that does not apply.
func known(n int) *int {
	if n < 0 {
		return nil
	}
	return &n
}

// options returns all options of a learner, as chosen or by default, with
// numbers as numbers.
func options(spec algos.Spec, chosen map[string]string) map[string]any {
	all := map[string]any{}
	for _, o := range spec.Options {
		text, ok := chosen[o.Name]
		if !ok {
			text = o.Default
		}
		all[o.Name] = text
		switch o.Type {
		case "float64":
			if v, err := strconv.ParseFloat(text, 64); err == nil && !math.IsInf(v, 0) {
				all[o.Name] = v
			}
		case "int", "uint64":
			if _, err := strconv.ParseInt(text, 10, 64); err == nil {
				all[o.Name] = json.Number(text)
			}
		case "bool":
			if v, err := strconv.ParseBool(text); err == nil {
				all[o.Name] = v
			}
		}
	}
	return all
}

// writeJSON writes v as JSON to the file at path, or to out if path is -.
func writeJSON(path string, out io.Writer, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	data = append(data, '\n')
	if path == "-" {
		_, err = out.Write(data)
		return err
	}
	return atomicfile.Write(path, data)
}

// print writes the result for people.
func (r *result) print(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range r.rows() {
		fmt.Fprintf(tw, "%s\t%s\n", row[0], row[1])
	}
	tw.Flush()
	if r.Gate != nil {
		for _, d := range r.Gate.Decisions {
			fmt.Fprintf(w, "gate: %v\n", d)
		}
	}
}

// rows lists names and values for people.
func (r *result) rows() [][]string {
	var rows [][]string
	row := func(name, format string, args ...any) {
		rows = append(rows, []string{name, fmt.Sprintf(format, args...)})
	}
	dead := ""
	if r.Dead > 0 {
		dead = fmt.Sprintf(", %s could not be used", spell.Count(r.Dead, "record"))
	}
	if r.Tombstones > 0 {
		dead += fmt.Sprintf(", %s", spell.Count(r.Tombstones, "tombstone"))
	}
	row("examples", "%d (%d labelled, %d unlabelled%s)", r.Examples, r.Labelled, r.Unlabelled, dead)
	row("time", "%.2f s, %.0f examples/s", float64(r.Seconds), float64(r.ExamplesPerSecond))
	row("preprocessing", "%s", r.preprocessing)
	m := func(m eval.Measures) string {
		if m.MAE != nil {
			return fmt.Sprintf("MAE %.5g, RMSE %.5g, R2 %.4f", float64(*m.MAE), float64(*m.RMSE), float64(*m.R2))
		}
		if m.Classes != nil {
			return fmt.Sprintf("accuracy %s, balanced accuracy %s, kappa %s, kappa-temporal %s", eval.Percent(m.Accuracy), eval.Percent(m.BalancedAccuracy), decimal(m.Kappa), decimal(m.KappaT))
		}
		if class, rare := m.Rare(); rare {
			return r.rare(&m, class)
		}
		return fmt.Sprintf("accuracy %s, AUC %s, kappa %s, kappa-temporal %s, hinge %s", eval.Percent(m.Accuracy), decimal(m.AUC), decimal(m.Kappa), decimal(m.KappaT), decimal(m.Hinge))
	}
	late := ""
	if r.Delay > 0 {
		late = fmt.Sprintf(", each label %d examples late", r.Delay)
	}
	row("prequential", "%s%s", m(r.Prequential.Measures), late)
	last := fmt.Sprintf("  last %d", r.Prequential.Window.Examples)
	row(last, "%s", m(r.Prequential.Window.Measures))
	if r.Prequential.MAE == nil {
		if i := r.Prequential.Interval; i != nil {
			row("  95 % interval", "accuracy %s to %s", eval.Percent(i[0]), eval.Percent(i[1]))
		}
		row("baselines", "%s", r.Prequential.Baseline)
		row(last, "%s", r.Prequential.Window.Baseline)
	}
	if p := probabilities("", &r.Prequential.Probability); p != "" {
		row("probabilities", "%s", p)
		row(last, "%s", probabilities("", &r.Prequential.Window.Probability))
	}
	if c := r.Prequential.Cost; c != nil {
		row("mean cost", "%s", decimal(*c))
	}
	if a := r.AsPublished; a != nil {
		row("as published", "%s, on %d examples", m(a.Measures), a.Examples)
		early := ""
		if a.Early > 0 {
			early = fmt.Sprintf(" and %d early, after changes", a.Early)
		}
		row("", "%d versions, one after each %d records%s; the figures above are the trainer's own", a.Versions, a.Every, early)
		if i := a.Interval; i != nil {
			row("  95 % interval", "accuracy %s to %s", eval.Percent(i[0]), eval.Percent(i[1]))
		}
		if p := probabilities("", &a.Probability); p != "" {
			row("  probabilities", "%s", p)
		}
		if a.Cost != nil {
			row("  mean cost", "%s", decimal(*a.Cost))
		}
		for k, g := range a.ByAge {
			if g.Examples == 0 {
				continue
			}
			age := fmt.Sprintf("  age to %d", g.To)
			if k == len(a.ByAge)-1 {
				age = "  older"
			}
			row(age, "%s", m(g.Measures))
		}
	}
	for k, c := range r.Prequential.Classes {
		if k == classRows {
			row("", "and %d more classes", len(r.Prequential.Classes)-k)
			break
		}
		row("class "+c.Label, "%d examples, recall %s, precision %s", c.Examples, eval.Percent(c.Recall), eval.Percent(c.Precision))
	}
	if t := r.Test; t != nil {
		if t.MAE != nil {
			row("test", "MAE %s, RMSE %s, R2 %s on %d examples", decimal(*t.MAE), decimal(*t.RMSE), decimal(*t.R2), t.Examples)
		} else if t.Classes != nil {
			row("test", "accuracy %s, balanced accuracy %s on %d examples", eval.Percent(t.Accuracy), eval.Percent(t.BalancedAccuracy), t.Examples)
		} else {
			row("test", "accuracy %s, AUC %s on %d examples", eval.Percent(t.Accuracy), decimal(t.AUC), t.Examples)
		}
	}
	if r.Folds != nil {
		r.Folds.row(row)
	}
	if r.Model != nil {
		row("model", "%s, %d bytes", r.text, r.Model.Bytes)
	}
	t := fmt.Sprintf("%d steps, sample %d, objective %s", r.Train.Steps, r.Train.Sample, decimal(r.Train.Objective))
	if !math.IsNaN(float64(r.Train.Certificate)) {
		t += fmt.Sprintf(", at most %s above the optimum", decimal(r.Train.Certificate))
	}
	row("training", "%s", t)
	if n := len(r.Cuts); n > 0 {
		c := r.Cuts[n-1]
		row("cuts", "%d of the sample, the last one at example %d from %d to %d", r.cuts, c.At, c.From, c.To)
	}
	row("state hash", "%s", r.StateHash)
	for _, w := range r.Warnings {
		row("warning", "%s", w)
	}
	return rows
}

// rare describes how good a classifier is when one class is rare: always predicting the
// other class would have a similar accuracy.
func (r *result) rare(m *eval.Measures, class int) string {
	text := fmt.Sprintf("AUC %s, balanced accuracy %s", decimal(m.AUC), eval.Percent(m.BalancedAccuracy))
	for _, c := range [2]int{class, 1 - class} {
		text += fmt.Sprintf(", label %s: recall %s, precision %s", r.labels[c], eval.Percent(m.Recall(c)), eval.Percent(m.Precision(c)))
	}
	return text + fmt.Sprintf("; accuracy %s, larger class %s", eval.Percent(m.Accuracy), eval.Percent(m.Baseline.Majority))
}

// probabilities describes, after the text before, how good probabilities are; "" if
// there were none.
func probabilities(before string, m *eval.Probability) string {
	if len(m.Reliability) == 0 {
		return ""
	}
	return fmt.Sprintf("%slog loss %s, Brier score %s (skill %s), calibration error %s (by chance %s)",
		before, decimal(m.LogLoss), decimal(m.Brier), decimal(m.BrierSkill), decimal(m.ECE), decimal(m.ECENoise))
}

func decimal(v eval.Number) string {
	if math.IsNaN(float64(v)) {
		return "-"
	}
	return strconv.FormatFloat(float64(v), 'g', 4, 64)
}

// scoreRows is the number of examples predicted together: large models are read
// from memory once for all of them.
const scoreRows = 256

// score tests p on every labelled example of src; skip says to skip records without
// a value.
func score(ctx context.Context, p *predictor.Predictor, src stream.Source, decode func(value []byte, ex *stream.Example) error, skip bool) (*eval.Test, error) {
	numbers := numbersOf(p.Signature())
	var scores, labels []float64
	var recs []stream.Record
	var xs []stream.Vec
	decide := func() {
		n := len(scores)
		scores = slices.Grow(scores, len(xs))[:n+len(xs)]
		p.Decisions(scores[n:], xs)
		xs = xs[:0]
	}
	for {
		var err error
		recs, err = src.Fetch(ctx, recs[:0])
		if errors.Is(err, io.EOF) {
			decide()
			if p.Classes() > 2 {
				t := eval.EvaluateClasses(scores, labels)
				return &t, nil
			}
			t := eval.Evaluate(p.Task() == algos.Regress, scores, labels)
			return &t, nil
		}
		if err != nil {
			return nil, err
		}
		for i := range recs {
			var ex stream.Example
			if skip && recs[i].Value == nil {
				continue
			}
			if err := decode(recs[i].Value, &ex); err != nil {
				return nil, stream.At(&recs[i], err)
			}
			if ex.Labelled {
				xs, labels = append(xs, ex.X), append(labels, numbers.of(&ex))
			}
		}
		if len(xs) >= scoreRows {
			decide()
		}
	}
}

// tuningRows is how many rows of the tuner's table are printed.
const tuningRows = 10

// printTuning writes the rows of the tuner's table that came furthest.
func printTuning(w io.Writer, rows []tune.Row) {
	best := slices.Clone(rows)
	sort.SliceStable(best, func(i, j int) bool {
		a, b := &best[i], &best[j]
		return a.Examples > b.Examples || a.Examples == b.Examples && cmp.Less(b.Score, a.Score)
	})
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "tuning\tscore\tloss\texamples\t")
	for _, r := range best[:min(len(best), tuningRows)] {
		mark := ""
		if r.Chosen {
			mark = "<- chosen"
		}
		fmt.Fprintf(tw, "  %s\t%.4f\t%.4f\t%d\t%s\n", r.Options, r.Score, r.Loss, r.Examples, mark)
	}
	tw.Flush()
	if n := len(best) - tuningRows; n > 0 {
		fmt.Fprintf(w, "  and %d trials on fewer examples or with a lower score\n", n)
	}
	fmt.Fprintln(w)
}

// report writes a page about the replay.
func (r *result) report(dir string, answers []page.Answer, sections []page.Section) error {
	settings := page.Table{Title: "Options", Head: []string{"option", "value"}}
	for _, k := range slices.Sorted(maps.Keys(r.Options)) {
		settings.Rows = append(settings.Rows, []string{k, fmt.Sprint(r.Options[k])})
	}
	tables := []page.Table{{Title: "Result", Rows: r.rows()}, settings}
	if len(r.tuned) > 0 {
		t := page.Table{Title: "Tuning", Head: []string{"options", "score", "loss", "examples", ""}}
		for _, row := range r.tuned {
			mark := ""
			if row.Chosen {
				mark = "chosen"
			}
			t.Rows = append(t.Rows, []string{row.Options, decimal(eval.Number(row.Score)), decimal(eval.Number(row.Loss)), fmt.Sprint(row.Examples), mark})
		}
		tables = append(tables, t)
	}
	_, err := page.Write(dir, &page.Page{
		Title: fmt.Sprintf("%s on %d examples", r.Learner, r.Examples), Answers: answers,
		Sections: append(sections, page.Section{ID: "result", Title: "Result", Tables: tables}), Foot: version.Text(),
	})
	return err
}

// printPrequential prints in short how good a classifier's predictions were, and what
// the user should know.
func printPrequential(w io.Writer, e *engine.Engine) {
	if s := e.Prequential().Summary(); s.MAE == nil && e.Prequential().Examples() > 0 {
		if class, rare := s.Rare(); rare {
			fmt.Fprintf(w, "prequential: %s; label before %s\n", (&result{labels: e.Labels()}).rare(&s.Measures, class), eval.Percent(s.Baseline.NoChange))
		} else {
			fmt.Fprintf(w, "prequential: accuracy %s, kappa-temporal %s; baselines: %s\n", eval.Percent(s.Accuracy), decimal(s.KappaT), s.Baseline)
		}
	}
	if p := e.AsPublished(); p != nil && p.Examples > 0 {
		fmt.Fprintln(w, asPublished(p))
	}
	if m := e.Prequential().Weighted(); m != nil && m.MAE == nil {
		fmt.Fprintf(w, "prequential, each example by its weight: accuracy %s over all, %s of late; weights of %.0f, as certain as %.0f examples\n",
			eval.Percent(m.Accuracy), eval.Percent(m.Window.Accuracy), m.Sum, m.Effective)
	}
	for _, text := range warnings(e) {
		fmt.Fprintln(w, "warning:", text)
	}
}

// asPublished describes in short how good the published versions were.
func asPublished(p *promote.PublishedReport) string {
	text := fmt.Sprintf("as published: by %d versions, on %d examples: ", p.Versions, p.Examples)
	if p.MAE != nil {
		return text + fmt.Sprintf("MAE %s, RMSE %s, R2 %s", decimal(*p.MAE), decimal(*p.RMSE), decimal(*p.R2))
	}
	text += "accuracy " + eval.Percent(p.Accuracy)
	if p.AUC == p.AUC {
		text += ", AUC " + decimal(p.AUC)
	}
	return text + probabilities(", ", &p.Probability)
}
