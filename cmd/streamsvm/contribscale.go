//go:build !core

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/contrib"
	"github.com/streamsvm/streamsvm/internal/app/metrics"
	"github.com/streamsvm/streamsvm/internal/version"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/fileio"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

func init() {
	contribCommands = func(heading string) []*cli.Command {
		return contrib.Commands(heading, contrib.Wiring{Files: defineFiles, Group: defineGroup, Kafka: defineKafka, Train: definePlan, Tolerance: toleranceUsage, Exit: kafkaError})
	}
}

// defineFiles defines the flags of a command that decodes files for a model.
func defineFiles(f *cli.Flags) func(*cli.Call, *predictor.Version, []string) (stream.Source, contrib.Decode, error) {
	o := &codecFlags{}
	o.define(f)
	return func(c *cli.Call, v *predictor.Version, files []string) (stream.Source, contrib.Decode, error) {
		if err := o.connect(c, nil, nil); err != nil {
			return nil, nil, err
		}
		var s *predictor.Scorer
		scorer := func(h *csvHeader) (err error) {
			s, err = o.scorer(c, func() *predictor.Version { return v }, predictor.ScorerOptions{}, h, files...)
			return err
		}
		if err := scorer(nil); err != nil {
			return nil, nil, err
		}
		fo := o.fileOptions()
		scoredFiles(s, &fo, files[0], scorer)
		src, err := fileio.Open(files, fo)
		if err != nil {
			return nil, nil, cli.Fail(cli.Usage, err)
		}
		return src, func(ctx context.Context, a *stream.Arena, r *stream.Record, ex *stream.Example) error {
			return s.Decode(ctx, a, r, ex)
		}, nil
	}
}

// defineGroup defines the flags of a member of a consumer group that scores topics.
func defineGroup(f *cli.Flags) func(*cli.Call) (*contrib.Group, error) {
	var listen string
	var o struct {
		modelFlags
		sourceFlags
		codecFlags
		sessionFlags
		kafkaFlags
	}
	o.modelFlags.define(f)
	f.Group("Input", func() {
		f.StringSliceVar(&o.topics, "topics", nil, "`TOPICS` to read")
		f.StringVar(&o.start, "start", "earliest", startUsage)
		f.StringVar(&o.group, "group", "", groupUsage)
		f.StringVar(&listen, "listen", "", listenUsage)
	})
	o.codecFlags.define(f)
	o.sessionFlags.define(f)
	o.kafkaFlags.define(f)
	return func(c *cli.Call) (*contrib.Group, error) {
		switch {
		case o.group == "":
			return nil, c.Bad("group", errors.New("no group is given"))
		case o.modelFlags.topic == "":
			return nil, c.Bad("model-topic", errors.New("no topic is given"))
		case slices.Contains(o.topics, o.modelFlags.topic):
			return nil, c.Bad("model-topic", fmt.Errorf("%s is read, too", o.modelFlags.topic))
		}
		if err := o.codecFlags.verify(c); err != nil {
			return nil, err
		}
		cfg, err := o.config(c)
		if err != nil {
			return nil, err
		}
		if err := o.connect(c, cfg.TLS, nil); err != nil {
			return nil, err
		}
		o.merge, o.outOfRange = string(kafkaio.MergeArrival), string(kafkaio.OutOfRangeEarliest)
		o.sourceFlags.wait = o.modelFlags.wait
		o.modelFlags.wait = -1 // until there is a model, all records are forwarded
		reg := metrics.NewRegistry(version.String)
		srv := newServer(reg)
		g := &contrib.Group{
			Joined: func(l stream.Lagger) func(bool, time.Duration) {
				srv.ready.Store(true)
				return metrics.NewSession(reg, l, false).Ended
			},
			Close:  srv.stop,
			Models: func(ctx context.Context) (*modeltopic.Subscriber, error) { return o.modelFlags.open(ctx, c, cfg) },
			Failed: o.failed,
			Scorer: func(current func() *predictor.Version) (*predictor.Scorer, error) {
				return o.scorer(c, current, predictor.ScorerOptions{}, nil)
			},
		}
		if g.Session, err = o.sessionFlags.options(c, cfg, &o.sourceFlags); err == nil {
			if err = badListen(c, listen); err == nil {
				err = srv.start(c, listen)
			}
		}
		return g, err
	}
}
