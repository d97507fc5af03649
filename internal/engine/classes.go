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

// DefaultMaxClasses is that of Config.MaxClasses.
const DefaultMaxClasses = 64

// classes are those of a stream that has more than two: those of the labels in
// the signature, and others, which are numbered in the order in which they are
// consumed and never renumbered. It is nil where there are two.
type classes struct {
	list   []string // what they are called in stream.Example.Class, by number
	number map[string]int
	listed int // of list, those of the signature
	told   int // of list, those that the learner knows
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
	c := &classes{number: map[string]int{}, listed: n, told: n}
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

// check says why x, which is labelled, has a label that the stream cannot have.
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

// resolve gives x, whose label has been checked, the number of its class.
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
	return c != nil && x.Labelled && int(x.Y) >= c.told
}

// run returns how many of the first of xs can be handed over together: those
// before one of a class that the learner does not know.
func (c *classes) run(xs []*stream.Example) int {
	if c == nil {
		return len(xs)
	}
	if i := slices.IndexFunc(xs, c.fresh); i >= 0 {
		return i
	}
	return len(xs)
}

// fields describes the classes found, and how many the learner knows.
func (c *classes) fields(f *state.Fields) {
	list := slices.Clone(c.list)
	f.List("names", len(list), 1, func(n int) { list = make([]string, n) }, func(f *state.Fields, k int) {
		f.String("name", &list[k])
	})
	f.Int("listed", &c.listed)
	f.Int("told", &c.told)
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
	if len(c.number) != len(list) || c.listed < 3 || c.listed > len(list) || c.told < c.listed || c.told > len(list) {
		f.Fail("names", fmt.Errorf("%d classes, %d of them listed, %d told", len(list), c.listed, c.told))
	}
}

// classFields describes the classes, which are part of a state only where there
// are more than two.
func (e *Engine) classFields(f *state.Fields) {
	if f.Next("classes") || !f.Decoding() && e.classes != nil {
		if e.classes == nil {
			// The configuration does not know the stream.
			e.classes, e.preq = new(classes), eval.NewClasses(e.cfg.Window)
			e.calib, e.soft = nil, calibrate.NewOnlineSoftmax()
		}
		f.Group("classes", e.classes.fields)
	}
}

// per is the number of numbers that a model says of an example: its decision, or
// with more than two classes the scores of all.
func (e *Engine) per() int {
	if e.classes == nil {
		return 1
	}
	return e.classes.told
}

// decide sets e.decs to what the present model says of xs.
func (e *Engine) decide(xs []stream.Vec) {
	e.decs = slices.Grow(e.decs[:0], e.per()*len(xs))[:e.per()*len(xs)]
	if e.classes == nil {
		e.learner.Model().Decisions(e.decs, xs)
		return
	}
	e.learner.Model().(algos.Scorer).Scores(e.decs, xs)
}

// say adds to t what e.decs says of example i.
func (e *Engine) say(t *told, i int) {
	if e.classes == nil {
		t.f = e.decs[i]
		return
	}
	n := e.classes.told
	t.scores = e.decs[i*n : (i+1)*n]
	t.f = float64(algos.Largest(t.scores))
}

// addClasses tells the learner of the classes up to that of x. The model changes.
func (e *Engine) addClasses(ctx context.Context, x *stream.Example) error {
	e.answer()
	l, ok := e.learner.(algos.ClassAdder)
	if !ok {
		return fmt.Errorf("learner %s takes no further classes", e.cfg.Spec.Name)
	}
	for e.classes.fresh(x) {
		if err := l.AddClass(ctx); err != nil {
			return fmt.Errorf("learner %s: class %s: %w", e.cfg.Spec.Name, e.classes.list[e.classes.told], err)
		}
		e.classes.told++
	}
	return nil
}

// Classes returns what the classes of the stream are called, by number; nil for
// two, and for a regression.
func (e *Engine) Classes() []string {
	if e.classes == nil {
		return nil
	}
	return slices.Clone(e.classes.list)
}
