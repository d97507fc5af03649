package prep

import (
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/stream"
)

// stats are statistics of the features of a set of examples. Zeros that sparse
// examples leave out count like any other value.
type stats struct {
	n        int // examples
	dim      int // one more than the largest index seen
	sparse   bool
	features []feature // features listed at least once, by index
	xs       []stream.Vec
}

type feature struct {
	idx    int32
	count  int     // number of values listed
	lo, hi float64 // range of the values listed
	asinh  Asinh
	mean   float64 // over all n, of the values after asinh
	m2     float64 // Σ (v − mean)² over all n, likewise
}

// span returns the range over all n examples.
func (f *feature) span(n int) (lo, hi float64) {
	if f.count < n {
		return min(f.lo, 0), max(f.hi, 0)
	}
	return f.lo, f.hi
}

// collect computes the statistics in passes in the order of the examples.
// Its memory is bounded by the number of listed values, whatever the indices.
func collect(examples []*stream.Example, hash func(stream.Vec) stream.Vec) *stats {
	s := &stats{n: len(examples), xs: make([]stream.Vec, len(examples))}
	var seen []int32
	longest := 0 // length of the longest dense vector
	for i, e := range examples {
		x := hash(e.X)
		s.xs[i] = x
		if x.Sparse() {
			s.sparse = true
			seen = append(seen, x.Idx...)
			if len(seen) > 1<<20 {
				slices.Sort(seen)
				seen = slices.Compact(seen)
			}
		} else {
			longest = max(longest, len(x.Val))
		}
	}
	for j := range longest {
		seen = append(seen, int32(j))
	}
	slices.Sort(seen)
	seen = slices.Compact(seen)
	s.features = make([]feature, len(seen))
	for k, j := range seen {
		s.features[k] = feature{idx: j, lo: math.Inf(1), hi: math.Inf(-1)}
		s.dim = int(j) + 1
	}

	s.visit(s.xs, func(k int, v float64) {
		f := &s.features[k]
		f.count++
		f.lo, f.hi = min(f.lo, v), max(f.hi, v)
	})
	s.moments()
	return s
}

// moments computes mean and m2.
func (s *stats) moments() {
	sums := make([]float64, len(s.features))
	s.visit(s.xs, func(k int, v float64) { sums[k] += s.features[k].asinh.Of(v) })
	for k := range s.features {
		f := &s.features[k]
		zeros, zero := float64(s.n-f.count), f.asinh.Of(0)
		f.mean = (sums[k] + float64(zeros*zero)) / float64(s.n)
		f.m2 = float64(zeros * float64((zero-f.mean)*(zero-f.mean)))
	}
	s.visit(s.xs, func(k int, v float64) {
		f := &s.features[k]
		d := f.asinh.Of(v) - f.mean
		f.m2 += float64(d * d)
	})
}

// visit calls do with the position in features and the value of everything listed in xs.
func (s *stats) visit(xs []stream.Vec, do func(k int, v float64)) {
	// If indices have no gaps, as usual, an index is its own position.
	gapless := s.dim == len(s.features)
	for _, x := range xs {
		from := 0
		for k, v := range x.Val {
			switch {
			case x.Idx == nil:
				from = k // all features of the dense vectors are listed, from 0 on
			case gapless:
				from = int(x.Idx[k])
			default:
				at, _ := slices.BinarySearchFunc(s.features[from:], x.Idx[k], func(f feature, j int32) int { return int(f.idx) - int(j) })
				from += at
			}
			do(from, float64(v))
		}
	}
}

// but returns the statistics without the features in scaled.
func (s *stats) but(scaled []bool) *stats {
	if !slices.Contains(scaled, true) {
		return s
	}
	c := *s
	c.features = slices.DeleteFunc(slices.Clone(s.features), func(f feature) bool {
		return int(f.idx) < len(scaled) && scaled[f.idx]
	})
	return &c
}

// largest returns the largest |value|.
func (s *stats) largest() float64 {
	m := 0.0
	for k := range s.features {
		m = max(m, -s.features[k].lo, s.features[k].hi)
	}
	return m
}

// density returns the share of nonzero values.
func (s *stats) density() float64 {
	listed := 0
	for k := range s.features {
		listed += s.features[k].count
	}
	return float64(listed) / (float64(s.n) * float64(max(s.dim, 1)))
}

// densify decides whether scaling may shift features.
func (s *stats) densify() bool {
	return !s.sparse || s.dim <= DenseLimit && s.density() >= leastDensity
}

// choose implements Auto, see Fit.
func (s *stats) choose() string {
	m := s.largest()
	if m <= scaledLimit {
		return None
	}
	var widths []float64
	for k := range s.features {
		if lo, hi := s.features[k].span(s.n); lo < hi {
			widths = append(widths, hi-lo)
		}
	}
	if len(widths) > 0 {
		// If most values are zero, as at the borders of images, some features have
		// not shown their range yet, so half of the features decide.
		slices.Sort(widths)
		w := widths[0]
		if s.sparse && s.density() < 0.5 {
			w = widths[len(widths)/2]
		}
		if w >= m/4 {
			return Common
		}
	}
	if s.densify() {
		return Standard
	}
	return MinMax
}
