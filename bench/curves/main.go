// Command curves runs several learners on one data set and writes their test
// error against kernel evaluations and against processor seconds.
//
//	go run -C bench ./curves -data a9a.train.libsvm.gz -test a9a.test.libsvm.gz \
//	    -set gamma=0.05 -set c=1 -epochs 1 -runs 10 -out DIR \
//	    -learner "SBP: sbp intercept=false nu=0.011" -learner pegasos -learner sdca \
//	    -libsvm "-g 0.05 -c 1"
//
// A learner is a name of the registry, followed by options and preceded, if it
// is to be called something else, by a label and a colon. Options of -set go to
// every learner that has them; a buffer that is not given holds all examples. A
// learner with a method Refine is given all examples at once, as the papers on
// batch methods have it, and then iterates; the others
// see the file again and again, shuffled anew. One epoch is as many iterations,
// or examples, as the file has. Runs differ in their seeds and in the order of
// the examples.
//
// -holdout F sets a share of the training file aside and tests on it instead,
// which is how options are to be chosen.
//
// A long experiment can be made in parts: -add takes the measurements of an
// earlier run in.
//
// Seconds are those of the processor, without the tests, so that other work on
// the machine does not count. DIR gets curves.csv with every measurement,
// mean.csv with the mean over the runs at equal cost, and index.html, which draws
// them. Standard output gets a table; with -libsvm, which trains
// svm-train with the flags given, also the error of each learner at a quarter,
// a tenth and a thirtieth of its seconds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime"
	"strings"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/registry"
)

// list is a flag that may be given several times.
type list []string

func (l *list) String() string     { return strings.Join(*l, ", ") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

// config is what the flags say.
type config struct {
	train, test string
	scale       float64
	holdout     float64
	limit       int
	learners    []contender
	runs        int
	seed        uint64
	epochs      float64
	evals       float64
	seconds     float64
	libsvm      string
	reference   float64 // seconds of svm-train, 0 if it was not run
	rff         []int
	gamma       float64 // of the random features
	grow        float64
	add         list
	out, title  string
}

// contender is a learner with its options.
type contender struct {
	label   string
	spec    algos.Spec
	options map[string]string
}

func main() {
	var c config
	var learners, sets list
	flag.StringVar(&c.train, "data", "", "training `file`")
	flag.StringVar(&c.test, "test", "", "test `file`")
	flag.Float64Var(&c.scale, "scale", 1, "factor of every feature")
	flag.Float64Var(&c.holdout, "holdout", 0, "share of the training file to test on instead of the test file")
	flag.IntVar(&c.limit, "limit", 0, "use the first examples of the training file only; 0 for all")
	flag.Var(&learners, "learner", "[label:] name [option=value ...]; repeat for several")
	flag.Var(&sets, "set", "option=value for all learners that have it; repeat for several")
	flag.IntVar(&c.runs, "runs", 1, "runs of each learner")
	flag.Uint64Var(&c.seed, "seed", 1, "seed of the first run")
	flag.Float64Var(&c.epochs, "epochs", 10, "a run ends after so many times as many iterations as there are examples")
	flag.Float64Var(&c.evals, "evals", 0, "a run ends after so many kernel evaluations; 0 for no limit")
	flag.Float64Var(&c.seconds, "seconds", 0, "a run ends after so many processor seconds; 0 for no limit")
	flag.Float64Var(&c.grow, "grow", 1.3, "factor of kernel evaluations or seconds between two tests of a model")
	flag.StringVar(&c.libsvm, "libsvm", "", "flags of svm-train, to run it as well")
	flag.Var(&c.add, "add", "curves.csv of an earlier run on the same data, to be drawn as well; repeat for several")
	rff := flag.String("rff", "", "numbers of pairs of random Fourier features, ascending and comma-separated, for a linear model to compare with")
	flag.StringVar(&c.out, "out", "", "directory for the results")
	flag.StringVar(&c.title, "title", "", "title of the plots; the name of the file by default")
	flag.Parse()
	log.SetFlags(log.Ltime)
	err := c.setGamma(sets)
	if err == nil {
		err = c.setRFF(*rff)
	}
	if err == nil {
		err = c.parse(learners, sets)
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		runtime.GOMAXPROCS(1)
		err = c.run(ctx, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "curves:", err)
		os.Exit(1)
	}
}

func (c *config) parse(learners, sets []string) error {
	if c.train == "" || c.out == "" || len(learners)+len(c.add)+len(c.rff) == 0 || (c.test == "") == (c.holdout == 0) {
		return errors.New("-data, -out, at least one -learner, -rff or -add, and one of -test and -holdout are needed; see -help")
	}
	if c.holdout < 0 || c.holdout >= 1 || c.runs < 1 || !(c.epochs > 0) || !(c.grow > 1) {
		return errors.New("-holdout is a share below 1, -runs at least 1, -epochs above 0, -grow above 1")
	}
	for _, text := range learners {
		k := contender{options: map[string]string{}}
		name := text
		if label, rest, ok := strings.Cut(text, ":"); ok {
			k.label, name = strings.TrimSpace(label), rest
		}
		words := strings.Fields(name)
		if len(words) == 0 {
			return fmt.Errorf("no learner in %q", text)
		}
		if k.label == "" {
			k.label = words[0]
		}
		var err error
		if k.spec, err = registry.Lookup(words[0]); err != nil {
			return err
		}
		has := map[string]bool{}
		for _, o := range k.spec.Options {
			has[o.Name] = true
		}
		for _, pair := range sets {
			name, value, ok := strings.Cut(pair, "=")
			if !ok {
				return fmt.Errorf("-set %q is not option=value", pair)
			}
			if has[name] {
				k.options[name] = value
			}
		}
		for _, pair := range words[1:] {
			name, value, ok := strings.Cut(pair, "=")
			if !ok {
				return fmt.Errorf("%q of learner %s is not option=value", pair, k.label)
			}
			k.options[name] = value
		}
		if err := k.spec.Check(k.options); err != nil {
			return err
		}
		c.learners = append(c.learners, k)
	}
	return nil
}
