package eval

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
)

// With more than two classes, labels and predictions are class numbers from 0, and
// the number of classes may grow during the stream.

// maxClasses bounds the number of classes in a state being read.
const maxClasses = 1 << 12

// Class describes how well one of several classes is predicted.
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

// NewClasses returns a Prequential for more than two classes with a window of size
// examples, at least 1. Its Add takes the predicted class as the score.
func NewClasses(size int) *Prequential {
	p := New(false, size)
	p.calibration.several = true
	p.bins, p.classes, p.recentClasses = nil, new(confusion), new(confusion)
	return p
}

// confusion counts examples by true and predicted class.
type confusion struct {
	k       int      // number of classes
	hits    []uint64 // k × k: row y, column p
	count   []uint64 // examples of each class
	n       uint64
	right   uint64
	stayed  uint64 // labels equal to the previous one
	largest uint64 // labels of the class that was the most frequent before
}

// grow makes room for class y.
func (c *confusion) grow(y int) {
	if y < c.k {
		return
	}
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

// add counts an example, or removes it if by is all ones.
func (c *confusion) add(y, p int, stayed, largest bool, by uint64) {
	c.grow(max(y, p))
	c.hits[y*c.k+p] += by
	c.count[y] += by
	c.n += by
	if y == p {
		c.right += by
	}
	if stayed {
		c.stayed += by
	}
	if largest {
		c.largest += by
	}
}

const back = ^uint64(0)

// majority returns the most frequent class, the first of several.
func (c *confusion) majority() int {
	best := 0
	for y, n := range c.count {
		if n > c.count[best] {
			best = y
		}
	}
	return best
}

func (c *confusion) accuracy() float64 { return float64(c.right) / float64(c.n) }

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

// measures sets the applicable fields of m.
func (c *confusion) measures(m *Measures) {
	n := float64(c.n)
	acc := c.accuracy()
	m.Accuracy, m.Error = Number(acc), Number(1-acc)
	m.Classes = c.list()
	recall, there, chance := 0., 0., 0.
	for k, class := range m.Classes {
		chance += float64(float64(class.Examples) / n * float64(c.predicted(k)) / n)
		if class.Examples > 0 {
			recall += float64(class.Recall)
			there++
		}
	}
	m.BalancedAccuracy = Number(recall / there)
	m.Baseline = Baseline{Majority: Number(float64(c.largest) / n), NoChange: Number(float64(c.stayed) / n)}
	m.Kappa, m.KappaT = Number(above(acc, chance)), Number(above(acc, float64(m.Baseline.NoChange)))
}

// addClass is Add for more than two classes.
func (p *Prequential) addClass(predicted, label float64) {
	y, c := int(label), int(predicted)
	stayed, largest := p.n > 0 && label == p.last, p.n > 0 && p.classes.majority() == y
	p.last = label
	at := int(p.n % uint64(p.size))
	p.n++
	if len(p.scores) < p.size {
		p.scores, p.labels = append(p.scores, 0), append(p.labels, 0)
		p.stayed, p.larger = append(p.stayed, false), append(p.larger, false)
	} else {
		p.recentClasses.add(int(p.labels[at]), int(p.scores[at]), p.stayed[at], p.larger[at], back)
	}
	p.scores[at], p.labels[at], p.stayed[at], p.larger[at] = predicted, label, stayed, largest
	p.classes.add(y, c, stayed, largest, 1)
	p.recentClasses.add(y, c, stayed, largest, 1)
	p.blocks.add(y == c)
}

// classFields describes the state besides the window.
func (p *Prequential) classFields(f *state.Fields) {
	c := p.classes
	f.Int("classes", &c.k)
	f.Uint64s("hits", &c.hits)
	f.Uint64("stayed_total", &c.stayed)
	f.Uint64("largest_class", &c.largest)
	f.Bools("largest", &p.larger)
	f.Group("blocks", func(f *state.Fields) { p.blocks.fields(f, p.n) })
	p.calibrationFields(f)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	if c.k < 0 || c.k > maxClasses || len(c.hits) != c.k*c.k {
		f.Fail("hits", fmt.Errorf("%d counts of %d classes", len(c.hits), c.k))
		return
	}
	c.count, c.n, c.right = make([]uint64, c.k), 0, 0
	for i, n := range c.hits {
		y, predicted := i/c.k, i%c.k
		c.count[y] += n
		c.n += n
		if y == predicted {
			c.right += n
		}
	}
	p.recentClasses = new(confusion)
	if c.n != p.n || len(p.larger) != len(p.scores) || len(p.labels) != len(p.scores) || len(p.stayed) != len(p.scores) {
		f.Fail("hits", fmt.Errorf("%d examples of %d, %d flags of %d", c.n, p.n, len(p.larger), len(p.scores)))
		return
	}
	for i := range p.scores {
		for _, v := range []float64{p.scores[i], p.labels[i]} {
			if !(v >= 0 && v < float64(c.k) && v == math.Trunc(v)) {
				f.Fail("scores", fmt.Errorf("class %v of %d", v, c.k))
				return
			}
		}
		p.recentClasses.add(int(p.labels[i]), int(p.scores[i]), p.stayed[i], p.larger[i], 1)
	}
	p.recentClasses.grow(c.k - 1)
}

// classSummary is Summary for more than two classes.
func (p *Prequential) classSummary() Summary {
	s := Summary{Measures: noMeasures(), Window: Window{Measures: noMeasures(), Examples: len(p.scores)}}
	p.classes.measures(&s.Measures)
	p.recentClasses.measures(&s.Window.Measures)
	s.Probability, s.Window.Probability = p.calibration.all(), p.calibration.window()
	c := p.recentClasses
	for y := range c.k {
		s.Window.Confusion = append(s.Window.Confusion, c.hits[y*c.k:(y+1)*c.k:(y+1)*c.k])
	}
	return s
}

// EvaluateClasses is Evaluate for more than two classes, given the predicted ones.
func EvaluateClasses(predicted, labels []float64) Test {
	var c confusion
	for i, y := range labels {
		c.add(int(y), int(predicted[i]), false, false, 1)
	}
	m := noMeasures()
	if c.n > 0 {
		c.measures(&m)
	}
	return Test{Examples: len(labels), Accuracy: m.Accuracy, Error: m.Error, AUC: m.AUC, BalancedAccuracy: m.BalancedAccuracy, Classes: m.Classes}
}
