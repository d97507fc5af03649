package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/inspect"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
	"github.com/streamsvm/streamsvm/stream/statetopic"
)

func inspectCommand() *cli.Command {
	return &cli.Command{
		Name: "inspect", Args: "[FILE|DIR|kafka://TOPIC...]", Summary: "describe checkpoints, models, recordings and model topics",
		Text: `
Describes files of any of these kinds, every checkpoint of a directory or of a
state topic kafka://TOPIC, or a model topic. Nothing is changed. Exits with code
65 if anything is damaged.

The output is YAML, or JSON with --json. The first bytes of a file say what it
is. Checkpoints are listed newest first.
With --model-topic on the command line, or without a FILE, the model topic is
read to its end: for every model its newest full version and the deltas on it,
whether the hashes are right, and whether the deltas chain. No topic is created
and no offset committed.`,
		Example: "streamsvm inspect ./state model.ssm run.ssr\nstreamsvm inspect --brokers kafka-1:9092 --model-topic models",
		Common:  []string{"brokers", "model-topic", "model-name", "weights", "json", "config"},
		MaxArgs: -1,
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			var asJSON bool
			var weights int
			var topic modelTopicFlags
			f.Group("Output", func() {
				f.BoolVar(&asJSON, "json", false, "print a JSON array with an object per file")
				f.IntVar(&weights, "weights", 10, "of a linear model, list the `N` weights of largest magnitude")
			})
			topic.define(f, "`NAME` of the model to describe, by default all in the topic")
			return func(ctx context.Context, c *cli.Call) error {
				found := []inspect.Description{} // prints as an array, even without any
				var errs []error
				if weights < 0 {
					return c.Bad("weights", fmt.Errorf("%d is negative", weights))
				}
				for _, path := range c.Args {
					ds, err := topic.file(ctx, c, path, weights)
					found = append(found, ds...)
					errs = append(errs, err)
				}
				if topic.wanted(c) {
					t, err := topic.read(ctx, c)
					if err == nil {
						var d *inspect.Description
						d, err = inspect.Topic(t)
						found = append(found, *d)
					}
					errs = append(errs, err)
				} else if len(c.Args) == 0 {
					return cli.Failf(cli.Usage, "inspect wants a FILE, a DIR or --model-topic")
				}
				print := func() error { return inspect.Print(c.Out, found) }
				if asJSON {
					e := json.NewEncoder(c.Out)
					e.SetIndent("", "  ")
					print = func() error { return e.Encode(found) }
				}
				if err := print(); err != nil {
					return err
				}
				return errors.Join(errs...)
			}
		},
	}
}

// modelTopicFlags say which model topic is read once.
type modelTopicFlags struct {
	kafkaFlags
	trustFlags
	topic, name string
	alias       string // of the model, where it has one
	down        time.Duration
}

func (o *modelTopicFlags) define(f *cli.Flags, nameUsage string) {
	f.Group("Model topic", func() {
		f.StringVar(&o.topic, "model-topic", "", "`TOPIC` to read")
		f.StringVar(&o.name, "model-name", "", nameUsage)
		o.trustFlags.define(f)
		f.DurationVar(&o.down, "max-down", 30*time.Second, "give up when no broker answers for so long; 0 never does")
	})
	o.kafkaFlags.define(f)
}

// file describes a file, a directory or a state topic.
func (o *modelTopicFlags) file(ctx context.Context, c *cli.Call, path string, weights int) ([]inspect.Description, error) {
	topic, ok := statetopic.Topic(path)
	if !ok {
		return inspect.File(ctx, path, weights)
	}
	cfg, err := o.kafkaFlags.config(c)
	if err != nil {
		return nil, err
	}
	states, err := statetopic.Read(ctx, statetopic.ReadOptions{Config: cfg, Topic: topic, Name: o.name, MaxDown: o.down})
	if err != nil {
		return nil, kafkaError(err)
	}
	return inspect.States(topic, states)
}

// wanted reports whether the topic is to be read: a configuration file may name
// it for other commands.
func (o *modelTopicFlags) wanted(c *cli.Call) bool {
	return o.topic != "" && (len(c.Args) == 0 || c.Origin("model-topic").Source == cli.FromFlag)
}

// read returns what the topic holds, at least one model.
func (o *modelTopicFlags) read(ctx context.Context, c *cli.Call) (*modeltopic.Contents, error) {
	return o.readVersion(ctx, c, 0)
}

// readVersion is read with the payload of one version in addition.
func (o *modelTopicFlags) readVersion(ctx context.Context, c *cli.Call, version uint64) (*modeltopic.Contents, error) {
	if o.alias != "" && o.name != "" {
		o.name, o.alias = modeltopic.AliasName(o.name, o.alias), ""
	}
	if err := errors.Join(badMaxDown(c, o.down), badModelName(c, o.name)); err != nil {
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
	t, err := modeltopic.Read(ctx, modeltopic.ReadOptions{Config: cfg, Topic: o.topic, Model: o.name, Version: version, TrustedKeys: keys, MaxDown: o.down})
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

// hash is the form in which hashes are printed everywhere.
func hash(h uint64) string { return fmt.Sprintf("%016x", h) }
