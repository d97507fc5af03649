package doctor

import (
	"context"
	"fmt"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/contrib"
)

func init() {
	contrib.Add(contrib.Troubleshoot, func(w contrib.Wiring) []*cli.Command { return []*cli.Command{command(w)} })
	contrib.DryRun, contrib.ACLs = dryRun, printACLs
	contrib.CodecOf = codecOf
}

func command(w contrib.Wiring) *cli.Command {
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
			train := w.Train(f)
			return func(ctx context.Context, c *cli.Call) error {
				if len(c.Args) == 1 {
					return checkHealth(ctx, c, c.Args[0])
				}
				p, err := train(c)
				if err != nil {
					return err
				}
				bad, err := examine(ctx, &plan{*p}, func(f finding) {
					if !c.Quiet || f.severity != fine {
						f.print(c.Out)
					}
				})
				if n := len(bad); err == nil && n > 0 {
					err = cli.Failf(cli.Findings, "%d problem%s found", n, "s"[:min(n-1, 1)])
				}
				return err
			}
		},
	}
}

// dryRun prints the findings that are not ok, and fails as train would.
func dryRun(ctx context.Context, c *cli.Call, p *contrib.Plan) error {
	bad, err := examine(ctx, &plan{*p}, func(f finding) {
		if f.severity != fine {
			f.print(c.Out)
		}
	})
	if err != nil {
		return err
	}
	if len(bad) > 0 {
		return cli.Failf(bad[0].Code, "train would fail: %s: %s", bad[0].Subject, bad[0].Text)
	}
	if !c.Quiet {
		fmt.Fprintln(c.Out, "dry run: all is well")
	}
	return nil
}
