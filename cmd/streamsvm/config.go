package main

import (
	"context"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/contrib"
	"github.com/streamsvm/streamsvm/internal/spell"
)

//go:generate go test . -run TestGeneratedDocs -update

// configVerbs are the verbs of the command config.
var configVerbs = []string{"lint", "show", "acls"}

func configCommand() *cli.Command {
	return &cli.Command{
		Name: "config", Args: "lint [FILE [COMMAND...]] | show | acls [COMMAND] [-- FLAGS]", Words: configVerbs, MinArgs: 1, MaxArgs: -1, NoFile: true,
		Summary: "check the configuration, show where each value comes from, or print permissions",
		Text: `
config lint checks the FILE, or that of --config, without using the network. It
checks names and values for all commands, and how they go together for each
COMMAND, by default train, and for commands with a section of their own. It lists
every problem with its line, and exits with code 1 if there is any.

config show prints the settings that COMMAND would run with here and now, and
where each comes from. It does not print secrets.

config acls prints commands for Apache Kafka's kafka-acls.sh that give a user the
permissions that COMMAND needs with these settings, and no others. It does not run
them. predict covers model follow; model is for promote and rollback.`,
		Example: "streamsvm config lint streamsvm.yaml\nstreamsvm config show train --config streamsvm.yaml -- --learner sbp\n" +
			"streamsvm config acls train --config streamsvm.yaml --principal User:trainer",
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			var principal string
			f.Group("Config", func() {
				f.StringVar(&principal, "principal", "", "acls: `USER` as the brokers see it (default User: and --sasl-username)")
			})
			return func(ctx context.Context, c *cli.Call) error {
				verb, args := c.Args[0], c.Args[1:]
				path, _ := f.GetString("config")
				if verb == "lint" {
					if len(args) > 0 {
						path, args = args[0], args[1:]
					}
					if len(args) == 0 {
						args = []string{"train"}
					}
					return lintConfig(ctx, c, path, args)
				}
				if !slices.Contains(configVerbs, verb) {
					return cli.Failf(cli.Usage, "config has no %q%s", verb, spell.DidYouMean(verb, configVerbs))
				}
				command := "train"
				if len(args) > 0 && f.ArgsLenAtDash() != 1 {
					command, args = args[0], args[1:]
				}
				if f.ArgsLenAtDash() < 0 && len(args) > 0 {
					return cli.Failf(cli.Usage, "config %s takes one COMMAND; put its flags after --", verb)
				}
				if path != "" {
					args = slices.Concat([]string{"--config", path}, args)
				}
				if verb == "acls" {
					if contrib.ACLs == nil {
						return cli.Failf(cli.Usage, "this build has no config acls")
					}
					return contrib.ACLs(c, command, func() ([]cli.Value, error) { return program().Resolve(command, args, c.Stdio) }, principal)
				}
				return showConfig(c, command, args)
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

func showConfig(c *cli.Call, command string, args []string) error {
	values, err := program().Resolve(command, args, c.Stdio)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	for _, v := range values {
		fmt.Fprintf(w, "%s\t%s\t%s\n", v.Name, dash(v.Value), v.Origin)
	}
	return w.Flush()
}
