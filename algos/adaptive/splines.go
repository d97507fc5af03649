package adaptive

import (
	"errors"
	"slices"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
)

const (
	knotsEach  = 17 // of a feature
	coarse     = 4  // products have every such knot
	coarseEach = (knotsEach-1)/coarse + 1
	mostPaired = 16 // features whose products count
)

// splines maps numbers to hat functions of each and products of them, so that a linear function
// of these is a generalized additive model with pairwise interactions (Lou, Caruana, Gehrke and
// Hooker, KDD 2013):
//
//	f(v) = b + Σ_j s_j(v_j) + Σ_{j<k} s_jk(v_j, v_k)
//
// s_j is linear between 17 quantiles of v_j among the first examples, and constant beyond them;
// s_jk is bilinear between five quantiles of each. v are the standardised inputs; of wide
// examples, those features that a schema says are numbers, not divided by their size.
type splines struct {
	columns []int32   // of wide examples: the features, in order
	knots   []float32 // knotsEach of each number, not decreasing
	paired  []int     // numbers whose products count, in order
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
		for k := range knotsEach {
			s.knots = append(s.knots, column[k*(len(column)-1)/(knotsEach-1)])
		}
	}
	if s.knots == nil {
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

// count returns the number of numbers.
func (s *splines) count() int { return len(s.knots) / knotsEach }

// size returns the number of hat functions and products.
func (s *splines) size() int {
	n := len(s.paired)
	return len(s.knots) + n*(n-1)/2*coarseEach*coarseEach
}

// of returns the knots of number j.
func (s *splines) of(j int) []float32 { return s.knots[j*knotsEach : (j+1)*knotsEach] }

// pair chooses the numbers whose products count: the first ones with more than two values,
// then the first others.
func (s *splines) pair() {
	var few []int
	for j := range s.count() {
		if len(slices.Compact(slices.Clone(s.of(j)))) > 2 {
			s.paired = append(s.paired, j)
		} else {
			few = append(few, j)
		}
	}
	s.paired = append(s.paired, few...)
	s.paired = s.paired[:min(len(s.paired), mostPaired)]
	slices.Sort(s.paired)
}

// interval returns the number of the interval between two knots that v is in: (knots[i],
// knots[i+1]], the first one and the last one without bounds.
func interval(knots []float32, v float32) int {
	i := 0
	for step := knotsEach / 2; step > 0; step /= 2 {
		if v > knots[i+step] {
			i += step
		}
	}
	return i
}

// between returns where v is between two numbers, from 0 to 1.
func between(from, to, v float32) float64 {
	switch {
	case v <= from:
		return 0
	case v >= to:
		return 1
	}
	return (float64(v) - float64(from)) / (float64(to) - float64(from))
}

// append appends the hat functions and products of numbers z that are not 0.
func (s *splines) append(v, z stream.Vec) stream.Vec {
	d := min(len(z.Val), s.count())
	var at [mostPaired]int32
	var part [mostPaired]float64
	paired := s.paired
	for j, x := range z.Val[:d] {
		k := s.of(j)
		i := interval(k, x)
		a, first := between(k[i], k[i+1], x), int32(j*knotsEach+i)
		v.Idx, v.Val = append(v.Idx, first, first+1), append(v.Val, float32(1-a), float32(a))
		if len(paired) > 0 && paired[0] == j {
			n := len(s.paired) - len(paired)
			paired = paired[1:]
			i = i / coarse * coarse
			at[n], part[n] = int32(i/coarse), between(k[i], k[i+coarse], x)
		}
	}
	table := int32(len(s.knots))
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
	k, c := &(*s).knots, &(*s).columns
	f.Float32s("knots", k)
	f.Int32s("columns", c)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	count, most := len(*c), len(in.most)
	if !in.wide {
		count, most = len(*k)/knotsEach, 0
	}
	bad := len(*k) == 0 || len(*k) != count*knotsEach || count > narrow || !in.wide && count > len(in.mean)
	for j, v := range *k {
		bad = bad || v-v != 0 || j%knotsEach > 0 && v < (*k)[j-1]
	}
	for j, v := range *c {
		bad = bad || v < 0 || int(v) >= most || j > 0 && v <= (*c)[j-1]
	}
	if bad {
		f.Fail("knots", errors.New("they are not 17 for each number, in order"))
		return
	}
	(*s).pair()
}
