// Package eval measures how well a learner predicts: prequentially (each example is
// predicted before it is learned from), on held-out sets, and over time.
package eval

import (
	"fmt"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
)

// Prequential accumulates measures over all scored examples and over a sliding
// window of the latest ones. Its state is a function of the sequence of scores and
// labels.
type Prequential struct {
	regress bool

	n           uint64
	total       counter
	hinge       float64 // sum over all examples
	bins        *bins
	blocks      blocks
	calibration calibration
	weights     *weighing // nil while all weights are 1
	// For more than two classes: counts over all examples, and over the window.
	classes, recentClasses *confusion

	// For regression: sums over all examples, and Welford's mean and sum of squared
	// deviations of the labels.
	absErr, sqErr, meanY, devY float64

	last float64 // the latest label; 0 before the first
	// The window, a ring: example i, counted from 0, is at i mod size.
	size   int
	scores []float64
	labels []float64
	stayed []bool  // the label equalled the previous one
	larger []bool  // the label was of the class more frequent before; not part of the state
	recent counter // counts over the ring
}

// counter has the counts from which all measures of a classifier except losses and
// AUC are computed.
type counter struct {
	// hits[y][p] counts examples of class y predicted as class p; 1 is the positive
	// class.
	hits   [2][2]uint64
	stayed uint64
	// larger counts labels of the class that was more frequent before. It is NaN in
	// a state from an earlier version, which did not count them.
	larger float64
}

func (t *counter) add(y, p int, stayed, larger bool) {
	t.hits[y][p]++
	t.stayed += one(stayed)
	t.larger += float64(one(larger))
}

func (t *counter) sub(y, p int, stayed, larger bool) {
	t.hits[y][p]--
	t.stayed -= one(stayed)
	t.larger -= float64(one(larger))
}

// one returns 1 for true, without a branch: the values are unpredictable, and a
// mispredicted branch costs more than an addition.
func one(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// classes returns the number of examples of each class.
func (t *counter) classes() (negative, positive uint64) {
	return t.hits[0][0] + t.hits[0][1], t.hits[1][0] + t.hits[1][1]
}

// majority returns the more frequent class; the positive one if both are equally
// frequent, as for a decision of 0.
func (t *counter) majority() int {
	if negative, positive := t.classes(); negative > positive {
		return 0
	}
	return 1
}

func (t *counter) n() uint64 {
	return t.hits[0][0] + t.hits[0][1] + t.hits[1][0] + t.hits[1][1]
}

func (t *counter) accuracy() float64 {
	return float64(t.hits[0][0]+t.hits[1][1]) / float64(t.n())
}

// balanced returns the mean of the accuracies on the classes, NaN if one is
// missing.
func (t *counter) balanced() float64 {
	negative, positive := t.classes()
	return (float64(t.hits[0][0])/float64(negative) + float64(t.hits[1][1])/float64(positive)) / 2
}

// baseline returns the accuracies of rules that ignore the features.
func (t *counter) baseline() Baseline {
	n := float64(t.n())
	return Baseline{Majority: Number(t.larger / n), NoChange: Number(float64(t.stayed) / n)}
}

// kappa compares the accuracy with that of random guesses with the same class
// shares (Cohen 1960).
func (t *counter) kappa() float64 {
	n := float64(t.n())
	pos := float64(t.hits[1][0]+t.hits[1][1]) / n
	predicted := float64(t.hits[0][1]+t.hits[1][1]) / n
	chance := float64(pos*predicted) + float64((1-pos)*(1-predicted))
	return above(t.accuracy(), chance)
}

// kappaT compares the accuracy with that of the no-change classifier, which
// predicts the previous label (Žliobaitė et al., "Evaluation methods and decision
// theory for classification of streaming data with temporal dependence", Machine
// Learning 98, 2015, section 5). On the very first example it counts as wrong.
func (t *counter) kappaT() float64 {
	return above(t.accuracy(), float64(t.baseline().NoChange))
}

// above returns (p − base)/(1 − base), NaN if base is 1.
func above(p, base float64) float64 {
	if base >= 1 {
		return math.NaN()
	}
	return (p - base) / (1 - base)
}

// New returns a Prequential for regression or classification with a window of size
// examples, at least 1.
func New(regress bool, size int) *Prequential {
	p := &Prequential{regress: regress, size: max(size, 1)}
	if !regress {
		p.bins, p.blocks.length = new(bins), firstBlock
		p.calibration.size = p.size
	}
	return p
}

// class returns the class index of a label or a decision.
func class(v float64) int {
	if v >= 0 {
		return 1
	}
	return 0
}

// hinge returns max(0, 1 − y·f), NaN for a NaN score.
func hinge(score, label float64) float64 { return max(0, 1-float64(label*score)) }

// Add adds the score of an example, computed before the example was learned from,
// and its label: ±1 for a classifier of two classes.
func (p *Prequential) Add(score, label float64) {
	if p.classes != nil {
		p.addClass(score, label)
		return
	}
	y, c := class(label), class(score)
	stayed, larger := p.n > 0 && label == p.last, p.total.majority() == y
	p.last = label
	at := int(p.n % uint64(p.size))
	p.n++
	if len(p.scores) < p.size {
		p.scores, p.labels = append(p.scores, 0), append(p.labels, 0)
		p.stayed, p.larger = append(p.stayed, false), append(p.larger, false)
	} else if !p.regress {
		p.recent.sub(class(p.labels[at]), class(p.scores[at]), p.stayed[at], p.larger[at])
	}
	p.scores[at], p.labels[at], p.stayed[at], p.larger[at] = score, label, stayed, larger

	if p.regress {
		d := score - label
		p.absErr += math.Abs(d)
		p.sqErr += float64(d * d)
		d = label - p.meanY
		p.meanY += d / float64(p.n)
		p.devY += float64(d * (label - p.meanY))
		return
	}
	p.total.add(y, c, stayed, larger)
	p.recent.add(y, c, stayed, larger)
	p.hinge += hinge(score, label)
	p.bins.add(score, y)
	p.blocks.add(y == c)
}

// Regression reports whether p measures a regression.
func (p *Prequential) Regression() bool { return p.regress }

// Examples returns the number of examples scored.
func (p *Prequential) Examples() uint64 { return p.n }

// Classes returns the numbers of negative and positive examples scored.
func (p *Prequential) Classes() (negative, positive uint64) { return p.total.classes() }

// Counts returns the number of scored examples per class, the negative one of two
// first.
func (p *Prequential) Counts() []uint64 {
	if p.classes != nil {
		return slices.Clone(p.classes.count)
	}
	negative, positive := p.total.classes()
	return []uint64{negative, positive}
}

// CountNewest adds the newest n examples, as far as the window goes back, to counts
// per class, and returns their number.
func (p *Prequential) CountNewest(counts []float64, n int) int {
	n = min(max(n, 0), len(p.labels))
	at := int(p.n % uint64(p.size)) // index of the next example
	if p.classes != nil {
		for _, y := range p.labels[max(at-n, 0):at] {
			counts[int(y)]++
		}
		for _, y := range p.labels[len(p.labels)-max(n-at, 0):] {
			counts[int(y)]++
		}
		return n
	}
	// The caller usually asks for most of the window: count the complement.
	if len(p.labels) < p.size {
		at = 0
	}
	negative, positive := p.recent.classes()
	end := at + len(p.labels) - n
	for _, older := range [2][]float64{p.labels[at:min(end, len(p.labels))], p.labels[:max(end-len(p.labels), 0)]} {
		up := uint64(0)
		for _, y := range older {
			up += uint64(class(y))
		}
		positive -= up
		negative -= uint64(len(older)) - up
	}
	counts[0] += float64(negative)
	counts[1] += float64(positive)
	return n
}

// score returns the measure shown in a curve, over all examples and over the
// window: the accuracy, or the mean absolute error of a regression.
func (p *Prequential) score() (all, window float64) {
	if !p.regress {
		return p.Accuracy()
	}
	var sum float64
	for i := range p.scores {
		sum += math.Abs(p.scores[i] - p.labels[i])
	}
	return p.absErr / float64(p.n), sum / float64(len(p.scores))
}

// Accuracy returns the share of correct predictions, over all examples and over the
// window; NaN before the first example and for regression.
func (p *Prequential) Accuracy() (all, window float64) {
	if p.classes != nil {
		return p.classes.accuracy(), p.recentClasses.accuracy()
	}
	return p.total.accuracy(), p.recent.accuracy()
}

// Fields describes the state. A state being read must have the task and window size
// of p.
func (p *Prequential) Fields(f *state.Fields) {
	regress, size := p.regress, p.size
	f.Bool("regress", &regress)
	f.Int("window", &size)
	f.Uint64("examples", &p.n)
	f.Float64("last", &p.last)
	f.Float64s("scores", &p.scores)
	f.Float64s("labels", &p.labels)
	f.Bools("stayed", &p.stayed)
	if p.classes != nil {
		p.classFields(f)
	} else if p.regress {
		f.Float64("absolute_error", &p.absErr)
		f.Float64("squared_error", &p.sqErr)
		f.Float64("label_mean", &p.meanY)
		f.Float64("label_deviation", &p.devY)
	} else {
		h := &p.total.hits
		f.Uint64("true_negative", &h[0][0])
		f.Uint64("false_positive", &h[0][1])
		f.Uint64("false_negative", &h[1][0])
		f.Uint64("true_positive", &h[1][1])
		f.Uint64("stayed_total", &p.total.stayed)
		f.Float64("hinge", &p.hinge)
		f.Group("bins", p.bins.fields)
		p.laterFields(f)
	}
	p.weightFields(f)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	switch {
	case regress != p.regress || size != p.size:
		f.Fail("window", fmt.Errorf("the state has regression %v and window %d, here they are %v and %d", regress, size, p.regress, p.size))
	case uint64(len(p.scores)) != min(p.n, uint64(p.size)) || len(p.labels) != len(p.scores) || len(p.stayed) != len(p.scores):
		f.Fail("scores", fmt.Errorf("%d scores, %d labels, %d flags after %d examples", len(p.scores), len(p.labels), len(p.stayed), p.n))
	case p.classes != nil:
	case !p.regress:
		p.recount()
	default:
		p.larger = make([]bool, len(p.scores))
	}
}

// laterFields describes measures that earlier versions lacked; for their states
// they are unknown.
func (p *Prequential) laterFields(f *state.Fields) {
	if f.Next("log_loss") { // of the sigmoids of scores
		var before float64
		f.Float64("log_loss", &before)
	}
	if f.Decoding() && !f.Next("larger_class") {
		p.total.larger, p.blocks = math.NaN(), blocks{}
		return
	}
	f.Float64("larger_class", &p.total.larger)
	f.Group("blocks", func(f *state.Fields) { p.blocks.fields(f, p.n) })
	p.calibrationFields(f)
}

// recount computes the counts over the ring, after reading it.
func (p *Prequential) recount() {
	p.recent, p.larger = counter{}, make([]bool, len(p.scores))
	before := counter{hits: p.total.hits}
	for i := range p.scores {
		before.sub(class(p.labels[i]), class(p.scores[i]), false, false)
	}
	first := 0
	if len(p.scores) == p.size {
		first = int(p.n % uint64(p.size))
	}
	for k := range p.scores {
		i := (first + k) % len(p.scores)
		y, c := class(p.labels[i]), class(p.scores[i])
		p.larger[i] = before.majority() == y
		before.add(y, c, false, false)
		p.recent.add(y, c, p.stayed[i], p.larger[i])
	}
}

// Summary returns all measures.
func (p *Prequential) Summary() Summary {
	s := p.summary()
	s.Weighted = p.Weighted()
	return s
}

func (p *Prequential) summary() Summary {
	if p.classes != nil {
		return p.classSummary()
	}
	s := Summary{Measures: noMeasures(), Window: Window{Measures: noMeasures(), Examples: len(p.scores)}}
	if p.regress {
		n := float64(p.n)
		s.regression(p.absErr/n, p.sqErr/n, p.devY/n)
		s.Window.errors(p.scores, p.labels)
		return s
	}
	n, w := float64(p.n), float64(len(p.scores))
	s.classification(&p.total, p.hinge/n, p.bins.auc())
	s.Probability = p.calibration.all()
	var margin float64
	for i := range p.scores {
		margin += hinge(p.scores[i], p.labels[i])
	}
	s.Window.classification(&p.recent, margin/w, AUC(p.scores, p.labels))
	s.Window.Probability = p.calibration.window()
	return s
}

// Final is Summary with the interval, which takes a millisecond or two.
func (p *Prequential) Final() Summary {
	s := p.Summary()
	s.Interval = p.blocks.interval()
	return s
}

// Measures lists the applicable measures for publication, in a fixed order; the
// names of those over the window end in _window.
func (p *Prequential) Measures() []stream.Measure {
	s := p.Summary()
	out := []stream.Measure{{Name: "prequential_examples", Value: float64(p.n)}}
	for _, over := range []struct {
		*Measures
		suffix string
	}{{&s.Measures, ""}, {&s.Window.Measures, "_window"}} {
		for _, m := range over.List(p.classes != nil) {
			out = append(out, stream.Measure{Name: "prequential_" + m.Name + over.suffix, Value: m.Value})
		}
	}
	return append(out, p.weightedMeasures()...)
}
