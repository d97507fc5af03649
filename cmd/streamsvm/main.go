// Command streamsvm learns support vector machines from streams and serves
// them. Run streamsvm --help.
package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"golang.org/x/term"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/contrib"
	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/internal/version"
)

func main() {
	crash.Install("streamsvm", os.Stderr, func() { os.Exit(int(cli.Software)) })
	defer crash.Recover(nil)
	limitMemory()
	// The first signal asks for a clean end. The second one has its default
	// effect: it ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, crash.Func(stop))
	stdio := cli.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.LookupEnv}
	if isTerminal(os.Stderr) && os.Getenv("TERM") != "dumb" {
		s := &screen{w: os.Stderr, width: func() int {
			width, _, _ := term.GetSize(int(os.Stderr.Fd()))
			return width
		}}
		if stdio.Live, stdio.Err = s.rewrite, (over{s, os.Stderr}); isTerminal(os.Stdout) {
			stdio.Out = over{s, os.Stdout}
		}
	}
	code := program().Main(ctx, os.Args[1:], stdio)
	crash.Hold()
	os.Exit(code)
}

// contribCommands returns the commands of packages in contrib that are listed under
// heading.
var contribCommands = func(heading string) []*cli.Command { return nil }

// program returns all commands.
func program() *cli.Program {
	return &cli.Program{
		Name:    "streamsvm",
		Summary: "support vector machines that learn from streams, on Kafka and on files",
		Text: `
Every flag can also be set in the environment (--model-topic is
STREAMSVM_MODEL_TOPIC) or in a YAML file named by --config or STREAMSVM_CONFIG:

  brokers: [kafka-1:9092, kafka-2:9092]
  topics: clicks
  checkpoint: ${STATE_DIRECTORY:/var/lib/streamsvm}
  learner: scs
  set: {budget: 5000}
  train: {listen: 127.0.0.1:9100}   # for this command only

Flags override the environment, and the environment overrides the file.`,
		Version: version.Text, CodeOf: exitCode, Removed: removed,
		Commands: slices.Concat(
			cli.Topic("The three commands you need", trainCommand(), predictCommand(), replayCommand()),
			cli.Topic(contrib.TryOut, contribCommands(contrib.TryOut)...),
			cli.Topic(contrib.Troubleshoot, append(contribCommands(contrib.Troubleshoot), configCommand(), schemaCommand(), learnersCommand())...),
			cli.Topic("Manage models", modelCommand()),
			cli.Topic(contrib.Topics, append(contribCommands(contrib.Topics), copyCommand())...),
			cli.Topic(contrib.ScaleOut, contribCommands(contrib.ScaleOut)...),
		),
	}
}
