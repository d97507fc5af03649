package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/contrib"
	"github.com/streamsvm/streamsvm/internal/app/page"
	"github.com/streamsvm/streamsvm/internal/app/status"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/promote"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/fileio"
	"github.com/streamsvm/streamsvm/topiclog"
	"github.com/streamsvm/streamsvm/trainer"
)

// replay holds the settings of one call of the command replay.
type replay struct {
	learnFlags
	codecFlags
	refuseFlags
	src                             *fileio.Source // of the examples, while they are read
	files, test                     []string
	passes, labelled, delay         int
	limit, shuffle, checkpointEvery uint64
	publishEvery                    uint64
	holdout                         float64
	json, report, checkpoint, model string
	scores                          string
	tolerance                       string
	compare                         []string
	pipe                            bool

	c       *cli.Call
	job     trainer.Job
	decided decisions
	prog    *progress
	recs    []stream.Record // in memory, if they are shuffled or split
	held    []stream.Record // the part of recs that is held out
}

func replayCommand() *cli.Command {
	return &cli.Command{
		Name: "replay", Args: "FILE...", Summary: "learn from files or recordings, and report how good the model is; needs no broker",
		Text: `
Learns from data files or recordings, in their order, and reports how good the
model is. Every example is predicted before it is learned from, so the accuracy
is that on unseen data. A recording gives the same model, to the bit, as train
with the same --publish-every.

Files are libsvm, json, csv or msgpack, plain, .gz or .zst, or recordings
(.ssr); - is standard input. With --delay, and with labels from another topic,
an example is predicted when it comes, before its label is known. With --passes,
later passes see examples again, so only --test and --holdout give an honest
accuracy.`,
		Example: `
streamsvm replay payments.csv --label is_fraud --model payments.ssm
streamsvm replay ijcnn1.train.libsvm.gz --test ijcnn1.test.libsvm.gz --report ./report
streamsvm replay clicks.ssr --compare adaptive,scs,online`,
		Common:  []string{"codec", "label", "learner", "set", "test", "holdout", "delay", "model", "report", "json", "config"},
		MinArgs: 1, MaxArgs: -1,
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			r := &replay{}
			r.codecFlags.define(f)
			r.codecFlags.defineEvents(f)
			f.Group("Input", func() {
				f.StringArrayVar(&r.test, "test", nil, "data `FILE` to score the final model on")
				f.IntVar(&r.passes, "passes", 1, "how often to go through the files")
				f.Uint64Var(&r.limit, "limit", 0, limitUsage)
				f.IntVar(&r.labelled, "labelled", -1, "keep `N` labels, chosen by the seed, and hide the others; -1 keeps all")
				f.IntVar(&r.delay, "delay", 0, "let each label come only when `N` more examples have")
				f.Uint64Var(&r.publishEvery, "publish-every", 0, publishUsage)
				f.Uint64Var(&r.shuffle, "shuffle", 0, "put the records into a random order given by this `SEED`; 0 keeps theirs")
				f.Float64Var(&r.holdout, "holdout", 0, "keep this `FRACTION` of the records, the last ones after shuffling, for a test")
				f.Choice(&r.tolerance, "tolerance", "none", []string{"none", "data", "all"}, toleranceUsage)
				f.BoolVar(&r.pipe, "pipe", false, "for programs: answer their requests on standard output, see docs/python.md")
				f.Lookup("pipe").Hidden = true
			})
			r.refuseFlags.define(f)
			r.learnFlags.define(f)
			f.Group("Output", func() {
				f.StringSliceVar(&r.compare, "compare", nil, "compare several `LEARNERS` on the same examples, such as adaptive,scs,online")
				f.StringVar(&r.json, "json", "", "write the result as JSON to `FILE`; - prints only JSON on standard output")
				f.StringVar(&r.report, "report", "", "write a page with plots to `DIR`; demo makes a temporary one by default")
				f.StringVar(&r.scores, "scores", "", "write each prequential decision, with probability, label and, with --promote, the champion's decision, to `FILE` as csv")
				f.StringVar(&r.model, "model", "", "write the final model to `FILE`")
				f.StringVar(&r.checkpoint, "checkpoint", "", checkpointUsage)
				f.Uint64Var(&r.checkpointEvery, "checkpoint-every", 0, everyUsage)
			})
			return func(ctx context.Context, c *cli.Call) error {
				r.c, r.files = c, c.Args
				if r.pipe {
					return r.runPipe(ctx)
				}
				return r.run(ctx)
			}
		},
	}
}

func (r *replay) run(ctx context.Context) error {
	p := startProgress(r.c, "learning from %s; learner %s%s", strings.Join(r.files, ", "), cmp.Or(strings.Join(r.compare, ", "), r.learner),
		unless(r.checkpoint == "", "; checkpoints in "+r.checkpoint))
	defer p.stopped()
	r.prog = p
	for _, file := range r.test { // before learning takes its time
		if _, err := os.Stat(file); err != nil && file != "-" {
			return r.c.Bad("test", err)
		}
	}
	if err := r.prepare(ctx); err != nil {
		return interrupted(ctx, err)
	}
	if len(r.compare) > 0 {
		return r.runCompare(ctx)
	}
	history := &status.History{}
	r.job.Hooks = []trainer.Hook{keepStacks{r.checkpoint}, p, &r.refuseFlags, &r.decided}
	if r.report != "" { // it takes a fifth of the time of a fast learner
		r.job.Hooks = append(r.job.Hooks, history)
	}
	var scored *scores
	if r.scores != "" {
		var err error
		if scored, err = newScores(r.scores, r.promote != ""); err != nil {
			return err
		}
		r.job.Hooks = append(r.job.Hooks, scored)
	}
	res, err := trainer.Run(ctx, r.job)
	if scored != nil {
		err = errors.Join(err, scored.close())
	}
	took := time.Since(p.begin.at)
	if err != nil {
		again := ""
		if r.checkpoint != "" {
			again = ", and begin again with another --checkpoint"
		}
		return interrupted(ctx, badOption(r.c, r.refuseFlags.explain(err, &r.codecFlags, "", again), "another --checkpoint"))
	}
	if !res.Ended {
		return cli.Failf(cli.Temporary, "interrupted after %d records", res.Counts().Consumed)
	}
	p.done()
	if r.src != nil {
		warnTorn(r.c, r.src)
	}
	p.shows("testing the model")
	history.Consumed(p.e, 0)
	return r.finish(ctx, p.e, history, res, took)
}

// interrupted returns err, unless it comes from ctx: then a signal has come before the
// first record was learned from.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return cli.Failf(cli.Temporary, "interrupted after 0 records")
	}
	return err
}

// prepare checks the settings, completes the job and reads what it needs beforehand.
func (r *replay) prepare(ctx context.Context) error {
	c, job := r.c, &r.job
	var err error
	if len(r.compare) > 0 {
		if err := r.checkCompare(); err != nil {
			return err
		}
	}
	if err := r.schemaFlags.connect(c, nil, nil); err != nil {
		return err
	}
	for _, file := range slices.Concat(r.files, r.test) {
		if r.registry == nil {
			break
		}
		if err := r.registry.Load(file + trainer.SchemasExt); err != nil {
			return cli.Fail(cli.Data, err)
		}
	}
	if r.job, err = r.learnFlags.job(c, &r.codecFlags, r.files...); err != nil {
		return err
	}
	job.Delay, job.PublishEvery, job.VersionEvery = r.delay, r.publishEvery, int(r.publishEvery)
	if err := badOption(c, job.Validate(), ""); err != nil {
		return err
	}
	if _, ok := topiclog.StateTopic(r.checkpoint); ok {
		return c.Bad("checkpoint", errors.New("only train keeps checkpoints in a topic"))
	}
	switch {
	case r.passes < 1:
		return c.Bad("passes", fmt.Errorf("%d passes, want at least 1", r.passes))
	case !(r.holdout >= 0 && r.holdout < 1):
		return c.Bad("holdout", fmt.Errorf("%v is not in [0,1)", r.holdout))
	case r.holdout > 0 && len(r.test) > 0:
		return c.Bad("holdout", errors.New("it cannot be combined with --test"))
	case r.labelled < -1:
		return c.Bad("labelled", fmt.Errorf("%d labels", r.labelled))
	case r.join.used() && (r.labelled >= 0 || r.shuffle != 0 || r.holdout > 0 || r.passes > 1):
		return c.Bad("join", errors.New("it cannot be combined with --labelled, --shuffle, --holdout or --passes"))
	}
	if err := r.refuseFlags.apply(c, job); err != nil {
		return err
	}
	job.Tolerance = trainer.Tolerance(r.tolerance)
	job.Checkpoints = trainer.Checkpoints{Dir: r.checkpoint, Every: r.checkpointEvery, Interval: -1}
	job.Open = func(_ context.Context, from stream.Offsets) (src stream.Source, err error) {
		src, err = r.open(from, r.passes)
		r.src, _ = src.(*fileio.Source)
		return src, err
	}
	// Standard input can be read only once, but its records may be needed again.
	again := slices.Contains(r.files, "-") && (job.Discovery != nil || r.labelled >= 0)
	if r.shuffle != 0 || r.holdout > 0 || again {
		src, err := r.openFiles(r.files, nil, 1)
		if err != nil {
			return err
		}
		defer src.Close()
		r.prog.shows("reading the files")
		if r.recs, err = readAll(ctx, src); err != nil {
			return err
		}
		if r.shuffle != 0 {
			shuffle(r.recs, r.shuffle)
		}
		n := len(r.recs) - int(float64(len(r.recs))*r.holdout+0.5)
		r.recs, r.held = r.recs[:n:n], r.recs[n:]
	}
	if err := r.discover(ctx); err != nil || r.labelled < 0 {
		return err
	}
	src, err := r.open(nil, 1)
	if err != nil {
		return err
	}
	defer src.Close()
	if job.Labels, err = job.KeepLabels(ctx, src, job.Decoder, r.labelled); err != nil {
		return c.Bad("labelled", err)
	}
	if job.Labels != nil {
		job.LabelsName = fmt.Sprintf("%d, limit %d, shuffle %d", r.labelled, r.limit, r.shuffle)
	}
	return nil
}

// discover infers the format of the records from the first ones.
func (r *replay) discover(ctx context.Context) error {
	job := &r.job
	if job.Discovery == nil {
		return nil
	}
	src, err := r.open(nil, 1)
	if err != nil {
		return err
	}
	defer src.Close()
	_, o, err := trainer.Discover(ctx, src, job.Discovery, job.Join.Topic)
	if err != nil {
		return r.codecFlags.discoveryError(err)
	}
	if job.Decoder, err = job.Discovery.Codec(o); err != nil {
		return err
	}
	if r.join.used() {
		if job.LabelDecoder, err = codec.NewLabels(o); err != nil {
			return err
		}
	}
	r.codecFlags.found(o.Labels)
	job.Discovery = nil
	return nil
}

// open returns the stream from the given offsets on.
func (r *replay) open(start stream.Offsets, passes int) (stream.Source, error) {
	if r.recs == nil {
		return r.openFiles(r.files, start, passes)
	}
	var names []string
	for _, f := range r.files {
		if f == "-" {
			f = "stdin"
		}
		names = append(names, filepath.Base(f))
	}
	return newMemory(r.recs, strings.Join(names, "+"), passes, start), nil
}

func (r *replay) openFiles(files []string, start stream.Offsets, passes int) (stream.Source, error) {
	o := r.fileOptions()
	o.Start, o.Limit, o.Passes = start, r.limit, passes
	if trained := codec.SignatureOf(r.job.Decoder); len(trained.CSV.Columns) > 0 {
		o.OnHeader = func(path string, line []byte) error {
			names, err := codec.ParseHeader(line, trained.CSV.Comma)
			if err == nil && !slices.Equal(names, trained.CSV.Columns) {
				err = fmt.Errorf("the columns are %s, those of %s %s", strings.Join(names, ", "), files[0], strings.Join(trained.CSV.Columns, ", "))
			}
			if err != nil {
				err = cli.Fail(cli.Data, fmt.Errorf("%s: %w", path, err))
			}
			return err
		}
	}
	src, err := fileio.Open(files, o)
	if err != nil {
		return nil, cli.Fail(cli.Usage, err)
	}
	return src, nil
}

// latest returns the latest examples with their labels, as they were decoded.
func (r *replay) latest(ctx context.Context, e *engine.Engine, p *predictor.Predictor) (xs []stream.Vec, labels []float64, err error) {
	from := e.Offsets()
	for part := range from {
		from[part] = max(0, from[part]-status.ImportanceExamples)
	}
	src, err := r.open(from, r.passes)
	if err != nil {
		return nil, nil, err
	}
	defer src.Close()
	numbers := numbersOf(p.Signature())
	var recs []stream.Record
	for {
		recs, err = src.Fetch(ctx, recs[:0])
		if errors.Is(err, io.EOF) {
			return xs, labels, nil
		}
		if err != nil {
			return nil, nil, err
		}
		for i := range recs {
			var ex stream.Example
			if recs[i].Value == nil || r.job.Decoder.Decode(recs[i].Value, &ex) != nil || !ex.Labelled {
				continue
			}
			xs, labels = append(xs, ex.X), append(labels, numbers.of(&ex))
			n := max(0, len(xs)-status.ImportanceExamples)
			xs, labels = xs[n:], labels[n:]
		}
	}
}

// finish tests the model and writes the results.
func (r *replay) finish(ctx context.Context, e *engine.Engine, history *status.History, end trainer.Result, took time.Duration) error {
	p, err := end.Predictor()
	if err != nil {
		return err
	}
	var test *eval.Test
	if p == nil && (len(r.test) > 0 || r.model != "") {
		return cli.Failf(cli.Data, "there is no model: no example has come")
	}
	if r.model != "" {
		if err := p.Save(r.model); err != nil {
			return err
		}
	}
	if p != nil && (len(r.test) > 0 || r.holdout > 0) {
		src := stream.Source(newMemory(r.held, "holdout", 1, nil))
		decode := r.job.Decoder.Decode
		if len(r.test) > 0 {
			if src, decode, err = r.openTest(p); err != nil {
				return err
			}
		}
		defer src.Close()
		if test, err = score(ctx, p, src, decode, r.job.Tombstones == trainer.TombstonesSkip); err != nil {
			return fmt.Errorf("test: %w", err)
		}
	}
	res, err := newResult(e, p, r.job.Options, took, test)
	if err != nil {
		return err
	}
	if res.Folds, err = r.validate(ctx, e.Counts().Consumed); err != nil {
		return err
	}
	if g := e.Gate(); g != nil {
		res.Gate = &gateResult{*g, append([]promote.Decision{}, r.decided.list...)}
	}
	if r.report != "" {
		answers, sections := history.Quality(status.Take(e), "No example has been scored.")
		if p != nil {
			xs, labels, err := r.latest(ctx, e, p)
			if err != nil {
				return err
			}
			if t := status.Importance(p, xs, labels); t != nil {
				sections = append(sections, page.Section{ID: "importance", Title: "Model", Tables: []page.Table{*t}})
			}
		}
		if err := res.report(r.report, answers, sections); err != nil {
			return err
		}
	}
	if r.json != "" {
		if err := writeJSON(r.json, r.c.Out, res); err != nil {
			return err
		}
	}
	r.prog.stopped()
	if r.json != "-" {
		res.print(r.c.Out)
		printJoin(r.c.Out, e.Join())
	}
	return nil
}

// openTest opens the files to test the model on. Their records are read as predict
// reads them.
func (r *replay) openTest(p *predictor.Predictor) (*fileio.Source, func([]byte, *stream.Example) error, error) {
	// The flags are about the files that were learned from.
	v := &predictor.Version{Predictor: p}
	scorer := func(h *csvHeader) (*predictor.Scorer, error) {
		return r.codecFlags.scorer(&cli.Call{}, func() *predictor.Version { return v }, predictor.ScorerOptions{}, h, r.test...)
	}
	s, err := scorer(nil)
	if err != nil {
		return nil, nil, err
	}
	o := r.fileOptions()
	scoredFiles(s, &o, r.test[0], func(h *csvHeader) (err error) {
		s, err = scorer(h)
		return err
	})
	src, err := fileio.Open(r.test, o)
	if err != nil {
		return nil, nil, cli.Fail(cli.Usage, err)
	}
	return src, func(value []byte, ex *stream.Example) error {
		return s.Decode(context.Background(), nil, &stream.Record{Value: value}, ex)
	}, nil
}

// memory is a bounded stream held in memory, for orders that a file cannot be
// read in. Record i of pass p, both from 0, has offset p·n+i of one partition.
type memory struct {
	recs         []stream.Record
	topic        string
	pass, passes int
	pos          int
}

// readAll reads src to its end.
func readAll(ctx context.Context, src stream.Source) ([]stream.Record, error) {
	var recs []stream.Record
	for {
		var err error
		recs, err = src.Fetch(ctx, recs)
		if errors.Is(err, io.EOF) {
			return recs, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// shuffle puts recs into an order that depends on seed alone.
func shuffle(recs []stream.Record, seed uint64) {
	rng.New(seed, "shuffle").Shuffle(len(recs), func(i, j int) { recs[i], recs[j] = recs[j], recs[i] })
}

// newMemory returns a stream of recs, passes times over, from offset start on.
func newMemory(recs []stream.Record, topic string, passes int, start stream.Offsets) *memory {
	m := &memory{recs: recs, topic: topic, passes: passes}
	if n := int64(len(recs)); n > 0 {
		next := start[stream.Partition{Topic: topic}]
		m.pass, m.pos = int(next/n), int(next%n)
	}
	return m
}

// Fetch implements stream.Source.
func (m *memory) Fetch(ctx context.Context, dst []stream.Record) ([]stream.Record, error) {
	if err := ctx.Err(); err != nil {
		return dst, err
	}
	if m.pos == len(m.recs) {
		m.pos, m.pass = 0, m.pass+1
	}
	if m.pass >= m.passes || len(m.recs) == 0 {
		return dst, io.EOF
	}
	n := min(len(m.recs)-m.pos, 4096)
	for i := range n {
		r := m.recs[m.pos+i]
		r.Topic, r.Partition = m.topic, 0
		r.Offset = int64(m.pass)*int64(len(m.recs)) + int64(m.pos+i)
		dst = append(dst, r)
	}
	m.pos += n
	return dst, nil
}

// Close implements stream.Source.
func (m *memory) Close() error { return nil }

// runPipe runs replay --pipe.
func (r *replay) runPipe(ctx context.Context) error {
	for _, name := range []string{"test", "passes", "limit", "labelled", "shuffle", "holdout", "tolerance", "max-dead", "tombstones", "compare", "json", "report", "scores", "model", "checkpoint", "checkpoint-every"} {
		if r.c.Origin(name).Source == cli.FromFlag {
			return r.c.Bad(name, errors.New("it has no effect with --pipe"))
		}
	}
	if name := r.codecFlags.name; name != "json" && name != "msgpack" {
		return r.c.Bad("codec", errors.New("--pipe needs json or msgpack"))
	}
	if contrib.Pipe == nil {
		return cli.Failf(cli.Usage, "this build has no replay --pipe")
	}
	return badOption(r.c, contrib.Pipe(ctx, r.c, func() (trainer.Job, error) {
		job, err := r.learnFlags.job(r.c, &r.codecFlags)
		job.Delay, job.PublishEvery, job.VersionEvery = r.delay, r.publishEvery, int(r.publishEvery)
		return job, err
	}), "")
}
