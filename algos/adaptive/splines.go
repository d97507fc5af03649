package adaptive

import (
	"errors"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
)

const (
	fineEach   = 17 // most knots of a number
	coarseEach = 5  // most knots of a number in products
	mostPaired = 16 // numbers whose products count
)

// splines maps numbers to hat functions of each and products of them, so that a linear function
// of these is a generalized additive model with pairwise interactions (Lou, Caruana, Gehrke and
// Hooker, KDD 2013):
//
//	f(v) = b + Σ_j s_j(v_j) + Σ_{j<k} s_jk(v_j, v_k)
//
// s_j is linear between 17 quantiles of v_j among the first examples, and constant beyond them;
// s_jk is bilinear between five quantiles of each. Equal quantiles are one knot. v are the
// standardised inputs; of wide examples, those features that a schema says are numbers, not
// divided by their size.
type splines struct {
	columns      []int32   // of wide examples: the features, in order
	fine, coarse []float32 // fineEach and coarseEach knots of each number, increasing; MaxFloat32 follows where there are fewer
	paired       []int     // numbers whose products count, in order
}

// fitSplines takes the quantiles of xs, of which there is at least one. It returns nil if there
// are no numbers. scaled is that of algos.Env.
func fitSplines(in *inputs, xs []*stream.Example, scaled []bool) *splines {
	s := &splines{}
	if in.wide {
		for j, yes := range scaled[:min(len(scaled), len(in.most))] {
			if !yes && len(s.columns) < narrow {
				s.columns = append(s.columns, int32(j))
			}
		}
	}
	vs := make([]stream.Vec, len(xs))
	for i, x := range xs {
		vs[i] = s.numbers(in, x.X, in.apply(x.X))
	}
	column := make([]float32, len(xs))
	for j := range vs[0].Val {
		for i, v := range vs {
			column[i] = v.Val[j]
		}
		slices.Sort(column)
		s.fine = appendQuantiles(s.fine, column, fineEach)
		s.coarse = appendQuantiles(s.coarse, column, coarseEach)
	}
	if s.fine == nil {
		return nil
	}
	s.pair()
	return s
}

// numbers returns the numbers, dense, of x, which is z as standardised.
func (s *splines) numbers(in *inputs, x, z stream.Vec) stream.Vec {
	if !in.wide {
		return z
	}
	v := make([]float32, len(s.columns))
	for k, j := range s.columns {
		at, ok := int(j), int(j) < len(x.Val)
		if x.Idx != nil {
			at, ok = slices.BinarySearch(x.Idx, j)
		}
		if ok {
			v[k] = float32(in.mapped(int(j), x.Val[at]))
		}
	}
	return stream.Vec{Val: v}
}

// appendQuantiles appends n quantiles as knots.
func appendQuantiles(knots, sorted []float32, n int) []float32 {
	own := make([]float32, 0, n)
	for k := range n {
		if v := sorted[k*(len(sorted)-1)/(n-1)]; len(own) == 0 || v > own[len(own)-1] {
			own = append(own, v)
		}
	}
	for len(own) < n {
		own = append(own, math.MaxFloat32)
	}
	return append(knots, own...)
}

// count returns the number of numbers.
func (s *splines) count() int { return len(s.fine) / fineEach }

// of returns the fine and the coarse knots of number j.
func (s *splines) of(j int) (fine, coarse []float32) {
	return s.fine[j*fineEach : (j+1)*fineEach], s.coarse[j*coarseEach : (j+1)*coarseEach]
}

// size returns the number of hat functions and products.
func (s *splines) size() int {
	n := len(s.paired)
	return len(s.fine) + n*(n-1)/2*coarseEach*coarseEach
}

// pair chooses the numbers whose products count: the first ones with more than two values,
// then the first others.
func (s *splines) pair() {
	var few []int
	for j := range s.count() {
		if fine, _ := s.of(j); fine[2] < math.MaxFloat32 {
			s.paired = append(s.paired, j)
		} else {
			few = append(few, j)
		}
	}
	s.paired = append(s.paired, few...)
	s.paired = s.paired[:min(len(s.paired), mostPaired)]
	slices.Sort(s.paired)
}

// between returns the number of the interval between two knots that v is in, and where in it v
// is, from 0 to 1. The number of intervals is a power of two.
func between(knots []float32, v float32) (i int, part float64) {
	for step := len(knots) / 2; step > 0; step /= 2 {
		if v > knots[i+step] {
			i += step
		}
	}
	switch from, to := knots[i], knots[i+1]; {
	case v <= from || to == math.MaxFloat32: // no knot: learner online would adapt to the tiny part
		return i, 0
	case v >= to:
		return i, 1
	default:
		return i, (float64(v) - float64(from)) / (float64(to) - float64(from))
	}
}

// append appends the hat functions and products of numbers z that are not 0.
func (s *splines) append(v, z stream.Vec) stream.Vec {
	d := min(len(z.Val), s.count())
	var at [mostPaired]int32
	var part [mostPaired]float64
	paired := s.paired
	for j, x := range z.Val[:d] {
		fine, coarse := s.of(j)
		i, a := between(fine, x)
		first := int32(j*fineEach + i)
		v.Idx, v.Val = append(v.Idx, first, first+1), append(v.Val, float32(1-a), float32(a))
		if len(paired) > 0 && paired[0] == j {
			n := len(s.paired) - len(paired)
			paired = paired[1:]
			i, part[n] = between(coarse, x)
			at[n] = int32(i)
		}
	}
	table := int32(len(s.fine))
	for n := range len(s.paired) - len(paired) {
		a := part[n]
		for k, b := range part[:n] {
			first := table + at[n]*coarseEach + at[k]
			v.Idx = append(v.Idx, first, first+1, first+coarseEach, first+coarseEach+1)
			v.Val = append(v.Val, float32((1-a)*(1-b)), float32((1-a)*b), float32(a*(1-b)), float32(a*b))
			table += coarseEach * coarseEach
		}
	}
	return v
}

// ofAll returns the splines of examples xs, which are zs as standardised, in the memory of room.
func (s *splines) ofAll(room *stream.Vec, in *inputs, xs, zs []stream.Vec) []stream.Vec {
	out, ends := make([]stream.Vec, len(zs)), make([]int, len(zs))
	p := len(s.paired)
	n := len(zs) * 2 * (s.count() + p*(p-1))
	room.Idx, room.Val = slices.Grow(room.Idx[:0], n), slices.Grow(room.Val[:0], n)
	for i, z := range zs {
		*room = s.append(*room, s.numbers(in, xs[i], z))
		ends[i] = len(room.Idx)
	}
	from := 0
	for i, to := range ends {
		out[i] = stream.Vec{Idx: room.Idx[from:to:to], Val: room.Val[from:to:to]}
		from = to
	}
	return out
}

// splineFields describes *s, which is nil if there are none.
func splineFields(f *state.Fields, s **splines, in *inputs) {
	if f.Decoding() {
		*s = nil
	}
	if !f.Next("knots") && (f.Decoding() || *s == nil) {
		return
	}
	if f.Decoding() {
		*s = new(splines)
	}
	x := *s
	f.Float32s("knots", &x.fine)
	f.Float32s("coarse", &x.coarse)
	f.Int32s("columns", &x.columns)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	n, most := len(x.columns), len(in.most)
	if !in.wide {
		n, most = min(x.count(), len(in.mean)), 0
	}
	bad := n == 0 || n > narrow || len(x.fine) != n*fineEach || len(x.coarse) != n*coarseEach
	increasing := func(knots []float32, each int) {
		for j, v := range knots {
			bad = bad || !(math.Abs(float64(v)) <= math.MaxFloat32) || j%each > 0 && !(v > knots[j-1] || v == math.MaxFloat32)
		}
	}
	increasing(x.fine, fineEach)
	increasing(x.coarse, coarseEach)
	for j, v := range x.columns {
		bad = bad || v < 0 || int(v) >= most || j > 0 && v <= x.columns[j-1]
	}
	if bad {
		f.Fail("knots", errors.New("they are not those of the features, in order"))
		return
	}
	x.pair()
}
