package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/describe"
	"github.com/streamsvm/streamsvm/internal/atomicfile"
	"github.com/streamsvm/streamsvm/internal/plain"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

func modelCommand() *cli.Command {
	return &cli.Command{
		Name: "model", Args: "list|promote|rollback|delete|compare|follow|inspect|export|compact",
		Summary: "list, promote, delete, compare, follow, inspect, export and compact models",
		Text: `
Manages the versions of a model in --model-topic, and the aliases, such as
champion, that predict can follow instead of the newest version. compare, inspect,
export and compact also take files.

model list prints the versions that the topic still holds, and the aliases: names
for a version.

model promote points --alias to --version, by default the newest, or to the model
of a file. The topic then has a copy of it under the name MODEL@ALIAS, which
stays when the version itself is gone, and under MODEL@ALIAS-1 a copy of what the
alias pointed to before. Subscribers switch at once and are never without a
model. Of two promotions at the same time the later wins; with --expect nothing
is changed unless the alias points to that version, and the exit code is 75
otherwise. To pin a version, give it an alias of its own.

model rollback points the alias to what it pointed to before. A second rollback
undoes the first.

model delete deletes a model from the topic with all its aliases, or one --version,
which is the newest or one that an alias points to. Older ones go by compaction.
It refuses while an alias points to it or a trainer may be running, unless --yes
is given; that trainer then ends with exit code 79. Followers keep what they have.

model compare has two models, each a version, an alias or a file, predict the
labelled records of data files or recordings, and prints how good they are and a
95 % interval of the difference. In a recording of the topic that they learn
from, which streamsvm copy makes, it leaves out the records that one of the
versions has learned from.

model follow prints, and with --save stores, the newest model in the topic and
then every later one, after verifying its chunks, its checksum, and that it can be
decoded. While there is no model, it reports now and then what the topic holds
instead; after --topic-wait it exits with code 69. To start it before the trainer,
use --topic-wait -1s.

model inspect describes files, directories of checkpoints, state topics
kafka://TOPIC, and the model topic: what they are, whether hashes are right, and
whether deltas chain. It exits with code 65 if anything is damaged.

model export prints the model of a file, or the newest one of --model-topic
with all deltas applied, with its preprocessing and all numbers.
docs/formats/plain.md describes the format, and has a short reader in Python that
makes the same decisions. Nothing is changed: no topic is created, no offset
committed.` + exporterText() + `

model compact writes a smaller file for a model of two classes or a regression,
from a file or --model-topic, to --out. It proves for each model that no decision
changes by more than --max-change; ½ is half of the margin of a classifier.
In practice decisions change by a small part of that. It is for kernel
expansions, and takes a few seconds for thousands of support vectors. To publish
the file, promote it.`,
		Example: "streamsvm model list --model-topic models\n" +
			"streamsvm model promote --model-topic models --version 41 --reason 'better on fraud'\n" +
			"streamsvm model rollback --model-topic models\n" +
			"streamsvm model compare champion 41 today.ssr --model-topic models\n" +
			"streamsvm model follow --model-topic models --save ./models\n" +
			"streamsvm model inspect ./state model.ssm run.ssr\n" +
			"streamsvm model export --model-topic models --model-name clicks > clicks.json\n" +
			"streamsvm model compact model.ssm --max-change 0.5 --out small.ssm",
		Common: []string{"brokers", "model-topic", "model-name", "alias", "version", "model", "yes", "expect", "reason", "save", "until", "format", "out", "max-change", "json", "config"},
		Words:  slices.Sorted(maps.Keys(modelVerbs)), MinArgs: 1, MaxArgs: -1,
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			var o modelTopicFlags
			var form, out string
			var change float64
			f.Group("Output", func() {
				f.Float64Var(&change, "max-change", 0, "compact: decisions may change by at most `D`")
				f.Choice(&form, "format", formJSON, exportForms(), "form of the output")
				f.StringVar(&out, "out", "", outUsage)
			})
			o.define(f)
			v := &versions{modelTopicFlags: &o}
			v.define(f)
			follow := &subscribe{kafkaFlags: &o.kafkaFlags}
			follow.define(f)
			f.Group("Output", func() { f.BoolVar(&v.json, "json", false, jsonUsage) })
			return func(ctx context.Context, c *cli.Call) error {
				verb := c.Args[0]
				if err := checkVerb(c, verb); err != nil {
					return err
				}
				if max, ok := map[string]int{"diff": 3, "export": 2, "compact": 2}[verb]; ok && len(c.Args) > max {
					return cli.Failf(cli.Usage, "model %s takes at most %d arguments", verb, max-1)
				}
				switch verb {
				case "export", "compact":
				case "inspect":
					c.Args = c.Args[1:]
					return o.inspect(ctx, c, v.json)
				case "follow":
					if len(c.Args) > 1 {
						return cli.Failf(cli.Usage, "model follow takes no arguments")
					}
					follow.trustFlags, follow.topic, follow.name, follow.alias = o.trustFlags, o.topic, o.name, v.alias
					follow.json, follow.c = v.json, c
					return follow.run(ctx)
				default:
					c.Args = c.Args[1:]
					return v.run(ctx, c, verb)
				}
				if c.Given("alias") {
					if err := badAlias(c, v.alias); err != nil {
						return err
					}
					o.alias = v.alias
				}
				if verb == "compact" {
					return compact(ctx, c, &o, change, out)
				}
				c.Args = c.Args[1:]
				p, u, err := o.model(ctx, c, "model export")
				if err != nil {
					return err
				}
				return export(c, p, form, out, predictor.ExportOptions{Update: u})
			}
		},
	}
}

// formJSON is the form of an export that every build has.
const formJSON = "json"

// An exporter converts the JSON form of a model into another one.
type exporter struct {
	text    string // for the help of the command
	convert func(plain []byte, maxNumbers int) ([]byte, error)
	// check returns an error if models of events with the schema cannot be exported.
	check func(schema string) error
}

// exporters are the other forms of an export, by name. They come from packages in
// contrib.
var exporters = map[string]exporter{}

func exportForms() []string {
	return append([]string{formJSON}, slices.Sorted(maps.Keys(exporters))...)
}

func exporterText() (text string) {
	for _, name := range slices.Sorted(maps.Keys(exporters)) {
		text += "\n" + exporters[name].text
	}
	return text
}

// export writes a model to the file out, or to standard output if out is empty.
func export(c *cli.Call, p *predictor.Predictor, form, out string, o predictor.ExportOptions) error {
	var doc bytes.Buffer
	err := p.Export(&doc, o)
	data := doc.Bytes()
	if err == nil && form != formJSON {
		data, err = exporters[form].convert(data, predictor.MaxNumbers)
	}
	var limit *plain.LimitError
	switch {
	case errors.As(err, &limit):
		return cli.Fail(cli.Data, err)
	case err != nil:
		return err
	case out == "":
		_, err = c.Out.Write(data)
		return err
	}
	return atomicfile.Write(out, data)
}

// model returns the model in the file that c names, or the one in the topic with its
// update. what names the command in messages.
func (o *modelTopicFlags) model(ctx context.Context, c *cli.Call, what string) (*predictor.Predictor, *stream.Update, error) {
	fromTopic := o.wanted(c)
	switch {
	case fromTopic && len(c.Args) > 0:
		return nil, nil, cli.Failf(cli.Usage, "%s takes a file or --model-topic, not both", what)
	case len(c.Args) > 0:
		p, err := describe.ReadModel(c.Args[0])
		return p, nil, err
	case !fromTopic:
		return nil, nil, cli.Failf(cli.Usage, "%s wants a MODEL%s or --model-topic", what, ext)
	}
	prog := startProgress(c, "reading the models of topic %s at %s", o.topic, strings.Join(o.brokers, ","))
	defer prog.stopped()
	t, err := o.read(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	if o.name == "" { // ignore other aliases and names without a version
		t.Models = slices.DeleteFunc(t.Models, func(m modeltopic.Model) bool {
			_, alias := modeltopic.SplitName(m.Name)
			return alias != o.alias || len(m.Updates) == 0
		})
	}
	var names []string
	for _, m := range t.Models {
		names = append(names, m.Name)
	}
	if len(names) > 1 {
		return nil, nil, c.Bad("model-name", fmt.Errorf("topic %s holds %d models, choose one: %s", o.topic, len(names), strings.Join(names, ", ")))
	}
	if len(names) == 0 || t.Models[0].Newest == nil {
		return nil, nil, cli.Failf(cli.Data, "topic %s holds no model that can be used; streamsvm model inspect --model-topic shows what is wrong", o.topic)
	}
	u := t.Models[0].Newest
	p, err := predictor.Decode(u.Payload)
	if err != nil {
		return nil, nil, cli.Fail(cli.Data, fmt.Errorf("topic %s: model %s version %d: %w", o.topic, u.Model, u.Version, err))
	}
	return p, u, nil
}

// compact writes a smaller form of a model to the file out.
func compact(ctx context.Context, c *cli.Call, o *modelTopicFlags, change float64, out string) error {
	switch {
	case !(change > 0) || math.IsInf(change, 1):
		return c.Bad("max-change", errors.New("give the largest change of a decision to allow, such as 0.5"))
	case out == "":
		return c.Bad("out", errors.New("no FILE is given"))
	}
	c.Args = c.Args[1:]
	p, _, err := o.model(ctx, c, "model compact")
	if err != nil {
		return err
	}
	before, err := p.AppendBinary(nil)
	if err != nil {
		return err
	}
	prog := startProgress(c, "looking for a smaller model: %s", p.Info().Text)
	defer prog.stopped()
	q, bound, err := p.Compact(change)
	if err != nil {
		return cli.Fail(cli.Data, fmt.Errorf("%w: %s, %s", err, p.Learner(), p.Info().Text))
	}
	after, err := q.AppendBinary(nil)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(out, after); err != nil {
		return err
	}
	if !c.Quiet {
		_, err = fmt.Fprintf(c.Out, "%s: %d bytes, %d before; no decision changes by more than %.4g\n", out, len(after), len(before), bound)
	}
	return err
}
