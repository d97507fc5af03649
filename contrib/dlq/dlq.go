// Package dlq adds the command dlq: it lists the records that could not be used, and
// sends them back, repaired. Import it for its side effect.
package dlq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/contrib"
	"github.com/streamsvm/streamsvm/internal/deadletter"
	"github.com/streamsvm/streamsvm/internal/spell"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// verbs are the subcommands of dlq.
var verbs = []string{"list", "replay"}

func init() {
	contrib.Add(contrib.Topics, func(w contrib.Wiring) []*cli.Command { return []*cli.Command{command(w)} })
}

func command(w contrib.Wiring) *cli.Command {
	return &cli.Command{
		Name: "dlq", Args: "list | replay [DLQ-TOPIC...]", Words: verbs, MinArgs: 1, MaxArgs: -1,
		Summary: "list the records that could not be used, or repair them and send them back",
		Text: `
Works on dead letters: the records that train --tolerance data --dlq could not
use. Both verbs stop where the topics ended when they started. The topics are the
arguments, or those of --topics (and --labels-topic) with the suffix --dlq, so the
configuration file of train will do.

dlq list prints for each letter its place, the record that it is about, and the
reason. It changes nothing.

dlq replay sends the records back to their topic and partition, or to --to, with
key, value and headers as they were, the present time, and two more headers:
__streamsvm.replayed.from, the letter's topic/partition:offset, and
__streamsvm.replayed.timestamp, the record's own in ms since 1970. Truncated
letters are skipped and counted. The letters stay where they are.

With --repair, each value goes through a shell command: its standard input is the
value, and what it prints is sent, without the newline at the end if it is text.
DLQ_TOPIC, DLQ_PARTITION, DLQ_OFFSET, DLQ_STAGE, DLQ_REASON and DLQ_MESSAGE hold
what the letter says. Exit code 0 sends the record, 65 skips the letter, any other
ends the replay before it.

The position is kept in the consumer group --group, and committed after the brokers
have acknowledged what was sent, at most 1000 letters later. A replay that is
killed and started again loses nothing; up to 1000 records are then there twice.
Only one replay at a time may use a group. Without a position, --from must say where
to begin. Letters that --reason or --origin skip are skipped for good, so a filter
needs a --group of its own.`,
		Example: "streamsvm dlq list --config streamsvm.yaml --reason label,syntax --values\n" +
			"streamsvm dlq replay clicks.dlq --from earliest --dry-run --repair \"sed 's/NaN/0/g'\"",
		Common: []string{"brokers", "topics", "reason", "origin", "values", "json", "from", "to", "repair", "group", "dry-run", "config"},
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			o := &letterFlags{exit: w.Exit}
			list, replay := &letterList{letterFlags: o}, &letterReplay{letterFlags: o}
			o.define(f)
			list.define(f)
			replay.define(f)
			o.config = w.Kafka(f)
			return func(ctx context.Context, c *cli.Call) error {
				o.c = c
				verb := c.Args[0]
				if !slices.Contains(verbs, verb) {
					return cli.Failf(cli.Usage, "dlq has no %q%s", verb, spell.DidYouMean(verb, verbs))
				}
				for _, name := range foreignFlags[verb] {
					if c.Origin(name).Source == cli.FromFlag {
						return c.Bad(name, fmt.Errorf("dlq %s has no such flag", verb))
					}
				}
				if err := o.resolve(c.Args[1:]); err != nil {
					return err
				}
				if verb == "list" {
					return list.run(ctx)
				}
				return replay.run(ctx)
			}
		},
	}
}

// foreignFlags belong to the other verb. A configuration file may have both.
var foreignFlags = map[string][]string{
	"list":   {"group", "from", "to", "repair", "on-out-of-range", "dry-run"},
	"replay": {"json", "values"},
}

// patience is how long a broker may take to answer.
const patience = 30 * time.Second

// letterFlags select the dead letters.
type letterFlags struct {
	topics           []string
	labels, suffix   string
	reasons, origins []string

	config  func(c *cli.Call) (kafkaio.Config, error)
	exit    func(error) error
	c       *cli.Call
	cfg     kafkaio.Config
	letters []string // the topics of dead letters
}

func (o *letterFlags) define(f *cli.Flags) {
	f.Group("Dead letters", func() {
		f.StringSliceVar(&o.topics, "topics", nil, "`TOPICS` to read")
		f.StringVar(&o.labels, "labels-topic", "", "`TOPIC` of labels that come later: JSON, Avro, Protobuf or CSV, or labels alone; by default, later records of --topics have them")
		f.StringVar(&o.suffix, "dlq", ".dlq", "`SUFFIX` of the topics of dead letters, for records that cannot be used; --dlq alone is .dlq")
		f.StringSliceVar(&o.reasons, "reason", nil, "only letters with these `REASONS`: "+reasonNames())
		f.StringSliceVar(&o.origins, "origin", nil, "only letters about records of these `TOPICS`")
	})
	f.Lookup("dlq").NoOptDefVal = ".dlq"
	f.Check(o.check)
}

func reasonNames() string {
	var names []string
	for _, r := range stream.Reasons() {
		names = append(names, string(r))
	}
	return strings.Join(names, ", ")
}

// check checks the flags that the flag package cannot.
func (o *letterFlags) check(c *cli.Call) (errs []error) {
	for _, r := range o.reasons {
		if r == "" || stream.Reason(r).Known() != stream.Reason(r) {
			errs = append(errs, c.Bad("reason", fmt.Errorf("%q is none of %s%s", r, reasonNames(), spell.DidYouMean(r, strings.Split(reasonNames(), ", ")))))
		}
	}
	if o.suffix == "" {
		errs = append(errs, c.Bad("dlq", errors.New("the suffix is empty")))
	}
	return errs
}

// resolve decides which topics to read.
func (o *letterFlags) resolve(args []string) (err error) {
	if errs := o.check(o.c); len(errs) > 0 {
		return errors.Join(errs...)
	}
	if o.letters = args; len(args) == 0 {
		records := slices.Clone(o.topics)
		if o.labels != "" {
			records = append(records, o.labels)
		}
		for _, name := range records {
			o.letters = append(o.letters, name+o.suffix)
		}
	}
	if len(o.letters) == 0 {
		return o.c.Bad("topics", errors.New("no topic is given, neither of dead letters nor of records"))
	}
	o.cfg, err = o.config(o.c)
	return err
}

// filters reports whether some letters are skipped.
func (o *letterFlags) filters() bool { return len(o.reasons)+len(o.origins) > 0 }

// wants reports whether the flags select the letter.
func (o *letterFlags) wants(l *deadletter.Letter) bool {
	return (len(o.reasons) == 0 || slices.Contains(o.reasons, l.Reason)) && (len(o.origins) == 0 || slices.Contains(o.origins, l.Topic))
}

// open reads the letters in the order of sending, from the offsets given or
// from start, up to the present end.
func (o *letterFlags) open(ctx context.Context, from stream.Offsets, start kafkaio.StartAt, outOfRange kafkaio.OutOfRange) (*kafkaio.Source, error) {
	so := kafkaio.SourceOptions{
		Config: o.cfg, Topics: o.letters, Offsets: from, Start: start, OutOfRange: outOfRange,
		Merge: kafkaio.MergeOrdered, UntilEnd: true, MaxDown: patience,
	}
	if err := so.Validate(); err != nil {
		return nil, cli.Fail(cli.Usage, err)
	}
	src, err := kafkaio.NewSource(ctx, so)
	return src, o.noTopic(err)
}

// noTopic adds advice to the error about a topic that does not exist.
func (o *letterFlags) noTopic(err error) error {
	var unknown *kafkaio.UnknownTopicError
	if errors.As(err, &unknown) && slices.Contains(o.letters, unknown.Topic) {
		return cli.Failf(cli.Unavailable, "%w: train makes it when it starts with --tolerance data and --dlq; is the name right?", err)
	}
	return o.exit(err)
}

// ended maps the end of reading letters to its exit code.
func (o *letterFlags) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return cli.Failf(cli.Temporary, "interrupted")
	}
	return o.exit(err)
}
