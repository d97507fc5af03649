package tsgs3vm

import (
	"slices"
	"sync"

	"github.com/streamsvm/streamsvm/internal/rff"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// scored keeps the features of the points that a learner's model has scored
// last: a label is predicted before it is learned, and both need them, which
// is most of the work. Points are compared by value, so that it does not matter
// whose memory they are in. No value depends on what is kept.
type scored struct {
	mu    sync.Mutex
	feats *rff.Features
	size  int       // features of a point
	z     []float32 // row by row
	ends  []int     // of the points in idx and val
	dense []bool
	idx   []int32
	val   []float32
}

// keep notes the points that z has the features of.
func (s *scored) keep(feats *rff.Features, size int, xs []stream.Vec) {
	s.feats, s.size = feats, size
	s.ends, s.dense, s.idx, s.val = s.ends[:0], s.dense[:0], s.idx[:0], s.val[:0]
	for _, x := range xs {
		s.val = append(s.val, x.Val...)
		if x.Sparse() {
			s.idx = append(s.idx, x.Idx...)
		} else {
			s.idx = append(s.idx, make([]int32, len(x.Val))...)
		}
		s.dense, s.ends = append(s.dense, !x.Sparse()), append(s.ends, len(s.val))
	}
}

// find returns the features of the points, row by row, if they stand next to
// each other among those kept, else nil.
func (s *scored) find(feats *rff.Features, size int, xs []stream.Vec) []float32 {
	if s.feats != feats || s.size != size || len(xs) == 0 {
		return nil
	}
	for from := 0; from+len(xs) <= len(s.ends); from++ {
		if s.matches(from, xs) {
			return s.z[from*size : (from+len(xs))*size]
		}
	}
	return nil
}

func (s *scored) matches(from int, xs []stream.Vec) bool {
	for i, x := range xs {
		begin := 0
		if from+i > 0 {
			begin = s.ends[from+i-1]
		}
		end := s.ends[from+i]
		if s.dense[from+i] == x.Sparse() || !slices.Equal(s.val[begin:end], x.Val) || x.Sparse() && !slices.Equal(s.idx[begin:end], x.Idx) {
			return false
		}
	}
	return true
}

// sumsKept is sums that keeps the features, or false if they are not to be
// kept, or somebody else uses those that are.
func (m *Model) sumsKept(dst []float64, xs []stream.Vec, w *scoring) bool {
	if m.scored == nil || m.fresh || !m.scored.mu.TryLock() {
		return false
	}
	defer m.scored.mu.Unlock()
	size, b := len(m.coef), m.feats.Block()
	s := m.scored
	if len(s.z) < len(xs)*size {
		s.z = make([]float32, len(xs)*size)
	}
	s.feats = nil // while z is being written
	clear(dst)
	for at := 0; at < size; at += b {
		m.feats.Map(s.z[at:], size, &w.points, uint64(at/b))
		for i := range dst {
			dst[i] += vec.DotMixed(s.z[i*size+at:i*size+at+b], m.coef[at:at+b])
		}
	}
	s.keep(m.feats, size, xs)
	return true
}
