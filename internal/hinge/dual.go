package hinge

import (
	"slices"

	"github.com/streamsvm/streamsvm/internal/rank"
	"github.com/streamsvm/streamsvm/internal/vec"
)

// Dual improves a dual feasible α, 0 ≤ w_i α_i ≤ v_i/(λm), by decomposition. It
// maximises the dual objective Σ w_i α_i − ½ α'Qα exactly over a block of the
// points that violate the optimality conditions most, by pairs of coordinates on
// the block's own small kernel matrix. Then it updates s = Qα with the kernel rows
// of the coefficients that changed. The rows are computed in blocks, at the speed of
// the vector units, and need not be stored. Therefore large blocks are faster than
// SMO's single pairs.
type Dual struct {
	Block  int     // points in a block, at least 4
	Tol    float64 // stop when |w_i − s_i| is at most this for every coefficient that can follow
	Gap    float64 // stop when the duality gap is at most this
	Rounds int     // largest number of blocks
	Pairs  int     // largest number of pair steps on a block, per point

	up, down []rank.Entry // gradients that coefficients can follow, steepest first
	set, old []int32
	in       []bool
	box      Box
	moved    []int32
	delta    []float64
}

// Whole maximises over all points of a small p, as a single block.
func (s *Dual) Whole(p *Problem) {
	s.begin(p)
	s.set = append(s.set, seq(p.Len())...)
	s.solve(p, wholeTol)
	p.Rows.Each(s.moved, 0, p.Len(), true, s.addTo(p))
}

// wholeTol is the violation, in units of the margin, at which Whole stops.
const wholeTol = 0.01

func (s *Dual) begin(p *Problem) {
	s.delta = extend(s.delta, p.Len())
	for len(s.in) < p.Len() {
		s.in = append(s.in, false)
	}
	s.set = s.set[:0]
}

func (s *Dual) addTo(p *Problem) func(r, at int, k []float32) {
	return func(r, at int, k []float32) {
		vec.AxpyMixed(s.delta[s.moved[r]], k, p.S[at:at+len(k)])
	}
}

// Solve runs until the gap is at most Gap, the conditions hold to Tol, or Rounds
// blocks are solved. It returns the number of blocks. p.Alpha must be dual feasible
// and p.S must equal Qα.
func (s *Dual) Solve(p *Problem) (blocks int) {
	s.begin(p)
	add := s.addTo(p)
	for ; blocks < s.Rounds; blocks++ {
		worst, gap := s.pick(p)
		if worst <= s.Tol || gap <= s.Gap {
			break
		}
		// There is no point in solving a block far beyond the violations outside it:
		// the next block changes it anyway.
		s.solve(p, max(s.Tol, worst/10))
		p.Rows.Each(s.moved, 0, p.Len(), true, add)
	}
	return blocks
}

// bounds returns the interval of α_i.
func bounds(w, c float64) (lo, hi float64) {
	if w > 0 {
		return 0, c
	}
	return -c, 0
}

// pick chooses the block and returns the largest violation and the duality gap.
func (s *Dual) pick(p *Problem) (worst, gap float64) {
	c := p.box()
	s.up, s.down = s.up[:0], s.down[:0]
	var slack, loss float64
	for i, w := range p.W {
		// g is the gradient of the dual. A coefficient violates its condition if it
		// can follow g within its bounds.
		g := w - p.S[i]
		slack -= float64(p.Alpha[i] * g)
		loss += float64(p.V.At(i) * max(0, float64(w*g)))
		lo, hi := bounds(w, p.V.At(i)*c)
		a := p.Alpha[i]
		if a < hi {
			s.up = append(s.up, rank.Entry{V: -g, I: int32(i)})
			worst = max(worst, g)
		}
		if a > lo {
			s.down = append(s.down, rank.Entry{V: g, I: int32(i)})
			worst = max(worst, -g)
		}
	}
	s.up, s.down = first(s.up, s.Block), first(s.down, s.Block)
	// Half of the block is carried over from the previous one, free coefficients
	// first. If they were left out, they would have to follow the moves of the others
	// in a later block, and the ascent would zigzag.
	s.old = append(s.old[:0], s.set...)
	s.set = s.set[:0]
	for k := 0; k < len(s.up) || k < len(s.down); k++ {
		for _, list := range [2][]rank.Entry{s.up, s.down} {
			if k < len(list) && len(s.set) < s.Block/2 && !s.in[list[k].I] {
				s.in[list[k].I] = true
				s.set = append(s.set, list[k].I)
			}
		}
	}
	for _, free := range [2]bool{true, false} {
		for _, i := range s.old {
			lo, hi := bounds(p.W[i], p.V.At(int(i))*c)
			isFree := p.Alpha[i] > lo && p.Alpha[i] < hi
			if free == isFree && len(s.set) < s.Block && !s.in[i] {
				s.in[i] = true
				s.set = append(s.set, i)
			}
		}
	}
	for _, i := range s.set {
		s.in[i] = false
	}
	return worst, float64(p.Lambda*slack) + loss/p.Count()
}

// first returns the n smallest entries, in order.
func first(list []rank.Entry, n int) []rank.Entry {
	if n < len(list) {
		rank.Nth(list, n)
		list = list[:n]
	}
	slices.SortFunc(list, rank.Compare)
	return list
}

// solve maximises over the block to tol and lists the coefficients that changed.
func (s *Dual) solve(p *Problem, tol float64) {
	n := len(s.set)
	b := &s.box
	b.Resize(n)
	// The block's kernel matrix is small enough to compute at once. Over the whole
	// sample only the rows of coefficients that change are needed.
	p.Basis.Subset(s.set).Between(b.Gram, n, seq(n), 0, n)
	p.Rows.Evals += int64(n * n)
	c := p.box()
	for r, i := range s.set {
		b.G[r] = p.W[i] - p.S[i]
		b.A[r] = p.Alpha[i]
		b.Lo[r], b.Hi[r] = bounds(p.W[i], p.V.At(int(i))*c)
	}
	b.Ascend(s.Pairs*n, tol)
	s.moved = s.moved[:0]
	for r, i := range s.set {
		if d := b.A[r] - p.Alpha[i]; d != 0 {
			s.delta[i] = d
			p.Alpha[i] = b.A[r]
			s.moved = append(s.moved, i)
		}
	}
}

// seq returns 0, 1, …, n−1.
func seq(n int) []int32 {
	s := make([]int32, n)
	for i := range s {
		s[i] = int32(i)
	}
	return s
}

// box returns 1/(λm), the bound on a dual feasible coefficient of weight 1.
func (p *Problem) box() float64 { return 1 / (p.Lambda * p.Count()) }

// Clip moves α to the nearest dual feasible point, 0 ≤ w_i α_i ≤ v_i/(λm), clears
// d, and returns the number of coefficients that changed.
func (p *Problem) Clip() int {
	c := p.box()
	p.idx = p.idx[:0]
	clear(p.D)
	for i, w := range p.W {
		if a := w * min(max(w*p.Alpha[i], 0), p.V.At(i)*c); a != p.Alpha[i] {
			p.D[i] = a - p.Alpha[i]
			p.Alpha[i] = a
			p.idx = append(p.idx, int32(i))
		}
	}
	p.Rows.Each(p.idx, 0, p.Len(), true, func(r, at int, k []float32) {
		vec.AxpyMixed(p.D[p.idx[r]], k, p.S[at:at+len(k)])
	})
	clear(p.D)
	return len(p.idx)
}

// Gap returns f(α) minus the dual objective at α, which bounds f(α) minus its
// minimum. It returns false if α is not dual feasible; then there is no such bound.
func (p *Problem) Gap() (float64, bool) {
	// Coefficients at their bound may be beyond it by rounding.
	c := p.box() * (1 + 1e-12)
	var v float64
	for i, a := range p.Alpha {
		if x := p.W[i] * a; x < 0 || x > p.V.At(i)*c {
			return 0, false
		}
		v += float64(a * (p.S[i] - p.W[i]))
	}
	return float64(p.Lambda*v) + p.Loss(p.S, 0, p.Len())/p.Count(), true
}
