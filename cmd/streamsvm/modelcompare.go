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
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/compare"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/inspect"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/fileio"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// comparedModel is one of the two models that are compared.
type comparedModel struct {
	name string
	p    *predictor.Predictor
	u    *stream.Update // nil for a file
}

// modelComparison is what model compare prints.
type modelComparison struct {
	Properties []property       `json:"properties"`
	Records    *recordsCompared `json:"records"` // null without records
}

// property is what is known of both models.
type property struct {
	Name   string `json:"name"`
	A      string `json:"a"`
	B      string `json:"b"`
	Differ bool   `json:"differ"`
}

// recordsCompared says how well both models predict the same records.
type recordsCompared struct {
	Compared uint64 `json:"compared"`
	// Records that were left out: a model has learned from them, they have no label, or
	// a model cannot score them.
	Learned    uint64 `json:"learned"`
	Unlabelled uint64 `json:"unlabelled"`
	Refused    uint64 `json:"refused"`
	// Loss is the share of errors of A and of B, or the mean absolute error.
	Loss [2]eval.Number `json:"loss"`
	// Difference is a 95 % interval of the loss of B minus that of A; null for fewer than
	// 320 records.
	Difference *[2]float64 `json:"difference"`
	// Alone counts the records on which only A, or only B, is right. McNemar is the
	// two-sided p-value of these counts. Neither applies to a regression.
	Alone   [2]uint64    `json:"alone"`
	McNemar *eval.Number `json:"mcnemar"`

	losses [2][]float32
}

// compare compares two models, and if there are files with labelled records also their
// predictions.
func (o *versions) compare(ctx context.Context, c *cli.Call) error {
	if len(c.Args) < 2 {
		return cli.Failf(cli.Usage, "model compare takes two of: a version, an alias, a MODEL%s; and files of labelled records", ext)
	}
	var models [2]comparedModel
	for i, name := range c.Args[:2] {
		m, err := o.open(ctx, c, name)
		if err != nil {
			return err
		}
		models[i] = m
	}
	all := modelComparison{Properties: compareModels(&models[0], &models[1])}
	if files := c.Args[2:]; len(files) > 0 {
		var err error
		if all.Records, err = compareOnRecords(ctx, &models, files); err != nil {
			return err
		}
	}
	if o.json {
		e := json.NewEncoder(c.Out)
		e.SetIndent("", "  ")
		return e.Encode(all)
	}
	w := tabwriter.NewWriter(c.Out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, " \t \t%s\t%s\n", models[0].name, models[1].name)
	for _, p := range append(all.Properties, all.Records.properties()...) {
		mark := " "
		if p.Differ {
			mark = "*"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", mark, p.Name, oneLine(cmp.Or(p.A, "-")), oneLine(cmp.Or(p.B, "-")))
	}
	if err := w.Flush(); err != nil || all.Records == nil {
		return err
	}
	_, err := fmt.Fprintf(c.Out, "\n%s\n", all.Records)
	return err
}

// properties lists what is known of the models by their predictions.
func (r *recordsCompared) properties() []property {
	if r == nil || r.Compared == 0 {
		return nil
	}
	if r.McNemar == nil {
		return []property{{"mean abs. error", decimal(r.Loss[0]), decimal(r.Loss[1]), r.Loss[0] != r.Loss[1]}}
	}
	return []property{
		{"accuracy", eval.Percent(1 - r.Loss[0]), eval.Percent(1 - r.Loss[1]), r.Loss[0] != r.Loss[1]},
		{"right alone", strconv.FormatUint(r.Alone[0], 10), strconv.FormatUint(r.Alone[1], 10), r.Alone[0] != r.Alone[1]},
	}
}

// String says how sure the difference is, and which records were left out.
func (r *recordsCompared) String() string {
	s := fmt.Sprintf("%d records compared", r.Compared)
	for _, left := range []struct {
		n    uint64
		what string
	}{{r.Learned, "from which a model has learned"}, {r.Unlabelled, "without a label"}, {r.Refused, "that could not be scored"}} {
		if left.n > 0 {
			s += fmt.Sprintf(", %d left out %s", left.n, left.what)
		}
	}
	if d := r.Difference; d != nil && r.McNemar == nil {
		s += fmt.Sprintf("; the error of the second minus that of the first is %s to %s (95 %%)", decimal(eval.Number(d[0])), decimal(eval.Number(d[1])))
	} else if d != nil {
		s += fmt.Sprintf("; the accuracy of the second minus that of the first is %s to %s (95 %%)", eval.Percent(-d[1]), eval.Percent(-d[0]))
	}
	if r.McNemar != nil {
		s += fmt.Sprintf("; McNemar p = %s", decimal(*r.McNemar))
	}
	return s
}

// compareOnRecords has both models predict the records of files.
func compareOnRecords(ctx context.Context, models *[2]comparedModel, files []string) (*recordsCompared, error) {
	task := models[0].p.Task()
	if other := models[1].p.Task(); other != task {
		return nil, cli.Failf(cli.Data, "%s is for task %s, and %s for %s", models[0].name, task, models[1].name, other)
	}
	format := codecFlags{labels: codec.Auto, comma: ","}
	var scorers [2]*predictor.Scorer
	open := func(h *csvHeader) (err error) {
		for i := range scorers {
			v := &predictor.Version{Predictor: models[i].p.Compile()}
			if scorers[i], err = format.scorer(&cli.Call{}, func() *predictor.Version { return v }, predictor.ScorerOptions{}, h, files...); err != nil {
				return fmt.Errorf("%s: %w", models[i].name, err)
			}
		}
		return nil
	}
	if err := open(nil); err != nil {
		return nil, err
	}
	fo := format.fileOptions()
	scoredFiles(scorers[0], &fo, files[0], open)
	src, err := fileio.Open(files, fo)
	if err != nil {
		return nil, cli.Fail(cli.Usage, err)
	}
	defer src.Close()
	r := &recordsCompared{}
	var recs []stream.Record
	var batches [2]predictor.Batch
	for {
		recs, err = src.Fetch(ctx, recs[:0])
		if errors.Is(err, io.EOF) {
			r.conclude(task)
			return r, nil
		}
		if err != nil {
			return nil, err
		}
		recs = slices.DeleteFunc(recs, func(rec stream.Record) bool { return rec.Value == nil })
		for k, s := range scorers {
			batches[k].Records = recs
			if err := s.ScoreBatch(ctx, &batches[k]); err != nil {
				return nil, err
			}
		}
		for i := range recs {
			at := stream.Partition{Topic: recs[i].Topic, ID: recs[i].Partition}
			learned := slices.ContainsFunc(models[:], func(m comparedModel) bool { return m.u != nil && m.u.Offsets[at] > recs[i].Offset })
			r.add(task, &batches[0].Predictions[i], &batches[1].Predictions[i], learned)
		}
	}
}

// add takes the predictions of a record.
func (r *recordsCompared) add(task algos.Task, a, b *predictor.Prediction, learned bool) {
	switch {
	case a.Err != nil || b.Err != nil:
		r.Refused++
		return
	case !a.Labelled || !b.Labelled:
		r.Unlabelled++
		return
	case learned:
		r.Learned++
		return
	}
	r.Compared++
	for k, p := range []*predictor.Prediction{a, b} {
		loss := 0.0
		if task == algos.Regress {
			loss = math.Abs(p.Score - p.Y)
		} else if p.Value != trueValue(p) {
			loss = 1
		}
		r.Loss[k] += eval.Number(loss)
		r.losses[k] = append(r.losses[k], float32(loss))
	}
}

// conclude computes what depends on all records.
func (r *recordsCompared) conclude(task algos.Task) {
	for k := range r.Loss {
		r.Loss[k] /= eval.Number(r.Compared)
	}
	r.Difference = compare.PairedInterval(r.losses[1], r.losses[0])
	if task == algos.Regress {
		return
	}
	for i, a := range r.losses[0] {
		if b := r.losses[1][i]; a < b {
			r.Alone[0]++
		} else if b < a {
			r.Alone[1]++
		}
	}
	p := eval.Number(min(1, 2*compare.McNemar(max(r.Alone[0], r.Alone[1]), min(r.Alone[0], r.Alone[1]))))
	r.McNemar = &p
}

// properties returns what is known of a model, in order.
func (s *comparedModel) properties() (names []string, values map[string]string) {
	values = map[string]string{}
	add := func(name, value string) {
		names, values[name] = append(names, name), value
	}
	info, sig := s.p.Info(), s.p.Signature()
	add("learner", s.p.Learner())
	add("task", string(s.p.Task()))
	if u := s.u; u != nil {
		add("version", strconv.FormatUint(u.Version, 10))
		add("examples", strconv.FormatUint(u.Examples, 10))
		add("step", strconv.FormatUint(u.Step, 10))
		add("made", u.Created.Format(time.RFC3339))
		add("bytes", strconv.Itoa(len(u.Payload)))
		add("hash", hash(u.Hash))
	}
	add("model", info.Text)
	add("kind", string(info.Kind))
	if info.Support >= 0 {
		add("support vectors", strconv.Itoa(info.Support))
	}
	add("preprocessing", s.p.Preprocessing())
	add("format", sig.Codec)
	add("labels", sig.Labels)
	add("features", strconv.Itoa(max(sig.Length(), info.Dim)))
	add("names of features", strings.Join(sig.Features(), ","))
	opts := s.p.Options()
	for _, k := range slices.Sorted(maps.Keys(opts)) {
		add("option "+k, opts[k])
	}
	if s.u != nil {
		for _, m := range s.u.Evaluation {
			add(m.Name, strconv.FormatFloat(m.Value, 'g', 6, 64))
		}
	}
	// A schema of events has many lines, and few of them differ.
	for line := range strings.Lines(sig.Schema) {
		if line = strings.TrimSpace(line); line != "" {
			add("schema: "+line, "yes")
		}
	}
	return names, values
}

// compareModels lists the properties of both. Lines that both schemas have are left out.
func compareModels(a, b *comparedModel) []property {
	names, as := a.properties()
	more, bs := b.properties()
	for _, name := range more {
		if _, ok := as[name]; !ok {
			names = append(names, name)
		}
	}
	var ps []property
	seen := map[string]bool{}
	for _, name := range names {
		p := property{name, as[name], bs[name], as[name] != bs[name]}
		if seen[name] || strings.HasPrefix(name, "schema: ") && !p.Differ || p.A == "" && p.B == "" {
			continue
		}
		seen[name] = true
		ps = append(ps, p)
	}
	return ps
}

// open finds one of the models: a version or an alias in the topic, or a file.
func (o *versions) open(ctx context.Context, c *cli.Call, name string) (comparedModel, error) {
	version, err := strconv.ParseUint(name, 10, 64)
	if isVersion := err == nil; !isVersion && (strings.HasSuffix(name, ext) || strings.ContainsRune(name, filepath.Separator)) {
		p, err := inspect.ReadModel(name)
		return comparedModel{name: name, p: p}, err
	}
	if o.topic == "" {
		return comparedModel{}, c.Bad("model-topic", fmt.Errorf("no topic is given that could hold %s", name))
	}
	var u *stream.Update
	if version > 0 {
		one := *o
		one.version = version
		u, err = one.chosen(ctx, c)
		name = "version " + name
	} else {
		var t *modeltopic.Contents
		if t, err = o.contents(ctx, c, 0); err == nil {
			if m := held(t, modeltopic.AliasName(o.name, name)); m == nil || m.Newest == nil {
				err = cli.Failf(cli.Data, "topic %s holds no %s", o.topic, modeltopic.AliasName(o.name, name))
			} else {
				u = m.Newest
			}
		}
	}
	if err != nil {
		return comparedModel{}, err
	}
	p, err := predictor.Decode(u.Payload)
	if err != nil {
		return comparedModel{}, cli.Fail(cli.Data, fmt.Errorf("%s: %w", name, err))
	}
	return comparedModel{name, p, u}, nil
}
