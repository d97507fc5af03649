// Command l1 solves one linear SVM with the learner l1smooth and prints the times
// and the result, for bench/l1.py.
//
//	go run -C bench ./l1 [-times N] [-scale S] [-dump PREFIX] [-set k=v]... TRAIN TEST
//
// TRAIN and TEST are libsvm files, plain or gzip. All examples are added, and
// Finish solves the problem once. The time covers adding and solving, without
// reading. -dump writes the scaled rows to PREFIX.train and PREFIX.test instead of
// solving. -tail takes the last rows of TRAIN as the test set if there is only one
// file.
package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/l1smooth"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

type options map[string]string

func (o options) String() string { return fmt.Sprint(map[string]string(o)) }

func (o options) Set(s string) error {
	k, v, ok := strings.Cut(s, "=")
	if !ok {
		return errors.New("want k=v")
	}
	o[k] = v
	return nil
}

func main() {
	times := flag.Int("times", 1, "solutions, each timed")
	scale := flag.String("scale", "auto", "preprocessing")
	dump := flag.String("dump", "", "prefix of the files for the scaled rows")
	tail := flag.Int("tail", 0, "with one file: how many of its last rows are the test set")
	opts := options{"every": "100000000", "buffer": "100000000"}
	flag.Var(opts, "set", "option of the learner, k=v")
	flag.Parse()
	if err := run(flag.Args(), *times, *tail, *scale, *dump, opts); err != nil {
		fmt.Fprintln(os.Stderr, "l1:", err)
		os.Exit(1)
	}
}

func run(files []string, times, tail int, scale, dump string, opts options) error {
	var train, test []*stream.Example
	var err error
	if len(files) == 0 || len(files) > 2 {
		return errors.New("want a training file and perhaps a test file")
	}
	if train, err = read(files[0]); err != nil {
		return err
	}
	if len(files) == 2 {
		if test, err = read(files[1]); err != nil {
			return err
		}
	} else {
		cut := max(0, len(train)-tail)
		train, test = train[:cut], train[cut:]
	}
	t, err := prep.Fit(train, prep.Options{Scale: scale})
	if err != nil {
		return err
	}
	for _, xs := range [][]*stream.Example{train, test} {
		for _, x := range xs {
			x.X = t.Apply(x.X)
		}
	}
	if dump != "" {
		return errors.Join(write(dump+".train", train), write(dump+".test", test))
	}
	result, err := solve(train, times, opts)
	if err != nil {
		return err
	}
	right := 0
	for _, x := range test {
		if (result.model.Decision(x.X) >= 0) == (x.Y > 0) {
			right++
		}
	}
	out := map[string]any{
		"walls": result.walls, "cpus": result.cpus, "accuracy": float64(right) / float64(max(1, len(test))),
		"nonzero": result.model.Info().Nonzero, "objective": result.report.Objective, "examples": len(train),
	}
	if c := result.report.Certificate; !math.IsNaN(c) {
		out["certificate"] = c
	}
	for _, g := range result.report.Gauges {
		out[g.Name] = g.Value
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

type result struct {
	walls, cpus []float64 // seconds of each solution; CPU of all cores
	model       algos.Model
	report      algos.Report
}

func solve(train []*stream.Example, times int, opts options) (r result, err error) {
	for range times {
		l, err := l1smooth.Spec.New(algos.Env{Seed: 1}, opts)
		if err != nil {
			return r, err
		}
		start, used := time.Now(), cpu()
		for _, x := range train {
			if _, err := l.Add(x); err != nil {
				return r, err
			}
		}
		if r.report, err = l.Finish(context.Background()); err != nil {
			return r, err
		}
		r.walls, r.cpus = append(r.walls, time.Since(start).Seconds()), append(r.cpus, cpu()-used)
		r.model = l.Model()
	}
	return r, nil
}

// cpu returns the processor time used so far, in seconds.
func cpu() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return math.NaN()
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

func read(name string) ([]*stream.Example, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			return nil, err
		}
	}
	c, err := codec.New("libsvm", codec.Options{})
	if err != nil {
		return nil, err
	}
	var out []*stream.Example
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		x := &stream.Example{Seq: uint64(len(out) + 1)}
		if err := c.Decode(append([]byte(nil), lines.Bytes()...), x); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", name, len(out)+1, err)
		}
		out = append(out, x)
	}
	return out, lines.Err()
}

func write(name string, xs []*stream.Example) error {
	c, err := codec.New("libsvm", codec.Options{})
	if err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	for _, x := range xs {
		line, err := c.Append(nil, x)
		if err != nil {
			return errors.Join(err, f.Close())
		}
		w.Write(append(line, '\n'))
	}
	return errors.Join(w.Flush(), f.Close())
}
