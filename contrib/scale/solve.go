package scale

import (
	"bytes"
	"context"
	"fmt"
	"slices"

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
				list, err := mergeFiles(c.Args)
				if err != nil {
					return err
				}
				if len(list) > 1 {
					return cli.Fail(cli.Data, fmt.Errorf("%s, %s: %w", list[0].path, list[1].path, errOtherPlan))
				}
				return list[0].write(c)
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

With --set loss=hinge that is one step of Newton's method. Give the sketches of all
passes so far: it continues from the best one, and halves a step that did not go
down. It prints the objective and the duality gap, and "converged" when the gap is
less than a thousandth of the objective; the model is then that of the best pass.

streamsvm model promote publishes the model to a model topic that exists.`,
		Example: `
streamsvm solve monday.sketch tuesday.sketch > model.ssm
streamsvm model promote --model model.ssm --version 1 \
    --model-topic models --model-name clicks --alias champion`,
		MinArgs: 1, MaxArgs: -1,
		Setup: func(*cli.Flags) func(context.Context, *cli.Call) error {
			return func(_ context.Context, c *cli.Call) error { return solveFiles(c) }
		},
	}
}

// mergeFiles adds up the sketches of each plan, in the order in which plans first appear.
func mergeFiles(paths []string) (list []*sketch, err error) {
	for _, path := range paths {
		s, err := readSketch(path)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(list, func(o *sketch) bool { return bytes.Equal(o.plan, s.plan) })
		if i < 0 {
			list = append(list, s)
		} else if err := list[i].merge(s); err != nil {
			return nil, cli.Fail(cli.Data, fmt.Errorf("%s: %w", path, err))
		}
	}
	return list, nil
}

func solveFiles(c *cli.Call) error {
	list, err := mergeFiles(c.Args)
	switch {
	case err != nil:
		return err
	case list[0].sums.Len() == 0:
		return cli.Failf(cli.Data, "no examples have been summed")
	}
	model, said, err := solve(list)
	if err != nil {
		return cli.Fail(cli.Data, err)
	}
	if !c.Quiet {
		fmt.Fprintf(c.Err, "%s\nmodel hash %016x, %s\n", list[0], xxhash.Sum64(model), said)
	}
	_, err = c.Out.Write(model)
	return err
}
