package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/app/additive"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/metrics"
	"github.com/streamsvm/streamsvm/internal/version"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// sumRun holds the settings of one call of the command sum.
type sumRun struct {
	modelFlags
	sourceFlags
	codecFlags
	sessionFlags
	kafkaFlags
	sums, listen string
	errors       errorsTopic
}

func sumCommand() *cli.Command {
	return &cli.Command{
		Name: "sum", Summary: "learn a least-squares model in any number of processes, each on a share of a topic",
		Text: `
Reads its share of a topic and adds up the sums that a least-squares model needs;
streamsvm solve combines the sums of all processes and publishes the model. The
processes share the partitions as a --group; each needs its own --member. The
model is the same, to the bit, however many processes there are.

The sums go to --sums-topic together with the positions, in one transaction. It
does not matter which process had which partitions, or how often it was killed.

Scaling, random features and options are those of the model in --model-topic.
streamsvm solve publishes it first: this command waits for it, and they never
change. A group always has one model and one topic of sums. Records that cannot
be used are counted, and go to --errors-topic in the same transaction.`,
		Example: `
streamsvm sum --topics examples --model-topic models --sums-topic sums --group sum --member 0
streamsvm solve --topics examples --codec libsvm --sums-topic sums --model-topic models`,
		Common: []string{"brokers", "model-topic", "topics", "sums-topic", "group", "member", "codec", "errors-topic", "listen", "config"},
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			s := &sumRun{}
			s.modelFlags.define(f)
			f.Group("Input", func() {
				f.StringSliceVar(&s.topics, "topics", nil, topicsUsage)
				f.StringVar(&s.start, "start", "earliest", startUsage)
				f.StringVar(&s.group, "group", "", groupUsage)
				f.StringVar(&s.listen, "listen", "", listenUsage)
			})
			s.codecFlags.define(f, codecUsage)
			f.Group("Output", func() {
				f.StringVar(&s.sums, "sums-topic", "", sumsUsage)
				f.StringVar(&s.errors.topic, "errors-topic", "", errorsUsage)
			})
			s.sessionFlags.define(f)
			s.batch, s.interval = 20000, 5*time.Second
			for _, name := range []string{"batch", "commit-interval"} {
				f.Lookup(name).DefValue = f.Lookup(name).Value.String()
			}
			s.kafkaFlags.define(f)
			return s.run
		},
	}
}

// badSums says what is wrong with the topics of a model of sums.
func badSums(c *cli.Call, topics []string, models, sums string) error {
	switch {
	case len(topics) != 1:
		return c.Bad("topics", fmt.Errorf("it takes one topic, %d are given", len(topics)))
	case models == "":
		return c.Bad("model-topic", errors.New("no topic is given"))
	case sums == "":
		return c.Bad("sums-topic", errors.New("no topic is given"))
	case sums == models || slices.Contains(topics, sums):
		return c.Bad("sums-topic", fmt.Errorf("%s holds something else", sums))
	case slices.Contains(topics, models):
		return c.Bad("model-topic", fmt.Errorf("%s holds what is summed", models))
	}
	return nil
}

func (s *sumRun) run(ctx context.Context, c *cli.Call) error {
	if err := badSums(c, s.topics, s.modelFlags.topic, s.sums); err != nil {
		return err
	}
	if s.group == "" {
		return c.Bad("group", errors.New("no group is given"))
	}
	if t := s.errors.topic; t != "" && (t == s.sums || t == s.modelFlags.topic || slices.Contains(s.topics, t)) {
		return c.Bad("errors-topic", fmt.Errorf("%s holds something else", t))
	}
	if err := badListen(c, s.listen); err != nil {
		return err
	}
	if _, err := s.codecFlags.open(c, algos.Classify); err != nil {
		return err
	}
	cfg, err := s.kafkaFlags.config(c)
	if err != nil {
		return err
	}
	if err := s.schemaFlags.connect(c, cfg.TLS, nil); err != nil {
		return err
	}
	s.merge, s.outOfRange = string(kafkaio.MergeArrival), string(kafkaio.OutOfRangeEarliest)
	s.sourceFlags.wait = s.modelFlags.wait
	opts, err := s.sessionFlags.options(c, cfg, &s.sourceFlags)
	if err != nil {
		return err
	}
	reg := metrics.NewRegistry(version.String)
	srv := newServer(reg)
	defer srv.stop()
	if err := srv.start(c, s.listen); err != nil {
		return err
	}
	err = s.work(ctx, c, cfg, opts, srv, metrics.NewSums(reg))
	if ctx.Err() != nil {
		return nil
	}
	return s.modelFlags.failed(err)
}

func (s *sumRun) work(ctx context.Context, c *cli.Call, cfg kafkaio.Config, opts kafkaio.SessionOptions, srv *server, m *metrics.Sums) error {
	sub, err := s.modelFlags.open(ctx, c, cfg)
	if err != nil {
		return err
	}
	u, err := sub.Next(ctx)
	if err = errors.Join(err, sub.Close()); err != nil {
		return err
	}
	plan, err := additive.NewPlan(u.Model, u.Payload)
	if err != nil {
		return cli.Fail(cli.Config, err)
	}
	p, err := predictor.Decode(u.Payload)
	if err != nil {
		return err
	}
	v := &predictor.Version{Predictor: p, Update: *u}
	records, err := s.codecFlags.scorer(c, func() *predictor.Version { return v }, predictor.ScorerOptions{}, nil)
	if err != nil {
		return err
	}
	topic := &additive.Topic{Config: cfg, Name: s.sums, Source: s.topics[0]}
	partitions, err := topic.Open(ctx, s.sourceFlags.wait)
	if err == nil {
		err = s.errors.open(ctx, c, cfg, partitions)
	}
	if err != nil {
		return sumsError(err)
	}
	session, err := kafkaio.NewSession(ctx, opts)
	if err != nil {
		return err
	}
	defer session.Close()
	c.Log.Info("joined", "group", opts.Group, "member", opts.Member, "plan", hash(plan.Hash))
	srv.ready.Store(true)
	t := m.Session(session)
	w := &additive.Worker{
		Plan: plan, Topic: topic, Session: session, Decode: records.Decode, Log: c.Log,
		Ended: func(committed bool, took time.Duration, n additive.Counts) {
			t.Ended(committed, took)
			m.Summed(n.Summed, n.Unlabelled, n.Dead, n.Tombstones)
		},
	}
	if s.errors.topic != "" {
		w.Letter = s.errors.letter
	}
	return sumsError(w.Run(ctx))
}

// sumsError gives errors of package additive their exit codes.
func sumsError(err error) error {
	var partitions *additive.PartitionsError
	var position *additive.PositionError
	switch {
	case errors.As(err, &partitions):
		return cli.Fail(cli.Unavailable, err)
	case errors.As(err, &position):
		return cli.Fail(cli.Config, err)
	}
	return err
}
