package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/fileio"
)

// replay holds the settings of one call of the command replay.
type replay struct {
	learnFlags
	codecFlags
	files, test                     []string
	passes, labelled                int
	limit, shuffle, checkpointEvery uint64
	holdout                         float64
	json, report, checkpoint, model string
	tolerance                       string

	c    *cli.Call
	cfg  engine.Config
	dec  codec.Codec
	recs []stream.Record // in memory, if they are shuffled or split
	held []stream.Record // the part of recs that is held out
}

func replayCommand() *cli.Command {
	return &cli.Command{
		Name: "replay", Args: "FILE...", Summary: "learn from recordings or data files, each example tested first, without a broker",
		Text: `
Files are libsvm, json, csv or msgpack, plain, .gz or .zst, or recordings
(.ssr); - is standard input. The prequential measures come from asking the model
about every example before it learns from it. Further passes see examples that
they know, so that with --passes only --test and --holdout tell the truth.`,
		Example: "streamsvm replay ijcnn1.train.libsvm.gz --test ijcnn1.test.libsvm.gz --model ijcnn1.ssm",
		Common:  []string{"codec", "learner", "set", "test", "model", "json"},
		MinArgs: 1, MaxArgs: -1,
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			r := &replay{}
			r.codecFlags.define(f, "format of the files, by default what their names say")
			f.Group("Input", func() {
				f.StringArrayVar(&r.test, "test", nil, "data `FILE` to score the final model on")
				f.IntVar(&r.passes, "passes", 1, "how often to go through the files")
				f.Uint64Var(&r.limit, "limit", 0, "use only the first `N` records; 0 uses all")
				f.IntVar(&r.labelled, "labelled", -1, "keep `N` labels, chosen by the seed, and hide the others; -1 keeps all")
				f.Uint64Var(&r.shuffle, "shuffle", 0, "put the records into a random order given by this `SEED`; 0 keeps theirs")
				f.Float64Var(&r.holdout, "holdout", 0, "keep this `FRACTION` of the records, the last ones after shuffling, for a test")
				f.Choice(&r.tolerance, "tolerance", "none", []string{"none", "data", "all"}, "records that cannot be used: stop at the first one, or go on")
			})
			r.learnFlags.define(f)
			f.Group("Output", func() {
				f.StringVar(&r.json, "json", "", "write the result as JSON to `FILE`; - prints only JSON on standard output")
				f.StringVar(&r.report, "report", "", "write a page with plots to `DIR`")
				f.StringVar(&r.model, "model", "", "write the final model to `FILE`")
				f.StringVar(&r.checkpoint, "checkpoint", "", "keep checkpoints in `DIR`, and go on from the newest one there")
				f.Uint64Var(&r.checkpointEvery, "checkpoint-every", 0, "records between checkpoints; 0 writes one at the end")
			})
			return func(ctx context.Context, c *cli.Call) error {
				r.c, r.files = c, c.Args
				return r.run(ctx)
			}
		},
	}
}

func (r *replay) run(ctx context.Context) error {
	if err := r.prepare(ctx); err != nil {
		return err
	}
	e, err := engine.NewEngine(r.cfg)
	if err != nil {
		return cli.Fail(cli.Usage, err)
	}
	obs := newProgress(r.c)
	rc := engine.RunConfig{
		Decoder: r.dec, Tolerance: engine.Tolerance(r.tolerance), CheckpointEvery: r.checkpointEvery,
		Observer: obs, Log: r.c.Log,
	}
	if rc.Labels, err = r.learnFlags.join.decoder(r.c, &r.codecFlags, r.cfg.Task); err != nil {
		return err
	}
	var start stream.Offsets
	if r.checkpoint != "" {
		store, snap, err := openStore(ctx, r.c, r.checkpoint, 0)
		if err != nil {
			return err
		}
		if snap != nil {
			if err := e.Restore(snap); err != nil {
				return cli.Fail(cli.Config, err)
			}
			start = snap.Header.Offsets
			if snap.Header.Examples > 0 {
				obs.resume(e)
			}
			r.c.Log.Info("going on from a checkpoint", "examples", snap.Header.Examples, "state_hash", hash(snap.Header.StateHash))
		}
		rc.Store = store
	}
	src, err := r.open(start, r.passes)
	if err != nil {
		return err
	}
	defer src.Close()
	rc.Source = &source{Source: src}
	began := time.Now()
	if !e.Finished() || more(ctx, rc.Source.(*source)) {
		res, err := engine.Run(ctx, e, rc)
		if err != nil {
			return err
		}
		if !res.Ended {
			return cli.Failf(cli.Temporary, "interrupted after %d records", e.Counts().Consumed)
		}
	}
	took := time.Since(began)
	obs.done(e)
	return r.finish(ctx, e, took)
}

// prepare reads what has to be known beforehand.
func (r *replay) prepare(ctx context.Context) error {
	c := r.c
	var err error
	if r.cfg, err = r.learnFlags.config(c); err != nil {
		return err
	}
	if r.dec, err = r.codecFlags.open(c, r.cfg.Task, r.files...); err != nil {
		return err
	}
	switch {
	case r.passes < 1:
		return c.Bad("passes", fmt.Errorf("%d passes, want at least 1", r.passes))
	case r.holdout < 0 || r.holdout >= 1:
		return c.Bad("holdout", fmt.Errorf("%v is not in [0,1)", r.holdout))
	case r.holdout > 0 && len(r.test) > 0:
		return c.Bad("holdout", errors.New("it cannot be combined with --test"))
	case r.labelled < -1:
		return c.Bad("labelled", fmt.Errorf("%d labels", r.labelled))
	case r.cfg.Join.Topic != "" && (r.labelled >= 0 || r.shuffle != 0 || r.holdout > 0 || r.passes > 1):
		return c.Bad("join", errors.New("it cannot be combined with --labelled, --shuffle, --holdout or --passes"))
	}
	if r.shuffle != 0 || r.holdout > 0 {
		src, err := r.openFiles(r.files, nil, 1)
		if err != nil {
			return err
		}
		defer src.Close()
		if r.recs, err = readAll(ctx, src); err != nil {
			return err
		}
		if r.shuffle != 0 {
			shuffle(r.recs, r.shuffle)
		}
		n := len(r.recs) - int(float64(len(r.recs))*r.holdout+0.5)
		r.recs, r.held = r.recs[:n:n], r.recs[n:]
	}
	if r.labelled >= 0 {
		if r.cfg.Labels, err = r.mask(ctx); err != nil {
			return err
		}
		if r.cfg.Labels == nil {
			return nil
		}
		r.cfg.Kept = fmt.Sprintf("%d, limit %d, shuffle %d", r.labelled, r.limit, r.shuffle)
	}
	return nil
}

// mask chooses the labels to keep.
func (r *replay) mask(ctx context.Context) (func(uint64) bool, error) {
	probe, err := engine.NewEngine(r.cfg)
	if err != nil {
		return nil, cli.Fail(cli.Usage, err)
	}
	src, err := r.open(nil, 1)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	mask, err := labelMask(ctx, src, func(rec *stream.Record) *engine.Item {
		it := &engine.Item{Partition: stream.Partition{Topic: rec.Topic, ID: rec.Partition}, Offset: rec.Offset}
		if err := r.dec.Decode(rec.Value, &it.Example); err != nil {
			it.Err = stream.At(rec, err)
		}
		probe.Admit(it)
		return it
	}, r.labelled, r.seed)
	if err != nil {
		return nil, r.c.Bad("labelled", err)
	}
	return mask, nil
}

// open returns the stream from the given offsets on.
func (r *replay) open(start stream.Offsets, passes int) (stream.Source, error) {
	if r.shuffle == 0 && r.holdout == 0 {
		return r.openFiles(r.files, start, passes)
	}
	var names []string
	for _, f := range r.files {
		names = append(names, filepath.Base(f))
	}
	return newMemory(r.recs, strings.Join(names, "+"), passes, start), nil
}

func (r *replay) openFiles(files []string, start stream.Offsets, passes int) (stream.Source, error) {
	o := r.fileOptions()
	o.Start, o.Limit, o.Passes = start, r.limit, passes
	src, err := fileio.Open(files, o)
	if err != nil {
		return nil, cli.Fail(cli.Usage, err)
	}
	return src, nil
}

// source is a source whose first records have been looked at.
type source struct {
	stream.Source
	ahead []stream.Record
	err   error
}

// more reports whether there is anything to read.
func more(ctx context.Context, s *source) bool {
	s.ahead, s.err = s.Source.Fetch(ctx, nil)
	return !errors.Is(s.err, io.EOF)
}

func (s *source) Fetch(ctx context.Context, dst []stream.Record) ([]stream.Record, error) {
	if len(s.ahead) > 0 {
		dst, s.ahead = append(dst, s.ahead...), nil
		return dst, nil
	}
	if s.err != nil {
		return dst, s.err
	}
	return s.Source.Fetch(ctx, dst)
}

// Commit implements stream.Committer as far as the source does.
func (s *source) Commit(ctx context.Context, o stream.Offsets) error {
	if c, ok := s.Source.(stream.Committer); ok {
		return c.Commit(ctx, o)
	}
	return errors.ErrUnsupported
}

// openStore claims the checkpoint directory and loads what is newest there.
func openStore(ctx context.Context, c *cli.Call, dir string, retain int) (*checkpoint.Store, *checkpoint.Snapshot, error) {
	store, err := checkpoint.Open(dir, checkpoint.Options{Retain: retain, Log: c.Log})
	if err != nil {
		return nil, nil, err
	}
	if _, err := store.Claim(ctx); err != nil {
		return nil, nil, err
	}
	snap, err := store.Load()
	return store, snap, err
}

// finish tests the model and writes the results.
func (r *replay) finish(ctx context.Context, e *engine.Engine, took time.Duration) error {
	p := e.Predictor()
	var test *eval.Test
	if len(r.test) > 0 || r.holdout > 0 {
		src := stream.Source(newMemory(r.held, "holdout", 1, nil))
		dec := r.dec
		if len(r.test) > 0 {
			o := r.fileOptions()
			fs, err := fileio.Open(r.test, o)
			if err != nil {
				return cli.Fail(cli.Usage, err)
			}
			src = fs
			if dec, err = r.codecFlags.open(r.c, r.cfg.Task, r.test...); err != nil {
				return err
			}
		}
		defer src.Close()
		var err error
		if test, err = score(ctx, p, src, dec); err != nil {
			return fmt.Errorf("test: %w", err)
		}
	}
	if r.model != "" {
		if err := writeModel(r.model, p); err != nil {
			return err
		}
	}
	res, err := newResult(e, r.cfg, took, test)
	if err != nil {
		return err
	}
	if r.report != "" {
		if err := writeReport(r.report, e, res); err != nil {
			return err
		}
	}
	if r.json != "" {
		if err := res.write(r.json, r.c.Out); err != nil {
			return err
		}
	}
	if r.json != "-" {
		res.print(r.c.Out)
		printJoin(r.c.Out, e.Join())
	}
	return nil
}

// writeModel puts an encoded model into a file, in one step.
func writeModel(path string, p *predictor.Predictor) error {
	data, err := p.AppendBinary(nil)
	if err != nil {
		return err
	}
	return writeFile(path, data)
}

// writeFile writes a file so that its name never stands for half of it.
func writeFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it has been renamed
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
