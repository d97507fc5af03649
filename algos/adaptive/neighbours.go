package adaptive

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// Nearest neighbours: window lengths in examples, and limits.
const (
	nearFew  = 512
	nearMany = 2048
)

const (
	nearest   = 5  // neighbours that vote
	nearLeast = 8  // fewest points
	nearDim   = 64 // most features with the long window
)

// neighbours stores the newest examples for two k-nearest-neighbour votes, among the newest
// 512 and the newest 2,048. A neighbour at distance d has weight 1/(d + m/10), where m is the
// median distance of the k. The score is the log odds of (5q + ½)/6, where q is the weighted
// share of positive neighbours.
type neighbours struct {
	// points is a ring buffer of (−|p|²/2, p) for rounded points p. The nearer p is to z, the
	// larger is the inner product with (1, z). nil: no points yet.
	points *kernel.Basis
	y      []float64
	next   int    // index of the oldest point, once the ring is full
	number bool   // regression: the score is the weighted mean of the labels
	added  uint64 // points added since start or restore
	shared bool   // points are those of another class of the same model, which encodes them

	val, coarse []float32 // scratch
	idx         []int32
}

// found holds the nearest points so far, nearest first; of equally near ones, the one with the
// smallest index comes first.
type found struct {
	near [nearest]float32 // inner products
	at   [nearest]int     // indices of the points
}

func (v *found) add(product float32, place int) {
	i := nearest
	for i > 0 && (v.near[i-1] < product || v.near[i-1] == product && v.at[i-1] > place) {
		i--
	}
	if i < nearest {
		copy(v.near[i+1:], v.near[i:])
		copy(v.at[i+1:], v.at[i:])
		v.near[i], v.at[i] = product, place
	}
}

// scan adds the points from index first on, which have the given products.
func (v *found) scan(products []float32, first int) {
	for i, product := range products {
		if product >= v.near[nearest-1] {
			v.add(product, first+i)
		}
	}
}

// search finds the nearest points of a few queries. It computes most inner products for all
// queries together, which takes half the time.
type search struct {
	of      *neighbours
	queries []stream.Vec // (1, z)
	known   int          // points whose products are computed; 0: none
	added   uint64       // neighbours.added when the search began

	products     []float32 // scratch
	x, val, room []float32
	idx          []int32
}

// begin starts a search for zs, which are standardised.
func (s *search) begin(e *neighbours, zs ...stream.Vec) {
	s.of, s.known, s.added = e, 0, e.added
	s.queries, s.val, s.idx = s.queries[:0], s.val[:0], s.idx[:0]
	for _, z := range zs {
		var q stream.Vec
		q, s.val, s.idx = extended(z, 1, s.val, s.idx)
		s.queries = append(s.queries, q)
	}
	if e.long() && len(zs) > 1 {
		s.known = len(e.y)
		s.products = room(s.products, len(zs)*s.stride())
		s.x = e.points.Values(s.x, s.products, s.stride(), s.queries, 0, s.known)
	}
}

// stride is the length of a query's row; it has room for points added before the last query.
func (s *search) stride() int { return s.known + len(s.queries) }

// vote holds the nearest points and their weights; it does not depend on labels.
type vote struct {
	at     [nearest]int // indices of the points, valid until the next point is added
	weight [nearest]float64
	ok     bool
}

// votes returns the votes of a query in both windows, the short one first. Since begin, at
// most as many points may have been added as there are queries before this one.
func (s *search) votes(query int) (v [2]vote) {
	e, n := s.of, len(s.of.y)
	if n < nearLeast {
		return v
	}
	q, z := s.queries[query:query+1], s.queries[query]
	var row []float32
	long := e.long()
	if missing := e.newest(nearFew); s.known > 0 && long {
		row = s.products[query*s.stride():][:n]
		missing = e.newest(int(e.added - s.added))
		s.multiply(row, q, missing)
	} else {
		s.products = room(s.products, n)
		row = s.products
		if long {
			missing = [2]stretch{{0, n}}
		}
		s.multiply(row, q, missing)
	}
	var a found
	for i := range a.near {
		a.near[i] = -math.MaxFloat32
	}
	newest := e.newest(nearFew)
	for _, p := range newest {
		a.scan(row[p.from:p.to], p.from)
	}
	v[0] = s.vote(&a, z)
	if long {
		for _, p := range e.oldest(newest) {
			a.scan(row[p.from:p.to], p.from)
		}
		v[1] = s.vote(&a, z)
	}
	return v
}

// multiply computes the inner products of the given stretches of the row.
func (s *search) multiply(row []float32, q []stream.Vec, parts [2]stretch) {
	for _, p := range parts {
		if p.from < p.to {
			s.x = s.of.points.Values(s.x, row[p.from:], p.to-p.from, q, p.from, p.to)
		}
	}
}

// vote returns the vote of the points in a, which are nearest to z. It computes their distances
// again: as differences of inner products they would be mere rounding for points close to z.
func (s *search) vote(a *found, z stream.Vec) vote {
	e, v := s.of, vote{at: a.at, ok: true}
	var d [nearest]float64
	for i, at := range v.at {
		s.room = room(s.room, e.points.Dim())
		d[i] = math.Sqrt(distance(z, e.points.RowIn(s.room, at)))
	}
	for i := range d {
		v.weight[i] = 1 / (d[i] + d[nearest/2]/10 + 1e-9)
	}
	return v
}

// score returns the score of a vote.
func (e *neighbours) score(v *vote) score {
	if !v.ok {
		return score{}
	}
	var all, positive, sum float64
	for i, w := range v.weight {
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

// distance returns |z − p|², given (1, z) and (−|p|²/2, p).
func distance(z, p stream.Vec) float64 {
	var sum float64
	add := func(a, b float32) {
		d := float64(a) - float64(b)
		sum += float64(d * d)
	}
	if z.Idx == nil && p.Idx == nil {
		a, b := z.Val[1:], p.Val[1:]
		n := min(len(a), len(b))
		for j, v := range a[:n] {
			add(v, b[j])
		}
		for _, v := range a[n:] {
			add(v, 0)
		}
		for _, v := range b[n:] {
			add(0, v)
		}
		return sum
	}
	i, k := 1, 0
	for i < len(z.Val) || k < len(p.Val) {
		a, b := index(z, i), index(p, k)
		switch {
		case b == 0: // −|p|²/2
			k++
		case a < b:
			add(z.Val[i], 0)
			i++
		case a > b:
			add(0, p.Val[k])
			k++
		default:
			add(z.Val[i], p.Val[k])
			i++
			k++
		}
	}
	return sum
}

// index returns the feature of value i; past the end, an index beyond all features.
func index(x stream.Vec, i int) int {
	switch {
	case i >= len(x.Val):
		return math.MaxInt
	case x.Idx == nil:
		return i
	}
	return int(x.Idx[i])
}

// long reports whether the long window votes.
func (e *neighbours) long() bool { return len(e.y) >= nearLeast && e.points.Dim() <= nearDim+1 }

// extended returns (first, z). It is appended to val and idx, which are returned too.
func extended(z stream.Vec, first float64, val []float32, idx []int32) (stream.Vec, []float32, []int32) {
	n, k := len(val), len(idx)
	val = append(append(val, float32(first)), z.Val...)
	x := stream.Vec{Val: val[n:]}
	if z.Idx != nil {
		idx = append(idx, 0)
		for _, j := range z.Idx {
			idx = append(idx, j+1)
		}
		x.Idx = idx[k:]
	}
	return x, val, idx
}

// stretch is a range of indices.
type stretch struct{ from, to int }

// newest returns the index ranges of the newest k points, in ascending order: they may wrap
// around the end of the ring.
func (e *neighbours) newest(k int) [2]stretch {
	n, end := len(e.y), e.next
	if end == 0 {
		end = n
	}
	if k = min(k, n); k <= end {
		return [2]stretch{{end - k, end}}
	}
	return [2]stretch{{0, end}, {n - (k - end), n}}
}

// oldest returns the index ranges of all other points.
func (e *neighbours) oldest(newest [2]stretch) [2]stretch {
	if newest[1].to > 0 {
		return [2]stretch{{newest[0].to, newest[1].from}}
	}
	return [2]stretch{{0, newest[0].from}, {newest[0].to, len(e.y)}}
}

// roundTo is the inverse of the step to which points are rounded, so that models take fewer
// bytes: standardised features vary by about 1.
const roundTo = 32

// rounded returns z rounded, in memory that the next call uses again. Features that are not
// standardised keep their digits.
func (e *neighbours) rounded(z stream.Vec) stream.Vec {
	if z.Idx != nil || len(z.Val) > narrow {
		return z
	}
	e.coarse = e.coarse[:0]
	for _, v := range z.Val {
		e.coarse = append(e.coarse, float32(math.RoundToEven(float64(v)*roundTo)/roundTo))
	}
	return stream.Vec{Val: e.coarse}
}

// add stores z as the newest point.
func (e *neighbours) add(z stream.Vec, y float64) {
	if e.points == nil {
		e.points = kernel.New(kernel.Func{Kernel: vec.Kernel{Kind: vec.Linear}})
	}
	var x stream.Vec
	z = e.rounded(z)
	x, e.val, e.idx = extended(z, -linear.Square(z)/2, e.val[:0], e.idx[:0])
	e.added++
	if len(e.y) < nearMany {
		e.points.Append(x)
		e.y = append(e.y, y)
		return
	}
	e.points.Set(e.next, x)
	e.y[e.next] = y
	e.next = (e.next + 1) % nearMany
}

func (e *neighbours) fields(f *state.Fields) { e.fieldsBeside(f, nil) }

// fieldsBeside is fields for a state that has that of other, which may be nil, before it. Points
// that are equal in both are not encoded.
func (e *neighbours) fieldsBeside(f *state.Fields, other *neighbours) {
	there := e.points != nil
	f.Bool("there", &there)
	shared := e.shared || other != nil // decoding: may be
	if f.Decoding() {
		*e = neighbours{number: e.number}
	} else if !e.shared {
		shared = other != nil && e.samePoints(other)
	}
	if !there || f.Err() != nil {
		return
	}
	points := e.points
	if f.Decoding() || shared {
		points = kernel.New(kernel.Func{Kernel: vec.Kernel{Kind: vec.Linear}})
	}
	f.Group("points", points.Fields)
	f.Float64s("y", &e.y)
	f.Int("next", &e.next)
	if f.Decoding() && f.Err() == nil {
		e.points, e.shared = points, shared && points.Len() == 0
		f.Fail("points", e.check())
		if other != nil && e.shared {
			if len(e.y) != len(other.y) || e.next != other.next {
				f.Fail("y", errors.New("lengths of classes do not agree"))
				return
			}
			e.points, e.shared = other.points.Clone(), false
		}
	}
}

// samePoints reports whether both hold the same points.
func (e *neighbours) samePoints(other *neighbours) bool {
	return e.points != nil && other.points != nil && e.next == other.next && e.points.Equal(other.points)
}

// check validates a decoded state.
func (e *neighbours) check() error {
	n := len(e.y)
	if n < 1 || n > nearMany || !e.shared && (e.points.Dim() < 1 || e.points.Len() != n) || e.next < 0 || e.next >= n || e.next > 0 && n < nearMany || e.points.Func.Kind != vec.Linear || e.points.Func.Bias != 0 {
		return errors.New("lengths do not agree")
	}
	for _, y := range e.y {
		if !e.number && y != 1 && y != -1 || y-y != 0 {
			return fmt.Errorf("label %g", y)
		}
	}
	return nil
}

// nearExpert is the expert of one window. The short window's expert stores the points for both,
// and predicts first.
type nearExpert struct {
	*neighbours
	second bool
	votes  *nearVotes // of both windows
}

// nearVotes is the search for a batch, which the two experts share.
type nearVotes struct {
	search search
	zs     []stream.Vec
	many   [tick]score // scores of the long window
	fresh  bool
}

func newNearExperts(e *neighbours) (few, many *nearExpert) {
	votes := new(nearVotes)
	return &nearExpert{e, false, votes}, &nearExpert{e, true, votes}
}

func (e *nearExpert) begin(batch []input, fresh bool) {
	if v := e.votes; !e.second {
		v.fresh = fresh
		v.zs = v.zs[:0]
		for i := range batch {
			v.zs = append(v.zs, batch[i].z)
		}
		if fresh && batch[len(batch)-1].votes == nil {
			v.search.begin(e.neighbours, v.zs...)
		}
	}
}

func (e *nearExpert) predict(in *input) score {
	if !e.votes.fresh {
		return score{}
	}
	if e.second {
		return e.votes.many[in.i]
	}
	votes := in.votes
	if votes == nil {
		all := e.votes.search.votes(in.i)
		votes = &all
	}
	e.votes.many[in.i] = e.score(&votes[1])
	return e.score(&votes[0])
}

func (e *nearExpert) learn(in *input, _ score) error {
	if !e.second {
		e.add(in.z, in.x.Y)
	}
	return nil
}

func (e *nearExpert) step(context.Context, uint64) error { return nil }

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
