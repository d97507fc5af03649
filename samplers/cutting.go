package samplers

import (
	"errors"
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/columns"
	"github.com/streamsvm/streamsvm/stream"
)

// Cut says that a sample was cut to its recent part, since the stream has
// changed.
type Cut struct {
	At       uint64  // labelled examples that had come
	From, To int     // sizes of the sample
	Z        float64 // by which the recent part was better, in standard errors
}

// Cutting lets a sample grow for as long as the stream stays the same, and cuts
// it to its recent part when it has changed. It compares two learners on each
// example before they learn from it: one that has the whole sample, and a
// challenger that has only the newest W examples, for each of some windows W
// (paired learners: Bach and Maloof, ICDM 2008). With d = 1 where the sample is
// wrong and the challenger right, −1 the other way round, 0 else,
//
//	D_W ← ρ D_W + d,   V_W ← ρ² V_W + d²,   ρ = 2^(−1/W)
//
// and z_W = D_W/√(V_W+1), a sign test whose memory fades with W. The sample is
// cut to the W with the largest z_W where that is above 3, V_W at least 4 and
// the sample at least 2W. A challenger has less to learn from: while nothing
// changes it loses more often than it wins, and D_W falls.
//
// Cutting keeps the newest examples, so that what is left of the sample can be
// learned anew. All is decided by counts. It is used by one goroutine at a time.
type Cutting struct {
	windows []int
	size    int               // most examples kept
	newest  []*stream.Example // in order of arrival; grows to 2·size, then is moved down
	seen    uint64
	d, v    []float64
	total   uint64
	latest  []Cut
}

const (
	cutEvery   = 32 // examples between two tests
	cutAbove   = 3  // standard errors
	cutLeast   = 4  // V_W below which a test says nothing
	latestCuts = 256
)

// NewCutting returns a Cutting that keeps size examples and has a challenger
// for each of the windows, which ascend and are at most size.
func NewCutting(size int, windows ...int) (*Cutting, error) {
	for i, w := range windows {
		if w < 1 || w > size || i > 0 && w <= windows[i-1] {
			return nil, fmt.Errorf("samplers: windows %d do not ascend from 1 to %d", windows, size)
		}
	}
	return &Cutting{windows: windows, size: size, d: make([]float64, len(windows)), v: make([]float64, len(windows))}, nil
}

// Add takes in an example that all have learned from. It keeps x.
func (c *Cutting) Add(x *stream.Example) {
	if len(c.newest) >= 2*c.size {
		n := copy(c.newest, c.newest[len(c.newest)-c.size:])
		clear(c.newest[n:])
		c.newest = c.newest[:n]
	}
	c.newest = append(c.newest, x)
	c.seen++
}

// Seen returns the number of examples that have come.
func (c *Cutting) Seen() uint64 { return c.seen }

// Newest returns the n newest examples, or as many as are kept, in order of
// arrival. The list is valid until the next Add and must not be changed.
func (c *Cutting) Newest(n int) []*stream.Example {
	return c.newest[len(c.newest)-min(n, c.size, len(c.newest)):]
}

// Compare takes note of who was wrong on an example that is to be added: the
// learner with the whole sample, and each of the challengers.
func (c *Cutting) Compare(whole bool, challengers []bool) {
	d := make([]float64, len(c.windows))
	for i := range d {
		switch {
		case whole && !challengers[i]:
			d[i] = 1
		case challengers[i] && !whole:
			d[i] = -1
		}
	}
	c.CompareBy(d)
}

// CompareBy is Compare for learners of which there is more to tell than who was
// wrong: by is above 0 for each of the challengers that was better than the one
// with the whole sample, below 0 where it was worse; at most 1 in size for an example that stands for no other.
func (c *Cutting) CompareBy(by []float64) {
	for i, w := range c.windows {
		d := by[i]
		fade := math.Exp2(-1 / float64(w))
		c.d[i] = float64(fade*c.d[i]) + d
		c.v[i] = float64(fade*fade*c.v[i]) + float64(d*d)
	}
}

// Forget drops all that is known of a challenger. It cannot win before it has been
// compared again.
func (c *Cutting) Forget(challenger int) {
	c.d[challenger], c.v[challenger] = 0, 0
}

// Test tells, now and then, whether a sample of so many examples is to be cut,
// and to which window. It notes the cut.
func (c *Cutting) Test(size int) (cut Cut, challenger int, yes bool) {
	if c.seen%cutEvery != 0 {
		return cut, -1, false
	}
	challenger, best := -1, float64(cutAbove)
	for i, w := range c.windows {
		if c.v[i] < cutLeast || size < 2*w {
			continue
		}
		if z := c.Z(i); z > cutAbove && z >= best { // the larger window of two equal ones
			challenger, best = i, z
		}
	}
	if challenger < 0 {
		return cut, -1, false
	}
	cut = Cut{At: c.seen, From: size, To: c.windows[challenger], Z: best}
	clear(c.d)
	clear(c.v)
	c.total++
	if c.latest = append(c.latest, cut); len(c.latest) > latestCuts {
		c.latest = append(c.latest[:0], c.latest[1:]...)
	}
	return cut, challenger, true
}

// Z returns by how many standard errors a challenger is better than the sample.
func (c *Cutting) Z(challenger int) float64 {
	return c.d[challenger] / math.Sqrt(c.v[challenger]+1)
}

// Cuts returns the number of cuts, and the latest 256 of them.
func (c *Cutting) Cuts() (total uint64, latest []Cut) { return c.total, c.latest }

// Fields describes the state.
func (c *Cutting) Fields(f *state.Fields) {
	keep := c.Newest(c.size)
	columns.Examples(f, "newest", &keep)
	f.Uint64("seen", &c.seen)
	f.Float64s("d", &c.d)
	f.Float64s("v", &c.v)
	f.Uint64("cuts", &c.total)
	f.List("latest", len(c.latest), 4, func(n int) { c.latest = make([]Cut, n) }, func(f *state.Fields, i int) {
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
	if len(keep) > c.size || uint64(len(keep)) > c.seen || len(c.d) != len(c.windows) || len(c.v) != len(c.windows) || len(c.latest) > latestCuts {
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
			f.Fail("latest", fmt.Errorf("%+v of %d cuts in %d examples", k, c.total, c.seen))
		}
	}
	for _, x := range keep {
		if !x.Labelled {
			f.Fail("newest", errNoLabel)
		}
	}
}
