// Package topics adds the command topic: it lists, creates, deletes and describes the
// topics of a cluster. Import it for its side effect.
package topics

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/contrib"
	"github.com/streamsvm/streamsvm/internal/reach"
	"github.com/streamsvm/streamsvm/internal/spell"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

var verbs = []string{"create", "delete", "describe", "list"}

func init() {
	contrib.Add(contrib.Topics, func(w contrib.Wiring) []*cli.Command { return []*cli.Command{topicCommand(w)} })
}

func topicCommand(w contrib.Wiring) *cli.Command {
	return &cli.Command{
		Name: "topic", Args: "list | create | describe | delete [TOPIC...]", Words: verbs, MinArgs: 1, MaxArgs: -1,
		Summary: "list, create, describe or delete topics",
		Text: `
Works with any Kafka broker. list prints every topic with its partitions and the
number of offsets between its first record and its end; create makes topics;
describe prints partitions, and the settings that differ from the broker's;
delete removes topics and all their records at once, without asking.

Topics that train and predict write to are created by them.`,
		Example: "streamsvm topic create clicks --partitions 4 --topic-config retention.ms=-1",
		Common:  []string{"brokers", "partitions", "topic-config", "json", "config"},
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			o := &command{config: cli.Pairs{}}
			f.Group("Output", func() {
				f.BoolVar(&o.json, "json", false, "print JSON")
				f.Uint16Var(&o.partitions, "partitions", 0, contrib.PartitionsUsage)
				f.Var(o.config, "topic-config", "create: setting of the topic, such as cleanup.policy=compact; repeatable")
			})
			kafka := w.Kafka(f)
			return func(ctx context.Context, c *cli.Call) error {
				o.c = c
				if err := o.check(); err != nil {
					return err
				}
				cfg, err := kafka(c)
				if err != nil {
					return err
				}
				b, err := dial(ctx, cfg)
				if err != nil {
					return err
				}
				defer b.Close()
				o.admin = kadm.NewClient(b.Client)
				switch verb, names := c.Args[0], c.Args[1:]; verb {
				case "create", "delete":
					return o.change(ctx, verb, names)
				case "describe":
					return o.describe(ctx, names)
				}
				return o.list(ctx)
			}
		},
	}
}

// command holds the settings of one call.
type command struct {
	json       bool
	partitions uint16
	config     cli.Pairs

	c     *cli.Call
	admin *kadm.Client
}

// check returns an error if the command line is invalid.
func (o *command) check() error {
	verb, names := o.c.Args[0], o.c.Args[1:]
	switch {
	case !slices.Contains(verbs, verb):
		return cli.Failf(cli.Usage, "topic has no %q%s", verb, spell.DidYouMean(verb, verbs))
	case verb == "list" && len(names) > 0:
		return cli.Failf(cli.Usage, "topic list takes no names: topic describe %s describes one", names[0])
	case verb != "list" && (len(names) == 0 || slices.Contains(names, "")):
		return cli.Failf(cli.Usage, "topic %s needs the name of a topic", verb)
	}
	for _, name := range []string{"json", "partitions", "topic-config"} {
		if own := verb == "create"; o.c.Origin(name).Source == cli.FromFlag && (verb == "delete" || own == (name == "json")) {
			return o.c.Bad(name, fmt.Errorf("topic %s has no such flag", verb))
		}
	}
	return nil
}

// dial connects to the first broker that answers.
func dial(ctx context.Context, cfg kafkaio.Config) (*reach.Broker, error) {
	var errs []error
	for _, addr := range cfg.Brokers {
		b, err := reach.Dial(ctx, reach.Config{Brokers: []string{addr}, ClientID: cfg.ClientID, TLS: cfg.TLS, SASL: cfg.SASL, Dial: cfg.Dial, Timeout: cfg.RequestTimeout})
		if err == nil || ctx.Err() != nil {
			return b, err
		}
		errs = append(errs, err)
	}
	return nil, cli.Fail(cli.Unavailable, errors.Join(errs...))
}

// failed returns the error of a request about a topic, in words where that helps.
func failed(verb, topic string, err error, detail string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		err = errors.New("it does not exist")
	case errors.Is(err, kerr.TopicAlreadyExists):
		err = errors.New("it exists already")
	case detail != "":
		err = fmt.Errorf("%w (%s)", err, cli.Printable(detail))
	}
	return cli.Fail(cli.Unavailable, fmt.Errorf("topic %s %s: %w", verb, cli.Printable(topic), err))
}

// change creates or deletes the topics one by one.
func (o *command) change(ctx context.Context, verb string, names []string) error {
	settings := map[string]*string{}
	for k, v := range o.config {
		settings[k] = &v
	}
	var errs []error
	for _, name := range names {
		var r kadm.CreateTopicResponse
		var err error
		if verb == "create" {
			r, err = o.admin.CreateTopic(ctx, cmp.Or(int32(o.partitions), -1), -1, settings, name)
		} else {
			_, err = o.admin.DeleteTopic(ctx, name)
		}
		if err != nil {
			errs = append(errs, failed(verb, name, err, r.ErrMessage))
		} else if !o.c.Quiet {
			fmt.Fprintf(o.c.Out, "%sd %s\n", verb, name)
		}
	}
	return errors.Join(errs...)
}

// topic is the output of list --json and describe --json for a topic.
type topic struct {
	Topic      string            `json:"topic"`
	Replicas   int               `json:"replicas"`
	Offsets    int64             `json:"offsets"` // to the ends; transactions and compaction leave some without a record
	Partitions []partition       `json:"partitions"`
	Config     map[string]string `json:"config,omitempty"` // settings that differ from the brokers'
}

type partition struct {
	Partition int32   `json:"partition"`
	Leader    int32   `json:"leader"` // -1: none
	Replicas  []int32 `json:"replicas"`
	InSync    []int32 `json:"in_sync"`
	First     int64   `json:"first"` // offsets; -1: not known
	End       int64   `json:"end"`
}

// read returns the topics named, or all that are not internal, by name.
func (o *command) read(ctx context.Context, verb string, names ...string) (list []topic, err error) {
	details, err := o.admin.ListTopics(ctx, names...)
	if err != nil {
		return nil, failed(verb, "", err, "")
	}
	first, _ := o.admin.ListStartOffsets(ctx, details.Names()...) // a broker that is down does not hide the others
	end, _ := o.admin.ListEndOffsets(ctx, details.Names()...)
	at := func(l kadm.ListedOffsets, p kadm.PartitionDetail) int64 {
		if o, ok := l.Lookup(p.Topic, p.Partition); ok && o.Err == nil {
			return o.Offset
		}
		return -1
	}
	list = []topic{} // prints as an array, even without any
	for _, d := range details.Sorted() {
		if d.Err != nil {
			err = errors.Join(err, failed(verb, d.Topic, d.Err, ""))
			continue
		}
		t := topic{Topic: d.Topic, Replicas: d.Partitions.NumReplicas(), Partitions: []partition{}}
		for _, p := range d.Partitions.Sorted() {
			from, to := at(first, p), at(end, p)
			t.Partitions = append(t.Partitions, partition{p.Partition, p.Leader, p.Replicas, p.ISR, from, to})
			if from >= 0 {
				t.Offsets += max(to, from) - from
			}
		}
		list = append(list, t)
	}
	return list, err
}

func (o *command) list(ctx context.Context) error {
	all, err := o.read(ctx, "list")
	return errors.Join(err, o.print(all, func(w io.Writer) {
		fmt.Fprintln(w, "topic\tpartitions\treplicas\toffsets")
		for _, t := range all {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", cli.Printable(t.Topic), len(t.Partitions), t.Replicas, t.Offsets)
		}
	}))
}

func (o *command) describe(ctx context.Context, names []string) error {
	all, err := o.read(ctx, "describe", names...)
	for i := range all {
		t := &all[i]
		t.Config = map[string]string{}
		settings, err2 := o.admin.DescribeTopicConfigs(ctx, t.Topic)
		r, _ := settings.On(t.Topic, nil)
		err = errors.Join(err, failed("describe", t.Topic, cmp.Or(err2, r.Err), r.ErrMessage))
		for _, s := range r.Configs {
			if s.Source == kmsg.ConfigSourceDynamicTopicConfig {
				t.Config[s.Key] = s.MaybeValue()
			}
		}
	}
	return errors.Join(err, o.print(all, func(w io.Writer) {
		for _, t := range all {
			fmt.Fprintf(w, "%s: %d offsets\n", t.Topic, t.Offsets)
			for _, k := range slices.Sorted(maps.Keys(t.Config)) {
				fmt.Fprintf(w, "%s=%s\n", k, cli.Printable(t.Config[k]))
			}
			fmt.Fprintln(w, "partition\tleader\treplicas\tin sync\tfirst\tend")
			for _, p := range t.Partitions {
				fmt.Fprintf(w, "%d\t%d\t%v\t%v\t%d\t%d\n", p.Partition, p.Leader, p.Replicas, p.InSync, p.First, p.End)
			}
		}
	}))
}

// print prints topics as JSON, or as the table that write writes.
func (o *command) print(all []topic, write func(w io.Writer)) error {
	if o.json {
		e := json.NewEncoder(o.c.Out)
		e.SetIndent("", "  ")
		return e.Encode(all)
	}
	w := tabwriter.NewWriter(o.c.Out, 0, 8, 2, ' ', 0)
	write(w)
	return w.Flush()
}
