// Package algostest is a conformance suite for learners: it checks that a learner
// implements the interfaces of package algos correctly, as testing/fstest does for
// file systems. Every learner's tests call Run, and so does a table test over the
// registry.
//
// The API is stable; checks may be added.
package algostest

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/ovr"
	"github.com/streamsvm/streamsvm/stream"
)

// config has the settings that an Option changes.
type config struct {
	options  map[string]string
	examples int
	accuracy float64
	seed     uint64
	classes  int

	live        int // number of examples of the live check; 0: no check
	liveOptions map[string]string
}

// An Option changes what Run does.
type Option func(*config)

// With sets options of the learner.
func With(options map[string]string) Option {
	return func(c *config) { maps.Copy(c.options, options) }
}

// Examples sets the length of the streams, 700 by default. It must be enough
// for a few steps.
func Examples(n int) Option { return func(c *config) { c.examples = n } }

// Accuracy sets the required accuracy on two noisy half moons with balanced
// classes: 0.95 by default for learners with a kernel or random features, 0.8
// for linear ones. In regression it is the share of the variance that must be
// explained.
func Accuracy(a float64) Option { return func(c *config) { c.accuracy = a } }

// Seed sets the seed of the learner and of all streams, 1 by default.
func Seed(s uint64) Option { return func(c *config) { c.seed = s } }

// Classes makes Run use k > 2 classes. A learner that supports only two classes
// is wrapped by package ovr. Regression is left out.
func Classes(k int) Option { return func(c *config) { c.classes = k } }

// suite is one run: a learner with fixed options on one task.
type suite struct {
	config
	spec algos.Spec
	task algos.Task
}

// Run checks the learner, for each of its tasks.
func Run(t *testing.T, spec algos.Spec, opts ...Option) {
	t.Run("options", func(t *testing.T) { checkOptions(t, spec) })
	for _, task := range spec.Tasks {
		s := &suite{spec: spec, task: task, config: config{
			options: map[string]string{}, examples: 700, accuracy: .95, seed: 1,
		}}
		if spec.Kind == algos.Linear {
			s.accuracy = .8
		}
		for _, o := range opts {
			o(&s.config)
		}
		if s.classes > 2 {
			if task != algos.Classify {
				continue
			}
			s.spec = ovr.Spec(spec)
		}
		t.Run(string(task), s.run)
	}
}

func (s *suite) run(t *testing.T) {
	for _, c := range []struct {
		name  string
		check func(*testing.T)
	}{
		{"deterministic", s.deterministic},
		{"resume", s.resume},
		{"need", s.need},
		{"add leaves the model", s.addLeavesModel},
		{"input", s.input},
		{"odd examples", s.oddExamples},
		{"one class", s.oneClass},
		{"model", s.model},
		{"damage", s.damage},
		{"cancel", s.cancel},
		{"follow", s.follow},
		{"pending", s.pending},
		{"add a class", s.addClass},
		{"finish", s.finish},
		{"report", s.report},
		{"learns", s.learns},
		{"weights", s.weights},
		{"live", s.checkLive},
	} {
		t.Run(c.name, c.check)
	}
}

func (s *suite) env() algos.Env {
	return algos.Env{Seed: s.seed, Task: s.task, Classes: s.classes}
}

// learner returns a new learner.
func (s *suite) learner(t *testing.T) algos.Learner {
	t.Helper()
	l, err := s.spec.New(s.env(), s.options)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Feed adds examples and takes the steps that are due, as the training loop
// does.
func Feed(t testing.TB, l algos.Learner, xs ...*stream.Example) {
	t.Helper()
	for _, x := range xs {
		if _, err := l.Add(x); err != nil {
			t.Fatalf("Add of example %d: %v", x.Seq, err)
		}
		Step(t, l)
	}
}

// Step takes the steps that are due.
func Step(t testing.TB, l algos.Learner) {
	t.Helper()
	if err := algos.StepDue(context.Background(), l, nil); err != nil {
		t.Fatalf("Step: %v", err)
	}
}

// Bytes returns the encoding of a learner or model.
func Bytes(t testing.TB, v interface {
	AppendBinary([]byte) ([]byte, error)
}) []byte {
	t.Helper()
	// The prefix must stay unchanged.
	b, err := v.AppendBinary([]byte("prefix"))
	if err != nil {
		t.Fatalf("AppendBinary: %v", err)
	}
	rest, ok := bytes.CutPrefix(b, []byte("prefix"))
	if !ok {
		t.Fatal("AppendBinary did not append")
	}
	return slices.Clone(rest)
}

// restore returns a new learner with the given state.
func (s *suite) restore(t *testing.T, data []byte) algos.Learner {
	t.Helper()
	l := s.learner(t)
	if err := l.UnmarshalBinary(data); err != nil {
		t.Fatalf("UnmarshalBinary of a state just stored: %v", err)
	}
	return l
}
