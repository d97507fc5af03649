// Package rest makes a learner of K classes out of one that tells two apart: one
// head a class, each against the rest. The predicted class is that of the head
// with the largest decision. Well-tuned heads are as accurate as anything (Rifkin
// and Klautau, "In Defense of One-Vs-All Classification", JMLR 5, 2004), a class
// that appears later is one more head, and every learner can have it: hence it is
// a wrapper in a room of its own, and learners that can do better do so themselves
// (algos.SpecInfo.Classes).
//
// Heads know nothing of each other. So they work in parallel, on copies of the
// examples that share the features, and the result does not depend on how many
// do at a time.
//
// A head that is added learns from the last examples first, all of which are
// negative ones to it. Until it has taken a step its score is −1.
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

// Spec returns spec with a New and a DecodeModel for any number of classes. They
// are those of spec for two classes, for a regression, and for a learner that does
// classes itself.
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

// remembered is the number of labelled examples that are kept for heads to come:
// enough for most learners' first steps.
const remembered = 1024

// Blank is the score of a head that has taken no step.
const Blank = -1

// learner is a head for each class.
type learner struct {
	make   func() (algos.Learner, error) // a head
	heads  []head
	recent []*stream.Example // the last labelled ones, with numbers of classes
}

// head tells one class from the rest.
type head struct {
	algos.Learner
	begun bool // it has been asked to take a step
}

// step takes the steps that are due.
func (h *head) step(ctx context.Context) error {
	return algos.StepDue(ctx, h.Learner, func() { h.begun = true })
}

// New returns a learner of k classes whose heads make makes.
func New(k int, make func() (algos.Learner, error)) (algos.Learner, error) {
	l := &learner{make: make}
	for range k {
		if err := l.append(); err != nil {
			return nil, err
		}
	}
	if _, ok := l.heads[0].Learner.(algos.Sequential); !ok {
		return l, nil
	}
	if _, ok := l.heads[0].Learner.(algos.Foreteller); ok {
		return &foreteller{sequential{l}}, nil
	}
	return &sequential{l}, nil
}

// append makes a head.
func (l *learner) append() error {
	h, err := l.make()
	if err == nil {
		l.heads = append(l.heads, head{Learner: h})
	}
	return err
}

// AddClass implements algos.ClassAdder.
func (l *learner) AddClass(ctx context.Context) error {
	if err := l.append(); err != nil {
		return err
	}
	k := len(l.heads) - 1
	for _, x := range l.last() {
		if _, err := l.heads[k].Add(against(x, k)); err != nil {
			return err
		}
		// It is not interrupted: there would be no state to go back to.
		if err := l.heads[k].step(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// against returns x as head k sees it.
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

// Add hands an example to every head.
func (l *learner) Add(x *stream.Example) (algos.Fate, error) {
	if err := l.check(x); err != nil {
		return algos.SampledOut, err
	}
	copies := make([]stream.Example, len(l.heads))
	fate := algos.SampledOut
	for k, h := range l.heads {
		copies[k] = *x
		relabel(&copies[k], k)
		// The heads have the same options: what one refuses the first one does.
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

// check refuses a label that is no class.
func (l *learner) check(x *stream.Example) error {
	if k := int(x.Y); x.Labelled && (float64(k) != x.Y || k < 0 || k >= len(l.heads)) {
		return &stream.FieldError{Stage: stream.StageLabel, Reason: stream.ReasonLabel, Field: "y", Err: fmt.Errorf("label %g is not the number of a class, 0 to %d", x.Y, len(l.heads)-1)}
	}
	return nil
}

// last returns the examples that heads to come learn from, which are those that a
// state has: there are more in memory now and then.
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

// Need is that of the head that is due first.
func (l *learner) Need() algos.Need {
	fresh := math.MaxInt32
	for _, h := range l.heads {
		fresh = min(fresh, h.Need().Fresh)
	}
	return algos.Need{Fresh: fresh, Steps: 1}
}

// Step lets each head take the steps that are due for it. If ctx ends, some have,
// and the others will when Step is called again.
func (l *learner) Step(ctx context.Context) (algos.Report, error) {
	if err := ctx.Err(); err != nil {
		return algos.Report{}, err
	}
	// A head that has begun ends, so that the state is one or the other.
	ctx = context.WithoutCancel(ctx)
	err := l.each(func(_ int, h *head) error { return h.step(ctx) })
	return l.Report(), err
}

// Finish finishes every head.
func (l *learner) Finish(ctx context.Context) (algos.Report, error) {
	err := l.each(func(_ int, h *head) error {
		h.begun = true
		_, err := h.Finish(ctx)
		return err
	})
	return l.Report(), err
}

// Report sums the heads up: steps, objectives, certificates, kernel values and
// gauges that are totals are sums, sample is that of the largest head, and other
// gauges are means.
func (l *learner) Report() algos.Report {
	all := l.heads[0].Report()
	square := float64(all.GradNorm * all.GradNorm)
	all.Gauges = slices.Clone(all.Gauges)
	for _, h := range l.heads[1:] {
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
	all.Gauges = Mean(all.Gauges, len(l.heads))
	return all
}

// Mean divides those of sums, of gauges of n heads, that are no totals by n.
func Mean(sums []stream.Measure, n int) []stream.Measure {
	for i := range sums {
		if g := &sums[i]; !strings.HasSuffix(g.Name, "_total") {
			g.Value /= float64(n)
		}
	}
	return sums
}

// addGauges adds the values of more to those of sum. A head without a step may
// have none.
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
	if limited, ok := l.heads[0].Learner.(algos.Limited); ok {
		return limited.Limits()
	}
	return algos.Limits{}
}

// ChangePoints implements algos.DriftReporter: those of all heads, in order of time.
func (l *learner) ChangePoints() (total uint64, latest []compare.ChangePoint) {
	for _, h := range l.heads {
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

// UnmarshalBinary restores what AppendBinary wrote, whatever the number of
// classes.
func (l *learner) UnmarshalBinary(data []byte) error { return state.Decode(data, l.fields) }

var errFew = errors.New("fewer than three")

func (l *learner) fields(f *state.Fields) {
	n := len(l.heads)
	f.List("heads", n, 2, func(k int) { n = k }, func(f *state.Fields, k int) {
		var data []byte
		if !f.Decoding() {
			var err error
			data, err = l.heads[k].AppendBinary(nil)
			f.Fail("head", err)
		}
		begun := f.Decoding() || l.heads[k].begun
		f.Bool("begun", &begun)
		f.Bytes("head", &data)
		if !f.Decoding() || f.Err() != nil {
			return
		}
		if k == len(l.heads) {
			if err := l.append(); err != nil {
				f.Fail("head", err)
				return
			}
		}
		l.heads[k].begun = begun
		f.Fail("head", l.heads[k].UnmarshalBinary(data))
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
	l.heads, l.recent = l.heads[:n], recent
	for _, x := range recent {
		f.Fail("recent", l.check(x))
	}
}

// each calls f for every head.
func (l *learner) each(f func(k int, h *head) error) error {
	return Each(len(l.heads), func(k int) error { return f(k, &l.heads[k]) })
}

// Each calls f for 0 to n−1, some at a time, and returns the first error in their
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
