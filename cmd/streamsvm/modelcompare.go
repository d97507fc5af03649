package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/describe"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/spell"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/fileio"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// comparedModel is one of the models that model compare scores records with.
type comparedModel struct {
	candidate
	v       *predictor.Version // without offsets for a file
	quality *eval.Prequential
	scorer  *predictor.Scorer
	batch   predictor.Batch
}

// modelComparison is what model compare --json prints.
type modelComparison struct {
	// Records that were left out: a model has learned from them, they have no label, or
	// a model cannot score them.
	Learned    uint64            `json:"learned"`
	Unlabelled uint64            `json:"unlabelled"`
	Refused    uint64            `json:"refused"`
	Models     []candidateResult `json:"models"`
}

// compare has two models predict the labelled records of files.
func (o *versions) compare(ctx context.Context, c *cli.Call) error {
	if len(c.Args) < 3 {
		return cli.Failf(cli.Usage, "model compare takes two of: a version, an alias, a MODEL%s; and then files of labelled records", ext)
	}
	a, err := o.open(ctx, c, c.Args[0])
	if err != nil {
		return err
	}
	b, err := o.open(ctx, c, c.Args[1])
	if err != nil {
		return err
	}
	if a.v.Task() != b.v.Task() {
		return cli.Failf(cli.Data, "%s is for task %s, and %s for %s", a.name, a.v.Task(), b.name, b.v.Task())
	}
	models := []*comparedModel{a, b}
	r, err := compareOnRecords(ctx, models, c.Args[2:])
	if err != nil {
		return err
	}
	all := comparison{regress: a.v.Task() == algos.Regress, window: recentRecords}
	for _, m := range models {
		m.summary = m.quality.Final()
		all.list = append(all.list, &m.candidate)
	}
	if len(a.losses) == 0 {
		return cli.Failf(cli.Data, "%s", strings.Join(append([]string{"no record to compare the models on"}, r.leftOut()...), "; "))
	}
	if r.Models = all.results(); o.json {
		return writeJSON("-", c.Out, r)
	}
	if err := all.print(c.Out); err != nil {
		return err
	}
	for _, line := range r.leftOut() {
		fmt.Fprintln(c.Out, line)
	}
	return nil
}

// leftOut says which records were left out.
func (r *modelComparison) leftOut() (lines []string) {
	for _, left := range []struct {
		n    uint64
		what string
	}{{r.Learned, "a model has learned from"}, {r.Unlabelled, "without a label"}, {r.Refused, "that could not be scored"}} {
		if left.n > 0 {
			lines = append(lines, fmt.Sprintf("left out: %s %s", spell.Count(left.n, "record"), left.what))
		}
	}
	return lines
}

// recentRecords is the size of the window of recent measures.
const recentRecords = 1000

// compareOnRecords has the models predict the records of files.
func compareOnRecords(ctx context.Context, models []*comparedModel, files []string) (r modelComparison, err error) {
	format := codecFlags{labels: codec.Auto, comma: ","}
	open := func(h *csvHeader) (err error) {
		for _, m := range models {
			if m.scorer, err = format.scorer(&cli.Call{}, func() *predictor.Version { return m.v }, predictor.ScorerOptions{}, h, files...); err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
		}
		return nil
	}
	if err := open(nil); err != nil {
		return r, err
	}
	fo := format.fileOptions()
	scoredFiles(models[0].scorer, &fo, files[0], open)
	src, err := fileio.Open(files, fo)
	if err != nil {
		return r, cli.Fail(cli.Usage, err)
	}
	defer src.Close()
	var recs []stream.Record
	for {
		recs, err = src.Fetch(ctx, recs[:0])
		if errors.Is(err, io.EOF) {
			return r, nil
		}
		if err != nil {
			return r, err
		}
		recs = slices.DeleteFunc(recs, func(rec stream.Record) bool { return rec.Value == nil })
		for _, m := range models {
			began := time.Now()
			m.batch.Records = recs
			if err := m.scorer.ScoreBatch(ctx, &m.batch); err != nil {
				return r, err
			}
			m.seconds += time.Since(began).Seconds()
		}
		for i := range recs {
			r.add(models, i, &recs[i])
		}
	}
}

// add counts record i of the batch, or measures the models' predictions for it.
func (r *modelComparison) add(models []*comparedModel, i int, rec *stream.Record) {
	learned, labelled := false, true
	for _, m := range models {
		p := &m.batch.Predictions[i]
		if p.Err != nil {
			r.Refused++
			return
		}
		labelled = labelled && p.Labelled
		learned = learned || m.v.Update.Offsets[stream.Partition{Topic: rec.Topic, ID: rec.Partition}] > rec.Offset
	}
	switch {
	case !labelled:
		r.Unlabelled++
		return
	case learned:
		r.Learned++
		return
	}
	for _, m := range models {
		p := &m.batch.Predictions[i]
		predicted, y := predictedValue(p), trueValue(p)
		m.quality.Add(predicted, y)
		if p.Probability == p.Probability {
			m.quality.AddProbability(p.Probability, y > 0)
		}
		m.losses = append(m.losses, loss(predicted, y, m.v.Task() == algos.Regress, p.Scores != nil))
	}
}

// open finds one of the models: a version or an alias in the topic, or a file.
func (o *versions) open(ctx context.Context, c *cli.Call, name string) (*comparedModel, error) {
	var p *predictor.Predictor
	var u stream.Update
	if strings.HasSuffix(name, ext) || strings.ContainsRune(name, filepath.Separator) {
		var err error
		if p, err = describe.ReadModel(name); err != nil {
			return nil, err
		}
	} else {
		held, err := o.named(ctx, c, name)
		if err != nil {
			return nil, err
		}
		if p, err = predictor.Decode(held.Payload); err != nil {
			return nil, cli.Fail(cli.Data, fmt.Errorf("%s: %w", name, err))
		}
		u = *held
	}
	return &comparedModel{candidate: candidate{name: name}, v: &predictor.Version{Predictor: p.Compile(), Update: u}, quality: newQuality(p.Task(), p.Classes(), recentRecords)}, nil
}

// named returns a version, by its number or by an alias.
func (o *versions) named(ctx context.Context, c *cli.Call, name string) (*stream.Update, error) {
	if o.topic == "" {
		return nil, c.Bad("model-topic", fmt.Errorf("no topic is given that could hold %s", name))
	}
	if version, err := strconv.ParseUint(name, 10, 64); err == nil && version > 0 {
		one := *o
		one.version = version
		return one.chosen(ctx, c)
	}
	t, err := o.contents(ctx, c, 0)
	if err != nil {
		return nil, err
	}
	m := held(t, modeltopic.AliasName(o.name, name))
	if m == nil || m.Newest == nil {
		return nil, cli.Failf(cli.Data, "topic %s holds no %s", o.topic, modeltopic.AliasName(o.name, name))
	}
	return m.Newest, nil
}
