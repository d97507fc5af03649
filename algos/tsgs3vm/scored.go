package tsgs3vm

import (
	"slices"
	"sync"

	"github.com/streamsvm/streamsvm/internal/par"
	"github.com/streamsvm/streamsvm/internal/rff"
	"github.com/streamsvm/streamsvm/internal/rffmodel"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// scored caches the features of the points that a learner's model scored last. A label
// is predicted before it is learned, and both need the features, which are most of the
// work. Points are compared by value, so they may be anywhere in memory. No result
// depends on the contents of the cache.
type scored struct {
	mu    sync.Mutex
	feats *rff.Features
	size  int       // features of a point
	z     []float32 // row by row
	xs    []stream.Vec
	arena stream.Arena // of xs
}

// keep records that z has the features of the points xs.
func (s *scored) keep(feats *rff.Features, size int, xs []stream.Vec) {
	s.feats, s.size, s.xs = feats, size, s.xs[:0]
	s.arena.Reset()
	for _, x := range xs {
		own := stream.Vec{Val: append(s.arena.Val(len(x.Val)), x.Val...)}
		if x.Sparse() {
			own.Idx = append(s.arena.Idx(len(x.Idx)), x.Idx...)
		}
		s.xs = append(s.xs, s.arena.Take(own))
	}
}

// find returns the features of the points, row by row, if they are consecutive in
// the cache, otherwise nil.
func (s *scored) find(feats *rff.Features, size int, xs []stream.Vec) []float32 {
	if s.feats != feats || s.size != size || len(xs) == 0 {
		return nil
	}
	for from := 0; from+len(xs) <= len(s.xs); from++ {
		if slices.EqualFunc(s.xs[from:from+len(xs)], xs, equal) {
			return s.z[from*size : (from+len(xs))*size]
		}
	}
	return nil
}

func equal(x, z stream.Vec) bool {
	return x.Sparse() == z.Sparse() && slices.Equal(x.Val, z.Val) && slices.Equal(x.Idx, z.Idx)
}

// expect fills the cache with the features of points that are about to be scored by
// the next model.
func (s *scored) expect(feats *rff.Features, size int, xs []stream.Vec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var p rff.Points
	p.Pack(xs)
	s.fill(feats, size, xs, &p)
}

// fill points the cache at xs; p holds the same points, packed.
func (s *scored) fill(feats *rff.Features, size int, xs []stream.Vec, p *rff.Points) {
	if len(s.xs) == len(xs) && s.find(feats, size, xs) != nil {
		return
	}
	if len(s.z) < len(xs)*size {
		s.z = make([]float32, len(xs)*size)
	}
	s.feats = nil // invalid while z is being written
	mapAll(feats, s.z, size, p)
	s.keep(feats, size, xs)
}

// sums implements Sums of a model and fills the cache. It returns false if the model
// uses fresh features or the cache is in use elsewhere.
func (s *scored) sums(parts []*rffmodel.Model, dst []float64, xs []stream.Vec, p *rff.Points) bool {
	m, heads := parts[0], len(parts)
	if m.Fresh || !s.mu.TryLock() {
		return false
	}
	defer s.mu.Unlock()
	size := len(m.Coef)
	b := m.Feats.Block()
	s.fill(m.Feats, size, xs, p)
	par.Split(len(xs), 1, float64(len(xs)*heads*size)/4, func(from, to int) {
		for i := from * heads; i < to*heads; i++ {
			z, w := s.z[i/heads*size:], parts[i%heads].Coef
			dst[i] = 0
			for at := 0; at < size; at += b {
				dst[i] += vec.DotMixed(z[at:][:b], w[at:at+b])
			}
		}
	})
	return true
}
