package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/app/additive"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/metrics"
	"github.com/streamsvm/streamsvm/internal/gate"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/internal/version"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
	"github.com/streamsvm/streamsvm/trainer"
)

// solveRun holds the settings of one call of the command solve.
type solveRun struct {
	sourceFlags
	codecFlags
	learnFlags
	kafkaFlags
	signFlags
	models trainer.Models
	sums   string
	every  time.Duration
	first  int
	listen string
}

func solveCommand() *cli.Command {
	return &cli.Command{
		Name: "solve", Summary: "combine the sums of all sum processes into a model, and publish it",
		Text: `
Reads the sums that streamsvm sum writes, computes the model from them whenever
there are new ones, and publishes it. The learner is lssvm. There is nothing to
back up: all state is in --model-topic and --sums-topic.

On its first start it chooses the scaling of features and the tunable options
from the first --warmup records of the topic and publishes them as version 1,
which streamsvm sum waits for. Sums are added in the order of partitions. A
second process takes over from the first.`,
		Example: `
streamsvm solve --topics examples --codec libsvm --sums-topic sums --model-topic models
streamsvm sum --topics examples --model-topic models --sums-topic sums --group sum --member 0`,
		Common: []string{"brokers", "topics", "codec", "label", "set", "sums-topic", "model-topic", "interval", "listen", "config"},
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			s := &solveRun{}
			s.define(f)
			return s.run
		},
	}
}

func (s *solveRun) define(f *cli.Flags) {
	f.Group("Input", func() {
		f.StringSliceVar(&s.topics, "topics", nil, topicsUsage)
		f.StringVar(&s.sums, "sums-topic", "", sumsUsage)
		f.BoolVar(&s.untilEnd, "until-end", false, untilEndUsage)
		f.DurationVar(&s.sourceFlags.wait, "topic-wait", time.Minute, topicWaitUsage)
	})
	s.codecFlags.define(f, codecUsage)
	s.codecFlags.defineEvents(f)
	l := &s.learnFlags
	l.set, l.learner, l.preset, l.gate, l.classWeight, l.span = cli.Pairs{}, "lssvm", "default", gate.Auto, "none", prep.DefaultSpan
	l.window, l.maxClasses = 1000, trainer.DefaultMaxClasses
	f.Group("Learning", func() {
		f.Var(l.set, "set", setUsage)
		f.Choice(&l.tune, "tune", "auto", []string{"auto", "on", "off"}, tuneUsage)
		f.Choice(&l.task, "task", "", []string{string(algos.Classify), string(algos.Regress)}, taskUsage)
		f.Uint64Var(&l.seed, "seed", 1, seedUsage)
		f.Choice(&l.scale, "scale", "auto", prep.Scales(), scaleUsage)
		f.IntVar(&l.hashDim, "hash-dim", 0, hashUsage)
		f.IntVar(&s.first, "warmup", 5000, warmupUsage)
	})
	f.Group("Output", func() {
		f.StringVar(&s.models.Topic, "model-topic", "", modelTopicUsage)
		f.StringVar(&s.models.Name, "model-name", "model", modelNameUsage)
		s.signFlags.define(f)
		f.BoolVar(&s.models.Replace, "replace-model", false, replaceUsage)
		f.IntVar(&s.models.MaxRecordBytes, "max-record-bytes", 900<<10, "`BYTES` of a record in the model topic; larger models are split")
		f.DurationVar(&s.every, "interval", 10*time.Second, "how often to look for new sums")
		f.StringVar(&s.listen, "listen", "", listenUsage)
	})
	s.kafkaFlags.define(f)
}

func (s *solveRun) run(ctx context.Context, c *cli.Call) error {
	if err := badSums(c, s.topics, s.models.Topic, s.sums); err != nil {
		return err
	}
	if err := errors.Join(badListen(c, s.listen), modeltopic.CheckModel(s.models.Name)); err != nil {
		return err
	}
	switch {
	case s.every <= 0:
		return c.Bad("interval", fmt.Errorf("%v is not a time", s.every))
	case s.first < 1:
		return c.Bad("warmup", fmt.Errorf("%d is less than 1", s.first))
	}
	var err error
	if s.models.SigningKey, err = s.signingKey(c); err != nil {
		return err
	}
	cfg, err := s.kafkaFlags.config(c)
	if err != nil {
		return err
	}
	if err := s.schemaFlags.connect(c, cfg.TLS, nil); err != nil {
		return err
	}
	job, err := s.warmupJob(c, cfg)
	if err != nil {
		return err
	}
	srv := newServer(metrics.NewRegistry(version.String))
	defer srv.stop()
	if err := srv.start(c, s.listen); err != nil {
		return err
	}
	var last *stream.Update
	var counts additive.Counts
	solver := &additive.Solver{
		Topic:  &additive.Topic{Config: cfg, Name: s.sums, Source: s.topics[0]},
		Models: s.models, Every: s.every, UntilEnd: s.untilEnd, Wait: s.sourceFlags.wait, Log: c.Log,
		Warmup: func(ctx context.Context) (trainer.State, error) {
			return additive.Warmup(ctx, job, s.first)
		},
		Published: func(u *stream.Update, sol *additive.Solution) {
			srv.ready.Store(true)
			last, counts = u, sol.Counts
			c.Log.Info("model published", "model", u.Model, "version", u.Version, "examples", u.Examples, "bytes", len(u.Payload), "hash", hash(u.Hash))
		},
	}
	err = solver.Run(ctx)
	var foreign *trainer.ForeignModelError
	switch {
	case errors.As(err, &foreign):
		return cli.Failf(cli.Config, "topic %s holds version %d of model %s, which is not of the sums in %s: choose another --model-name, or --replace-model",
			foreign.Topic, foreign.Version, foreign.Model, s.sums)
	case err != nil && ctx.Err() == nil:
		return kafkaError(badOption(c, discoveryError(sumsError(err))))
	}
	if last != nil && !c.Quiet {
		fmt.Fprintf(c.Err, "version %d of model %s: %d examples summed, %d unlabelled, %d dead; model hash %s\n",
			last.Version, last.Model, counts.Summed, counts.Unlabelled, counts.Dead, hash(last.Hash))
	}
	return nil
}

// warmupJob is what learns from the first records.
func (s *solveRun) warmupJob(c *cli.Call, cfg kafkaio.Config) (trainer.Job, error) {
	s.learnFlags.warmup = max(1, s.first*4/5)
	job, err := s.learnFlags.job(c, &s.codecFlags)
	if err != nil {
		return job, err
	}
	s.start, s.merge, s.outOfRange = "earliest", "ordered", "fail"
	s.lateness, s.fetchMaxBytes = 5*time.Second, 1<<20
	job.Kafka, err = s.sourceFlags.options(c, cfg, nil)
	return job, err
}
