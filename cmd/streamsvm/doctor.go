package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/contrib"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// definePlan defines the settings of train, for a command that checks them.
func definePlan(f *cli.Flags) func(c *cli.Call) (*contrib.Plan, error) {
	t := &train{}
	t.define(f)
	f.Check(t.check)
	return func(c *cli.Call) (*contrib.Plan, error) {
		t.c = c
		return t.plan()
	}
}

// plan describes what train uses. It returns an error only if nothing can be checked with
// these settings.
func (t *train) plan() (*contrib.Plan, error) {
	p := &contrib.Plan{
		Code: exitCode, Kafka: kafkaio.Config{Brokers: t.brokers}, User: t.username, Secure: t.tls || t.mechanism != "none",
		Topics: t.topics, Partitions: t.partitions, Start: t.sourceFlags.start, Group: t.group,
		ModelTopic: t.modelTopic, Model: t.modelName, MaxRecordBytes: t.maxRecordBytes, DeadLetters: t.dlq, Predictions: t.predictions, Tolerant: t.tolerance != "none", SkipTombstones: t.tombstones == "skip",
		Checkpoint: t.checkpoint, Retain: t.retain, Codec: cmp.Or(t.codecFlags.name, defaultCodec),
		Summary: fmt.Sprintf("learner %s, preset %s", t.learner, t.preset),
		Exports: map[string]func(string) error{}, RequireExport: t.requireExport,
	}
	for form, e := range exporters {
		p.Exports[form] = e.check
	}
	if t.learnFlags.join.used() {
		p.Labels = t.learnFlags.join.topic
	}
	var err error
	if p.Kafka, err = t.kafkaFlags.config(t.c); err != nil {
		return nil, err
	}
	for _, err := range slices.Concat(t.learnFlags.check(t.c), t.sourceFlags.check(t.c), t.codecFlags.check(t.c), t.check(t.c)) {
		if err != nil {
			p.Settings = append(p.Settings, err)
		}
	}
	if learn, err := t.learnFlags.options(t.c); err == nil {
		p.Learner = &learn
	}
	if p.Format, err = t.codecFlags.codecOptions(t.c); err != nil {
		p.Learner = nil // the error is among the settings
	}
	if err := t.schemaFlags.connect(t.c, p.Kafka.TLS, nil); err == nil && codec.Schematic(p.Codec) {
		if err := t.schemaFlags.options(t.c, p.Codec, &p.Format); err != nil {
			p.Learner = nil
		}
		if t.registry != nil {
			p.Registry = t.registry.Check
		}
	}
	p.Train = func(change map[string]string) string { return t.c.Line("streamsvm train", change, "dry-run") }
	if opts, err := t.sourceFlags.options(t.c, p.Kafka, nil); err == nil {
		p.Source = &opts
	}
	return p, nil
}

// dryRun prints the problems found, and fails as train would.
func (t *train) dryRun(ctx context.Context) error {
	if contrib.DryRun == nil {
		return cli.Failf(cli.Usage, "--dry-run: this build has no doctor, which would make the checks")
	}
	p, err := t.plan()
	if err == nil {
		err = contrib.DryRun(ctx, t.c, p)
	}
	return kafkaError(err)
}
