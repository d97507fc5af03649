// Command live measures the model that a consumer serves while its stream goes
// on. If the stream has no end, it never serves any other model:
//
//	go run -C bench ./live "sea block=0"
//	go run -C bench ./live -passes 0 -shuffle 1 -limit 500000 -test a9a.test.libsvm.gz a9a.train.libsvm.gz
//	go run -C bench ./live -learner scs -set full=window -set max_sample=4096 -csv steps.csv elec2.libsvm.gz
//
// The stream is one or more data files, or a generator of streamsvm generate
// with its options. A learner processes it in the engine of streamsvm replay, with
// the same defaults. Each example is scored by the current model and then learned
// from. A warm-up for scaling and tuning comes first; its examples are not scored.
// Finish is not called before the end.
//
// For each block of examples a line has
//
//	accuracy, hinge  of the live models, over the scored examples of the block
//	seconds          processor time of all threads, without the measuring itself
//	steps, longest   steps of the learner, and processor seconds of the longest one
//	sample, support  stored examples and support vectors, at the end of the block
//	model            bytes of the encoded model with its preprocessing, at the end
//	heap             MiB in use after a collection, at the end, minus the use at the start of the stream
//	certificate      the largest of the models in the block
//	of bound         the largest ratio of a certificate to the gauge gap_bound, if the learner has one
//
// With -test the live model is scored on a file, then Finish is called, and the
// finished model is scored on the same file.
//
// With -check the exit status is 1 if the accuracy of a block is below an earlier
// one by more than four standard deviations of their difference, or if a certificate
// exceeds its bound.
//
// -csv writes a line for each step, -predictions a line for each scored example,
// -scaled the preprocessed examples in the order of learning, and -json the blocks
// and the chosen options.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/internal/prep"
)

// config has the values of the flags.
type config struct {
	input
	engine engine.Config
	block  int
	finish bool
	check  bool

	test, csv, predictions, scaled, testScaled, json string
}

// pairs is a flag option=value that may be given several times.
type pairs map[string]string

func (p pairs) String() string { return "" }

func (p pairs) Set(s string) error {
	name, value, ok := strings.Cut(s, "=")
	if !ok {
		return fmt.Errorf("%q is not option=value", s)
	}
	p[name] = value
	return nil
}

func main() {
	c := config{}
	set := pairs{}
	e := &c.engine
	learner := flag.String("learner", "scs", "`name` of the learner")
	flag.StringVar(&e.Preset, "preset", "default", "`name` of the learner's preset")
	flag.Var(set, "set", "`option=value` of the learner; repeat for several")
	tune := flag.String("tune", "auto", "choose the options that are not set on the first examples: auto, on, off")
	task := flag.String("task", "", "classify or regress; by default what the learner does first")
	flag.Uint64Var(&e.Seed, "seed", 1, "seed of all randomness of the learner")
	flag.StringVar(&e.Scale, "scale", prep.Auto, "scaling of features, one of "+strings.Join(prep.Scales(), ", "))
	flag.IntVar(&e.Span, "scale-span", prep.DefaultSpan, "about how many examples the means of -scale running go back")
	flag.IntVar(&e.HashDim, "hash-dim", 0, "hash features into so many; 0 does not")
	flag.IntVar(&e.Warmup, "warmup", 0, "examples that scaling and tuning look at; 0 chooses it")
	flag.Uint64Var(&c.limit, "limit", 0, "end the stream after so many examples; 0 at its end, that of a generator after 500000")
	flag.IntVar(&c.passes, "passes", 1, "how often to go through the files; 0 as often as -limit needs")
	flag.Uint64Var(&c.shuffle, "shuffle", 0, "put the records of pass p, from 0, into the random order of this `seed` + p; 0 keeps their order")
	flag.Uint64Var(&c.seed, "stream-seed", 1, "seed of a generator")
	flag.IntVar(&c.block, "block", 50000, "examples in a block")
	flag.StringVar(&c.test, "test", "", "data `file` to score the model on at the end, before and after Finish")
	flag.BoolVar(&c.finish, "finish", true, "with -test, call Finish and score again")
	flag.BoolVar(&c.check, "check", false, "exit with status 1 where a block is worse than an earlier one, or a certificate above its bound")
	flag.StringVar(&c.csv, "csv", "", "write a line for each step to `file`")
	flag.StringVar(&c.predictions, "predictions", "", "write number, label and decision of each example scored to `file`")
	flag.StringVar(&c.scaled, "scaled", "", "write the examples as the learner gets them to `file`, libsvm")
	flag.StringVar(&c.testScaled, "test-scaled", "", "write those of -test, with the same preprocessing, to `file`, libsvm")
	flag.StringVar(&c.json, "json", "", "write the result to `file`")
	flag.Parse()
	c.args = flag.Args()
	e.Options, e.Task = set, algos.Task(*task)
	e.Tune = *tune == "on" || *tune == "auto" && e.Preset != "paper"
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ok, err := false, c.valid(*tune)
	if err == nil {
		if e.Spec, err = registry.Lookup(*learner); err == nil {
			if e.Task == "" {
				e.Task = e.Spec.Tasks[0]
			}
			ok, err = c.run(ctx, os.Stdout)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "live:", err)
		os.Exit(2)
	}
	if !ok && c.check {
		os.Exit(1)
	}
}

func (c *config) valid(tune string) error {
	switch {
	case len(c.args) == 0:
		return errors.New("no file and no generator; see -help")
	case c.block < 1:
		return errors.New("-block must be at least 1")
	case c.passes < 0 || c.passes == 0 && c.limit == 0:
		return errors.New("-passes must be at least 1, or 0 with a -limit")
	case c.testScaled != "" && c.test == "":
		return errors.New("-test-scaled needs -test")
	case tune != "auto" && tune != "on" && tune != "off":
		return fmt.Errorf("-tune is %q, not auto, on or off", tune)
	}
	return nil
}
