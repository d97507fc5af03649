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

// splines maps standardised inputs to hat functions of each feature and products of them, so
// that a linear function of these is a generalized additive model with pairwise interactions
// (Lou, Caruana, Gehrke and Hooker, KDD 2013):
//
//	f(z) = b + Σ_j s_j(z_j) + Σ_{j<k} s_jk(z_j, z_k)
//
// s_j is linear between 17 quantiles of feature j among the first examples, and constant beyond
// them; s_jk is bilinear between five quantiles of each.
type splines struct {
	knots  []float32 // knotsEach of each feature, not decreasing
	paired []int     // features whose products count, in order
}

// newSplines takes the quantiles of inputs, of which there is at least one.
func newSplines(zs []stream.Vec) *splines {
	s := &splines{}
	column := make([]float32, len(zs))
	for j := range zs[0].Val {
		for i, z := range zs {
			column[i] = z.Val[j]
		}
		slices.Sort(column)
		for k := range knotsEach {
			s.knots = append(s.knots, column[k*(len(column)-1)/(knotsEach-1)])
		}
	}
	s.pair()
	return s
}

// features returns the number of features that have knots.
func (s *splines) features() int { return len(s.knots) / knotsEach }

// size returns the number of hat functions and products.
func (s *splines) size() int {
	n := len(s.paired)
	return len(s.knots) + n*(n-1)/2*coarseEach*coarseEach
}

// of returns the knots of feature j.
func (s *splines) of(j int) []float32 { return s.knots[j*knotsEach : (j+1)*knotsEach] }

// pair chooses the features whose products count: the first ones with more than two values,
// then the first others.
func (s *splines) pair() {
	var few []int
	for j := range s.features() {
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

// append appends the hat functions and products of z, which is dense, that are not 0.
func (s *splines) append(v stream.Vec, z stream.Vec) stream.Vec {
	d := min(len(z.Val), s.features())
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

// ofAll returns the splines of several inputs, in the memory of room.
func (s *splines) ofAll(room *stream.Vec, zs ...stream.Vec) []stream.Vec {
	out, ends := make([]stream.Vec, len(zs)), make([]int, len(zs))
	p := len(s.paired)
	n := len(zs) * 2 * (s.features() + p*(p-1))
	room.Idx, room.Val = slices.Grow(room.Idx[:0], n), slices.Grow(room.Val[:0], n)
	for i, z := range zs {
		*room = s.append(*room, z)
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
func splineFields(f *state.Fields, s **splines) {
	if f.Decoding() {
		*s = nil
	}
	if !f.Next("knots") && (f.Decoding() || *s == nil) {
		return
	}
	if f.Decoding() {
		*s = new(splines)
	}
	k := &(*s).knots
	f.Float32s("knots", k)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	bad := len(*k) == 0 || len(*k)%knotsEach > 0 || len(*k) > narrow*knotsEach
	for j, v := range *k {
		bad = bad || v-v != 0 || j%knotsEach > 0 && v < (*k)[j-1]
	}
	if bad {
		f.Fail("knots", errors.New("they are not 17 for each feature, in order"))
		return
	}
	(*s).pair()
}
