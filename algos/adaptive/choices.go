package adaptive

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/streamsvm/streamsvm/stream"
)

// choices are the scalings and options of the kernel learners of several classes. They are chosen by
// the sum of the classes' losses, as the examples of one class are often too few for a choice of its
// own. Learners of the same examples share the computation. A class that was added late, and so has
// other examples, chooses by itself.
type choices struct {
	classes int
	keep    int      // examples whose class is kept
	class   []uint16 // of the newest examples
	seen    uint64   // examples

	mu   sync.Mutex
	made map[choiceOf]*madeChoice
}

// choiceOf says which choice: for the rows examples before number seen.
type choiceOf struct {
	seen      uint64
	rows      int
	scale     string
	weighting bool
}

type madeChoice struct {
	once sync.Once
	scaling
	err error
}

// add takes the classes of the examples that the heads learn from next.
func (c *choices) add(xs []*stream.Example) {
	if extra := len(c.class) - c.keep; extra > c.keep {
		c.class = append(c.class[:0], c.class[extra:]...)
	}
	for _, x := range xs {
		c.class = append(c.class, uint16(x.Y))
	}
	c.seen += uint64(len(xs))
}

// restore derives the classes from the examples of the heads. The first head has the most.
func (c *choices) restore(heads []*Learner) error {
	*c = choices{classes: len(heads), keep: c.keep, seen: heads[0].detector.Seen()}
	c.class = make([]uint16, len(heads[0].detector.Newest(c.keep)))
	for k, h := range heads {
		own := h.detector.Newest(c.keep)
		if h.detector.Seen() > c.seen || len(own) > len(c.class) {
			return fmt.Errorf("class %d has %d of %d examples, class 0 %d of %d", k, len(own), h.detector.Seen(), len(c.class), c.seen)
		}
		h.before = c.seen - h.detector.Seen()
		for i, x := range own {
			if x.Y > 0 {
				c.class[len(c.class)-len(own)+i] = uint16(k)
			}
		}
	}
	return nil
}

// scaling returns what find finds for xs. lanes holds the labels of xs for each class; nil: there are
// two classes, or the labels are numbers.
func (c *choices) scaling(key choiceOf, xs []*stream.Example, find func(lanes [][]float64) (scaling, error)) (scaling, error) {
	if c == nil {
		return find(nil)
	}
	c.mu.Lock()
	made := c.made[key]
	if made == nil {
		made = new(madeChoice)
		if c.made == nil {
			c.made = map[choiceOf]*madeChoice{}
		}
		c.made[key] = made
	}
	c.mu.Unlock()
	made.once.Do(func() { made.scaling, made.err = find(c.lanes(key)) })
	if made.err != nil {
		return scaling{}, made.err
	}
	s := made.scaling
	s.examples = make([]*stream.Example, len(xs))
	for i, x := range xs {
		own := *made.examples[i]
		own.Y = x.Y
		s.examples[i] = &own
	}
	return s, nil
}

// mostLanes limits the classes by which choices are made, to the most frequent ones.
const mostLanes = 64

// lanes returns, for each class, 1 for its examples and −1 for the others.
func (c *choices) lanes(of choiceOf) (lanes [][]float64) {
	to := len(c.class) - int(c.seen-of.seen)
	list := c.class[to-of.rows : to]
	count, order := make([]int, c.classes), make([]int, c.classes)
	for k := range order {
		order[k] = k
	}
	for _, class := range list {
		count[class]++
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(count[b], count[a]) })
	order = order[:min(len(order), mostLanes)]
	slices.Sort(order)
	for _, k := range order {
		y := make([]float64, len(list))
		for i, class := range list {
			if y[i] = -1; int(class) == k {
				y[i] = 1
			}
		}
		lanes = append(lanes, y)
	}
	return lanes
}
