package scale

import (
	"context"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/internal/app/cli"
)

func mergeCommand() *cli.Command {
	return &cli.Command{
		Name: "merge", Args: "SKETCH...", Summary: "add up sketches of streamsvm sum",
		Text: `
Writes to standard output the sketch of all records of the sketches, which were
made with one --model.`,
		Example: "streamsvm merge monday.sketch tuesday.sketch > week.sketch",
		MinArgs: 1, MaxArgs: -1,
		Setup: func(*cli.Flags) func(context.Context, *cli.Call) error {
			return func(_ context.Context, c *cli.Call) error {
				s, err := mergeFiles(c.Args)
				if err != nil {
					return err
				}
				return s.write(c)
			}
		},
	}
}

func solveCommand() *cli.Command {
	return &cli.Command{
		Name: "solve", Args: "SKETCH...", Summary: "make a model from sketches of streamsvm sum",
		Text: `
Adds up sketches that were made with one --model, and writes the model of all their
records to standard output.

streamsvm model promote publishes the model to a model topic that exists.`,
		Example: `
streamsvm solve monday.sketch tuesday.sketch > model.ssm
streamsvm model promote --model model.ssm --version 1 \
    --model-topic models --model-name clicks --alias champion`,
		MinArgs: 1, MaxArgs: -1,
		Setup: func(*cli.Flags) func(context.Context, *cli.Call) error {
			return func(_ context.Context, c *cli.Call) error { return solve(c) }
		},
	}
}

// mergeFiles adds up sketches.
func mergeFiles(paths []string) (*sketch, error) {
	var all *sketch
	for _, path := range paths {
		s, err := readSketch(path)
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = s
			continue
		}
		if err := all.merge(s); err != nil {
			return nil, cli.Fail(cli.Data, fmt.Errorf("%s: %w", path, err))
		}
	}
	return all, nil
}

func solve(c *cli.Call) error {
	s, err := mergeFiles(c.Args)
	switch {
	case err != nil:
		return err
	case s.summed == 0:
		return cli.Failf(cli.Data, "no examples have been summed")
	}
	p, err := newPlan(s.plan)
	if err != nil {
		return cli.Fail(cli.Data, err)
	}
	model, err := p.solve([]*sketch{s})
	if err != nil {
		return cli.Fail(cli.Data, err)
	}
	if !c.Quiet {
		fmt.Fprintf(c.Err, "%s; model hash %016x\n", s, xxhash.Sum64(model))
	}
	_, err = c.Out.Write(model)
	return err
}
