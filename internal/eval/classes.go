package eval

import (
	"fmt"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/checkpoint/state"
)

// maxClasses bounds the number of classes in a state being read.
const maxClasses = 1 << 12

// Class describes how well one class is predicted.
type Class struct {
	Label     string `json:"label,omitempty"` // see Summary.Name
	Examples  uint64 `json:"examples"`
	Recall    Number `json:"recall"`    // share of its examples that are predicted correctly
	Precision Number `json:"precision"` // share of the predictions of this class that are correct
}

// Name sets the labels of classes to names, by number.
func Name(classes []Class, names []string) {
	for k := range classes[:min(len(classes), len(names))] {
		classes[k].Label = names[k]
	}
}

// Name sets the labels of the classes to names, by number.
func (s *Summary) Name(names []string) {
	Name(s.Classes, names)
	Name(s.Window.Classes, names)
}

// confusion counts examples by true and predicted class. All measures of a classifier
// except losses and AUC are computed from it.
type confusion struct {
	two     bool     // the classes are negative and positive
	k       int      // number of classes
	hits    []uint64 // k × k: row y, column p
	count   []uint64 // examples of each class
	stayed  uint64   // labels equal to the previous one
	largest float64  // labels of the class that was the most frequent before; NaN if an older state did not count them
}

func twoClasses() confusion {
	return confusion{two: true, k: 2, hits: make([]uint64, 4), count: make([]uint64, 2)}
}

func (c *confusion) clone() confusion {
	d := *c
	d.hits, d.count = slices.Clone(c.hits), slices.Clone(c.count)
	return d
}

// grow makes room for class y.
func (c *confusion) grow(y int) {
	k := y + 1
	hits := make([]uint64, k*k)
	for i := range c.k {
		copy(hits[i*k:], c.hits[i*c.k:(i+1)*c.k])
	}
	c.k, c.hits = k, hits
	for len(c.count) < k {
		c.count = append(c.count, 0)
	}
}

// add counts an example, or removes it if by is back.
func (c *confusion) add(y, p int, stayed, largest bool, by uint64) {
	if m := max(y, p); m >= c.k {
		c.grow(m)
	}
	c.hits[y*c.k+p] += by
	c.count[y] += by
	c.stayed += by * one(stayed)
	c.largest += float64(int64(by * one(largest)))
}

const back = ^uint64(0)

// one returns 1 for true, without a branch: the values are unpredictable, and a
// mispredicted branch costs more than an addition.
func one(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// recount computes count.
func (c *confusion) recount() {
	c.count = make([]uint64, c.k)
	for i, n := range c.hits {
		c.count[i/c.k] += n
	}
}

// sums returns the number of examples, and how many were predicted correctly.
func (c *confusion) sums() (n, right uint64) {
	for k, count := range c.count {
		n += count
		right += c.hits[k*c.k+k]
	}
	return n, right
}

// majority returns the most frequent class. Of several it is the first; of two it is
// the positive one, as for a decision of 0.
func (c *confusion) majority() int {
	if c.two {
		return int(1 - one(c.count[0] > c.count[1]))
	}
	best := 0
	for y, n := range c.count {
		if n > c.count[best] {
			best = y
		}
	}
	return best
}

func (c *confusion) accuracy() float64 {
	n, right := c.sums()
	return float64(right) / float64(n)
}

// rows returns the counts by true class.
func (c *confusion) rows() (rows [][]uint64) {
	for y := range c.k {
		rows = append(rows, c.hits[y*c.k:(y+1)*c.k:(y+1)*c.k])
	}
	return rows
}

// predicted returns how often class p was predicted.
func (c *confusion) predicted(p int) (n uint64) {
	for y := range c.k {
		n += c.hits[y*c.k+p]
	}
	return n
}

// list describes each class.
func (c *confusion) list() []Class {
	out := make([]Class, c.k)
	for k := range out {
		hit := float64(c.hits[k*c.k+k])
		out[k] = Class{"", c.count[k], Number(hit / float64(c.count[k])), Number(hit / float64(c.predicted(k)))}
	}
	return out
}

// measures sets the measures that can be computed from the counts.
func (c *confusion) measures(m *Measures) {
	examples, right := c.sums()
	n := float64(examples)
	acc := float64(right) / n
	m.Accuracy, m.Error = Number(acc), Number(1-acc)
	recall, there, chance := 0., 0., 0.
	classes := c.list()
	for k, class := range classes {
		chance += float64(float64(class.Examples) / n * float64(c.predicted(k)) / n)
		if class.Examples > 0 || c.two { // a missing one of two makes the mean NaN
			recall += float64(class.Recall)
			there++
		}
	}
	m.BalancedAccuracy = Number(recall / there)
	m.Baseline = Baseline{Majority: Number(c.largest / n), NoChange: Number(float64(c.stayed) / n)}
	m.Kappa, m.KappaT = Number(above(acc, chance)), Number(above(acc, float64(m.Baseline.NoChange)))
	if !c.two {
		m.Classes = classes
		return
	}
	m.Hits = [2][2]uint64{[2]uint64(c.hits[:2]), [2]uint64(c.hits[2:])}
}

// above returns (p − base)/(1 − base), NaN if base is 1.
func above(p, base float64) float64 {
	if base >= 1 {
		return math.NaN()
	}
	return (p - base) / (1 - base)
}

// classFields describes the state besides the window.
func (p *Prequential) classFields(f *state.Fields) {
	c := &p.total
	largest := uint64(c.largest)
	f.Int("classes", &c.k)
	f.Uint64s("hits", &c.hits)
	f.Uint64("stayed_total", &c.stayed)
	f.Uint64("largest_class", &largest)
	f.Bools("largest", &p.largest)
	f.Group("blocks", func(f *state.Fields) { p.blocks.fields(f, p.n) })
	p.calibrationFields(f)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	if c.k < 0 || c.k > maxClasses || len(c.hits) != c.k*c.k {
		f.Fail("hits", fmt.Errorf("%d counts of %d classes", len(c.hits), c.k))
		return
	}
	c.largest = float64(largest)
	c.recount()
	p.recent = confusion{}
	n, _ := c.sums()
	if n != p.n || len(p.largest) != len(p.scores) || len(p.labels) != len(p.scores) || len(p.stayed) != len(p.scores) {
		f.Fail("hits", fmt.Errorf("%d examples of %d, %d flags of %d", n, p.n, len(p.largest), len(p.scores)))
		return
	}
	for i := range p.scores {
		for _, v := range []float64{p.scores[i], p.labels[i]} {
			if !(v >= 0 && v < float64(c.k) && v == math.Trunc(v)) {
				f.Fail("scores", fmt.Errorf("class %v of %d", v, c.k))
				return
			}
		}
		p.recent.add(int(p.labels[i]), int(p.scores[i]), p.stayed[i], p.largest[i], 1)
	}
	if p.recent.k < c.k {
		p.recent.grow(c.k - 1)
	}
}

// EvaluateClasses is Evaluate for more than two classes, given the predicted classes.
func EvaluateClasses(predicted, labels []float64) Test {
	var c confusion
	for i, y := range labels {
		c.add(int(y), int(predicted[i]), false, false, 1)
	}
	m := noMeasures()
	if c.k > 0 {
		c.measures(&m)
	}
	return Test{Examples: len(labels), Accuracy: m.Accuracy, Error: m.Error, AUC: m.AUC, BalancedAccuracy: m.BalancedAccuracy, Classes: m.Classes}
}
