package contrib

import (
	"context"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
	"github.com/streamsvm/streamsvm/trainer"
)

// Functions of contrib/doctor, nil without it.
var (
	// DryRun prints what keeps train from working, and fails as train would.
	DryRun func(ctx context.Context, c *cli.Call, p *Plan) error
	// ACLs prints the commands that give a user the permissions of a command, whose
	// settings resolve returns.
	ACLs func(c *cli.Call, command string, resolve func() ([]cli.Value, error), principal string) error
	// CodecOf guesses which codec reads a record; "" if none does.
	CodecOf = func(*stream.Record) string { return "" }
)

// Pipe answers the requests of another program, which learns with the jobs that job makes;
// nil without contrib/pipe.
var Pipe func(ctx context.Context, c *cli.Call, job func() (trainer.Job, error)) error

// Inspect runs the command model inspect; nil without contrib/inspect.
var Inspect func(ctx context.Context, c *cli.Call, in Inspected) error

// Inspected is what Inspect needs besides the paths in c.Args.
type Inspected struct {
	JSON  bool
	Name  string                               // of the model
	Topic func() (*modeltopic.Contents, error) // reads the model topic; nil if there is none to read
	Kafka func() (kafkaio.Config, error)
	Exit  func(error) error // gives errors of kafkaio their exit codes
}

// Plan is what train would do with a cluster. Empty fields are not used.
type Plan struct {
	Code   func(error) cli.Code // the exit code of train for an error
	Kafka  kafkaio.Config
	User   string // of Kafka.SASL
	Secure bool   // Apache Kafka's own tools need a file of settings to connect

	Topics         []string // of examples
	Labels         string   // topic of labels that do not come with the examples
	Partitions     []int32  // of Topics; none is all
	Start          string   // where a first start begins
	ModelTopic     string
	Model          string // its name there
	MaxRecordBytes int    // of a record in ModelTopic
	DeadLetters    string // suffix of topics
	Predictions    string // topic of the trainer's own predictions
	Group          string // in which progress is committed
	Checkpoint     string // directory, or kafka://TOPIC
	Retain         int    // checkpoints to keep

	Settings []error                // errors in the settings
	Summary  string                 // describes the settings if there are no errors
	Learner  *trainer.Options       // nil if the settings are wrong
	Source   *kafkaio.SourceOptions // likewise
	Codec    string                 // name of the codec of the records
	Format   codec.Options
	Registry func(context.Context) error // checks that the schema registry answers; may be nil
	Tolerant bool                        // records that cannot be read do not end the run
	// SkipTombstones says that records without a value are skipped.
	SkipTombstones bool
	// Exports check, by the name of a form, whether models of events with a schema can
	// be exported. RequireExport names the form that train requires.
	Exports       map[string]func(schema string) error
	RequireExport string
	// Train returns the command line of train with other settings; an empty one is
	// left out.
	Train func(change map[string]string) string
}
