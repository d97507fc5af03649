package engine

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/calibrate"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// DefaultMaxClasses is the default of Config.MaxClasses.
const DefaultMaxClasses = 64

// classes are the classes of a stream with more than two: first those listed in the
// signature's labels, then the ones discovered, numbered in the order of their
// first record and never renumbered. It is nil for two classes.
type classes struct {
	list   []string // stream.Example.Class, by number
	number map[string]int
	listed int // number of classes from the signature; they come first in list
	known  int // number of classes known to the learner; they come first in list
}

func newClasses(sig *codec.Signature, most int) (*classes, error) {
	if sig.Classes() <= 2 {
		return nil, nil
	}
	list, err := codec.ParseClasses(sig.Labels)
	if err != nil {
		return nil, err
	}
	n := len(list)
	if n > most {
		return nil, fmt.Errorf("%d labels are listed, at most %d classes are allowed", n, most)
	}
	c := &classes{number: map[string]int{}, listed: n, known: n}
	for _, label := range list {
		name, text := label.(string)
		if !text {
			name = strconv.FormatFloat(label.(float64), 'g', -1, 64)
		}
		c.add(name)
	}
	return c, nil
}

func (c *classes) add(name string) int {
	k := len(c.list)
	c.list = append(c.list, name)
	c.number[name] = k
	return k
}

// check returns an error if x, which is labelled, has a label that is impossible in
// this stream.
func (c *classes) check(x *stream.Example, most int) error {
	if x.Class != "" {
		if _, known := c.number[x.Class]; !known && len(c.list) >= most {
			return fmt.Errorf("the label %s would be class %d, at most %d are allowed", x.Class, len(c.list)+1, most)
		}
		return nil
	}
	if k := int(x.Y); float64(k) != x.Y || k < 0 || k >= len(c.list) {
		return fmt.Errorf("label %v is not the number of a class, 0 to %d", x.Y, len(c.list)-1)
	}
	return nil
}

// resolve replaces the class name of x, which has passed check, by the number of
// its class.
func (c *classes) resolve(x *stream.Example) {
	if c == nil || x.Class == "" {
		return
	}
	k, known := c.number[x.Class]
	if !known {
		k = c.add(x.Class)
	}
	x.Y, x.Class = float64(k), ""
}

// fresh reports whether the learner does not know the class of x yet.
func (c *classes) fresh(x *stream.Example) bool {
	return c != nil && x.Labelled && int(x.Y) >= c.known
}

// run returns the length of the longest prefix of xs that can be handed over
// together: up to the first example of a class that the learner does not know.
func (c *classes) run(xs []*stream.Example) int {
	if c == nil {
		return len(xs)
	}
	if i := slices.IndexFunc(xs, c.fresh); i >= 0 {
		return i
	}
	return len(xs)
}

// fields describes the classes, and how many of them the learner knows.
func (c *classes) fields(f *state.Fields) {
	list := slices.Clone(c.list)
	f.List("names", len(list), 1, func(n int) { list = make([]string, n) }, func(f *state.Fields, k int) {
		f.String("name", &list[k])
	})
	f.Int("listed", &c.listed)
	f.Int("told", &c.known)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	if len(c.list) > len(list) || !slices.Equal(c.list, list[:len(c.list)]) {
		f.Fail("names", &MismatchError{MetaLabels, strings.Join(list, ","), strings.Join(c.list, ",")})
		return
	}
	c.list, c.number = nil, map[string]int{}
	for _, name := range list {
		c.add(name)
	}
	if len(c.number) != len(list) || c.listed < 3 || c.listed > len(list) || c.known < c.listed || c.known > len(list) {
		f.Fail("names", fmt.Errorf("%d classes, %d of them listed, %d known to the learner", len(list), c.listed, c.known))
	}
}

// classFields describes the classes; they are in a state only if there are more
// than two.
func (e *Engine) classFields(f *state.Fields) {
	if f.Next("classes") || !f.Decoding() && e.classes != nil {
		if e.classes == nil {
			// A state is being read without the configuration of its stream, as
			// inspect does.
			e.classes, e.preq = new(classes), eval.NewClasses(e.cfg.Window)
			e.calib, e.soft = nil, calibrate.NewOnlineSoftmax()
		}
		f.Group("classes", e.classes.fields)
	}
}

// per returns how many numbers a model returns per example: its decision, or one
// score per class if there are more than two.
func (e *Engine) per() int {
	if e.classes == nil {
		return 1
	}
	return e.classes.known
}

// predict sets e.decs to the current model's predictions for xs.
func (e *Engine) predict(xs []stream.Vec) {
	e.decs = slices.Grow(e.decs[:0], e.per()*len(xs))[:e.per()*len(xs)]
	if e.classes == nil {
		if l, ok := e.learner.(algos.Expecter); ok {
			l.Expect(xs)
		}
		e.learner.Model().Decisions(e.decs, xs)
		return
	}
	e.learner.Model().(algos.Scorer).Scores(e.decs, xs)
}

// setPrediction copies the prediction for example i from e.decs to p.
func (e *Engine) setPrediction(p *prediction, i int) {
	if e.classes == nil {
		p.f = e.decs[i]
		return
	}
	n := e.classes.known
	p.scores = e.decs[i*n : (i+1)*n]
	p.f = float64(algos.Largest(p.scores))
}

// addClasses adds classes to the learner, up to the class of x. This changes the
// model, so pending predictions are made first.
func (e *Engine) addClasses(ctx context.Context, x *stream.Example) error {
	e.resolvePredictions()
	l, ok := e.learner.(algos.ClassAdder)
	if !ok {
		return fmt.Errorf("classes cannot be added to learner %s", e.cfg.Spec.Name)
	}
	for e.classes.fresh(x) {
		if err := l.AddClass(ctx); err != nil {
			return fmt.Errorf("learner %s: class %s: %w", e.cfg.Spec.Name, e.classes.list[e.classes.known], err)
		}
		e.classes.known++
	}
	e.setCosts()
	return nil
}

// Classes returns the names of the classes, by number; nil for two classes and for
// regression.
func (e *Engine) Classes() []string {
	if e.classes == nil {
		return nil
	}
	return slices.Clone(e.classes.list)
}
