// Command streamsvm learns support vector machines from streams and serves
// them. Run streamsvm --help.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/demo"
	"github.com/streamsvm/streamsvm/internal/app/dlq"
	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/internal/version"
)

func main() {
	crash.Install("streamsvm", os.Stderr, func() { os.Exit(int(cli.Software)) })
	defer crash.Recover(nil)
	// The first signal asks for a clean end. The second one has its default
	// effect: it ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, crash.Func(stop))
	code := program().Main(ctx, os.Args[1:], cli.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.LookupEnv})
	crash.Hold()
	os.Exit(code)
}

// program returns all commands.
func program() *cli.Program {
	return &cli.Program{
		Name:    "streamsvm",
		Summary: "support vector machines that learn from streams, on Kafka and on files",
		Text: `
Every flag can also be set in the environment, e.g. --model-topic as
STREAMSVM_MODEL_TOPIC, or in a YAML file named by --config or STREAMSVM_CONFIG:

  brokers: [kafka-1:9092, kafka-2:9092]
  topics: clicks
  checkpoint: ${STATE_DIRECTORY:/var/lib/streamsvm}
  set: {lambda: 1e-4}
  train: {listen: 127.0.0.1:9100}   # for this command alone

A flag is stronger than the environment, and that is stronger than the file.`,
		Version: version.Text, CodeOf: exitCode,
		Commands: []*cli.Command{
			demo.Command(kafkaError), trainCommand(), replayCommand(), predictCommand(), siftCommand(), sumCommand(), solveCommand(), compareCommand(), subscribeCommand(),
			generateCommand(), recordCommand(), produceCommand(), dlq.Command(dlq.Kafka{Define: defineKafka, Exit: kafkaError}), brokerCommand(), inspectCommand(), modelCommand(), schemaCommand(), learnersCommand(), configCommand(), doctorCommand(), aclsCommand(), healthCommand(),
		},
	}
}
