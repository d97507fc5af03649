package main

import (
	"cmp"
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
	"github.com/streamsvm/streamsvm/internal/app/metrics"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/gate"
	"github.com/streamsvm/streamsvm/internal/par"
	"github.com/streamsvm/streamsvm/internal/version"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// contest holds the settings of one call of the command compare, and what is
// known of the models so far.
type contest struct {
	sourceFlags
	codecFlags
	kafkaFlags
	trustFlags
	modelTopic string
	names      []string
	max        uint64
	window     int
	every      time.Duration
	json       bool

	c      *cli.Call
	models []*contestant
	task   algos.Task
	// counts are those of the records read; all but compared have been left out.
	counts struct{ compared, unlabelled, refused, learned uint64 }
	// gains[i][j], for j < i, is of losses of i − those of j.
	gains  [][]gate.Mean
	labels []float64 // of the first records of a regression
	scale  float64   // the largest error that counts in gains; 0 while it is not known
}

// contestant is one of the models.
type contestant struct {
	name     string
	p        *predict // scores with it
	b        *scoring
	version  uint64 // the one that scored last
	versions int    // that have scored
	sum      float64
	recent   []float64 // losses, a ring
}

// maxContestants bounds the models, of which each pair is compared.
const maxContestants = 32

// scaleOf is how many labels of a regression say what the largest error is that
// counts, which is so many standard deviations of theirs.
const (
	scaleOf    = 200
	deviations = 4
)

func compareCommand() *cli.Command {
	return &cli.Command{
		Name: "compare", Summary: "rank the models of a topic on a live stream of labelled records",
		Text: `
Scores each labelled record of --topics with the newest version of every model,
and prints a table that ranks them. The models are those of --model-name, or all
in the topic, including aliases. To compare learners on a file, use
streamsvm replay --learner scs,online,dsg.

Only records that all models can read, and that none of the versions in use has
learned from, are compared. If a trainer learns from the same topic, --start
latest, the default, finds such records. The comparison waits until every model
is there.

The table says how much worse than the best each model is, as bounds of the mean
difference of their losses on the same records. The loss is the error, or for
regression the absolute error, capped at 4 standard deviations of the first 200
labels. The bounds hold with 95 % for all pairs together, however often one
looks, even on a stream that drifts. The rank is 1 more than the number of
models that are better by these bounds; models that cannot be told apart have
the same rank.

It stops at --until-end, --max-records or a signal, and prints a last table.`,
		Example: `
streamsvm compare --model-topic models --topics examples
streamsvm compare --model-topic models --topics examples --json \
    --model-name clicks@champion,clicks,clicks2`,
		Common: []string{"brokers", "model-topic", "model-name", "topics", "start", "until-end", "max-records", "json", "config"},
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			o := &contest{}
			f.Group("Model", func() {
				f.StringVar(&o.modelTopic, "model-topic", "", modelTopicUsage)
				f.StringSliceVar(&o.names, "model-name", nil, "`NAMES` of the models, aliases as MODEL@ALIAS, by default all in the topic")
				o.trustFlags.define(f)
				f.DurationVar(&o.wait, "topic-wait", time.Minute, topicWaitUsage)
			})
			f.Group("Input", func() {
				f.StringSliceVar(&o.topics, "topics", nil, topicsUsage)
				f.StringVar(&o.start, "start", "latest", startUsage)
				f.BoolVar(&o.untilEnd, "until-end", false, untilEndUsage)
				f.Uint64Var(&o.max, "max-records", 0, "stop when `N` records have been compared; 0 does not")
			})
			o.codecFlags.define(f, codecUsage)
			f.Group("Output", func() {
				f.BoolVar(&o.json, "json", false, jsonUsage)
				f.DurationVar(&o.every, "report-every", 10*time.Second, "how often a table is printed; 0 only at the end")
				f.IntVar(&o.window, "window", 1000, "number of examples in windowed measures")
			})
			o.kafkaFlags.define(f)
			return func(ctx context.Context, c *cli.Call) error {
				o.c = c
				return o.run(ctx)
			}
		},
	}
}

// check finds what is wrong with the settings before a model is waited for.
func (o *contest) check() error {
	c := o.c
	switch {
	case o.modelTopic == "":
		return c.Bad("model-topic", errors.New("no topic is given"))
	case slices.Contains(o.topics, o.modelTopic):
		return c.Bad("topics", fmt.Errorf("%s holds the models", o.modelTopic))
	case len(o.names) == 1:
		return c.Bad("model-name", errors.New("one model cannot be compared"))
	case len(o.names) > maxContestants:
		return c.Bad("model-name", fmt.Errorf("%d models are more than %d", len(o.names), maxContestants))
	case o.window < 1:
		return c.Bad("window", fmt.Errorf("%d is less than 1", o.window))
	case o.every < 0:
		return c.Bad("report-every", fmt.Errorf("%v is negative", o.every))
	}
	for i, name := range o.names {
		if name == "" {
			return c.Bad("model-name", errors.New("a name is empty"))
		}
		if slices.Contains(o.names[:i], name) {
			return c.Bad("model-name", fmt.Errorf("%s is there twice", name))
		}
		if err := badModelName(c, name); err != nil {
			return err
		}
	}
	if _, err := o.codecFlags.open(c, algos.Classify); err != nil {
		return err
	}
	o.merge, o.outOfRange = string(kafkaio.MergeArrival), string(kafkaio.OutOfRangeEarliest)
	return errors.Join(o.sourceFlags.check(c)...)
}

func (o *contest) run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	cfg, err := o.kafkaFlags.config(o.c)
	if err != nil {
		return err
	}
	if err := o.schemaFlags.connect(o.c, cfg.TLS, nil); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err = o.open(ctx, cancel, cfg)
	if err == nil {
		err = o.read(ctx, cfg)
	}
	if ctx.Err() != nil {
		err = nil // a signal ends it
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
			err = cause
		}
	}
	if len(o.gains) > 0 { // what is known is told, whatever has ended it
		err = errors.Join(err, o.print())
	}
	return kafkaError(err)
}

// open waits for the models.
func (o *contest) open(ctx context.Context, cancel context.CancelCauseFunc, cfg kafkaio.Config) error {
	if len(o.names) == 0 {
		keys, err := o.trustedKeys(o.c)
		if err != nil {
			return err
		}
		t, err := modeltopic.Read(ctx, modeltopic.ReadOptions{Config: cfg, Topic: o.modelTopic, TrustedKeys: keys, TopicWait: o.wait})
		if err != nil {
			return err
		}
		for _, m := range t.Models {
			if _, alias := modeltopic.SplitName(m.Name); m.Newest != nil && (alias == "" || modeltopic.CheckAlias(alias) == nil) {
				o.names = append(o.names, m.Name)
			}
		}
		if len(o.names) < 2 || len(o.names) > maxContestants {
			return o.c.Bad("model-name", fmt.Errorf("topic %s holds %d models and aliases, wanted are 2 to %d: list those that are to be compared", o.modelTopic, len(o.names), maxContestants))
		}
	}
	for _, name := range o.names {
		p := &predict{
			modelFlags: modelFlags{trustFlags: o.trustFlags, topic: o.modelTopic, name: name, wait: o.wait},
			codecFlags: o.codecFlags, c: o.c, cfg: cfg, m: metrics.NewPredictor(metrics.NewRegistry(version.String)),
		}
		var err error
		if p.current, err = p.follow(ctx, cancel); err != nil {
			return err
		}
		if t := p.current().Task(); o.task == "" {
			o.task = t
		} else if t != o.task {
			return cli.Failf(cli.Data, "model %s is for task %s, and %s for %s", name, t, o.names[0], o.task)
		}
		o.models = append(o.models, &contestant{name: name, p: p, b: newScoring()})
	}
	for i := range o.models {
		o.gains = append(o.gains, make([]gate.Mean, i))
	}
	return nil
}

// read compares until the end.
func (o *contest) read(ctx context.Context, cfg kafkaio.Config) error {
	opts, err := o.sourceFlags.options(o.c, cfg, nil)
	if err != nil {
		return err
	}
	src, err := kafkaio.NewSource(ctx, opts)
	if err != nil {
		return err
	}
	defer src.Close()
	var recs []stream.Record
	printed := time.Now()
	for {
		recs, err = src.Fetch(ctx, recs[:0])
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		recs = slices.DeleteFunc(recs, func(r stream.Record) bool { return r.Value == nil })
		if err := o.score(ctx, recs); err != nil {
			return err
		}
		for i := range recs {
			if o.add(i, &recs[i]); o.max > 0 && o.counts.compared >= o.max {
				return nil
			}
		}
		if o.every > 0 && time.Since(printed) >= o.every {
			if err := o.print(); err != nil {
				return err
			}
			printed = time.Now()
		}
	}
}

// score has all models score the records, each with its newest version.
func (o *contest) score(ctx context.Context, recs []stream.Record) error {
	errs := make([]error, len(o.models))
	par.Each(len(o.models), func(i int) {
		m := o.models[i]
		b := m.b
		b.Records = recs
		if b.s, errs[i] = m.p.pin(nil); errs[i] == nil {
			m.p.score(ctx, b)
		}
	})
	return errors.Join(append(errs, ctx.Err())...)
}

// add compares what the models have said of record i.
func (o *contest) add(i int, r *stream.Record) {
	part := stream.Partition{Topic: r.Topic, ID: r.Partition}
	learned, labelled := false, true
	for _, m := range o.models {
		row := &m.b.Predictions[i]
		if row.Err != nil {
			o.counts.refused++
			return
		}
		labelled = labelled && row.Labelled
		learned = learned || m.b.s.Current().Update.Offsets[part] > r.Offset
	}
	switch {
	case !labelled:
		o.counts.unlabelled++
		return
	case learned:
		o.counts.learned++
		return
	}
	y := o.models[0].b.Predictions[i].Y
	if o.task == algos.Regress && o.scale == 0 {
		if o.labels = append(o.labels, y); len(o.labels) == scaleOf {
			o.scale = cmp.Or(deviations*deviation(o.labels), 1)
		}
	}
	losses := make([]float64, len(o.models))
	for k, m := range o.models {
		losses[k] = m.add(i, o.task, o.counts.compared, o.window)
	}
	o.counts.compared++
	limit := 1.0
	if o.task == algos.Regress {
		limit = o.scale
	}
	if limit == 0 {
		return
	}
	for k := range o.gains {
		for j := range o.gains[k] {
			o.gains[k][j].Add((min(losses[k], limit) - min(losses[j], limit)) / limit)
		}
	}
}

// add counts the model's loss on record i of its batch, the n-th that is compared
// from 0 on, and returns it.
func (m *contestant) add(i int, task algos.Task, n uint64, window int) float64 {
	row, loss := &m.b.Predictions[i], 0.0
	switch {
	case task == algos.Regress:
		loss = math.Abs(row.Score - row.Y)
	case row.Value != trueValue(row):
		loss = 1
	}
	if v := row.Version; v != m.version || m.versions == 0 {
		m.version = v
		m.versions++
	}
	m.sum += loss
	if len(m.recent) < window {
		m.recent = append(m.recent, loss)
	} else {
		m.recent[n%uint64(window)] = loss
	}
	return loss
}

// deviation returns the standard deviation of v.
func deviation(v []float64) float64 {
	mean, sum := 0.0, 0.0
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		sum += (x - mean) * (x - mean)
	}
	return math.Sqrt(sum / float64(len(v)))
}

// standing is what is printed of a model. Losses are shares of errors, of a
// regression mean absolute errors.
type standing struct {
	Rank     int         `json:"rank"`
	Model    string      `json:"model"`
	Version  uint64      `json:"version"`  // in use
	Versions int         `json:"versions"` // used so far
	Loss     eval.Number `json:"loss"`
	Recent   eval.Number `json:"recent_loss"`
	// Behind bounds by how much the loss is higher than that of the first one; null
	// of that one, and of all while nothing is known.
	Behind *[2]eval.Number `json:"behind"`
}

// standings is what is printed of all, the least loss first.
type standings struct {
	Time       time.Time  `json:"time"`
	Task       string     `json:"task"`
	Compared   uint64     `json:"compared"`
	Unlabelled uint64     `json:"unlabelled"`
	Refused    uint64     `json:"refused"`
	Learned    uint64     `json:"learned"` // from which a version in use had learned
	Models     []standing `json:"models"`
}

// behind bounds by how much the loss of model i is higher than that of model j.
// The bounds of all pairs hold together, at all times, with 95 %.
func (o *contest) behind(i, j int) (low, high float64) {
	m, sign := &o.gains[max(i, j)][min(i, j)], 1.0
	if i < j {
		sign = -1
	}
	n := len(o.models)
	low, high = m.Bounds(0.05 / float64(n*(n-1)))
	low, high = min(sign*low, sign*high), max(sign*low, sign*high)
	if o.task == algos.Regress {
		return low * o.scale, high * o.scale
	}
	return low, high
}

// known reports whether there is something to bound.
func (o *contest) known() bool { return o.gains[1][0].N() > 0 }

func (o *contest) standings() standings {
	n := o.counts
	s := standings{
		Time: time.Now().UTC().Truncate(time.Millisecond), Task: string(o.task), Compared: n.compared, Unlabelled: n.unlabelled, Refused: n.refused, Learned: n.learned,
		Models: []standing{},
	}
	order := make([]int, len(o.models))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(o.models[a].sum, o.models[b].sum) })
	for _, i := range order {
		m := o.models[i]
		l := standing{Rank: 1, Model: m.name, Version: m.version, Versions: m.versions, Loss: eval.Number(math.NaN()), Recent: eval.Number(math.NaN())}
		if m.versions == 0 {
			l.Version = m.p.current().Update.Version
		}
		if n.compared > 0 {
			l.Loss = eval.Number(m.sum / float64(n.compared))
			recent := 0.0
			for _, v := range m.recent {
				recent += v
			}
			l.Recent = eval.Number(recent / float64(len(m.recent)))
		}
		if o.known() {
			for _, j := range order {
				if j == i {
					continue
				}
				low, high := o.behind(i, j)
				if low > 0 {
					l.Rank++
				}
				if j == order[0] {
					l.Behind = &[2]eval.Number{eval.Number(low), eval.Number(high)}
				}
			}
		}
		s.Models = append(s.Models, l)
	}
	return s
}

// print prints what is known so far.
func (o *contest) print() error {
	s := o.standings()
	if o.json {
		return json.NewEncoder(o.c.Out).Encode(s)
	}
	left := ""
	for _, v := range []struct {
		n    uint64
		what string
	}{{s.Learned, "a model had learned from"}, {s.Unlabelled, "without a label"}, {s.Refused, "could not be scored"}} {
		if v.n > 0 {
			left += fmt.Sprintf(", %d %s", v.n, v.what)
		}
	}
	w := tabwriter.NewWriter(o.c.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s  %d records compared%s\n", s.Time.Format(time.RFC3339), s.Compared, left)
	measure, show := "accuracy", func(v eval.Number) string { return eval.Percent(1 - v) }
	difference := eval.Percent[eval.Number]
	if o.task == algos.Regress {
		measure, show, difference = "mean abs. error", decimal, decimal
	}
	fmt.Fprintln(w, strings.Join([]string{"rank", "model", "version", "versions", measure, fmt.Sprintf("last %d", o.window), "behind the first"}, "\t"))
	for _, m := range s.Models {
		behind := "-"
		if b := m.Behind; b != nil {
			behind = difference(b[0]) + " to " + difference(b[1])
		}
		fmt.Fprintf(w, "%d\t%s\t%d\t%d\t%s\t%s\t%s\n", m.Rank, m.Model, m.Version, m.Versions, show(m.Loss), show(m.Recent), behind)
	}
	fmt.Fprintln(w)
	return w.Flush()
}
