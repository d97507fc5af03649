package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/dlq"
	"github.com/streamsvm/streamsvm/internal/app/doctor"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

func doctorCommand() *cli.Command {
	return &cli.Command{
		Name: "doctor", Section: "train", Summary: "find out why train does not work here, and what to do about it",
		Text: `
Takes the flags and settings of train and checks everything that train needs:
brokers, permissions, topics, records, checkpoints. It names each problem, with
the command that fixes it if there is one, and changes nothing. Exit code 1 means
that train would not work.

If the records do not match the settings, it prints the command line of train
that learns from them, or says that they are not supported and what to do
instead.`,
		Example: "streamsvm doctor --config streamsvm.yaml\nstreamsvm doctor --topics payments --label is_fraud --model-topic models --checkpoint ./state",
		Common:  []string{"brokers", "topics", "label", "labels-topic", "join", "codec", "learner", "checkpoint", "model-topic", "config"},
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			t := &train{}
			t.define(f)
			f.Check(t.check)
			return func(ctx context.Context, c *cli.Call) error {
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

func aclsCommand() *cli.Command {
	return &cli.Command{
		Name: "acls", Section: "train", Summary: "print the commands that grant exactly the permissions that train needs",
		Text: `
Takes the flags and settings of train and prints commands for Apache Kafka's
kafka-acls.sh that give its user the permissions it needs, and no others. It does
not run them. --role prints those of another command.

--role predict also covers subscribe, and --role promote covers model promote and
rollback. With --group, --role predict adds the permissions of the members of a
group; sift needs those of predict, with --distilled-topic as --predictions-topic.`,
		Example: "streamsvm acls --config streamsvm.yaml --principal User:trainer",
		Common:  []string{"principal", "role", "topics", "model-topic", "checkpoint", "group", "predictions-topic", "errors-topic", "config"},
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			t := &train{}
			t.define(f)
			var role, principal, predictions, errorsTopic string
			f.Group("ACLs", func() {
				f.Choice(&role, "role", "train", []string{"train", "predict", "dlq", "promote"}, "what the user does, by the name of the command")
				f.StringVar(&principal, "principal", "", "`USER` as the brokers see it (default User: and --sasl-username)")
				f.StringVar(&predictions, "predictions-topic", "", "predict: `TOPIC` for predictions")
				f.StringVar(&errorsTopic, "errors-topic", "", "predict: `TOPIC` for records that cannot be used")
			})
			return func(_ context.Context, c *cli.Call) error {
				switch {
				case principal == "" && t.username == "":
					return c.Bad("principal", errors.New("who is it? Give the user, e.g. User:trainer, or for client certificates User:CN=trainer"))
				case principal == "":
					principal = "User:" + t.username
				case !strings.Contains(principal, ":"):
					principal = "User:" + principal
				}
				p := t.plan()
				grants := p.GrantsToTrain()
				switch role {
				case "predict":
					grants = p.GrantsToPredict(predictions, errorsTopic)
				case "promote":
					grants = p.GrantsToPromote()
				case "dlq":
					p.DeadLetters, p.Group = cmp.Or(p.DeadLetters, ".dlq"), cmp.Or(p.Group, dlq.Group)
					grants = p.GrantsToReplay()
				}
				if len(grants) == 0 {
					return cli.Failf(cli.Usage, "these settings use no topic: there is nothing to grant")
				}
				for _, g := range grants {
					fmt.Fprintln(c.Out, p.Command(principal, g))
				}
				return nil
			}
		},
	}
}

// plan says what train uses.
func (t *train) plan() *doctor.Plan {
	p := &doctor.Plan{
		Code: exitCode, Kafka: kafkaio.Config{Brokers: t.brokers}, User: t.username, Secure: t.tls || t.mechanism != "none",
		Topics: t.topics, Partitions: t.partitions, Start: t.sourceFlags.start, Group: t.group,
		ModelTopic: t.modelTopic, Model: t.modelName, MaxRecordBytes: t.maxRecordBytes, DeadLetters: t.dlq, Tolerant: t.tolerance != "none", SkipTombstones: t.tombstones == "skip",
		Checkpoint: t.checkpoint, Retain: t.retain, Codec: cmp.Or(t.codecFlags.name, defaultCodec),
		Summary: fmt.Sprintf("learner %s, preset %s", t.learner, t.preset),
	}
	if t.learnFlags.join.by == "key" {
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
