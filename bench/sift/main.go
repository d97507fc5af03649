// Command sift measures the accuracy lost and the time saved by sifting a stream.
// It needs no broker: the worker, the trainer and the model topic are calls in one
// process, so that the same stream gives the same results except for the seconds.
//
//	go run -C bench ./sift -data DIR [-sets LIST] [-learners LIST] [-lags LIST] [-rows N] [-seed N]
//	go run -C bench ./sift -drift [-learners LIST] [-rows N] [-seed N]
//
// See docs/measured/sift.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/contrib/scale/siftplan"
	"github.com/streamsvm/streamsvm/contrib/synth"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/internal/sift"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/fileio"
)

func main() {
	data := flag.String("data", "", "directory of the data sets")
	sets := flag.String("sets", "ijcnn1,skin,w8a,mnist8,a9a,magic04", "data sets")
	learners := flag.String("learners", "scs,dsg,online,adaptive", "learners")
	lags := flag.String("lags", "0,5000", "ages of the worker's model, in records of the source")
	rows := flag.Int("rows", 0, "most records of a stream; 0: all")
	seed := flag.Uint64("seed", 1, "of the order, the draws and the learner")
	drift := flag.Bool("drift", false, "streams that change, instead of data sets")
	flag.Parse()
	var err error
	if *drift {
		err = drifting(os.Stdout, strings.Split(*learners, ","), *rows, *seed)
	} else {
		err = stationary(os.Stdout, *data, strings.Split(*sets, ","), strings.Split(*learners, ","), strings.Split(*lags, ","), *rows, *seed)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// way describes how a stream gets to the trainer.
type way struct {
	name     string
	rule     siftplan.Rule
	least    float64 // probability of records without interest; 0 forwards none of them
	uniform  float64 // share forwarded, without weights, from the first record on; 0: by the plan
	lag      int     // additional age of the worker's model, in records
	publish  int     // records of the source between two versions
	ignore   bool    // the trainer treats all weights as 1
	budget   float64 // budget of the plan; 1 sets none
	measures bool    // also measure the accuracy of the worker's model on the whole stream
}

// outcome has the results of a run.
type outcome struct {
	forwarded, rows int
	seconds         float64 // processor time of the trainer after its warm-up
	test            float64 // accuracy of the last model on the test set
	served          float64 // accuracy of the worker's models on the stream
	last            float64 // share of the last quarter that was forwarded
	weighted        float64 // prequential accuracy with weights
	unweighted      float64 // and without
}

// run sends a stream from a worker to a trainer.
func run(learner string, xs []*stream.Example, test []*stream.Example, w way, seed uint64, options map[string]string) (o outcome, err error) {
	ctx := context.Background()
	spec, err := registry.Lookup(learner)
	if err != nil {
		return o, err
	}
	warm := min(4000, len(xs)/5)
	cfg := engine.Config{Spec: spec, Task: "classify", Seed: seed, Tune: true, ClassWeight: "none", Options: options}
	if learner != "adaptive" {
		cfg.Warmup = warm
	}
	e, err := engine.NewEngine(cfg)
	if err != nil {
		return o, err
	}
	type version struct {
		at   int // records of the source before it
		p    *predictor.Predictor
		plan siftplan.Plan
	}
	var versions []version
	var newest *version
	decs, vecs := make([]float64, w.publish), make([]stream.Vec, w.publish)
	served, asked, late := 0, 0, 0
	for from := 0; from < len(xs); from += w.publish {
		part := xs[from:min(from+w.publish, len(xs))]
		for len(versions) > 0 && versions[0].at <= from-w.lag {
			newest, versions = &versions[0], versions[1:]
		}
		if newest != nil && (w.uniform == 0 || w.measures) {
			for i, x := range part {
				vecs[i] = x.X
			}
			newest.p.Decisions(decs[:len(part)], vecs[:len(part)])
		}
		var items []engine.Item
		for i, x := range part {
			at := sift.Source{Partition: stream.Partition{Topic: "examples"}, Offset: int64(from + i)}
			h := sift.Header{P: 1}
			if newest != nil {
				if asked++; (decs[i] >= 0) == (x.Y > 0) {
					served++
				}
				if w.uniform == 0 {
					h.Decision, h.Version = decs[i], uint64(newest.at)
					h.P = newest.plan.Probability(w.rule, w.rule.Margin(decs[i], x.Y), w.least)
				}
			}
			p := h.P
			if w.uniform > 0 {
				p = w.uniform
			}
			if !sift.Forward(at, seed, p) {
				continue
			}
			o.forwarded++
			if 4*(from+i) >= 3*len(xs) {
				late++
			}
			c := *x
			it := engine.Item{Partition: stream.Partition{Topic: "distilled"}, Offset: at.Offset, Example: c}
			if w.uniform == 0 && w.name != "all" {
				it.Sifted, it.Source = h, at
				if h.P != 1 && !w.ignore {
					it.Example.Weight, it.Example.Represents = float32(1/h.P), float32(1/h.P)
				}
			}
			items = append(items, it)
		}
		began, learns := cpu(), e.Started()
		if _, err := e.Consume(ctx, items); err != nil {
			return o, err
		}
		if err := e.Settle(ctx); err != nil {
			return o, err
		}
		if learns {
			o.seconds += cpu() - began
		}
		if p := e.Predictor(); p != nil && (w.name != "all" || w.measures) && from+w.publish < len(xs) {
			data, err := p.AppendBinary(nil)
			if err != nil {
				return o, err
			}
			v := version{at: from + len(part)}
			if v.p, err = predictor.Decode(data); err != nil {
				return o, err
			}
			v.plan, _, err = siftplan.PlanOf(e.Plan(w.budget))
			if err != nil {
				return o, err
			}
			versions = append(versions, v)
		}
	}
	began := cpu()
	if err := e.Finish(ctx); err != nil {
		return o, err
	}
	o.seconds += cpu() - began
	o.rows, o.served = len(xs), float64(served)/float64(asked)
	o.last = float64(late) / (float64(len(xs)) / 4)
	s := e.Prequential().Summary()
	o.unweighted, o.weighted = float64(s.Accuracy), float64(s.Accuracy)
	if s.Weighted != nil {
		o.weighted = float64(s.Weighted.Accuracy)
	}
	if len(test) > 0 {
		o.test, err = accuracy(e, test)
	}
	return o, err
}

// accuracy returns the accuracy of the engine's model.
func accuracy(e *engine.Engine, test []*stream.Example) (float64, error) {
	pipe := e.Predictor()
	if pipe == nil {
		return math.NaN(), nil
	}
	data, err := pipe.AppendBinary(nil)
	if err != nil {
		return 0, err
	}
	p, err := predictor.Decode(data)
	if err != nil {
		return 0, err
	}
	vecs, decs := make([]stream.Vec, len(test)), make([]float64, len(test))
	for i, x := range test {
		vecs[i] = x.X
	}
	p.Decisions(decs, vecs)
	right := 0
	for i, x := range test {
		if (decs[i] >= 0) == (x.Y > 0) {
			right++
		}
	}
	return float64(right) / float64(len(test)), nil
}

// stationary compares the ways on data sets in random order.
func stationary(out io.Writer, dir string, sets, learners, lags []string, rows int, seed uint64) error {
	fmt.Fprintln(out, "set learner way lag forwarded of_last_quarter seconds gain test weighted unweighted")
	for _, set := range sets {
		xs, test, err := load(dir, set, rows, seed)
		if err != nil {
			return err
		}
		for _, learner := range learners {
			line := func(w way, o outcome, all float64) {
				fmt.Fprintf(out, "%s %s %s %d %.3f %.3f %.2f %.2f %.2f %.2f %.2f\n", set, learner, w.name, w.lag,
					float64(o.forwarded)/float64(o.rows), o.last, o.seconds, all/o.seconds, 100*o.test, 100*o.weighted, 100*o.unweighted)
			}
			publish := max(500, len(xs)/50)
			w := way{name: "all", uniform: 1, publish: publish, budget: 1}
			all, err := run(learner, xs, test, w, seed, nil)
			if err != nil {
				return err
			}
			line(w, all, all.seconds)
			for k, text := range lags {
				lag, err := strconv.Atoi(text)
				if err != nil {
					return err
				}
				w = way{name: "sift", rule: siftplan.Hinge, least: siftplan.DefaultLeast, lag: lag, publish: publish, budget: 1}
				sifted, err := run(learner, xs, test, w, seed, nil)
				if err != nil {
					return err
				}
				line(w, sifted, all.seconds)
				if k > 0 {
					continue
				}
				share := float64(sifted.forwarded) / float64(sifted.rows)
				w = way{name: "uniform", uniform: share, publish: publish, budget: 1}
				same, err := run(learner, xs, test, w, seed, nil)
				if err != nil {
					return err
				}
				line(w, same, all.seconds)
				// Seconds are proportional to a power of the records.
				power := math.Log(all.seconds/same.seconds) / math.Log(1/share)
				w.name, w.uniform = "uniform_cpu", min(1, share*math.Pow(sifted.seconds/same.seconds, 1/max(0.3, power)))
				equal, err := run(learner, xs, test, w, seed, nil)
				if err != nil {
					return err
				}
				line(w, equal, all.seconds)
			}
		}
	}
	return nil
}

// driftWays returns the ways that drifting compares. A trainer falls behind if it
// ignores the weights, or never gets records that the model is sure of.
func driftWays() []way {
	base := way{rule: siftplan.Hinge, least: siftplan.DefaultLeast, publish: 100, budget: 1, measures: true}
	var list []way
	for _, name := range []string{"all", "sift", "ignored", "hard", "uncertain", "uncertain_hard"} {
		w := base
		w.name = name
		switch name {
		case "all":
			w.uniform = 1
		case "ignored":
			w.ignore = true
		case "hard":
			w.least = 0
		case "uncertain":
			w.rule = siftplan.Uncertain
		case "uncertain_hard":
			w.rule, w.least = siftplan.Uncertain, 0
		}
		list = append(list, w)
	}
	return list
}

// changing returns a stream that changes: a board that turns, or one whose colours
// are swapped after each fifth of the stream.
func changing(kind string, n int, seed uint64) ([]*stream.Example, error) {
	rotation := "0"
	if kind == "turn" {
		rotation = strconv.FormatFloat(2/float64(n), 'g', -1, 64)
	}
	g, err := synth.New("checkerboard", seed, map[string]string{"squares": "2", "rotation": rotation})
	if err != nil {
		return nil, err
	}
	xs := make([]*stream.Example, n)
	for i := range xs {
		x := new(stream.Example)
		if g.Next(x); kind == "jump" && (5*i/n)%2 == 1 {
			x.Y = -x.Y
		}
		xs[i] = x
	}
	return xs, nil
}

func drifting(out io.Writer, learners []string, rows int, seed uint64) error {
	if rows == 0 {
		rows = 40000
	}
	fmt.Fprintln(out, "stream learner way forwarded served weighted unweighted seconds")
	for _, kind := range []string{"turn", "jump"} {
		xs, err := changing(kind, rows, seed)
		if err != nil {
			return err
		}
		for _, learner := range learners {
			for _, w := range driftWays() {
				o, err := run(learner, xs, nil, w, seed, driftOptions(learner))
				if err != nil {
					return err
				}
				fmt.Fprintf(out, "%s %s %s %.3f %.2f %.2f %.2f %.2f\n", kind, learner, w.name, float64(o.forwarded)/float64(o.rows), 100*o.served, 100*o.weighted, 100*o.unweighted, o.seconds)
			}
		}
	}
	return nil
}

// driftOptions returns the options with which a learner follows a changing stream.
func driftOptions(learner string) map[string]string {
	if learner == "scs" {
		return map[string]string{"full": "window", "max_sample": "2000"}
	}
	return nil
}

// held is the number of records that become the test set of a set without one.
var held = map[string]int{"skin_nonskin": 40000, "magic04": 4000}

// load returns a data set in random order, and its test set.
func load(dir, set string, rows int, seed uint64) (xs, test []*stream.Example, err error) {
	if set == "skin" {
		set = "skin_nonskin"
	}
	r := rand.New(rand.NewPCG(seed, 17))
	shuffle := func(xs []*stream.Example) { r.Shuffle(len(xs), func(i, j int) { xs[i], xs[j] = xs[j], xs[i] }) }
	if n := held[set]; n > 0 {
		if xs, err = read(filepath.Join(dir, set+".libsvm.gz")); err != nil {
			return nil, nil, err
		}
		shuffle(xs)
		xs, test = xs[n:], xs[:n]
	} else {
		if xs, err = read(filepath.Join(dir, set+".train.libsvm.gz")); err != nil {
			return nil, nil, err
		}
		if test, err = read(filepath.Join(dir, set+".test.libsvm.gz")); err != nil {
			return nil, nil, err
		}
		shuffle(xs)
	}
	if rows > 0 {
		xs = xs[:min(rows, len(xs))]
	}
	return xs, test, nil
}

func read(path string) (xs []*stream.Example, err error) {
	dec, err := codec.New("libsvm", codec.Options{Task: "classify"})
	if err != nil {
		return nil, err
	}
	src, err := fileio.Open([]string{path}, fileio.Options{})
	if err != nil {
		return nil, err
	}
	defer src.Close()
	var recs []stream.Record
	for {
		if recs, err = src.Fetch(context.Background(), recs[:0]); errors.Is(err, io.EOF) {
			return slices.Clip(xs), nil
		}
		if err != nil {
			return nil, err
		}
		for _, r := range recs {
			x := new(stream.Example)
			if err := dec.Decode(r.Value, x); err != nil {
				return nil, err
			}
			xs = append(xs, x)
		}
	}
}

// cpu returns the processor seconds of this process.
func cpu() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return math.NaN()
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
