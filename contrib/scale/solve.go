package scale

import (
	"context"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/atomicfile"
)

func solveCommand() *cli.Command {
	return &cli.Command{
		Name: "solve", Args: "FILE...", Summary: "make a model from the sums of streamsvm sum",
		Text: `
Adds up files of streamsvm sum that were made with the same --model, in the order
given, and writes the model of all their records. The same files in the same
order give the same bits.

streamsvm model promote publishes the model to a model topic that exists.`,
		Example: `
streamsvm solve monday.sums tuesday.sums --out model.ssm
streamsvm model promote --model model.ssm --version 1 \
    --model-topic models --model-name clicks --alias champion`,
		Common: []string{"out"}, MinArgs: 1, MaxArgs: -1,
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			var out string
			f.Group("Files", func() { f.StringVar(&out, "out", "", "`FILE` for the model") })
			return func(_ context.Context, c *cli.Call) error {
				if out == "" {
					return c.Bad("out", errors.New("no FILE is given"))
				}
				return solve(c, out)
			}
		},
	}
}

func solve(c *cli.Call, out string) error {
	var list []*sketch
	var all sketch // the counts
	for _, path := range c.Args {
		s, err := readSketch(path)
		if err != nil {
			return err
		}
		list = append(list, s)
		all.summed += s.summed
		all.unlabelled += s.unlabelled
		all.dead += s.dead
		all.tombstones += s.tombstones
	}
	if all.summed == 0 {
		return cli.Failf(cli.Data, "no examples have been summed")
	}
	p, err := newPlan(list[0].plan)
	if err != nil {
		return cli.Fail(cli.Data, fmt.Errorf("%s: %w", c.Args[0], err))
	}
	model, err := p.solve(list)
	if err != nil {
		return cli.Fail(cli.Data, err)
	}
	if err := atomicfile.Write(out, model); err != nil {
		return err
	}
	if !c.Quiet {
		fmt.Fprintf(c.Err, "%s: %s; model hash %016x\n", out, &all, xxhash.Sum64(model))
	}
	return nil
}
