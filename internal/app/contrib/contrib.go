// Package contrib lets packages in contrib add commands to the program.
package contrib

import (
	"context"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// Headings under which --help lists commands of contrib.
const (
	TryOut       = "Try it out"
	Troubleshoot = "Prepare and troubleshoot"
	Topics       = "Topics and records"
	ScaleOut     = "Scale out"
)

var commands = map[string][]func(Wiring) []*cli.Command{}

// Add adds commands under a heading. Packages in contrib call it when they are imported.
func Add(heading string, make func(Wiring) []*cli.Command) {
	commands[heading] = append(commands[heading], make)
}

// Commands returns the commands under a heading, in the order of their packages' names.
func Commands(heading string, w Wiring) []*cli.Command {
	var list []*cli.Command
	for _, make := range commands[heading] {
		list = append(list, make(w)...)
	}
	return list
}

// Wiring is what the commands share with others of the program. Each function
// defines flags, and returns a function that uses their values.
type Wiring struct {
	// Files opens files for a model. decode decodes the records of the last Fetch.
	Files func(f *cli.Flags) func(c *cli.Call, v *predictor.Version, files []string) (src stream.Source, decode Decode, err error)
	// Group connects a member of a consumer group that scores topics.
	Group func(f *cli.Flags) func(c *cli.Call) (*Group, error)
	// Kafka is for connections to brokers.
	Kafka func(f *cli.Flags) func(c *cli.Call) (kafkaio.Config, error)
	// Train is for the settings of train.
	Train func(f *cli.Flags) func(c *cli.Call) (*Plan, error)
	// Tolerance describes the flag --tolerance.
	Tolerance string
	// Exit gives errors of kafkaio their exit codes.
	Exit func(error) error
}

// Decode decodes a record into an example. Its vector is valid until the arena is
// reset.
type Decode func(ctx context.Context, a *stream.Arena, r *stream.Record, ex *stream.Example) error

// A Group is a member of a consumer group, and the model that it uses.
type Group struct {
	Session kafkaio.SessionOptions
	// Models follows the model. It may wait until the topic exists.
	Models func(ctx context.Context) (*modeltopic.Subscriber, error)
	// Failed explains errors of Models and of the Subscriber.
	Failed func(error) error
	// Joined is called with the session. It returns a function that counts transactions.
	Joined func(stream.Lagger) (ended func(committed bool, took time.Duration))
	// Close stops the HTTP server.
	Close func()
	// Scorer returns a Scorer for the versions that current returns.
	Scorer func(current func() *predictor.Version) (*predictor.Scorer, error)
}

// PartitionsUsage describes the flag --partitions of every command.
const PartitionsUsage = "`NUMBERS` of the partitions to read, by default all; of a command that writes, how many to create the topic with"
