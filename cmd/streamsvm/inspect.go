package main

import (
	"context"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/contrib"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// inspect runs model inspect.
func (o *modelTopicFlags) inspect(ctx context.Context, c *cli.Call, asJSON bool) error {
	if contrib.Inspect == nil {
		return cli.Failf(cli.Usage, "this build has no model inspect")
	}
	in := contrib.Inspected{JSON: asJSON, Name: o.name, Kafka: func() (kafkaio.Config, error) { return o.kafkaFlags.config(c) }, Exit: kafkaError}
	if o.wanted(c) {
		in.Topic = func() (*modeltopic.Contents, error) { return o.read(ctx, c) }
	}
	return contrib.Inspect(ctx, c, in)
}

// modelTopicFlags are the flags of commands that read a model topic once.
type modelTopicFlags struct {
	kafkaFlags
	trustFlags
	topic, name string
	alias       string // of the model; may be empty
}

func (o *modelTopicFlags) define(f *cli.Flags) {
	f.Group("Model", func() {
		f.StringVar(&o.topic, "model-topic", "", modelTopicUsage)
		f.StringVar(&o.name, "model-name", "", modelNameUsage)
		o.trustFlags.define(f)
	})
	o.kafkaFlags.define(f)
}

// wanted reports whether to read the topic: a configuration file may name it for
// other commands.
func (o *modelTopicFlags) wanted(c *cli.Call) bool {
	return o.topic != "" && (len(c.Args) == 0 || c.Origin("model-topic").Source == cli.FromFlag)
}

// read returns the contents of the topic, at least one model.
func (o *modelTopicFlags) read(ctx context.Context, c *cli.Call) (*modeltopic.Contents, error) {
	return o.readVersion(ctx, c, 0)
}

// readVersion is like read, and adds the payload of one version.
func (o *modelTopicFlags) readVersion(ctx context.Context, c *cli.Call, version uint64) (*modeltopic.Contents, error) {
	if o.alias != "" && o.name != "" {
		o.name, o.alias = modeltopic.AliasName(o.name, o.alias), ""
	}
	if err := badModelName(c, o.name); err != nil {
		return nil, err
	}
	cfg, err := o.kafkaFlags.config(c)
	if err != nil {
		return nil, err
	}
	keys, err := o.trustedKeys(c)
	if err != nil {
		return nil, err
	}
	t, err := modeltopic.Read(ctx, modeltopic.ReadOptions{Config: cfg, Topic: o.topic, Model: o.name, Version: version, TrustedKeys: keys, MaxDown: patience})
	if err != nil {
		return nil, kafkaError(err)
	}
	if len(t.Models) == 0 && t.Rejected == 0 {
		if o.name != "" {
			return nil, cli.Failf(cli.Data, "topic %s holds no model %s", o.topic, o.name)
		}
		return nil, cli.Failf(cli.Data, "topic %s holds no model", o.topic)
	}
	return t, nil
}
