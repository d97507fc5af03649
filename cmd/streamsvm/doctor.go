package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/doctor"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

func doctorCommand() *cli.Command {
	return &cli.Command{
		Name: "doctor", Args: "[URL]", MaxArgs: 1, Section: "train", Summary: "find out why train does not work here, and what to do about it",
		Text: `
Takes the flags and settings of train and checks everything that train needs:
brokers, permissions, topics, records, checkpoints. It names each problem, with
the command that fixes it if there is one, and changes nothing. Exit code 1 means
that train would not work.

If the records do not match the settings, it prints the command line of train
that learns from them, or says that they are not supported and what to do
instead.

With the URL of a running service's /healthz, it only asks whether that service is
healthy: exit code 0 if it is, 69 if not. Containers without curl use this.`,
		Example: "streamsvm doctor --config streamsvm.yaml\nstreamsvm doctor --topics payments --label is_fraud --model-topic models --checkpoint ./state\nstreamsvm doctor http://127.0.0.1:8080/healthz",
		Common:  []string{"brokers", "topics", "label", "labels-topic", "join", "codec", "learner", "checkpoint", "model-topic", "config"},
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			t := &train{}
			t.define(f)
			f.Check(t.check)
			return func(ctx context.Context, c *cli.Call) error {
				if len(c.Args) == 1 {
					return checkHealth(ctx, c, c.Args[0])
				}
				t.c = c
				bad, err := t.examine(ctx, !c.Quiet)
				if n := len(bad); err == nil && n > 0 {
					err = cli.Failf(cli.Findings, "%d problem%s found", n, "s"[:min(n-1, 1)])
				}
				return err
			}
		},
	}
}

// plan says what train uses.
func (t *train) plan() *doctor.Plan {
	p := &doctor.Plan{
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
	return p
}

// examine tries all that train needs, and prints what is found: without all
// only what is not as it should be. It returns what is wrong. The error is about
// settings without which nothing can be tried.
func (t *train) examine(ctx context.Context, all bool) ([]doctor.Finding, error) {
	p := t.plan()
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
	return doctor.Examine(ctx, p, func(f doctor.Finding) {
		if all || f.Severity != doctor.Fine {
			f.Print(t.c.Out)
		}
	})
}

// dryRun prints what is not as it should be, and fails as train would.
func (t *train) dryRun(ctx context.Context) error {
	bad, err := t.examine(ctx, false)
	if err != nil {
		return kafkaError(err)
	}
	if len(bad) > 0 {
		return cli.Failf(bad[0].Code, "train would fail: %s: %s", bad[0].Subject, bad[0].Text)
	}
	if !t.c.Quiet {
		fmt.Fprintln(t.c.Out, "dry run: all is well")
	}
	return nil
}
