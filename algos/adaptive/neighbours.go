package adaptive

import (
	"errors"
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// Windows of the nearest neighbours, in examples.
const (
	nearFew  = 512
	nearMany = 2048
)

const (
	nearest   = 5  // neighbours that vote
	nearLeast = 8  // fewest points
	nearDim   = 64 // most features with the long window
)

// neighbours are the newest examples, for two votes of the nearest ones: of the newest
// 512 and of the newest 2,048. The vote of a neighbour at distance d counts 1/(d + m/10),
// where m is the median of the neighbours' distances. The score is the log odds of
// (5q + ½)/6, where q is the positive share of the votes.
type neighbours struct {
	points *kernel.Basis // of inner products, a ring; nil: none yet
	square []float64     // squared length of each point
	y      []float64
	next   int // place of the oldest point, once all are taken

	many     score     // of the long window, for the example that was scored last
	products []float32 // scratch
}

// found are the nearest neighbours so far, the nearest first.
type found struct {
	n    int
	d, y [nearest]float64 // squared distances
}

func (v *found) add(d, y float64) {
	at := v.n
	if at < nearest {
		v.n++
	} else {
		at--
	}
	for at > 0 && v.d[at-1] > d {
		v.d[at], v.y[at] = v.d[at-1], v.y[at-1]
		at--
	}
	v.d[at], v.y[at] = d, y
}

// score returns the vote.
func (v *found) score() float64 {
	var all, positive float64
	near := math.Sqrt(max(v.d[v.n/2], 0)) / 10
	for i, d := range v.d[:v.n] {
		w := 1 / (math.Sqrt(max(d, 0)) + near + 1e-9)
		all += w
		if v.y[i] > 0 {
			positive += w
		}
	}
	p := (nearest*(positive/all) + 0.5) / (nearest + 1)
	return linear.Log(p / (1 - p))
}

// scores returns the scores of both windows. z is standardised.
func (e *neighbours) scores(z stream.Vec) (few, many score) {
	n := len(e.y)
	if n < nearLeast {
		return few, many
	}
	e.products = room(e.products, n)
	long := e.points.Dim() <= nearDim
	// The newest few are a stretch of the ring that may go over its end.
	from, to := e.newest()
	own := linear.Square(z)
	var a, b found
	scan := func(lo, hi int, recent bool) {
		if lo >= hi || !recent && !long {
			return
		}
		e.points.Block(e.products, hi-lo, []stream.Vec{z}, lo, hi)
		for j, product := range e.products[:hi-lo] {
			d := own + e.square[lo+j] - 2*float64(product)
			if long && (b.n < nearest || d < b.d[nearest-1]) {
				b.add(d, e.y[lo+j])
			}
			if recent && (a.n < nearest || d < a.d[nearest-1]) {
				a.add(d, e.y[lo+j])
			}
		}
	}
	if from <= to {
		scan(0, from, false)
		scan(from, to, true)
		scan(to, n, false)
	} else {
		scan(0, to, true)
		scan(to, from, false)
		scan(from, n, true)
	}
	few = score{a.score(), true}
	if long {
		many = score{b.score(), true}
	}
	return few, many
}

// newest returns where the newest few points are: from ≤ i < to, or if from > to, all
// others.
func (e *neighbours) newest() (from, to int) {
	n := len(e.y)
	switch {
	case n <= nearFew:
		return 0, n
	case n < nearMany:
		return n - nearFew, n
	}
	return (e.next + n - nearFew) % n, e.next
}

// add makes z the newest point.
func (e *neighbours) add(z stream.Vec, y float64) {
	if e.points == nil {
		e.points = kernel.New(kernel.Func{Kernel: vec.Kernel{Kind: vec.Linear}})
	}
	if len(e.y) < nearMany {
		e.points.Append(z)
		e.y, e.square = append(e.y, y), append(e.square, linear.Square(z))
		return
	}
	e.points.Set(e.next, z)
	e.y[e.next], e.square[e.next] = y, linear.Square(z)
	e.next = (e.next + 1) % nearMany
}

func (e *neighbours) fields(f *state.Fields) {
	there := e.points != nil
	f.Bool("there", &there)
	if f.Decoding() {
		*e = neighbours{}
	}
	if !there || f.Err() != nil {
		return
	}
	if f.Decoding() {
		e.points = kernel.New(kernel.Func{Kernel: vec.Kernel{Kind: vec.Linear}})
	}
	f.Group("points", e.points.Fields)
	f.Float64s("y", &e.y)
	f.Int("next", &e.next)
	if f.Decoding() && f.Err() == nil {
		f.Fail("points", e.check())
	}
}

// check refuses what cannot have been stored, and completes the rest.
func (e *neighbours) check() error {
	n := e.points.Len()
	if n < 1 || n > nearMany || len(e.y) != n || e.next < 0 || e.next >= n || e.next > 0 && n < nearMany || e.points.Func.Kind != vec.Linear || e.points.Func.Bias != 0 {
		return errors.New("lengths do not agree")
	}
	for i, y := range e.y {
		if y != 1 && y != -1 {
			return fmt.Errorf("label %g", y)
		}
		e.square = append(e.square, linear.Square(e.points.Row(i)))
	}
	return nil
}

// nearExpert is one of the votes. The short one keeps the points, and predicts first.
type nearExpert struct {
	unbatched
	*neighbours
	long bool
}

func (e *nearExpert) predict(in *input) score {
	if e.long {
		return e.many
	}
	few, many := e.scores(in.z)
	e.many = many
	return few
}

func (e *nearExpert) learn(in *input, _ score) error {
	if !e.long {
		e.add(in.z, in.x.Y)
	}
	return nil
}

func (e *nearExpert) function() function {
	if len(e.y) < nearLeast || e.long && e.points.Dim() > nearDim {
		return nil
	}
	return nearFunction{e.neighbours, e.long}
}

func (e *nearExpert) fields(f *state.Fields) {
	if !e.long {
		e.neighbours.fields(f)
	}
}
