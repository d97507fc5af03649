package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/inspect"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
	"github.com/streamsvm/streamsvm/stream/statetopic"
)

// inspect describes the files, directories and state topics in c.Args, and the
// model topic. It fails with code 65 if anything is damaged.
func (topic *modelTopicFlags) inspect(ctx context.Context, c *cli.Call, asJSON bool) error {
	found := []inspect.Description{} // prints as an array, even without any
	var errs []error
	for _, path := range c.Args {
		ds, err := topic.file(ctx, c, path)
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
		return cli.Failf(cli.Usage, "model inspect wants a FILE, a DIR or --model-topic")
	}
	if asJSON {
		e := json.NewEncoder(c.Out)
		e.SetIndent("", "  ")
		if err := e.Encode(found); err != nil {
			return err
		}
		return errors.Join(errs...)
	}
	errs = append(errs, inspect.Print(c.Out, found))
	return errors.Join(errs...)
}

// modelTopicFlags say which model topic is read once.
type modelTopicFlags struct {
	kafkaFlags
	trustFlags
	topic, name string
	alias       string // of the model, where it has one
}

func (o *modelTopicFlags) define(f *cli.Flags) {
	f.Group("Model", func() {
		f.StringVar(&o.topic, "model-topic", "", modelTopicUsage)
		f.StringVar(&o.name, "model-name", "", modelNameUsage)
		o.trustFlags.define(f)
	})
	o.kafkaFlags.define(f)
}

// file describes a file, a directory or a state topic.
func (o *modelTopicFlags) file(ctx context.Context, c *cli.Call, path string) ([]inspect.Description, error) {
	topic, ok := statetopic.Topic(path)
	if !ok {
		return inspect.File(ctx, path, 10)
	}
	cfg, err := o.kafkaFlags.config(c)
	if err != nil {
		return nil, err
	}
	states, err := statetopic.Read(ctx, statetopic.ReadOptions{Config: cfg, Topic: topic, Name: o.name, MaxDown: patience})
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

// hash is the form in which hashes are printed everywhere.
func hash(h uint64) string { return fmt.Sprintf("%016x", h) }
