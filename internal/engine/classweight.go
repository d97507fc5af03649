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
	"github.com/streamsvm/streamsvm/internal/calibrate"
	"github.com/streamsvm/streamsvm/stream"
)

// ParseClassWeights parses Config.ClassWeight: "auto" (or empty), "none", or
// weights by label, such as "fraud=10,ok=1". Labels not listed have weight 1. given
// is non-nil only for a list.
func ParseClassWeights(s string) (auto bool, given map[string]float64, err error) {
	switch s {
	case "", "auto":
		return true, nil, nil
	case "none":
		return false, nil, nil
	}
	given, err = parseByLabel("weight", s)
	if err != nil && !strings.Contains(s, "=") {
		err = fmt.Errorf("%q is not auto, none, or a list such as fraud=10,ok=1", s)
	}
	return false, given, err
}

// ParseCosts parses Config.Costs: costs by label, such as "fraud=10,ok=1"; with two labels
// also "fn=10,fp=1", for false negatives and false positives. It returns nil for "".
func ParseCosts(s string) (map[string]float64, error) {
	if s == "" {
		return nil, nil
	}
	return parseByLabel("cost", s)
}

func parseByLabel(what, s string) (map[string]float64, error) {
	given := map[string]float64{}
	for part := range strings.SplitSeq(s, ",") {
		at := strings.LastIndexByte(part, '=')
		if at < 1 {
			return nil, fmt.Errorf("%q is not a list such as fraud=10,ok=1", s)
		}
		label, text := part[:at], part[at+1:]
		w, err := strconv.ParseFloat(text, 32)
		if err != nil || !(w > 0) || math.IsInf(w, 1) {
			return nil, fmt.Errorf("the %s of label %s is %q, want a number above 0", what, label, text)
		}
		if _, twice := given[label]; twice {
			return nil, fmt.Errorf("label %s has two %ss", label, what)
		}
		given[label] = w
	}
	return given, nil
}

// checkCosts validates the configured costs.
func (e *Engine) checkCosts() (err error) {
	if e.costOf, err = ParseCosts(e.cfg.Costs); err != nil || e.costOf == nil {
		return err
	}
	k := e.numClasses()
	if k == 0 {
		return errors.New("costs: a regression has no classes")
	}
	known := map[string]bool{}
	for c := range k {
		known[e.classLabel(c)] = true
	}
	for c, alias := range [...]string{"fp", "fn"} {
		if v, ok := e.costOf[alias]; ok && k == 2 && !known[alias] {
			delete(e.costOf, alias)
			e.costOf[e.classLabel(c)] = v
		}
	}
	for _, label := range slices.Sorted(maps.Keys(e.costOf)) {
		switch {
		case known[label]:
		case k > 2 && (label == "fn" || label == "fp"):
			return fmt.Errorf("costs: %s is for two labels; name the label that is missed, as in fraud=10", label)
		case e.classes == nil:
			return fmt.Errorf("costs: there is no label %s, the labels are %s", label, strings.Join(slices.Sorted(maps.Keys(known)), " and "))
		}
	}
	e.setCosts()
	return nil
}

// Costs returns the costs of the classes known so far, nil without costs.
func (e *Engine) Costs() []float64 { return e.preq.Costs }

// setCosts sets the costs of the classes known so far.
func (e *Engine) setCosts() {
	if e.costOf == nil {
		return
	}
	list := make(calibrate.Costs, e.numClasses())
	for k := range list {
		list[k] = 1
		if c, ok := e.costOf[e.classLabel(k)]; ok {
			list[k] = c
		}
	}
	e.preq.Costs = list
	if e.published != nil {
		e.published.SetCosts(list)
	}
}

// classWeights are factors on the weights of examples, by class.
type classWeights struct {
	auto  bool
	given map[string]float64
	w     []float64 // by class; nil if all are 1
}

// A class is rare if the others have more than unbalanced times its examples. Its
// weight is at most most.
const (
	unbalanced = 12
	most       = 10
	// updateEvery is the number of labels between updates of the weights.
	updateEvery = 64
	// recentLabels is the number of newest labels whose class frequencies are
	// compared with the frequencies among all labels, unless the window of the
	// measures is smaller.
	recentLabels = 1000
)

// steps are the possible weights. A coarse grid keeps weights from changing with
// every update.
var steps = [...]float64{1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 10}

// classOf returns the class number of label y, for two classes (0 and 1) or more.
func classOf(y float64, classes int) int {
	if classes > 2 {
		return int(y)
	}
	if y > 0 {
		return 1
	}
	return 0
}

// numClasses returns the number of classes known to the learner, or 0 for regression.
func (e *Engine) numClasses() int {
	switch {
	case e.cfg.Task == algos.Regress:
		return 0
	case e.classes != nil:
		return e.classes.known
	}
	return 2
}

// classLabel returns the label of a class as it appears in the data.
func (e *Engine) classLabel(class int) string {
	if e.classes != nil {
		return e.classes.list[class]
	}
	return fmt.Sprint(e.cfg.Signature.Label(2*float64(class) - 1))
}

// Labels returns the labels of the two classes as they appear in the data, the
// negative one first.
func (e *Engine) Labels() [2]string { return [2]string{e.classLabel(0), e.classLabel(1)} }

// checkClassWeights validates and sets the configured weights.
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
	c.auto = c.auto && !e.admission.limits.AutoUnweighted
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

// apply multiplies the weight of x by the weight of its class.
func (c *classWeights) apply(x *stream.Example) {
	if c.w == nil || !x.Labelled {
		return
	}
	if w := c.of(classOf(x.Y, len(c.w))); w != 1 {
		x.Weight = float32(x.Importance() * w)
	}
}

// of returns the weight of a class, 1 for a class found after the weights were
// computed.
func (c *classWeights) of(class int) float64 {
	if class >= len(c.w) {
		return 1
	}
	return c.w[class]
}

// weighWarm weighs the examples of the warm-up by the class counts of the warm-up
// itself.
func (e *Engine) weighWarm(xs []*stream.Example) {
	c := &e.weights
	if c.auto {
		counts := make([]float64, e.numClasses())
		for _, x := range xs {
			if x.Labelled {
				counts[classOf(x.Y, len(counts))]++
			}
		}
		c.update(counts)
	}
	for _, x := range xs {
		c.apply(x)
	}
}

// weigh weighs an example that joins the block. Weights are a function of the labels
// before it, both scored and in the block. These are counted anyway, so the state
// needs nothing more while classes are balanced.
func (e *Engine) weigh(x *stream.Example) {
	c := &e.weights
	if !x.Labelled {
		return
	}
	if n := int(e.preq.Examples()) + e.inBlock; c.auto && n >= max(updateEvery, e.cfg.Warmup) && n%updateEvery == 0 {
		c.update(e.classCounts(n))
	}
	e.inBlock++
	c.apply(x)
}

// classCounts returns the number of examples per class since the start or, if the
// class frequencies have changed significantly, among the newest labels.
func (e *Engine) classCounts(n int) []float64 {
	classes := e.numClasses()
	for _, x := range e.block { // the learner may not know their classes yet
		if x.Labelled && classes > 2 {
			classes = max(classes, int(x.Y)+1)
		}
	}
	// The measures remember only the newest labels of their window. At most that
	// many of the block may count, or the weights would depend on how much of it
	// has been scored already.
	back := min(recentLabels, e.cfg.Window)
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
		// Four standard deviations of a Poisson count: if any class has become more
		// or less frequent than that, the old counts describe another stream.
		expected := all[i] / float64(n) * float64(k)
		if math.Abs(c-expected) > 4*math.Sqrt(expected+1) {
			return newest
		}
	}
	return all
}

// update sets the weights from the class counts: with two classes √(n₋/n₊) for the
// rarer one, with more √(n̄/n_k), n̄ being their mean; 1 unless a class is rare
// beyond statistical doubt.
func (c *classWeights) update(counts []float64) {
	var total float64
	for _, n := range counts {
		total += n
	}
	// Hysteresis: a class becomes rare only when that is significant (three
	// standard deviations of its count), and stops being rare only when it is
	// clearly no longer so. Weights that flicker would disturb learners more than
	// they help.
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

// nearest returns the step nearest to w.
func nearest(w float64) float64 {
	best := steps[0]
	for _, s := range steps {
		if math.Abs(s-w) < math.Abs(best-w) {
			best = s
		}
	}
	return best
}

// fields describes the weights. They are in a state only if they were chosen
// automatically and one is not 1. With more than two classes a state may hold the
// weights of the first ones only, and earlier versions chose them for learners that say
// AutoUnweighted: such a state goes on as it began.
func (c *classWeights) fields(f *state.Fields, classes int) {
	there := f.Next("class_weights")
	if f.Decoding() && c.given == nil {
		c.w, c.auto = nil, c.auto || there
	}
	if !there && (f.Decoding() || c.w == nil) || !c.auto {
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
