package scale

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/contrib"
	"github.com/streamsvm/streamsvm/internal/app/describe"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
)

func sumCommand(w contrib.Wiring) *cli.Command {
	return &cli.Command{
		Name: "sum", Args: "[FILE...]", Summary: "add up what a least-squares model needs to know of records, and make it",
		Text: `
Reads files, recordings or standard input, and writes a sketch of them to standard
output. Without --model, the FILEs are sketches, which are added up. With --solve, it
writes the model of all their records instead. So any number of processes or machines
can each sum a part of the records.

--model is a model of the learner lssvm, trained on some of the records. Its
preprocessing, options, labels and random features are used; its coefficients only
with --set loss=hinge, where records outside its margin add nothing.
--tolerance data counts records that cannot be used. To sum a range of a topic,
save it with streamsvm copy first.

With --set loss=hinge, --solve is one step of Newton's method. Give the sketches of all
passes so far: it continues from the best one, and halves a step that did not go
down. It prints the objective and the duality gap, and "converged" when the gap is
less than a thousandth of the objective; the model is then that of the best pass.
streamsvm model promote publishes the model to a model topic that exists.`,
		Example: `
streamsvm replay sample.jsonl --learner lssvm --model plan.ssm
streamsvm sum --model plan.ssm monday.jsonl > monday.sketch
streamsvm sum --model plan.ssm < tuesday.jsonl > tuesday.sketch
streamsvm sum --solve monday.sketch tuesday.sketch > model.ssm
streamsvm model promote --model model.ssm --version 1 \
    --model-topic models --model-name clicks --alias champion`,
		Common: []string{"model", "solve", "tolerance", "codec"}, MaxArgs: -1,
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			var model, tolerance string
			var solves bool
			f.Group("Input", func() {
				f.StringVar(&model, "model", "", "`FILE` with a model of lssvm")
				f.Choice(&tolerance, "tolerance", "none", []string{"none", "data", "all"}, w.Tolerance)
			})
			f.Group("Output", func() {
				f.BoolVar(&solves, "solve", false, "write the model of all records, instead of a sketch")
			})
			open := w.Files(f)
			return func(ctx context.Context, c *cli.Call) error {
				var list []*sketch // one for each plan
				var err error
				switch {
				case model == "" && len(c.Args) == 0:
					return c.Bad("model", errors.New("no FILE is given, nor sketches to add up"))
				case model == "":
					list, err = mergeFiles(c.Args)
				default:
					var s *sketch
					s, err = sumFiles(ctx, c, open, model, tolerance != "none")
					list = []*sketch{s}
				}
				switch {
				case err != nil:
					return err
				case solves:
					return writeModel(c, list)
				case len(list) > 1:
					return cli.Fail(cli.Data, errOtherPlan)
				}
				return list[0].write(c)
			}
		},
	}
}

func sumFiles(ctx context.Context, c *cli.Call, open func(*cli.Call, *predictor.Version, []string) (stream.Source, contrib.Decode, error), model string, tolerate bool) (*sketch, error) {
	p, err := describe.ReadModel(model)
	if err != nil {
		return nil, err
	}
	payload, err := p.AppendBinary(nil)
	if err != nil {
		return nil, err
	}
	plan, err := newPlan(payload)
	if err != nil {
		return nil, c.Bad("model", err)
	}
	files := c.Args
	if len(files) == 0 {
		files = []string{"-"}
	}
	src, decode, err := open(c, &predictor.Version{Predictor: p}, files)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	s, err := newSummer(plan)
	if err != nil {
		return nil, err
	}
	var recs []stream.Record
	for {
		recs, err = src.Fetch(ctx, recs[:0])
		for i := range recs {
			if s.Sums().Full() {
				return nil, cli.Failf(cli.Data, "the sketch is full: split the records")
			}
			bad := s.add(ctx, decode, &recs[i])
			if bad != nil && !tolerate {
				return nil, cli.Fail(cli.Data, fmt.Errorf("%w; --tolerance data goes on", bad))
			}
			if bad != nil && s.of.dead == 1 {
				c.Log.Warn("records cannot be learned from", "first", bad)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return s.sketch(), nil
		case ctx.Err() != nil:
			return nil, cli.Failf(cli.Temporary, "interrupted")
		case err != nil:
			return nil, err
		}
	}
}

// A summer adds up examples.
type summer struct {
	*plan
	of        sketch // without its sums
	admission *engine.Engine
	arena     stream.Arena
	block     []*stream.Example
}

func newSummer(p *plan) (*summer, error) {
	e, err := p.admission()
	return &summer{plan: p, of: sketch{plan: p.id, classes: make([]uint64, max(p.env.Classes, 2))}, admission: e}, err
}

// add adds a record. The error says why it cannot be learned from.
func (s *summer) add(ctx context.Context, decode contrib.Decode, r *stream.Record) error {
	if r.Value == nil {
		s.of.tombstones++
		return nil
	}
	it := engine.Item{Partition: stream.Partition{Topic: r.Topic, ID: r.Partition}, Offset: r.Offset}
	err := decode(ctx, &s.arena, r, &it.Example)
	if err == nil {
		err = it.Weigh(r)
	}
	if err != nil {
		it.Err = stream.At(r, err)
	}
	s.admission.Admit(&it)
	switch {
	case it.Err != nil:
		s.of.dead++
		return it.Err
	case !it.Example.Labelled:
		s.of.unlabelled++
		return nil
	}
	x := it.Example
	k := int(x.Y)
	if len(s.of.classes) == 2 {
		k = (k + 1) / 2
	}
	s.of.classes[k]++
	x.X = s.pipe.Transform.Apply(x.X)
	if s.block = append(s.block, &x); len(s.block) == 64 {
		s.flush()
	}
	return nil
}

func (s *summer) flush() {
	s.Sum(s.block)
	clear(s.block)
	s.block = s.block[:0]
	s.arena.Reset()
}

// sketch returns the sums.
func (s *summer) sketch() *sketch {
	s.flush()
	s.of.sums, s.of.dim = s.Sums(), s.Dim()
	return &s.of
}
