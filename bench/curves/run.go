package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/rng"
)

// point is one measurement.
type point struct {
	iterations uint64
	evals      float64 // NaN for a learner without a kernel
	seconds    float64
	err        float64
	objective  float64
}

// curve is one run of a learner.
type curve struct {
	label  string
	run    int
	points []point
}

// cpu returns the processor seconds of this process.
func cpu() float64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return math.NaN()
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

func (c *config) run(ctx context.Context, out io.Writer) error {
	train, err := read(ctx, c.train, c.limit, float32(c.scale))
	if err != nil {
		return err
	}
	var test set
	if c.holdout > 0 {
		train, test = train.split(c.holdout)
	} else if test, err = read(ctx, c.test, 0, float32(c.scale)); err != nil {
		return err
	}
	if len(train) == 0 || len(test) == 0 {
		return fmt.Errorf("%d examples to train on, %d to test on", len(train), len(test))
	}
	if c.title == "" {
		c.title, _, _ = strings.Cut(filepath.Base(c.train), ".")
	}
	fmt.Fprintf(out, "%s: %d examples to train on, %d to test on\n\n", c.title, len(train), len(test))
	var ref *reference
	if c.libsvm != "" {
		if ref, err = c.svmTrain(ctx, train, test); err != nil {
			return err
		}
		c.reference = ref.seconds
		fmt.Fprintf(out, "svm-train %s: %.1f s, error %.2f %%\n\n", c.libsvm, ref.seconds, 100*ref.err)
	}
	var all []curve
	for _, path := range c.add {
		old, err := load(path)
		if err != nil {
			return err
		}
		all = append(all, old...)
	}
	for r := range c.runs {
		if len(c.rff) == 0 {
			break
		}
		points, err := c.measureRFF(ctx, train, test, c.seed+uint64(r))
		if err != nil {
			return err
		}
		all = append(all, curve{"random features", r, points})
	}
	if len(c.learners) == 0 {
		if err := c.write(all, ref); err != nil {
			return err
		}
	}
	for r := range c.runs {
		for _, k := range c.learners {
			points, err := c.measure(ctx, k, train, test, c.seed+uint64(r))
			if err != nil {
				return fmt.Errorf("%s: %w", k.label, err)
			}
			all = append(all, curve{k.label, r, points})
			if n := len(points); n > 0 {
				log.Printf("%s, run %d: %.3g kernel evaluations, error %.2f %%, after %.0f s", k.label, r+1, points[n-1].evals, 100*points[n-1].err, cpu())
			}
			// Written again and again, so that a long experiment can be watched,
			// and ended.
			if err := c.write(all, ref); err != nil {
				return err
			}
		}
	}
	c.print(out, all, ref)
	return nil
}

// create returns a learner for n examples.
func (c *config) create(k contender, n int, seed uint64) (algos.Learner, error) {
	options := map[string]string{}
	for _, o := range k.spec.Options {
		if o.Name == "buffer" {
			options["buffer"] = strconv.Itoa(n)
		}
	}
	for name, value := range k.options {
		options[name] = value
	}
	return k.spec.New(algos.Env{Seed: seed}, options)
}

// measure runs a learner once.
func (c *config) measure(ctx context.Context, k contender, train, test set, seed uint64) ([]point, error) {
	l, err := c.create(k, len(train), seed)
	if err != nil {
		return nil, err
	}
	shuffle := rng.New(seed, "curves.order")
	m := meter{config: c, learner: l, test: test}
	m.start = cpu()
	if r, ok := l.(refiner); ok {
		err = m.refine(ctx, r, train.shuffled(shuffle))
	} else {
		err = m.stream(ctx, train, shuffle)
	}
	return m.points, err
}

// refiner is a learner that can go on optimising over the examples it holds.
// Refine takes pending examples in, without the iterations that their arrival
// would make due, and does n further iterations, or fewer if there is nothing
// left to improve: Report.Step counts those done.
type refiner interface {
	algos.Learner
	Refine(ctx context.Context, n int) (algos.Report, error)
}

// meter measures a learner as it goes.
type meter struct {
	*config
	learner algos.Learner
	test    set
	start   float64 // processor seconds that do not count
	points  []point
}

// refine gives the learner all examples and has it iterate.
func (m *meter) refine(ctx context.Context, r refiner, train set) error {
	for _, x := range train {
		if _, err := r.Add(x); err != nil {
			return err
		}
	}
	most := int(math.Ceil(m.epochs * float64(len(train))))
	for done, n := 0, 1; done < most; n = max(1, min(most-done, done/16)) {
		before := m.learner.Report().Step
		report, err := r.Refine(ctx, n)
		if err != nil {
			return err
		}
		done += n
		over := done >= most || report.Step == before && done > n // nothing left to improve
		if m.look(report, over) || over {
			break
		}
	}
	return nil
}

// stream feeds the examples in a new order for each epoch.
func (m *meter) stream(ctx context.Context, train set, shuffle *rng.Source) error {
	left := int(math.Ceil(m.epochs * float64(len(train))))
	seq := uint64(0)
	for left > 0 {
		epoch := train.shuffled(shuffle)
		for _, x := range epoch[:min(left, len(epoch))] {
			seq++
			x.Seq = seq
			if _, err := algos.Feed(ctx, m.learner, x); err != nil {
				return err
			}
			if m.look(m.learner.Report(), false) {
				return nil
			}
		}
		left -= len(epoch)
	}
	report, err := m.learner.Finish(ctx)
	if err != nil {
		return err
	}
	m.look(report, true)
	return nil
}

// due reports whether the seconds have come near a share of svm-train's at which
// learners are compared; the steps between two looks are 1/16 of all.
func (m *meter) due(last, now float64) bool {
	for _, q := range parts {
		if at := m.reference / q; last < .93*at && now >= .93*at && now <= at {
			return true
		}
	}
	return false
}

// look tests the model, if enough has happened since the last time or if now is
// set, and reports whether the run has reached its limits.
func (m *meter) look(r algos.Report, now bool) bool {
	if r.Step == 0 {
		return false
	}
	p := point{iterations: r.Step, evals: math.NaN(), seconds: cpu() - m.start, objective: r.Objective}
	if r.KernelEvals >= 0 {
		p.evals = float64(r.KernelEvals)
	}
	over := m.evals > 0 && p.evals >= m.evals || m.seconds > 0 && p.seconds >= m.seconds
	if n := len(m.points); n > 0 && !now && !over {
		last := m.points[n-1]
		if !(p.evals > m.grow*last.evals) && !(p.seconds > m.grow*last.seconds) && !m.due(last.seconds, p.seconds) {
			return false
		}
	}
	before := cpu()
	p.err = m.test.errorRate(m.learner.Model())
	m.start += cpu() - before
	m.points = append(m.points, p)
	return over
}
