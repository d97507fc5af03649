package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/inspect"
	"github.com/streamsvm/streamsvm/internal/plain"
	"github.com/streamsvm/streamsvm/internal/spell"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
)

// modelVerbs are what the command model can do.
var modelVerbs = []string{"export"}

func modelCommand() *cli.Command {
	return &cli.Command{
		Name: "model", Args: "export [MODEL" + ext + "]", Summary: "write a model as plain JSON that any language can read",
		Text: `
model export prints the model of a file, or the newest one of --model-topic
with all deltas applied, with its preprocessing and all numbers written out. The
form, and a short reader in Python that takes the same decisions, are in
docs/formats/plain.md. Nothing is changed: no topic is made, no offset committed.`,
		Example: "streamsvm model export model.ssm > model.json\n" +
			"streamsvm model export --model-topic models --model-name clicks > clicks.json",
		Words: modelVerbs, MinArgs: 1, MaxArgs: 2,
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			var o modelTopicFlags
			var numbers int
			f.Group("Output", func() {
				f.IntVar(&numbers, "max-numbers", predictor.MaxNumbers, "refuse models with more than `N` numbers, of about 12 bytes each in the output")
			})
			o.define(f, "`NAME` of the model to export; may be left out if the topic holds only one")
			return func(ctx context.Context, c *cli.Call) error {
				verb := c.Args[0]
				if verb != "export" {
					return cli.Failf(cli.Usage, "model has no %q%s", verb, spell.DidYouMean(verb, modelVerbs))
				}
				if numbers < 1 {
					return c.Bad("max-numbers", fmt.Errorf("%d is not positive", numbers))
				}
				c.Args = c.Args[1:]
				p, u, err := o.model(ctx, c)
				if err != nil {
					return err
				}
				w := bufio.NewWriter(c.Out)
				err = p.Export(w, predictor.ExportOptions{Update: u, MaxNumbers: numbers})
				var limit *plain.LimitError
				if errors.As(err, &limit) {
					return c.Bad("max-numbers", err)
				}
				if err != nil {
					return err
				}
				return w.Flush()
			}
		},
	}
}

// model returns the model of the file that c names, or that of the topic with
// the update that it is.
func (o *modelTopicFlags) model(ctx context.Context, c *cli.Call) (*predictor.Predictor, *stream.Update, error) {
	fromTopic := o.wanted(c)
	switch {
	case fromTopic && len(c.Args) > 0:
		return nil, nil, cli.Failf(cli.Usage, "model export takes a file or --model-topic, not both")
	case len(c.Args) > 0:
		p, err := inspect.ReadModel(c.Args[0])
		return p, nil, err
	case !fromTopic:
		return nil, nil, cli.Failf(cli.Usage, "model export wants a MODEL%s or --model-topic", ext)
	}
	t, err := o.read(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	var names []string
	for _, m := range t.Models {
		names = append(names, m.Name)
	}
	if len(names) > 1 {
		return nil, nil, c.Bad("model-name", fmt.Errorf("topic %s holds %d models, choose one: %s", o.topic, len(names), strings.Join(names, ", ")))
	}
	if len(names) == 0 || t.Models[0].Newest == nil {
		return nil, nil, cli.Failf(cli.Data, "topic %s holds no model that can be used; streamsvm inspect --model-topic says more", o.topic)
	}
	u := t.Models[0].Newest
	p, err := predictor.Decode(u.Payload)
	if err != nil {
		return nil, nil, cli.Fail(cli.Data, fmt.Errorf("topic %s: model %s version %d: %w", o.topic, u.Model, u.Version, err))
	}
	return p, u, nil
}
