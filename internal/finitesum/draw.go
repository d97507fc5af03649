package finitesum

import (
	"slices"

	"github.com/streamsvm/streamsvm/internal/rng"
)

// sampling draws rows: uniformly, or row i with probability
//
//	p_i = ½ (1/n + ‖a_i‖²/Σ‖a_k‖²)
//
// and divides the gradient by n p_i, which keeps the estimate unbiased. The largest
// curvature of a summand with this weight is less than twice the mean curvature, so
// single long rows do not dictate the step (after Xiao and Zhang 2014, section 3; the
// uniform half keeps SAGA's table fresh).
type sampling struct {
	n      int
	weight []float64 // 1/(n p_i); empty: uniform
	keep   []float64 // Walker's alias method: row i stays with probability keep[i],
	alias  []int32   // and is row alias[i] otherwise
	most   float64   // max ‖a_i‖²/(n p_i)
	work   []int32
}

func (s *sampling) prepare(p *Problem, weighted bool) {
	s.n = p.Len()
	s.weight = s.weight[:0]
	s.most = 0
	for i := range p.norm2 {
		s.most = max(s.most, p.size(i))
	}
	sum := p.trace()
	if !weighted || !(sum > 0) {
		return
	}
	n := s.n
	s.weight = slices.Grow(s.weight, n)[:n]
	s.keep = slices.Grow(s.keep[:0], n)[:n]
	s.alias = slices.Grow(s.alias[:0], n)[:n]
	s.most = 0
	// Vose's construction; low entries from the front of work, high ones from its
	// back.
	s.work = slices.Grow(s.work[:0], n)[:n]
	low, high := 0, n
	for i := range p.norm2 {
		v := p.size(i)
		np := (1 + v/(sum/float64(n))) / 2
		s.weight[i], s.keep[i], s.alias[i] = 1/np, np, int32(i)
		s.most = max(s.most, v/np)
		if np < 1 {
			s.work[low] = int32(i)
			low++
		} else {
			high--
			s.work[high] = int32(i)
		}
	}
	for at := 0; at < low && high < n; at++ {
		i, k := s.work[at], s.work[high]
		s.alias[i] = k
		s.keep[k] -= 1 - s.keep[i]
		if s.keep[k] < 1 {
			// k has become low, and the high entries start after it. low ≤ high holds,
			// since each of the n rows is on one side.
			high++
			s.work[low] = k
			low++
		}
	}
}

// next draws a row and returns the factor for its gradient.
func (s *sampling) next(r *rng.Source) (i int, weight float64) {
	i = r.IntN(s.n)
	if len(s.weight) == 0 {
		return i, 1
	}
	if r.Float64() >= s.keep[i] {
		i = int(s.alias[i])
	}
	return i, s.weight[i]
}
