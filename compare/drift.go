package compare

import (
	"errors"
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/columns"
	"github.com/streamsvm/streamsvm/stream"
)

// ChangePoint says that the stream has changed, so that a sample was cut to its recent
// part.
type ChangePoint struct {
	At       uint64  // labelled examples so far
	From, To int     // sizes of the sample before and after
	Z        float64 // advantage of the recent part, in standard errors
}

// Detector is a drift detector. It compares a model of the whole sample with challengers
// that have learned from the newest W examples only, for several windows W (paired
// learners: Bach and Maloof, ICDM 2008). All of them predict each example before they
// learn from it. Let d be 1 if the model of the sample is wrong and the challenger
// right, −1 if it is the other way round, and 0 otherwise. Then
//
//	D_W ← ρ D_W + d,   V_W ← ρ² V_W + d²,   ρ = 2^(−1/W)
//
// and z_W = D_W/√(V_W+1) is McNemar's statistic with a memory that fades over W
// examples. There is a change point if the largest z_W is above a bound, V_W is at least 4 and
// the sample has at least 2W examples. While nothing changes, a challenger loses more
// often than it wins because it has learned from less, so D_W falls.
//
// Detector keeps the newest examples, so that a new model can learn from the remaining
// part of the sample. Everything is scheduled by counts. It is not safe for concurrent use.
type Detector struct {
	windows []int
	size    int               // most examples kept
	newest  []*stream.Example // in order of arrival; grows to 2·size, then is moved down
	seen    uint64
	d, v    []float64
	total   uint64
	latest  []ChangePoint
}

const (
	testEvery    = 32 // examples between two tests
	leastV       = 4  // V_W below which there are too few differences
	latestPoints = 256
)

// NewDetector returns a Detector that keeps size examples and has a challenger for each
// window. The windows must ascend, from 1 to at most size.
func NewDetector(size int, windows ...int) (*Detector, error) {
	for i, w := range windows {
		if w < 1 || w > size || i > 0 && w <= windows[i-1] {
			return nil, fmt.Errorf("drift detector: windows %d do not ascend from 1 to %d", windows, size)
		}
	}
	return &Detector{windows: windows, size: size, d: make([]float64, len(windows)), v: make([]float64, len(windows))}, nil
}

// Add takes an example that all models have learned from, and keeps it.
func (c *Detector) Add(x *stream.Example) {
	if len(c.newest) >= 2*c.size {
		n := copy(c.newest, c.newest[len(c.newest)-c.size:])
		clear(c.newest[n:])
		c.newest = c.newest[:n]
	}
	c.newest = append(c.newest, x)
	c.seen++
}

// Seen returns the number of examples added.
func (c *Detector) Seen() uint64 { return c.seen }

// Newest returns the n newest examples, or as many as are kept, in order of
// arrival. The list is valid until the next Add and must not be changed.
func (c *Detector) Newest(n int) []*stream.Example {
	return c.newest[len(c.newest)-min(n, c.size, len(c.newest)):]
}

// Compare adds the result on the next example. by[i] is positive if challenger i was
// better than the model of the sample, negative if it was worse, and at most 1 in
// magnitude for an example of weight 1.
func (c *Detector) Compare(by []float64) {
	for i, w := range c.windows {
		d := by[i]
		fade := math.Exp2(-1 / float64(w))
		c.d[i] = float64(fade*c.d[i]) + d
		c.v[i] = float64(fade*fade*c.v[i]) + float64(d*d)
	}
}

// Forget drops the results of a challenger, for example because it has been replaced.
func (c *Detector) Forget(challenger int) {
	c.d[challenger], c.v[challenger] = 0, 0
}

// Test looks for a change point after every 32nd example, given the size of the sample and the
// bound of the largest z_W. If it finds one, it returns it with the challenger whose window
// remains of the sample, and forgets all results. Otherwise found is false.
func (c *Detector) Test(size int, above float64) (p ChangePoint, challenger int, found bool) {
	if c.seen%testEvery != 0 {
		return p, -1, false
	}
	challenger, best := -1, above
	for i, w := range c.windows {
		if c.v[i] < leastV || size < 2*w {
			continue
		}
		if z := c.Z(i); z > above && z >= best { // if equal, prefer the larger window
			challenger, best = i, z
		}
	}
	if challenger < 0 {
		return p, -1, false
	}
	p = ChangePoint{At: c.seen, From: size, To: c.windows[challenger], Z: best}
	clear(c.d)
	clear(c.v)
	c.total++
	if c.latest = append(c.latest, p); len(c.latest) > latestPoints {
		c.latest = append(c.latest[:0], c.latest[1:]...)
	}
	return p, challenger, true
}

// Z returns by how many standard errors a challenger is better than the model of the
// sample.
func (c *Detector) Z(challenger int) float64 {
	return c.d[challenger] / math.Sqrt(c.v[challenger]+1)
}

// ChangePoints returns the number of change points so far, and the latest 256.
func (c *Detector) ChangePoints() (total uint64, latest []ChangePoint) { return c.total, c.latest }

// Fields describes the state.
func (c *Detector) Fields(f *state.Fields) { c.FieldsBeside(f, nil) }

// FieldsBeside is Fields for a state that has that of other, which may be nil, before it. If their
// newest examples differ in labels only, just these are encoded.
func (c *Detector) FieldsBeside(f *state.Fields, other *Detector) {
	keep := c.Newest(c.size)
	if other != nil && (f.Next("labels") || !f.Decoding() && columns.Alike(keep, other.Newest(c.size))) {
		columns.Labels(f, "labels", &keep, other.Newest(c.size))
	} else {
		columns.Examples(f, "newest", &keep)
	}
	f.Uint64("seen", &c.seen)
	f.Float64s("d", &c.d)
	f.Float64s("v", &c.v)
	f.Uint64("cuts", &c.total)
	f.List("latest", len(c.latest), 4, func(n int) { c.latest = make([]ChangePoint, n) }, func(f *state.Fields, i int) {
		k := &c.latest[i]
		f.Uint64("at", &k.At)
		f.Int("from", &k.From)
		f.Int("to", &k.To)
		f.Float64("z", &k.Z)
	})
	if !f.Decoding() || f.Err() != nil {
		return
	}
	c.newest = keep
	if len(keep) > c.size || uint64(len(keep)) > c.seen || len(c.d) != len(c.windows) || len(c.v) != len(c.windows) || len(c.latest) > latestPoints {
		f.Fail("newest", errors.New("lengths do not agree"))
		return
	}
	for i, d := range c.d {
		if v := c.v[i]; d-d != 0 || !(v >= 0 && v < math.Inf(1)) {
			f.Fail("d", fmt.Errorf("%g, %g", d, v))
		}
	}
	for _, k := range c.latest {
		if uint64(len(c.latest)) > c.total || k.At > c.seen || k.To < 1 || k.To > k.From || k.Z-k.Z != 0 {
			f.Fail("latest", fmt.Errorf("%+v of %d change points in %d examples", k, c.total, c.seen))
		}
	}
	for _, x := range keep {
		if !x.Labelled {
			f.Fail("newest", errors.New("an example has no label"))
		}
	}
}
