package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/describe"
	"github.com/streamsvm/streamsvm/internal/app/metrics"
	"github.com/streamsvm/streamsvm/internal/app/page"
	"github.com/streamsvm/streamsvm/internal/app/status"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/internal/promote"
	"github.com/streamsvm/streamsvm/internal/version"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
	"github.com/streamsvm/streamsvm/topiclog"
	"github.com/streamsvm/streamsvm/trainer"
)

// stallTimeout is how long records may wait without progress before /healthz fails.
const stallTimeout = 45 * time.Second

// fullEvery is the largest number of versions per full model; 0 is the trainer's
// default. Tests set it.
var fullEvery = 0

// train holds the settings of one call of the command train.
type train struct {
	sourceFlags
	codecFlags
	learnFlags
	refuseFlags
	kafkaFlags
	modelTopic, modelName string
	replace               bool
	signFlags
	adminFlags
	maxRecordBytes      int
	checkpoint          string
	interval            time.Duration
	every, publishEvery uint64
	retain              int
	restart, yes        bool
	record              string
	predictions         string
	tolerance, dlq      string
	listen              string
	pprof               bool
	requireExport       string
	shutdown            time.Duration

	c *cli.Call
	// Of the run, once it has started.
	e       *engine.Engine
	ready   func(bool)
	started atomic.Bool
}

func trainCommand() *cli.Command {
	return &cli.Command{
		Name: "train", Summary: "learn from Kafka topics; keep checkpoints and publish the model as it improves",
		Text: `
Learns from labelled records on Kafka topics and publishes the model to another
topic, which predict follows. After a crash, training resumes from the newest
checkpoint and reaches the same state, to the bit, as if nothing had happened.

A checkpoint includes the position in every partition. If the newest one is
damaged, the one before it is used. SIGTERM writes a last checkpoint and exits
with code 0. --restart starts over from --start; give it once, not in the unit of a
service, which would start over after every crash.

With --predictions-topic, the trainer itself predicts each record when it comes,
or just before it learns from it, in the form of predict. Predictions are
written exactly once, in one transaction with each checkpoint, so they wait for
up to a --checkpoint-interval, and --checkpoint must be kafka://TOPIC.`,
		Example: `
# Events with named fields on a Kafka topic; one of the fields is the label.
streamsvm train --brokers kafka-1:9092 --topics payments --label is_fraud \
    --model-topic models --checkpoint ./state --listen 127.0.0.1:9100

# Labels that come later, on a topic of their own, joined by a field that both have.
streamsvm train --brokers kafka-1:9092 --topics payments --labels-topic outcomes \
    --label is_fraud --join payment_id --model-topic models --checkpoint ./state`,
		Common: []string{"brokers", "topics", "label", "labels-topic", "join", "codec", "learner", "set", "checkpoint", "model-topic", "listen", "dry-run", "config"},
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			t := &train{}
			var dry bool
			t.define(f)
			f.Group("Output", func() {
				f.BoolVar(&dry, "dry-run", false, dryRunUsage)
			})
			f.Check(t.check)
			return func(ctx context.Context, c *cli.Call) error {
				t.c = c
				if dry {
					return t.dryRun(ctx)
				}
				return t.serve(ctx)
			}
		},
	}
}

// define defines the settings of the service.
func (t *train) define(f *cli.Flags) {
	t.sourceFlags.define(f)
	t.codecFlags.define(f)
	t.codecFlags.defineEvents(f)
	f.Group("Input", func() {
		f.Choice(&t.tolerance, "tolerance", "none", []string{"none", "data", "all"}, toleranceUsage)
	})
	t.refuseFlags.define(f)
	f.Group("Input", func() {
		f.StringVar(&t.dlq, "dlq", "", "`SUFFIX` of the topics of dead letters, for records that cannot be used; --dlq alone is .dlq")
		f.Lookup("dlq").NoOptDefVal = ".dlq"
	})
	t.learnFlags.define(f)
	f.Group("Output", func() {
		f.StringVar(&t.modelTopic, "model-topic", "", modelTopicUsage)
		f.StringVar(&t.modelName, "model-name", "model", modelNameUsage)
		t.signFlags.define(f)
		f.BoolVar(&t.replace, "replace-model", false, replaceUsage)
		f.IntVar(&t.maxRecordBytes, "max-record-bytes", 900<<10, "`BYTES` of a record in the model topic; larger models are split")
		f.StringVar(&t.checkpoint, "checkpoint", "", checkpointUsage)
		f.DurationVar(&t.interval, "checkpoint-interval", 10*time.Second, "time between checkpoints, each followed by a publication; 0 sets none")
		f.Uint64Var(&t.every, "checkpoint-every", 0, everyUsage)
		f.Uint64Var(&t.publishEvery, "publish-every", 0, publishUsage)
		f.IntVar(&t.retain, "checkpoint-retain", 3, "number of checkpoints to keep in a directory; a topic keeps two")
		f.BoolVar(&t.restart, "restart", false, "start over: forget the checkpoints, and replace the model in the topic, whoever has published it")
		f.BoolVar(&t.yes, "yes", false, yesUsage)
		f.StringVar(&t.predictions, "predictions-topic", "", predictionsUsage)
		f.StringVar(&t.record, "record", "", "write the records consumed to a recording `FILE`")
		f.Choice(&t.requireExport, "require-export", "", exportForms(), "do not start if fields of the records cannot be exported in this form")
		f.StringVar(&t.listen, "listen", "", listenUsage)
		f.BoolVar(&t.pprof, "pprof", false, "serve profiles of the process under /debug/pprof/ too")
		t.adminFlags.define(f)
		f.DurationVar(&t.shutdown, "shutdown-timeout", 25*time.Second, "time for the last checkpoint and publication")
	})
	t.kafkaFlags.define(f)
}

// check returns the errors in the settings of train.
func (t *train) check(c *cli.Call) []error {
	var errs []error
	bad := func(when bool, name, format string, args ...any) {
		if when {
			errs = append(errs, c.Bad(name, fmt.Errorf(format, args...)))
		}
	}
	bad(t.modelTopic != "" && t.checkpoint == "", "checkpoint", "model-topic needs it: versions of a model continue from the checkpoints after a restart")
	bad(t.promote != "" && t.modelTopic == "", "promote", "it needs --model-topic, which has the champion")
	bad(t.publishEvery > 0 && t.every > 0, "publish-every", "each version comes with a checkpoint: leave out --checkpoint-every")
	bad(t.restart && t.checkpoint == "", "restart", "it needs --checkpoint")
	bad(t.retain < 1, "checkpoint-retain", "%d is less than 1", t.retain)
	bad(t.interval < 0, "checkpoint-interval", "%v is negative", t.interval)
	bad(t.shutdown <= 0, "shutdown-timeout", "%v is not a time to do anything in", t.shutdown)
	bad(t.maxRecordBytes < 4<<10, "max-record-bytes", "%d is less than 4096", t.maxRecordBytes)
	bad(t.modelTopic != "" && t.modelName == "", "model-name", "it is empty")
	errs = append(errs, t.schemaFlags.needed(c, t.codecName())...)
	errs = append(errs, badListen(c, t.listen), t.adminFlags.check(c, t.listen, t.modelTopic))
	if err := modeltopic.CheckModel(t.modelName); t.modelName != "" && err != nil {
		errs = append(errs, c.Bad("model-name", err))
	}
	bad(slices.Contains(t.topics, t.modelTopic), "model-topic", "%s is a topic of examples too", t.modelTopic)
	if topic, ok := topiclog.StateTopic(t.checkpoint); ok {
		bad(topic == "" || strings.ContainsAny(topic, "/ "), "checkpoint", "%q is not kafka://TOPIC", t.checkpoint)
		bad(topic == t.modelTopic, "checkpoint", "%s is the model topic too", topic)
		bad(slices.Contains(t.topics, topic), "checkpoint", "%s is a topic of examples too", topic)
	}
	if t.predictions != "" {
		topic, ok := topiclog.StateTopic(t.checkpoint)
		bad(!ok, "predictions-topic", "it needs --checkpoint kafka://TOPIC: predictions are written in one transaction with the checkpoints")
		bad(t.predictions == topic || t.predictions == t.modelTopic || slices.Contains(t.topics, t.predictions), "predictions-topic", "%s holds examples, models or checkpoints", t.predictions)
	}
	if j := t.learnFlags.join; j.used() && j.topic != "" {
		bad(j.topic == t.modelTopic, "model-topic", "%s is a topic of labels too", j.topic)
		bad(j.topic == t.predictions, "predictions-topic", "%s is a topic of labels too", j.topic)
		bad(slices.Contains(t.topics, j.topic), "labels-topic", "%s is a topic of examples: leave it out, if labels come in later records there", j.topic)
	}
	return errs
}

const yesUsage = "do it without asking, and although others use what goes"

// confirm asks before a --restart.
func (t *train) confirm() error {
	if !t.restart || t.yes {
		return nil
	}
	if !isTerminal(t.c.In) {
		return t.c.Bad("restart", errors.New("it would ask before it starts over, and standard input is not a terminal: give --yes"))
	}
	fmt.Fprintf(t.c.Err, "This forgets the checkpoints in %s", t.checkpoint)
	if t.modelTopic != "" {
		fmt.Fprintf(t.c.Err, " and replaces model %s on topic %s", t.modelName, t.modelTopic)
	}
	fmt.Fprint(t.c.Err, ". Start over? [y/N] ")
	answer, _ := bufio.NewReader(io.LimitReader(t.c.In, 100)).ReadString('\n')
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return cli.Failf(cli.Usage, "nothing is changed")
	}
	return nil
}

// isTerminal reports whether f is a terminal, where a user can answer a question.
// Tests replace it.
var isTerminal = func(f any) bool {
	file, ok := f.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

func (t *train) serve(ctx context.Context) (err error) {
	job, err := t.job()
	if err != nil {
		return err
	}
	if err := t.confirm(); err != nil {
		return err
	}
	reg := metrics.NewRegistry(version.String)
	p := startProgress(t.c, "learning from %s, records as %s; learner %s%s%s", t.from(t.brokers), t.codecName(), t.learner,
		unless(t.checkpoint == "", "; checkpoints in "+t.checkpoint), unless(t.modelTopic == "", "; models to topic "+t.modelTopic))
	defer p.stopped()
	p.reads(nil, t.untilEnd)
	p.shows("starting")
	run := status.New(status.About{
		Version: version.String, Learner: t.learner, Topics: t.topics,
		ModelTopic: t.modelTopic, Model: t.modelName,
	})
	srv := newServer(reg)
	srv.healthy = func() error { return run.Healthy(stallTimeout) }
	srv.waiting = run.Waiting
	srv.mux.Handle("GET /{$}", srv.limits.Page(run.Page(stallTimeout)))
	srv.mux.HandleFunc("GET /chart.js", page.Script)
	if t.pprof {
		srv.profile()
	}
	if t.listen != "" && t.modelTopic != "" {
		cfg, err := t.kafkaFlags.config(t.c)
		if err != nil {
			return err
		}
		a, err := newAliases(ctx, t.c, cfg, t.kafkaFlags, trustFlags{}, t.signFlags, t.modelTopic, func() string { return t.modelName })
		if err != nil {
			return err
		}
		board, err := a.serve(srv.mux, &t.adminFlags)
		if err != nil {
			return err
		}
		run.Show(board)
	}
	defer srv.stop()
	if err := srv.start(t.c, t.listen); err != nil {
		return err
	}
	t.ready = srv.ready.Store
	job.Hooks = []trainer.Hook{keepStacks{t.checkpoint}, p, metrics.NewTrainer(reg), run, &logHook{log: t.c.Log}, &lossHook{log: t.c.Log}, t} // t with the methods of its refuseFlags
	res, err := trainer.Run(ctx, job)
	srv.ready.Store(false)
	switch {
	case err != nil && t.e == nil && ctx.Err() != nil:
		say(t.c, "stopped before learning began")
		return nil
	case err != nil:
		return t.failed(err)
	}
	p.done()
	return t.summary(res)
}

// Started implements engine.StartedHook.
func (t *train) Started(e *engine.Engine, _ stream.Source) {
	t.e = e
	t.codecFlags.found(e.Signature().Labels)
	t.started.Store(true)
	t.ready(true)
}

// waits is called when records begin to wait for their schemas, and when that ends.
func (t *train) waits(yes bool) {
	if t.started.Load() {
		t.ready(!yes)
	}
}

// job returns the trainer's job.
func (t *train) job() (trainer.Job, error) {
	c := t.c
	cfg, err := t.kafkaFlags.config(c)
	if err != nil {
		return trainer.Job{}, err
	}
	if err := errors.Join(t.check(c)...); err != nil {
		return trainer.Job{}, err
	}
	if err := t.schemaFlags.connect(c, cfg.TLS, t.waits); err != nil {
		return trainer.Job{}, err
	}
	job, err := t.learnFlags.job(c, &t.codecFlags)
	if err != nil {
		return job, err
	}
	if job.Kafka, err = t.sourceFlags.options(c, cfg, nil); err != nil {
		return job, err
	}
	interval := t.interval
	if interval == 0 || t.publishEvery > 0 && !c.Given("checkpoint-interval") {
		interval = -1
	}
	job.VersionEvery = int(t.publishEvery)
	if err := t.refuseFlags.apply(c, &job); err != nil {
		return job, err
	}
	job.Tolerance, job.DeadLetters, job.Recording = trainer.Tolerance(t.tolerance), t.dlq, t.record
	job.Predictions = t.predictions
	job.Checkpoints = trainer.Checkpoints{Dir: t.checkpoint, FS: c.FS, Retain: t.retain, Restart: t.restart, Interval: interval, Every: cmp.Or(t.publishEvery, t.every)}
	job.Models = trainer.Models{Topic: t.modelTopic, Name: t.modelName, FullEvery: fullEvery, MaxRecordBytes: t.maxRecordBytes, Replace: t.replace, Alias: t.promote}
	if job.Models.SigningKey, err = t.signingKey(c); err != nil {
		return job, err
	}
	job.ShutdownTimeout = t.shutdown
	if check := exporters[t.requireExport].check; check != nil {
		job.Accept = func(sig codec.Signature) error {
			if sig.Schema == "" {
				return nil
			}
			if err := check(sig.Schema); err != nil {
				return cli.Failf(cli.Data, "--require-export %s: %w; leave such fields out with --events, as type ignore", t.requireExport, err)
			}
			return nil
		}
	}
	return job, nil
}

// failed adds advice to an error, in terms of flags, and gives it its exit code.
func (t *train) failed(err error) error {
	var foreign *trainer.ForeignModelError
	var replaced *trainer.TopicReplacedError
	var lost *checkpoint.EpochError
	switch {
	case errors.As(err, &foreign) && !t.replace:
		by := ""
		if c := foreign.Claim; c.By != "" {
			by = fmt.Sprintf(" (it was claimed by %s at %s)", c.By, c.At.Format(time.RFC3339))
		}
		return cli.Failf(cli.Config, "topic %s holds version %d of model %s, which does not come from the checkpoints in %s%s: choose another --model-name, or --replace-model",
			foreign.Topic, foreign.Version, foreign.Model, t.checkpoint, by)
	case errors.As(err, &foreign):
		return cli.Failf(cli.Data, "topic %s holds model %s of epoch %d, which cannot be right", foreign.Topic, foreign.Model, foreign.Claim.Epoch)
	case errors.As(err, &lost) && t.modelTopic == "":
		return cli.Failf(cli.Data, "%w: bring it back from a backup, or start again to go on from the newest checkpoint without it", err)
	case errors.As(err, &lost):
		return cli.Failf(cli.Data, "%w: bring it back from a backup; or, if nobody else publishes model %s on topic %s, start once with --replace-model to go on from these checkpoints", err, t.modelName, t.modelTopic)
	case errors.As(err, &replaced):
		return cli.Failf(cli.Data, "%w; begin again with --restart, or go on with --on-out-of-range earliest or latest", err)
	}
	return kafkaError(badOption(t.c, t.refuseFlags.explain(t.codecFlags.discoveryError(err), &t.codecFlags, t.doctorCommand(), ", and begin again with --restart"), "--restart"))
}

// doctorCommand returns the command that examines the records of the topics.
func (t *train) doctorCommand() string {
	if o := t.c.Origin("topics"); o.Source == cli.FromFile {
		return fmt.Sprintf(`"streamsvm doctor --config %s"`, o.Name)
	}
	return fmt.Sprintf(`"streamsvm doctor --brokers %s --topics %s --codec %s"`, strings.Join(t.brokers, ","), strings.Join(t.topics, ","), cmp.Or(t.codecFlags.name, defaultCodec))
}

// summary prints how the run ended.
func (t *train) summary(res trainer.Result) error {
	if t.c.Quiet {
		return nil
	}
	h, err := t.e.Hash()
	if err != nil {
		return err
	}
	n := t.e.Counts()
	how := "stopped"
	if res.Ended {
		how = "the stream has ended"
	}
	joined, no, bare := "", "", ""
	// A learner that has learned from more examples than had labels uses the others, too.
	if without := min(n.Unlabelled, n.SampledOut); without > 0 && n.Learned <= n.Labelled {
		bare = fmt.Sprintf(" + %d without a label", without)
		n.SampledOut -= without
	}
	if t.e.Join() != nil {
		joined = fmt.Sprintf(" + %d joined + %d late", n.Joined, n.Late)
	}
	if n.Tombstones > 0 {
		joined = fmt.Sprintf(" + %d tombstones%s", n.Tombstones, joined)
	}
	if one := res.OneLabel(); one != nil {
		no = "no model yet, " + one.Seen() + "; "
	}
	var b strings.Builder
	printPrequential(&b, t.e)
	fmt.Fprintf(&b, "%s: %d records consumed = %d learned%s + %d sampled out + %d dead%s + %d waiting; %smodel version %d; state hash %s\n",
		how, n.Consumed, n.Learned, bare, n.SampledOut, n.Dead, joined, n.Pending, no, res.Version, describe.Hash(h))
	printJoin(&b, t.e.Join())
	for line := range strings.Lines(b.String()) {
		say(t.c, "%s", line)
	}
	return nil
}

// logHook logs what happens, at a level that a service is usually run without.
type logHook struct {
	log  *slog.Logger
	dead int
}

// Dead implements trainer.HookDead. It warns of the 1st, 2nd, 4th, 8th and so on.
func (l *logHook) Dead(why *stream.RecordError) {
	level := slog.LevelInfo
	if l.dead++; l.dead&(l.dead-1) == 0 {
		level = slog.LevelWarn
	}
	l.log.Log(context.Background(), level, "record refused", "so_far", l.dead, "err", why)
}

// Checkpointed implements trainer.HookCheckpointed.
func (l *logHook) Checkpointed(path string, h checkpoint.Header, bytes int64, took time.Duration) {
	l.log.Info("checkpoint", "path", path, "examples", h.Examples, "bytes", bytes, "took", took, "state_hash", describe.Hash(h.StateHash))
}

// Published implements trainer.HookPublished.
func (l *logHook) Published(u *stream.Update, took time.Duration) {
	l.log.Info("model published", "model", u.Model, "version", u.Version, "kind", u.Kind, "examples", u.Examples, "bytes", len(u.Payload), "took", took)
}

// Decided implements engine.DecidedHook.
func (l *logHook) Decided(d promote.Decision) {
	l.log.Info("gate", "verdict", d.Verdict, "model_of_examples", d.Model, "at_examples", d.At, "why", d.Why, "on_examples", d.Examples,
		"gain", float64(d.Gain), "low", float64(d.Low), "high", float64(d.High))
}

// Promoted implements trainer.HookPromoted.
func (l *logHook) Promoted(alias string, u *stream.Update, why stream.Promotion) {
	l.log.Info("model promoted", "model", u.Model, "alias", alias, "version", u.Version, "before", why.Previous, "examples", u.Examples, "reason", why.Reason)
}
