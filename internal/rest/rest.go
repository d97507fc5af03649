// Package rest turns a learner of two classes into one of K classes, by
// one-vs-rest: one classifier per class. The predicted class is that of the
// classifier with the largest decision. Well-tuned one-vs-rest classifiers are as
// accurate as anything else (Rifkin and Klautau, "In Defense of One-Vs-All
// Classification", JMLR 5, 2004), a class that appears later is just one more
// classifier, and it works for every learner. So it is a wrapper in a package of
// its own, and learners that can do better do so themselves
// (algos.SpecInfo.Classes).
//
// Classifiers are independent of each other. So they work in parallel, on copies of
// the examples that share the features, and the result does not depend on how many
// run at a time.
//
// A classifier that is added learns from the newest examples first, all of which
// are negative ones to it. Until it has done a step its score is −1.
package rest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/compare"
	"github.com/streamsvm/streamsvm/internal/columns"
	"github.com/streamsvm/streamsvm/internal/par"
	"github.com/streamsvm/streamsvm/stream"
)

// Spec returns spec with New and DecodeModel extended to any number of classes.
// They are unchanged for two classes, for a regression, and for a learner that
// supports several classes itself.
func Spec(spec algos.Spec) algos.Spec {
	if spec.Classes || !slices.Contains(spec.Tasks, algos.Classify) {
		return spec
	}
	inner := spec
	spec.New = func(env algos.Env, options map[string]string) (algos.Learner, error) {
		if env.Task == "" {
			env.Task = inner.Tasks[0]
		}
		if env.Classes <= 2 || env.Task != algos.Classify {
			return inner.New(env, options)
		}
		k := env.Classes
		env.Classes = 0
		return New(k, func() (algos.Learner, error) { return inner.New(env, options) })
	}
	spec.DecodeModel = func(data []byte) (algos.Model, error) { return DecodeModel(data, inner.DecodeModel) }
	return spec
}

// remembered is the number of labelled examples kept for classifiers added later:
// enough for the first steps of most learners.
const remembered = 1024

// Blank is the score of a classifier that has done no step.
const Blank = -1

// learner has a classifier for each class.
type learner struct {
	make        func() (algos.Learner, error) // makes a classifier
	classifiers []classifier
	recent      []*stream.Example // the newest labelled ones, with class numbers
}

// head is the classifier of one class.
type classifier struct {
	algos.Learner
	begun bool // Step has been called
}

// step does the steps that are due.
func (h *classifier) step(ctx context.Context) error {
	return algos.StepDue(ctx, h.Learner, func() { h.begun = true })
}

// New returns a learner of k classes whose classifiers are created by make.
func New(k int, make func() (algos.Learner, error)) (algos.Learner, error) {
	l := &learner{make: make}
	for range k {
		if err := l.append(); err != nil {
			return nil, err
		}
	}
	if _, ok := l.classifiers[0].Learner.(algos.Sequential); !ok {
		return l, nil
	}
	if _, ok := l.classifiers[0].Learner.(algos.Foreteller); ok {
		return &foreteller{sequential{l}}, nil
	}
	return &sequential{l}, nil
}

// append adds a classifier.
func (l *learner) append() error {
	h, err := l.make()
	if err == nil {
		l.classifiers = append(l.classifiers, classifier{Learner: h})
	}
	return err
}

// AddClass implements algos.ClassAdder.
func (l *learner) AddClass(ctx context.Context) error {
	if err := l.append(); err != nil {
		return err
	}
	k := len(l.classifiers) - 1
	for _, x := range l.last() {
		if _, err := l.classifiers[k].Add(against(x, k)); err != nil {
			return err
		}
		// It cannot be interrupted: there would be no state to return to.
		if err := l.classifiers[k].step(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// against returns x as the classifier of class k sees it.
func against(x *stream.Example, k int) *stream.Example {
	c := *x
	relabel(&c, k)
	return &c
}

func relabel(x *stream.Example, k int) {
	switch {
	case !x.Labelled:
	case int(x.Y) == k:
		x.Y = 1
	default:
		x.Y = -1
	}
}

// Add hands an example to every classifier.
func (l *learner) Add(x *stream.Example) (algos.Fate, error) {
	if err := l.check(x); err != nil {
		return algos.SampledOut, err
	}
	copies := make([]stream.Example, len(l.classifiers))
	fate := algos.SampledOut
	for k, h := range l.classifiers {
		copies[k] = *x
		relabel(&copies[k], k)
		// The classifiers have the same options: what one refuses, the first one
		// does.
		f, err := h.Add(&copies[k])
		if err != nil {
			return f, err
		}
		if f == algos.Learned {
			fate = f
		}
	}
	l.remember(x)
	return fate, nil
}

// check refuses a label that is not a class.
func (l *learner) check(x *stream.Example) error {
	if k := int(x.Y); x.Labelled && (float64(k) != x.Y || k < 0 || k >= len(l.classifiers)) {
		return &stream.FieldError{Stage: stream.StageLabel, Reason: stream.ReasonLabel, Field: "y", Err: fmt.Errorf("label %g is not the number of a class, 0 to %d", x.Y, len(l.classifiers)-1)}
	}
	return nil
}

// last returns the examples for classifiers added later. A state has exactly these;
// in memory there may be more.
func (l *learner) last() []*stream.Example { return l.recent[max(0, len(l.recent)-remembered):] }

func (l *learner) remember(x *stream.Example) {
	if !x.Labelled {
		return
	}
	if len(l.recent) == 2*remembered {
		n := copy(l.recent, l.recent[remembered:])
		clear(l.recent[n:])
		l.recent = l.recent[:n]
	}
	l.recent = append(l.recent, x)
}

// Need returns the need of the classifier that is due first.
func (l *learner) Need() algos.Need {
	fresh := math.MaxInt32
	for _, h := range l.classifiers {
		fresh = min(fresh, h.Need().Fresh)
	}
	return algos.Need{Fresh: fresh, Steps: 1}
}

// Step does the steps that are due for each classifier. If ctx ends, some have done
// theirs, and the others will when Step is called again.
func (l *learner) Step(ctx context.Context) (algos.Report, error) {
	if err := ctx.Err(); err != nil {
		return algos.Report{}, err
	}
	// A classifier that has started finishes its step, so that its state is before
	// or after it.
	ctx = context.WithoutCancel(ctx)
	err := l.each(func(_ int, h *classifier) error { return h.step(ctx) })
	return l.Report(), err
}

// Finish finishes every classifier.
func (l *learner) Finish(ctx context.Context) (algos.Report, error) {
	err := l.each(func(_ int, h *classifier) error {
		h.begun = true
		_, err := h.Finish(ctx)
		return err
	})
	return l.Report(), err
}

// Report combines the classifiers: steps, objectives, certificates, kernel values
// and gauges that are totals are sums, the sample is that of the largest, and other
// gauges are means.
func (l *learner) Report() algos.Report {
	all := l.classifiers[0].Report()
	square := float64(all.GradNorm * all.GradNorm)
	all.Gauges = slices.Clone(all.Gauges)
	for _, h := range l.classifiers[1:] {
		r := h.Report()
		all.Step += r.Step
		all.Objective += r.Objective
		all.Certificate += r.Certificate
		square += float64(r.GradNorm * r.GradNorm)
		all.Sample = max(all.Sample, r.Sample)
		if r.KernelEvals >= 0 {
			all.KernelEvals += r.KernelEvals
		}
		all.Gauges = addGauges(all.Gauges, r.Gauges)
	}
	all.GradNorm = math.Sqrt(square)
	all.StepSize = math.NaN()
	all.Gauges = Mean(all.Gauges, len(l.classifiers))
	return all
}

// Mean divides the gauges in sums, over n classifiers, by n, except totals.
func Mean(sums []stream.Measure, n int) []stream.Measure {
	for i := range sums {
		if g := &sums[i]; !strings.HasSuffix(g.Name, "_total") {
			g.Value /= float64(n)
		}
	}
	return sums
}

// addGauges adds the values of more to those of sum. A classifier without a step
// may have none.
func addGauges(sum, more []stream.Measure) []stream.Measure {
	if len(sum) == 0 {
		return slices.Clone(more)
	}
	if len(more) == len(sum) {
		for i, g := range more {
			sum[i].Value += g.Value
		}
	}
	return sum
}

// Limits implements algos.Limited.
func (l *learner) Limits() algos.Limits {
	if limited, ok := l.classifiers[0].Learner.(algos.Limited); ok {
		return limited.Limits()
	}
	return algos.Limits{}
}

// ChangePoints implements algos.DriftReporter: those of all classifiers, in order of
// time.
func (l *learner) ChangePoints() (total uint64, latest []compare.ChangePoint) {
	for _, h := range l.classifiers {
		if c, ok := h.Learner.(algos.DriftReporter); ok {
			n, cuts := c.ChangePoints()
			total, latest = total+n, append(latest, cuts...)
		}
	}
	slices.SortStableFunc(latest, func(a, b compare.ChangePoint) int { return int(a.At) - int(b.At) })
	return total, latest
}

// AppendBinary appends the complete state.
func (l *learner) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, l.fields) }

// UnmarshalBinary restores the output of AppendBinary, whatever the number of
// classes.
func (l *learner) UnmarshalBinary(data []byte) error { return state.Decode(data, l.fields) }

var errFew = errors.New("fewer than three")

func (l *learner) fields(f *state.Fields) {
	n := len(l.classifiers)
	f.List("heads", n, 2, func(k int) { n = k }, func(f *state.Fields, k int) {
		var data []byte
		if !f.Decoding() {
			var err error
			data, err = l.classifiers[k].AppendBinary(nil)
			f.Fail("head", err)
		}
		begun := f.Decoding() || l.classifiers[k].begun
		f.Bool("begun", &begun)
		f.Bytes("head", &data)
		if !f.Decoding() || f.Err() != nil {
			return
		}
		if k == len(l.classifiers) {
			if err := l.append(); err != nil {
				f.Fail("head", err)
				return
			}
		}
		l.classifiers[k].begun = begun
		f.Fail("head", l.classifiers[k].UnmarshalBinary(data))
	})
	recent := l.last()
	columns.Examples(f, "recent", &recent)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	if n < 3 {
		f.Fail("heads", errFew)
		return
	}
	l.classifiers, l.recent = l.classifiers[:n], recent
	for _, x := range recent {
		f.Fail("recent", l.check(x))
	}
}

// each calls f for every classifier.
func (l *learner) each(f func(k int, h *classifier) error) error {
	return Each(len(l.classifiers), func(k int) error { return f(k, &l.classifiers[k]) })
}

// Each calls f for 0 to n−1, several at a time, and returns the first error in that
// order.
func Each(n int, f func(k int) error) error {
	errs := make([]error, n)
	par.Each(n, func(k int) { errs[k] = f(k) })
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
