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
	// points are a ring of (−|p|²/2, p), whose inner products with (1, z) are the larger
	// the nearer p is to z; nil: none yet.
	points *kernel.Basis
	y      []float64
	next   int // place of the oldest point, once all are taken

	many     score     // of the long window, for the example that was scored last
	products []float32 // scratch
	query    [1]stream.Vec
	val      []float32
	idx      []int32
}

// found are the nearest points so far, the nearest first.
type found struct {
	near [nearest]float32 // inner products
	y    [nearest]float64
}

func (v *found) add(product float32, y float64) {
	at := nearest - 1
	for at > 0 && v.near[at-1] < product {
		v.near[at], v.y[at] = v.near[at-1], v.y[at-1]
		at--
	}
	v.near[at], v.y[at] = product, y
}

// score returns the vote, for an example of such a squared length.
func (v *found) score(square float64) float64 {
	var d [nearest]float64
	for i, product := range v.near {
		d[i] = math.Sqrt(max(square-2*float64(product), 0))
	}
	var all, positive float64
	for i := range d {
		w := 1 / (d[i] + d[nearest/2]/10 + 1e-9)
		all += w
		if v.y[i] > 0 {
			positive += w
		}
	}
	p := (float64(nearest*(positive/all)) + 0.5) / (nearest + 1)
	return linear.Log(p / (1 - p))
}

// scores returns the scores of both windows. z is standardised.
func (e *neighbours) scores(z stream.Vec) (few, many score) {
	n := len(e.y)
	if n < nearLeast {
		return few, many
	}
	e.products = room(e.products, n)
	e.query[0] = e.extended(z, 1)
	var a, b found
	for i := range a.near {
		a.near[i], b.near[i] = -math.MaxFloat32, -math.MaxFloat32
	}
	long := e.long()
	scan := func(v *found, lo, hi int) {
		for j, product := range e.products[lo:hi] {
			if product > v.near[nearest-1] {
				v.add(product, e.y[lo+j])
			}
		}
	}
	if long {
		e.points.Block(e.products, n, e.query[:], 0, n)
		scan(&b, 0, n)
	}
	// The newest few are a stretch of the ring that may go over its end.
	from, to := e.newest()
	parts := [2][2]int{{from, to}}
	if from > to {
		parts = [2][2]int{{0, to}, {from, n}}
	}
	for _, p := range parts {
		if lo, hi := p[0], p[1]; lo < hi {
			if !long {
				e.points.Block(e.products[lo:], hi-lo, e.query[:], lo, hi)
			}
			scan(&a, lo, hi)
		}
	}
	square := linear.Square(z)
	few = score{a.score(square), true}
	if long {
		many = score{b.score(square), true}
	}
	return few, many
}

// long reports whether there is a vote of the long window.
func (e *neighbours) long() bool { return len(e.y) >= nearLeast && e.points.Dim() <= nearDim+1 }

// extended returns (first, z).
func (e *neighbours) extended(z stream.Vec, first float64) stream.Vec {
	x := stream.Vec{Val: append(e.val[:0], float32(first))}
	x.Val = append(x.Val, z.Val...)
	e.val = x.Val
	if z.Idx != nil {
		x.Idx = append(e.idx[:0], 0)
		for _, j := range z.Idx {
			x.Idx = append(x.Idx, j+1)
		}
		e.idx = x.Idx
	}
	return x
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
	x := e.extended(z, -linear.Square(z)/2)
	if len(e.y) < nearMany {
		e.points.Append(x)
		e.y = append(e.y, y)
		return
	}
	e.points.Set(e.next, x)
	e.y[e.next] = y
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

// check refuses what cannot have been stored.
func (e *neighbours) check() error {
	n := e.points.Len()
	if n < 1 || n > nearMany || len(e.y) != n || e.next < 0 || e.next >= n || e.next > 0 && n < nearMany || e.points.Func.Kind != vec.Linear || e.points.Func.Bias != 0 {
		return errors.New("lengths do not agree")
	}
	for _, y := range e.y {
		if y != 1 && y != -1 {
			return fmt.Errorf("label %g", y)
		}
	}
	return nil
}

// nearExpert is one of the votes. The short one keeps the points, and predicts first.
type nearExpert struct {
	unbatched
	*neighbours
	second bool
}

func (e *nearExpert) predict(in *input) score {
	if e.second {
		return e.many
	}
	few, many := e.scores(in.z)
	e.many = many
	return few
}

func (e *nearExpert) learn(in *input, _ score) error {
	if !e.second {
		e.add(in.z, in.x.Y)
	}
	return nil
}

func (e *nearExpert) function() function {
	if len(e.y) < nearLeast || e.second && !e.long() {
		return nil
	}
	return nearFunction{e.neighbours, e.second}
}

func (e *nearExpert) fields(f *state.Fields) {
	if !e.second {
		e.neighbours.fields(f)
	}
}
