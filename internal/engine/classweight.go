package engine

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
)

// ParseClassWeights reads a value of Config.ClassWeight: "auto" and empty, "none",
// or weights by label, such as "fraud=10,ok=1". Labels that are not listed weigh
// 1. given is nil but in the last case.
func ParseClassWeights(s string) (auto bool, given map[string]float64, err error) {
	switch s {
	case "", "auto":
		return true, nil, nil
	case "none":
		return false, nil, nil
	}
	given = map[string]float64{}
	for _, part := range strings.Split(s, ",") {
		at := strings.LastIndexByte(part, '=')
		if at < 1 {
			return false, nil, fmt.Errorf("%q is not auto, none, or a list such as fraud=10,ok=1", s)
		}
		label, text := part[:at], part[at+1:]
		w, err := strconv.ParseFloat(text, 32)
		if err != nil || !(w > 0) || math.IsInf(w, 1) {
			return false, nil, fmt.Errorf("the weight of label %s is %q, want a number above 0", label, text)
		}
		if _, twice := given[label]; twice {
			return false, nil, fmt.Errorf("label %s has two weights", label)
		}
		given[label] = w
	}
	return false, given, nil
}

// classWeights are the factors by which the examples of each class count.
type classWeights struct {
	auto  bool
	given map[string]float64
	w     []float64 // by class; nil: all 1
}

// Classes are unbalanced where one has less than 1/unbalanced of the examples
// of the others; they are weighed up to most.
const (
	unbalanced = 12
	most       = 10
	// lookEvery is the number of labels between two looks at the counts.
	lookEvery = 64
	// lookBack is the number of the newest labels that are compared with all, if the
	// window of the measures is not smaller.
	lookBack = 1000
)

// steps are the weights there are, so that they seldom change.
var steps = [...]float64{1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 10}

// classOf returns the number of a class, of two or more.
func classOf(y float64, classes int) int {
	if classes > 2 {
		return int(y)
	}
	if y > 0 {
		return 1
	}
	return 0
}

// numClasses returns the number of classes that the learner knows, or 0 for a
// regression.
func (e *Engine) numClasses() int {
	switch {
	case e.cfg.Task == algos.Regress:
		return 0
	case e.classes != nil:
		return e.classes.told
	}
	return 2
}

// classLabel returns the label of a class as the data have it.
func (e *Engine) classLabel(class int) string {
	if e.classes != nil {
		return e.classes.list[class]
	}
	return fmt.Sprint(e.cfg.Signature.Label(2*float64(class) - 1))
}

// Labels returns those of the two classes as the data have them, the negative one
// first.
func (e *Engine) Labels() [2]string { return [2]string{e.classLabel(0), e.classLabel(1)} }

// checkClassWeights makes the weights that are given.
func (e *Engine) checkClassWeights() (err error) {
	c := &e.weights
	if c.auto, c.given, err = ParseClassWeights(e.cfg.ClassWeight); err != nil {
		return fmt.Errorf("class weights: %w", err)
	}
	k := e.numClasses()
	if k == 0 {
		if c.given != nil {
			return errors.New("class weights: a regression has no classes")
		}
		c.auto = false
		return nil
	}
	if e.admission.limits.Unweighted {
		if c.given != nil {
			return fmt.Errorf("class weights: learner %s cannot weigh examples", e.cfg.Spec.Name)
		}
		c.auto = false
	}
	if c.given == nil {
		return nil
	}
	c.w = make([]float64, k)
	known := map[string]bool{}
	for i := range c.w {
		label := e.classLabel(i)
		known[label] = true
		if w, ok := c.given[label]; ok {
			c.w[i] = w
		} else {
			c.w[i] = 1
		}
	}
	for _, label := range slices.Sorted(maps.Keys(c.given)) {
		if !known[label] {
			return fmt.Errorf("class weights: there is no label %s, the labels are %s", label, strings.Join(slices.Sorted(maps.Keys(known)), " and "))
		}
	}
	return nil
}

// apply multiplies the weight of an example by that of its class.
func (c *classWeights) apply(x *stream.Example) {
	if c.w == nil || !x.Labelled {
		return
	}
	if w := c.of(classOf(x.Y, len(c.w))); w != 1 {
		x.Weight = float32(x.Importance() * w)
	}
}

// of returns the weight of a class, which may be newer than the weights.
func (c *classWeights) of(class int) float64 {
	if class >= len(c.w) {
		return 1
	}
	return c.w[class]
}

// weighWarm weighs the examples of the warm-up by their own counts.
func (e *Engine) weighWarm(xs []*stream.Example) {
	c := &e.weights
	if c.auto {
		counts := make([]float64, e.numClasses())
		for _, x := range xs {
			if x.Labelled {
				counts[classOf(x.Y, len(counts))]++
			}
		}
		c.look(counts)
	}
	for _, x := range xs {
		c.apply(x)
	}
}

// weigh weighs an example that goes into the block. Weights follow from the
// labels before it, which are those scored and those in the block: they are
// counted there, so that a state holds nothing for it while classes are balanced.
func (e *Engine) weigh(x *stream.Example) {
	c := &e.weights
	if !x.Labelled {
		return
	}
	if n := int(e.preq.Examples()) + e.inBlock; c.auto && n >= max(lookEvery, e.cfg.Warmup) && n%lookEvery == 0 {
		c.look(e.classCounts(n))
	}
	e.inBlock++
	c.apply(x)
}

// classCounts returns how often each class has come: since the start, or, where
// the shares have changed, of late.
func (e *Engine) classCounts(n int) []float64 {
	classes := e.numClasses()
	for _, x := range e.block { // the learner is told of classes later
		if x.Labelled && classes > 2 {
			classes = max(classes, int(x.Y)+1)
		}
	}
	// The measures have the newest labels of their window only. No more of the block
	// may count, or the weights would depend on how much of it has been scored.
	back := min(lookBack, e.cfg.Window)
	all, newest := make([]float64, classes), make([]float64, classes)
	k := 0
	for _, x := range slices.Backward(e.block) {
		if !x.Labelled {
			continue
		}
		class := classOf(x.Y, classes)
		if all[class]++; k < back {
			newest[class]++
			k++
		}
	}
	for i, c := range e.preq.Counts() {
		all[i] += float64(c)
	}
	k += e.preq.CountNewest(newest, back-k)
	for i, c := range newest {
		foretold := all[i] / float64(n) * float64(k)
		if math.Abs(c-foretold) > 4*math.Sqrt(foretold+1) {
			return newest
		}
	}
	return all
}

// look sets the weights from the counts of the classes: for the rarer of two
// √(n₋/n₊), with more classes √(n̄/n_k) where n̄ is their mean; 1 where that is not
// unbalanced beyond doubt.
func (c *classWeights) look(counts []float64) {
	var total float64
	for _, n := range counts {
		total += n
	}
	next, any := make([]float64, len(counts)), false
	for k, n := range counts {
		others := total - n
		if len(counts) > 2 {
			others = total / float64(len(counts))
		}
		old := c.of(k)
		next[k] = 1
		switch {
		case old == 1 && others < unbalanced*(n+2+3*math.Sqrt(n)), others*1.5 < unbalanced*n:
			continue
		}
		any = true
		want := min(math.Sqrt(others/max(n, 1)), most)
		if next[k] = old; want > 1.25*old || 1.25*want < old {
			next[k] = nearest(want)
		}
	}
	if c.w = nil; any {
		c.w = next
	}
}

// nearest returns the step that is nearest to w.
func nearest(w float64) float64 {
	best := steps[0]
	for _, s := range steps {
		if math.Abs(s-w) < math.Abs(best-w) {
			best = s
		}
	}
	return best
}

// fields describes the weights, which are part of a state only where they were
// chosen and one is not 1. There are those of so many classes, or of the first ones
// of more than two.
func (c *classWeights) fields(f *state.Fields, classes int) {
	if !c.auto {
		return
	}
	if f.Decoding() {
		c.w = nil
	}
	if !f.Next("class_weights") && (f.Decoding() || c.w == nil) {
		return
	}
	f.Float64s("class_weights", &c.w)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	if n := len(c.w); n != classes && (n < 3 || n > classes) {
		f.Fail("class_weights", fmt.Errorf("%d for %d classes", len(c.w), classes))
	}
	for _, w := range c.w {
		if !slices.Contains(steps[:], w) {
			f.Fail("class_weights", fmt.Errorf("%g", w))
		}
	}
}
