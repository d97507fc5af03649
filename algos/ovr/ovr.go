// Package ovr makes a learner of K classes out of one for two: a binary classifier for
// each class, one against the rest. The prediction is the class whose classifier has the
// largest decision. With well-tuned classifiers this is as accurate as any other method
// (Rifkin and Klautau, "In Defense of One-Vs-All Classification", JMLR 5, 2004). It works
// for every learner, and a class that appears later needs only one more classifier.
// Learners that can do better support classes themselves (algos.SpecInfo.Classes).
//
// The classifiers are independent. They learn in parallel, from copies of the examples
// that share the features. The result does not depend on the number of processors.
//
// A classifier that is added later first learns from the latest examples, which are all
// negative. Its score is Blank until its first step.
//
// The API may change.
package ovr

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

// Spec returns spec with a New and a DecodeModel for any number of classes. For two
// classes, for regression, and for a learner that supports classes itself, they behave
// like those of spec.
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
		env.Classes, env.Against = 0, k
		return New(k, func() (algos.Learner, error) { return inner.New(env, options) })
	}
	spec.DecodeModel = func(data []byte) (algos.Model, error) { return DecodeModel(data, inner.DecodeModel) }
	return spec
}

// Remembered is the number of labelled examples kept for future classes: enough for the
// first steps of most learners.
const Remembered = 1024

// Blank is the score of a classifier that has not taken a step.
const Blank = -1

// learner has a classifier for each class.
type learner struct {
	make        func() (algos.Learner, error) // makes a classifier
	classifiers []classifier
	recent      []*stream.Example // the latest labelled examples, labelled with class numbers
}

// classifier tells one class from the rest.
type classifier struct {
	algos.Learner
	begun bool // it has taken a step, or Finish was called

	// Scratch of Follow.
	copies []stream.Example
	list   []*stream.Example
	f      []float64
}

// step takes the steps that are due.
func (h *classifier) step(ctx context.Context) error {
	return algos.StepDue(ctx, h.Learner, func() { h.begun = true })
}

// New returns a learner of k ≥ 3 classes. make makes its classifiers.
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
		// Not interrupted: there would be no state to go back to.
		if err := l.classifiers[k].step(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// against returns a copy of x with its label for classifier k.
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

// Add adds an example to every classifier.
func (l *learner) Add(x *stream.Example) (algos.Fate, error) {
	if err := l.check(x); err != nil {
		return algos.SampledOut, err
	}
	copies := make([]stream.Example, len(l.classifiers))
	fate := algos.SampledOut
	for k, h := range l.classifiers {
		copies[k] = *x
		relabel(&copies[k], k)
		// All have the same options: if any refuses x, the first one does.
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

func (l *learner) check(x *stream.Example) error { return Check(x, len(l.classifiers)) }

// Check returns a *stream.FieldError if the label of x is not a class number, 0 to n−1.
func Check(x *stream.Example, n int) error {
	if k := int(x.Y); x.Labelled && (float64(k) != x.Y || k < 0 || k >= n) {
		return &stream.FieldError{Stage: stream.StageLabel, Reason: stream.ReasonLabel, Field: "y", Err: fmt.Errorf("label %g is not the number of a class, 0 to %d", x.Y, n-1)}
	}
	return nil
}

// last returns the examples that a new classifier learns from and that are part of the
// state. There may be more in memory.
func (l *learner) last() []*stream.Example { return l.recent[max(0, len(l.recent)-Remembered):] }

func (l *learner) remember(x *stream.Example) {
	if !x.Labelled {
		return
	}
	if len(l.recent) == 2*Remembered {
		n := copy(l.recent, l.recent[Remembered:])
		clear(l.recent[n:])
		l.recent = l.recent[:n]
	}
	l.recent = append(l.recent, x)
}

// Need returns the number of examples until the first classifier is due.
func (l *learner) Need() algos.Need {
	fresh := math.MaxInt32
	for _, h := range l.classifiers {
		fresh = min(fresh, h.Need().Fresh)
	}
	return algos.Need{Fresh: fresh, Steps: 1}
}

// Step lets each classifier take the steps that are due for it.
func (l *learner) Step(ctx context.Context) (algos.Report, error) {
	if err := ctx.Err(); err != nil {
		return algos.Report{}, err
	}
	// Complete a step that has begun, so that no state is between two steps.
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

// Report combines the reports of the classifiers: steps, objectives, certificates, kernel
// values and gauges whose name ends in _total are sums, other gauges are means, and
// Sample is the largest one.
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

// Mean divides sums of gauges by n, except totals.
func Mean(sums []stream.Measure, n int) []stream.Measure {
	for i := range sums {
		if g := &sums[i]; !strings.HasSuffix(g.Name, "_total") {
			g.Value /= float64(n)
		}
	}
	return sums
}

// addGauges adds the values of more to the values of sum. A classifier without a step may
// have no gauges.
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

// ChangePoints implements algos.DriftReporter for all classifiers, in order of time.
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

// UnmarshalBinary restores the output of AppendBinary, with any number of classes.
func (l *learner) UnmarshalBinary(data []byte) error { return state.Decode(data, l.fields) }

var errFew = errors.New("fewer than three")

func (l *learner) fields(f *state.Fields) {
	n := len(l.classifiers)
	f.List("heads", n, 2, func(k int) { n = k }, func(f *state.Fields, k int) {
		begun := f.Decoding() || l.classifiers[k].begun
		f.Bool("begun", &begun)
		f.Nested("head", func(dst []byte) ([]byte, error) { return l.classifiers[k].AppendBinary(dst) }, func(data []byte) error {
			if k == len(l.classifiers) {
				if err := l.append(); err != nil {
					return err
				}
			}
			l.classifiers[k].begun = begun
			return l.classifiers[k].UnmarshalBinary(data)
		})
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

// Each calls f for 0 to n−1, in parallel, and returns the error with the smallest number.
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
