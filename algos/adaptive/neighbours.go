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
	next   int  // place of the oldest point, once all are taken
	number bool // the labels are numbers: the score is their weighted mean

	many     score     // of the long window, for the example that was scored last
	products []float32 // scratch
	query    [1]stream.Vec
	x, val   []float32
	idx      []int32
}

// found are the nearest points so far, the nearest first.
type found struct {
	near [nearest]float32 // inner products
	at   [nearest]int     // places of the points
}

func (v *found) add(product float32, place int) {
	i := nearest - 1
	for i > 0 && v.near[i-1] < product {
		v.near[i], v.at[i] = v.near[i-1], v.at[i-1]
		i--
	}
	v.near[i], v.at[i] = product, place
}

// vote returns the score by the nearest points. Their distances are computed again: as
// differences of inner products, those of points that nearly equal z would be rounding.
func (e *neighbours) vote(v *found, z stream.Vec) score {
	var d [nearest]float64
	for i, at := range v.at {
		d[i] = math.Sqrt(distance(z, e.points.Row(at)))
	}
	var all, positive, sum float64
	for i := range d {
		w := 1 / (d[i] + d[nearest/2]/10 + 1e-9)
		all += w
		sum += float64(w * e.y[v.at[i]])
		if e.y[v.at[i]] > 0 {
			positive += w
		}
	}
	if e.number {
		return score{sum / all, true}
	}
	p := (float64(nearest*(positive/all)) + 0.5) / (nearest + 1)
	return score{linear.Log(p / (1 - p)), true}
}

// distance returns |z − p|², given (−|p|²/2, p).
func distance(z, extended stream.Vec) float64 {
	var sum float64
	add := func(a, b float32) {
		d := float64(a) - float64(b)
		sum += float64(d * d)
	}
	if z.Idx == nil && extended.Idx == nil {
		p := extended.Val[1:]
		for j, v := range z.Val {
			if j < len(p) {
				add(v, p[j])
			} else {
				add(v, 0)
			}
		}
		for _, v := range p[min(len(p), len(z.Val)):] {
			add(0, v)
		}
		return sum
	}
	i, k := 0, 0
	for i < len(z.Val) || k < len(extended.Val) {
		a, b := index(z, i), index(extended, k)-1
		switch {
		case b < 0: // −|p|²/2
			k++
		case a < b:
			add(z.Val[i], 0)
			i++
		case a > b:
			add(0, extended.Val[k])
			k++
		default:
			add(z.Val[i], extended.Val[k])
			i++
			k++
		}
	}
	return sum
}

// index returns the feature of value i, one beyond all others if there is none.
func index(x stream.Vec, i int) int {
	switch {
	case i >= len(x.Val):
		return math.MaxInt
	case x.Idx == nil:
		return i
	}
	return int(x.Idx[i])
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
				v.add(product, lo+j)
			}
		}
	}
	if long {
		e.x = e.points.Values(e.x, e.products, n, e.query[:], 0, n)
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
				e.x = e.points.Values(e.x, e.products[lo:], hi-lo, e.query[:], lo, hi)
			}
			scan(&a, lo, hi)
		}
	}
	few = e.vote(&a, z)
	if long {
		many = e.vote(&b, z)
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
		*e = neighbours{number: e.number}
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
	if n < 1 || n > nearMany || e.points.Dim() < 1 || len(e.y) != n || e.next < 0 || e.next >= n || e.next > 0 && n < nearMany || e.points.Func.Kind != vec.Linear || e.points.Func.Bias != 0 {
		return errors.New("lengths do not agree")
	}
	for _, y := range e.y {
		if !e.number && y != 1 && y != -1 || y-y != 0 {
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
