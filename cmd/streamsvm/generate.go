//go:build !core

package main

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/time/rate"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/contrib/synth"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/contrib"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

func init() {
	contrib.Add(contrib.TryOut, func(contrib.Wiring) []*cli.Command { return []*cli.Command{generateCommand()} })
}

func generateCommand() *cli.Command {
	return &cli.Command{
		Name: "generate", Args: "[STREAM]", Words: streamNames(), Summary: "write a synthetic stream to standard output, a file or a topic",
		Text: `
Writes the examples of a synthetic stream. The same --seed gives the same
examples. Without a STREAM it lists the streams.`,
		Example: "streamsvm generate rbf --count 100000 --out rbf.libsvm.gz\n" +
			"streamsvm generate rbf --count 100000 --topic examples --partitions 4 --rate 5000",
		Common:  []string{"count", "skip", "seed", "set", "describe", "out", "codec", "brokers", "topic", "partitions", "rate", "config"},
		MaxArgs: 1,
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			g := &generate{set: cli.Pairs{}, topicFlags: topicFlags{kafkaFlags: &kafkaFlags{}}}
			f.Group("Stream", func() {
				f.Uint64Var(&g.count, "count", 10000, "number of examples; of generate, 0 never ends")
				f.Uint64Var(&g.skip, "skip", 0, "skip the first `N` examples of the stream")
				f.Uint64Var(&g.seed, "seed", 1, seedUsage)
				f.Var(g.set, "set", setUsage)
				f.BoolVar(&g.describe, "describe", false, "print the stream's definition and options")
			})
			f.Group("Output", func() {
				f.StringVar(&g.out, "out", "-", outUsage)
				f.Choice(&g.codec, "codec", "", codec.AllNames(), codecUsage)
			})
			g.topicFlags.define(f)
			f.Group("Output", func() { f.IntVar(&g.partitions, "partitions", 0, partitionsUsage) })
			g.kafkaFlags.define(f)
			return func(ctx context.Context, c *cli.Call) error {
				g.c = c
				return g.run(ctx)
			}
		},
	}
}

type generate struct {
	topicFlags
	count, skip, seed uint64
	set               cli.Pairs
	out, codec        string
	describe          bool
	c                 *cli.Call
}

func (g *generate) run(ctx context.Context) error {
	c := g.c
	if len(c.Args) == 0 {
		if err := alone(c, "a STREAM", "set", "describe", "out", "topic"); err != nil {
			return err
		}
		return listStreams(c.Out)
	}
	if g.describe {
		return describeStream(c.Out, c.Args[0])
	}
	gen, err := synth.New(c.Args[0], g.seed, g.set)
	if err != nil {
		if c.Given("set") {
			return c.Bad("set", err)
		}
		return cli.Fail(cli.Usage, err)
	}
	if err := g.check(c); err != nil {
		return err
	}
	if g.topic == "" {
		if err := alone(c, "--topic", "partitions"); err != nil {
			return err
		}
	} else if c.Given("out") {
		return c.Bad("out", errors.New("it cannot be combined with --topic"))
	}
	byName, _ := codec.ByFileName(g.out)
	name := cmp.Or(g.codec, unless(g.topic == "", defaultCodec), byName, "libsvm")
	task := algos.Classify
	if gen.Regress() {
		task = algos.Regress
	}
	if codec.Schematic(name) {
		return c.Bad("codec", fmt.Errorf("records of %s can only be read", name))
	}
	enc, err := codec.New(name, codec.Options{Task: string(task), CSV: codec.CSVOptions{LabelColumn: "last"}})
	if err != nil {
		return c.Bad("codec", err)
	}
	gen.Skip(g.skip)
	end := uint64(0)
	if g.count > 0 {
		end = g.skip + g.count
	}
	src := synth.NewSource(gen, enc, end)
	due := limiter(g.rate)
	prog := startProgress(c, "generating %s as %s: to %s", c.Args[0], name, cmp.Or(unless(g.topic == "", "topic "+g.topic+" at "+strings.Join(g.brokers, ",")), unless(g.out == "-", g.out), "standard output"))
	defer prog.stopped()
	prog.counts("records", g.count)
	if g.topic == "" {
		return g.write(ctx, prog, src, enc, due)
	}
	p, err := g.topicFlags.open(ctx, c, nil)
	if err != nil {
		return err
	}
	defer p.Close()
	err = pump(ctx, c, prog, src, p, g.topic, due)
	if g.count == 0 && ctx.Err() != nil {
		return nil
	}
	return err
}

// write writes the stream to a file or standard output.
func (g *generate) write(ctx context.Context, prog *progress, src stream.Source, enc codec.Codec, due *rate.Limiter) error {
	out, done := g.c.Out, func() error { return nil }
	if g.out != "-" {
		var err error
		if out, done, err = create(g.out); err != nil {
			return err
		}
	}
	put := func(value []byte) error {
		if enc.Name() != "msgpack" {
			value = append(value, '\n')
		}
		_, err := out.Write(value)
		return err
	}
	var err error
	if h := enc.Header(); h != nil && g.out != "-" {
		err = put(h)
	}
	if err == nil {
		err = paced(ctx, prog, src, due, func(recs []stream.Record) error {
			for i := range recs {
				if err := put(recs[i].Value); err != nil {
					return err
				}
			}
			return nil
		})
	}
	closed := done()
	if err != nil && ctx.Err() != nil {
		if g.count > 0 {
			return cli.Failf(cli.Temporary, "interrupted")
		}
		err = nil
	}
	if err = cmp.Or(err, closed); err == nil {
		say(g.c, "%d records", prog.records.Load())
	}
	return err
}

// create creates a file, compressed if its name ends in .gz or .zst. done ends it.
func create(path string) (out io.Writer, done func() error, err error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, nil, err
	}
	b := bufio.NewWriterSize(f, 64<<10)
	var z io.WriteCloser
	switch strings.ToLower(filepath.Ext(path)) {
	case ".gz":
		z = gzip.NewWriter(b)
	case ".zst":
		if z, err = zstd.NewWriter(b, zstd.WithEncoderConcurrency(1)); err != nil {
			return nil, nil, errors.Join(err, f.Close())
		}
	default:
		return b, func() error { return errors.Join(b.Flush(), f.Close()) }, nil
	}
	return z, func() error { return errors.Join(z.Close(), b.Flush(), f.Close()) }, nil
}

func listStreams(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, i := range synth.List() {
		fmt.Fprintf(tw, "%s\t%s\n", i.Name, i.Summary)
	}
	return tw.Flush()
}

func describeStream(w io.Writer, name string) error {
	var names []string
	for _, i := range synth.List() {
		names = append(names, i.Name)
		if i.Name != name {
			continue
		}
		fmt.Fprintf(w, "%s: %s\n%s\n\nOptions (--set name=value):\n\n", i.Name, i.Summary, i.Reference)
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(tw, "name\tdefault\tfrom\tto\tmeaning")
		for _, o := range i.Options {
			fmt.Fprintf(tw, "%s\t%v\t%v\t%v\t%s\n", o.Name, o.Default, o.Min, o.Max, o.Doc)
		}
		return tw.Flush()
	}
	return cli.Failf(cli.Usage, "no stream %q; there are %s", name, strings.Join(names, ", "))
}

// streamNames returns the names of the synthetic streams.
func streamNames() []string {
	var names []string
	for _, s := range synth.List() {
		names = append(names, s.Name)
	}
	return names
}
