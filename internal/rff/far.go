package rff

import (
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// groupPoints is the number of points beyond denseDim that are summed together. A
// frequency is drawn once for all points of a group that have its coordinate. Their
// sums stay in the second-level cache.
const groupPoints = 128

// far has points that reach beyond denseDim, in groups, by coordinate.
type far struct {
	groups  []farGroup
	coords  []coord
	touches []touch

	// The group being filled.
	keys  []uint64 // coordinate, number in fresh
	fresh []touch
}

// farGroup is a group of points; at has their positions in the batch.
type farGroup struct {
	at     []int32
	coords []coord
	first  int // first touch of the group
}

// coord is a coordinate that some points of a group have, and the number of them.
type coord struct {
	j       int32
	touches int32
}

// touch is the value of a point at a coordinate.
type touch struct {
	point int32 // number in the group
	x     float32
}

func (p *far) reset() {
	for i := range p.groups {
		p.groups[i].at = p.groups[i].at[:0]
	}
	p.groups, p.coords, p.touches = p.groups[:0], p.coords[:0], p.touches[:0]
	p.keys, p.fresh = p.keys[:0], p.fresh[:0]
}

// append adds the point at position i of the batch.
func (p *far) append(i int, x stream.Vec) {
	n := len(p.groups)
	if n == 0 || len(p.groups[n-1].at) == groupPoints {
		p.sort()
		if n < cap(p.groups) {
			p.groups = p.groups[:n+1]
		} else {
			p.groups = append(p.groups, farGroup{})
		}
		p.groups[n].first = len(p.touches)
		n++
	}
	g := &p.groups[n-1]
	for k, v := range x.Val {
		if v == 0 {
			continue
		}
		j := k
		if x.Idx != nil {
			j = int(x.Idx[k])
		}
		p.keys = append(p.keys, uint64(j)<<32|uint64(len(p.fresh)))
		p.fresh = append(p.fresh, touch{int32(len(g.at)), v})
	}
	g.at = append(g.at, int32(i))
}

// sort completes the last group: it sorts the touches by coordinate, and by point
// within a coordinate.
func (p *far) sort() {
	if len(p.groups) == 0 {
		return
	}
	slices.Sort(p.keys)
	from := len(p.coords)
	for k, key := range p.keys {
		if j := int32(key >> 32); k == 0 || j != p.coords[len(p.coords)-1].j {
			p.coords = append(p.coords, coord{j: j})
		}
		p.coords[len(p.coords)-1].touches++
		p.touches = append(p.touches, p.fresh[uint32(key)])
	}
	p.groups[len(p.groups)-1].coords = p.coords[from:]
	p.keys, p.fresh = p.keys[:0], p.fresh[:0]
}

// mapFar computes a block's features at the points of a group. It sums in float64 in
// order of coordinates and reduces the sum to one turn before rounding. So a point's
// features do not depend on its group.
func (f *Features) mapFar(w *work, dst []float32, ld int, p *far, g *farGroup, block uint64) {
	m := f.block
	if n := len(g.at) * m; len(w.sum) < n {
		w.sum = make([]float64, n)
	}
	if len(w.row) < m {
		w.row = make([]float32, m)
	}
	phase := f.phaseOf(block)
	for r := range g.at {
		sum := w.sum[r*m:][:m]
		clear(sum)
		vec.AxpyMixed(1, phase, sum)
	}
	key := f.key(block, frequencySalt)
	touches := p.touches[g.first:]
	for _, c := range g.coords {
		f.draw(w.row[:m], key, int(c.j))
		for _, t := range touches[:c.touches] {
			vec.AxpyMixed(float64(t.x), w.row[:m], w.sum[int(t.point)*m:][:m])
		}
		touches = touches[c.touches:]
	}
	for r, i := range g.at {
		out := dst[int(i)*ld:][:m]
		for k, s := range w.sum[r*m:][:m] {
			out[k] = float32(s - math.RoundToEven(s))
		}
		vec.Cosines(out)
	}
}
