package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"strings"
	"text/tabwriter"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/events"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/spell"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/fileio"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/trainer"
)

// schemaVerbs are the verbs of the command schema.
var schemaVerbs = []string{"infer", "check", "show"}

// schema holds the settings of one call of the command schema.
type schema struct {
	codecFlags
	join   joinFlags
	topics []string
	task   string
	limit  int
	model  modelTopicFlags
	c      *cli.Call
}

func schemaCommand() *cli.Command {
	return &cli.Command{
		Name: "schema", Args: "infer | check | show [FILE...]", Words: schemaVerbs, MinArgs: 1, MaxArgs: -1,
		Summary: "infer, check or show how the fields of events become features",
		Text: `
schema infer reads the first records and prints what train would take their
fields for, as YAML. schema check reads records and lists missing, unknown and
invalid fields. schema show prints the features of a model.

The YAML of schema infer goes into a file for --events, or into the section
events of a configuration. schema check uses the given schema or infers one. For
each field it prints what is missing, unknown, invalid or out of range, and it
prints the first record of each kind that cannot be used. Both read FILEs or
--topics. schema show reads a model FILE or --model-topic.

Nothing is written to Kafka, and no offset is committed.`,
		Example: "streamsvm schema infer --topics transactions --label is_fraud > events.yaml\n" +
			"streamsvm schema check --topics transactions --events events.yaml\n" +
			"streamsvm schema show --model-topic models",
		Common: []string{"brokers", "topics", "codec", "label", "events", "task", "limit", "model-topic", "model-name", "config"},
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			s := &schema{}
			f.Group("Input", func() {
				f.StringSliceVar(&s.topics, "topics", nil, topicsUsage)
				f.IntVar(&s.limit, "limit", 10000, limitUsage)
				f.Choice(&s.task, "task", string(algos.Classify), []string{string(algos.Classify), string(algos.Regress)}, taskUsage)
			})
			s.codecFlags.define(f)
			s.codecFlags.defineEvents(f)
			s.join.define(f)
			s.model.define(f)
			return func(ctx context.Context, c *cli.Call) error {
				s.c = c
				verb := c.Args[0]
				c.Args = c.Args[1:]
				switch verb {
				case "infer":
					return s.infer(ctx)
				case "check":
					return s.check(ctx)
				case "show":
					return s.show(ctx)
				}
				return cli.Failf(cli.Usage, "schema has no %q%s", verb, spell.DidYouMean(verb, schemaVerbs))
			}
		},
	}
}

// open opens the records, of FILEs or topics, from the beginning to the current end.
func (s *schema) open(ctx context.Context, topics []string) (stream.Source, error) {
	if len(topics) == 0 {
		if len(s.c.Args) == 0 {
			return nil, cli.Failf(cli.Usage, "schema wants a FILE or --topics")
		}
		src, err := fileio.Open(s.c.Args, s.fileOptions())
		if err != nil {
			return nil, cli.Fail(cli.Usage, err)
		}
		return src, nil
	}
	if len(s.c.Args) > 0 {
		return nil, cli.Failf(cli.Usage, "schema takes FILEs or --topics, not both")
	}
	cfg, err := s.model.kafkaFlags.config(s.c)
	if err != nil {
		return nil, err
	}
	return kafkaio.NewSource(ctx, kafkaio.SourceOptions{Config: cfg, Topics: topics, Start: kafkaio.StartEarliest, UntilEnd: true})
}

// discover infers the format of the records.
func (s *schema) discover(ctx context.Context) (codec.Codec, codec.Options, *events.Schema, error) {
	cfg, err := s.model.kafkaFlags.config(s.c)
	if err == nil {
		err = s.connect(s.c, cfg.TLS, nil)
	}
	if err != nil {
		return nil, codec.Options{}, nil, err
	}
	name, opts, err := s.resolve(s.c, algos.Task(s.task), s.c.Args...)
	if err != nil {
		return nil, opts, nil, err
	}
	join, err := s.join.config(s.c)
	if err != nil {
		return nil, opts, nil, err
	}
	// Labels that come later are not in the records.
	opts.Unlabelled = opts.Labels != codec.Auto || s.task == string(algos.Regress) && opts.Label == ""
	join.Codec(&opts)
	d, err := codec.NewDiscovery(name, opts)
	if err != nil {
		return nil, opts, nil, s.c.Bad("events", err)
	}
	topics := s.topics
	if join.Topic != "" && len(topics) > 0 {
		topics = append(slices.Clone(topics), join.Topic)
	}
	src, err := s.open(ctx, topics)
	if err != nil {
		return nil, opts, nil, kafkaError(err)
	}
	defer src.Close()
	recs, o, err := trainer.Discover(ctx, src, d, join.Topic)
	switch {
	case err != nil:
		return nil, o, nil, cli.Fail(cli.Data, err)
	case len(recs) == 0:
		return nil, o, nil, cli.Failf(cli.Data, "there are no records to infer the fields from")
	}
	c, err := d.Codec(o)
	return c, o, d.Schema(), err
}

func (s *schema) infer(ctx context.Context) error {
	_, o, schema, err := s.discover(ctx)
	if err != nil {
		return err
	}
	if schema == nil {
		fmt.Fprintf(s.c.Out, "# The records are vectors. Labels: %s.\nevents: vectors\n", o.Labels)
		return nil
	}
	text, err := schema.Spec()
	if err != nil {
		return err
	}
	if o.Labels != "" {
		fmt.Fprintf(s.c.Out, "# labels: %s\n", o.Labels)
	}
	fmt.Fprintf(s.c.Out, "# %d features\n%s", schema.Dim(), text)
	return nil
}

// check reads records, and prints statistics of their fields and what cannot be used.
func (s *schema) check(ctx context.Context) error {
	c, _, _, err := s.discover(ctx)
	if err != nil {
		return err
	}
	src, err := s.open(ctx, s.topics)
	if err != nil {
		return kafkaError(err)
	}
	defer src.Close()
	type kind struct {
		stage  stream.Stage
		reason stream.Reason
		field  string
	}
	refused, first := map[kind]int{}, map[kind]error{}
	var kinds []kind
	n, bad := 0, 0
	var recs []stream.Record
	for n < s.limit {
		if recs, err = src.Fetch(ctx, recs[:0]); errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return kafkaError(err)
		}
		for i := range recs[:min(len(recs), s.limit-n)] {
			n++
			var ex stream.Example
			if err := stream.DecodeRecord(ctx, c, nil, &recs[i], &ex); err != nil {
				bad++
				at := stream.At(&recs[i], err)
				k := kind{at.Stage, at.Reason, at.Field}
				if refused[k]++; refused[k] == 1 {
					kinds = append(kinds, k)
					first[k] = at
				}
			}
		}
	}
	fields, events, unlisted := codec.FieldCounts(c)
	w := tabwriter.NewWriter(s.c.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	if fields != nil {
		fmt.Fprintln(w, "field\ttype\tmissing\tunknown\tinvalid\tout of range\tPSI\t")
	}
	for _, f := range fields {
		share := func(n uint64) string {
			if n == 0 {
				return "-"
			}
			return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(events, 1)))
		}
		psi := "-"
		if !math.IsNaN(f.PSI) {
			psi = fmt.Sprintf("%.3f", f.PSI)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", f.Name, f.Type, share(f.Missing), share(f.Unknown), share(f.Invalid), share(f.Outside), psi)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(s.c.Out, "%d records, %d refused\n", n, bad)
	if unlisted > 0 {
		fmt.Fprintf(s.c.Out, "%d values of fields that are not listed\n", unlisted)
	}
	sort.SliceStable(kinds, func(i, j int) bool { return refused[kinds[i]] > refused[kinds[j]] })
	for _, k := range kinds[:min(len(kinds), 10)] {
		fmt.Fprintf(s.c.Out, "%d × %s\n", refused[k], first[k])
	}
	if bad > 0 {
		return cli.Failf(cli.Findings, "%d of %d records cannot be used", bad, n)
	}
	return nil
}

// show prints the features of a model.
func (s *schema) show(ctx context.Context) error {
	p, _, err := s.model.model(ctx, s.c, "schema show")
	if err != nil {
		return err
	}
	sig := p.Signature()
	if sig.Schema == "" {
		fmt.Fprintf(s.c.Out, "the model takes vectors of %d features\n", sig.Length())
		return nil
	}
	schema, err := events.Parse(sig.Schema)
	if err != nil {
		return err
	}
	text, err := schema.Spec()
	if err != nil {
		return err
	}
	names := schema.Features()
	fmt.Fprintf(s.c.Out, "# labels: %s\n%s# %d features: %s\n", sig.Labels, text, len(names), strings.Join(names[:min(len(names), 200)], ", "))
	return nil
}
