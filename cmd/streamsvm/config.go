package main

import (
	"context"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/spell"
)

//go:generate go test . -run TestGeneratedDocs -update

// configVerbs are what the command config can do.
var configVerbs = []string{"lint", "show"}

func configCommand() *cli.Command {
	return &cli.Command{
		Name: "config", Args: "lint [FILE] | show [COMMAND] [-- FLAGS]", Words: configVerbs, MinArgs: 1, MaxArgs: -1, NoFile: true,
		Summary: "check the configuration, or show where each value comes from",
		Text: `
config lint checks the FILE, or that of --config, without using the network. It
checks names and values for all commands, and how they go together for those of
--for and those with a section of their own. It lists every problem with its
line, and exits with code 1 if there is any.

config show prints the settings that COMMAND would run with here and now, and
with --origin where each comes from. It does not print secrets.`,
		Example: "streamsvm config lint streamsvm.yaml\nstreamsvm config show train --config streamsvm.yaml --origin -- --learner sbp",
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			var origin, set bool
			var commands []string
			f.Group("Config", func() {
				f.BoolVar(&origin, "origin", false, "show where each value comes from")
				f.BoolVar(&set, "set-only", false, "show only values that are not defaults")
				f.StringSliceVar(&commands, "for", []string{"train"}, "lint: `COMMANDS` whose settings must go together")
			})
			return func(ctx context.Context, c *cli.Call) error {
				verb, args := c.Args[0], c.Args[1:]
				path, _ := f.GetString("config")
				switch verb {
				case "lint":
					if len(args) > 1 {
						return cli.Failf(cli.Usage, "config lint takes one FILE, got %d", len(args))
					}
					if len(args) == 1 {
						path = args[0]
					}
					return lintConfig(ctx, c, path, commands)
				case "show":
					command := "train"
					if len(args) > 0 && f.ArgsLenAtDash() != 1 {
						command, args = args[0], args[1:]
					}
					if f.ArgsLenAtDash() < 0 && len(args) > 0 {
						return cli.Failf(cli.Usage, "config show takes one COMMAND; put its flags after --")
					}
					if path != "" {
						args = slices.Concat([]string{"--config", path}, args)
					}
					return showConfig(c, command, args, origin, set)
				case "reference":
					return cli.Failf(cli.Usage, "config reference is gone: docs/configuration.md holds it, and COMMAND --help-all lists the settings of a command")
				}
				return cli.Failf(cli.Usage, "config has no %q%s", verb, spell.DidYouMean(verb, configVerbs))
			}
		},
	}
}

func lintConfig(ctx context.Context, c *cli.Call, path string, commands []string) error {
	if path == "" {
		return cli.Failf(cli.Usage, "config lint wants a FILE")
	}
	found, err := program().Lint(ctx, path, commands, c.Stdio)
	if err != nil {
		return err
	}
	for _, p := range found {
		fmt.Fprintln(c.Out, p.Error())
	}
	switch n := len(found); {
	case n == 1:
		return cli.Failf(cli.Findings, "%s: 1 problem", path)
	case n > 1:
		return cli.Failf(cli.Findings, "%s: %d problems", path, n)
	}
	if !c.Quiet {
		fmt.Fprintf(c.Out, "%s: no problem found\n", path)
	}
	return nil
}

func showConfig(c *cli.Call, command string, args []string, origin, set bool) error {
	values, err := program().Resolve(command, args, c.Stdio)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	for _, v := range values {
		if set && v.Origin.Source == cli.FromDefault {
			continue
		}
		if origin {
			fmt.Fprintf(w, "%s\t%s\t%s\n", v.Name, dash(v.Value), v.Origin)
		} else {
			fmt.Fprintf(w, "%s\t%s\n", v.Name, dash(v.Value))
		}
	}
	return w.Flush()
}
