// Package eval measures how well a learner predicts: prequentially (each example is
// predicted before it is learned from), on held-out sets, and over time.
package eval

import (
	"fmt"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/calibrate"
	"github.com/streamsvm/streamsvm/stream"
)

// Prequential accumulates measures over all scored examples and over a sliding
// window of the latest ones. Its state is a function of the sequence of scores and
// labels.
type Prequential struct {
	regress bool
	several bool // more than two classes

	n           uint64
	total       confusion
	hinge       float64 // sum over all examples
	bins        *bins
	blocks      blocks
	calibration calibration
	// Costs choose labels by the probabilities added, for Summary.Cost; nil for none.
	Costs   calibrate.Costs
	cost    float64   // sum
	weights *weighing // nil while all weights are 1

	// For regression: sums over all examples, and Welford's mean and sum of squared
	// deviations of the labels.
	absErr, sqErr, meanY, devY float64

	last float64 // the latest label; 0 before the first
	// The window, a ring: example i, counted from 0, is at i mod size.
	size   int
	scores []float64
	labels []float64
	stayed []bool // the label equalled the previous one
	// The label's class was the most frequent before. With two classes this is not
	// part of the state.
	largest []bool
	recent  confusion // counts over the ring
}

// New returns a Prequential for regression or classification with a window of size
// examples, at least 1.
func New(regress bool, size int) *Prequential {
	p := &Prequential{regress: regress, size: max(size, 1), total: twoClasses(), recent: twoClasses()}
	if !regress {
		p.bins, p.blocks.length = new(bins), firstBlock
		p.calibration.size = p.size
	}
	return p
}

// NewClasses returns a Prequential for more than two classes with a window of size
// examples, at least 1. Labels and predictions are class numbers from 0, and the
// number of classes may grow. Its Add takes the predicted class as the score.
func NewClasses(size int) *Prequential {
	p := New(false, size)
	p.calibration.several, p.several = true, true
	p.bins, p.total, p.recent = nil, confusion{}, confusion{}
	return p
}

// class returns the class of a label or a decision.
func (p *Prequential) class(v float64) int {
	if p.several {
		return int(v)
	}
	return class(v)
}

// class returns the class of a label or a decision of two classes.
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
	y, c := p.class(label), p.class(score)
	first := p.n == 0
	stayed, largest := !first && label == p.last, !(first && p.several) && p.total.majority() == y
	p.last = label
	at := int(p.n % uint64(p.size))
	p.n++
	if len(p.scores) < p.size {
		p.scores, p.labels = append(p.scores, 0), append(p.labels, 0)
		p.stayed, p.largest = append(p.stayed, false), append(p.largest, false)
	} else if !p.regress {
		p.recent.add(p.class(p.labels[at]), p.class(p.scores[at]), p.stayed[at], p.largest[at], back)
	}
	p.scores[at], p.labels[at], p.stayed[at], p.largest[at] = score, label, stayed, largest

	if p.regress {
		d := score - label
		p.absErr += math.Abs(d)
		p.sqErr += float64(d * d)
		d = label - p.meanY
		p.meanY += d / float64(p.n)
		p.devY += float64(d * (label - p.meanY))
		return
	}
	p.total.add(y, c, stayed, largest, 1)
	p.recent.add(y, c, stayed, largest, 1)
	p.blocks.add(y == c)
	if !p.several {
		p.hinge += hinge(score, label)
		p.bins.add(score, y)
	}
}

// Regression reports whether p measures a regression.
func (p *Prequential) Regression() bool { return p.regress }

// Examples returns the number of examples scored.
func (p *Prequential) Examples() uint64 { return p.n }

// Counts returns the number of scored examples per class, the negative one of two
// first.
func (p *Prequential) Counts() []uint64 { return slices.Clone(p.total.count) }

// CountNewest adds the newest n examples, as far as the window goes back, to counts
// per class, and returns their number.
func (p *Prequential) CountNewest(counts []float64, n int) int {
	n = min(max(n, 0), len(p.labels))
	// The caller usually asks for most of the window: count the complement.
	at := 0 // index of the oldest
	if len(p.labels) == p.size {
		at = int(p.n % uint64(p.size))
	}
	for y, k := range p.recent.count {
		counts[y] += float64(k)
	}
	end := at + len(p.labels) - n
	for _, older := range [2][]float64{p.labels[at:min(end, len(p.labels))], p.labels[:max(end-len(p.labels), 0)]} {
		for _, y := range older {
			counts[p.class(y)]--
		}
	}
	return n
}

// Score returns the measure shown in a curve, over all examples and over the
// window: the accuracy, or the mean absolute error of a regression.
func (p *Prequential) Score() (all, window float64) {
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
	if p.several {
		p.classFields(f)
	} else if p.regress {
		f.Float64("absolute_error", &p.absErr)
		f.Float64("squared_error", &p.sqErr)
		f.Float64("label_mean", &p.meanY)
		f.Float64("label_deviation", &p.devY)
	} else {
		for i, name := range [4]string{"true_negative", "false_positive", "false_negative", "true_positive"} {
			f.Uint64(name, &p.total.hits[i])
		}
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
	case p.regress:
		p.largest = make([]bool, len(p.scores))
	case !p.several:
		p.recount()
	}
}

// laterFields describes measures that earlier versions lacked; after reading their
// states, these are unknown.
func (p *Prequential) laterFields(f *state.Fields) {
	if f.Next("log_loss") { // of the sigmoids of scores
		var before float64
		f.Float64("log_loss", &before)
	}
	if f.Decoding() && !f.Next("larger_class") {
		p.total.largest, p.blocks = math.NaN(), blocks{}
		return
	}
	f.Float64("larger_class", &p.total.largest)
	f.Group("blocks", func(f *state.Fields) { p.blocks.fields(f, p.n) })
	p.calibrationFields(f)
}

// recount computes the counts over the ring, after reading it.
func (p *Prequential) recount() {
	p.total.recount()
	p.recent, p.largest = twoClasses(), make([]bool, len(p.scores))
	before := p.total.clone()
	for i := range p.scores {
		before.add(class(p.labels[i]), class(p.scores[i]), false, false, back)
	}
	first := 0
	if len(p.scores) == p.size {
		first = int(p.n % uint64(p.size))
	}
	for k := range p.scores {
		i := (first + k) % len(p.scores)
		y, c := class(p.labels[i]), class(p.scores[i])
		p.largest[i] = before.majority() == y
		before.add(y, c, false, false, 1)
		p.recent.add(y, c, p.stayed[i], p.largest[i], 1)
	}
}

// Summary returns all measures.
func (p *Prequential) Summary() Summary {
	s := p.summary()
	s.Weighted = p.Weighted()
	return s
}

func (p *Prequential) summary() Summary {
	s := Summary{Measures: noMeasures(), Window: Window{Measures: noMeasures(), Examples: len(p.scores)}}
	n, w := float64(p.n), float64(len(p.scores))
	if p.regress {
		s.regression(p.absErr/n, p.sqErr/n, p.devY/n)
		s.Window.errors(p.scores, p.labels)
		return s
	}
	p.total.measures(&s.Measures)
	p.recent.measures(&s.Window.Measures)
	s.Probability, s.Window.Probability = p.calibration.all(), p.calibration.window()
	if p.Costs != nil && p.calibration.n > 0 {
		mean := Number(p.cost / float64(p.calibration.n))
		s.Cost = &mean
	}
	if p.several {
		s.Window.Confusion = p.recent.rows()
		return s
	}
	var margin float64
	for i := range p.scores {
		margin += hinge(p.scores[i], p.labels[i])
	}
	s.Hinge, s.AUC = Number(p.hinge/n), Number(p.bins.auc())
	s.Window.Hinge, s.Window.AUC = Number(margin/w), Number(AUC(p.scores, p.labels))
	return s
}

// Final is Summary with the interval, which takes a millisecond or two.
func (p *Prequential) Final() Summary {
	s := p.Summary()
	s.Interval = p.blocks.interval()
	return s
}

// Measures lists the applicable measures for publication, in a fixed order. Names of
// measures over the window end in _window.
func (p *Prequential) Measures() []stream.Measure {
	s := p.Summary()
	out := []stream.Measure{{Name: "prequential_examples", Value: float64(p.n)}}
	for _, over := range []struct {
		*Measures
		suffix string
	}{{&s.Measures, ""}, {&s.Window.Measures, "_window"}} {
		for _, m := range over.List(p.several) {
			out = append(out, stream.Measure{Name: "prequential_" + m.Name + over.suffix, Value: m.Value})
		}
	}
	return append(out, p.weightedMeasures()...)
}
