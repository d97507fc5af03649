// Package hinge solves the regularised hinge loss problem of a kernel SVM on a
// sample,
//
//	f(α) = λ/2 α'Qα + 1/m Σ_i v_i max(0, 1 − w_i (Qα)_i),   Q_ij = K(z_i, z_j),
//
// where w_i is the label of point i, v_i its weight, and m = Σ_i v_i. It serves the
// conjugate subgradient learners with line searches, minimum-norm directions and block
// dual ascent. It keeps the products Qα, Qd and Q(a∘w), so an iteration costs O(points)
// plus the kernel rows of the points whose hinge turned on or off. No full kernel
// matrix is stored.
package hinge

import (
	"math"
	"sync"

	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/kernel/rows"
	"github.com/streamsvm/streamsvm/internal/par"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/internal/weight"
	"github.com/streamsvm/streamsvm/stream"
)

// Problem is f on a sample together with a point α and a direction d. All vectors
// have one element per point of the sample.
type Problem struct {
	Basis  *kernel.Basis
	W      []float64   // labels, ±1
	V      weight.List // weights
	Lambda float64
	// Total is the weight m in the mean of the losses; 0 stands for the weight of all
	// points. It is larger if there are other points that are known to have no loss.
	Total float64

	Alpha, S []float64 // α and s = Qα
	D, P     []float64 // d and p = Qd
	// Active[i] is w_i s_i < 1. Q is the sum over these i of v_i w_i times row i of
	// the kernel matrix, unnormalised. (1/m)·Active∘V∘W is u in the paper.
	Active []bool
	Q      []float64
	// Alpha0 and S0 are the incumbent α₀ and Qα₀, kept while a candidate is tested;
	// see Mark.
	Alpha0, S0 []float64

	Rows *rows.Cache

	mass  float64 // Σ v_i
	idx   []int32 // scratch
	flip  []int32
	g, qg []float64
	part  []float64
	add   func(r, at int, k []float32)
	push  func(r, at int, k []float32)
}

// New returns the empty problem over the empty b with a row cache of cacheBytes.
func New(b *kernel.Basis, cacheBytes int) *Problem {
	p := &Problem{Basis: b, Rows: rows.New(b, cacheBytes)}
	p.add = p.addFlipped
	p.push = p.pushSegment
	return p
}

// Len returns the number of points.
func (p *Problem) Len() int { return len(p.W) }

// Count returns m, the weight in the mean of the losses.
func (p *Problem) Count() float64 {
	if p.Total > 0 {
		return p.Total
	}
	return p.mass
}

// Mass returns the total weight of the points.
func (p *Problem) Mass() float64 { return p.mass }

// Weight returns the total weight of the points lo ≤ i < hi.
func (p *Problem) Weight(lo, hi int) (sum float64) {
	for i := lo; i < hi; i++ {
		sum += p.V.At(i)
	}
	return sum
}

// Extend is ExtendAll for one problem.
func (p *Problem) Extend(w []float64, v weight.List) {
	ExtendAll([]*Problem{p}, [][]float64{w}, v)
}

func (p *Problem) vectors() [7]*[]float64 {
	return [...]*[]float64{&p.Alpha, &p.D, &p.S, &p.P, &p.Q, &p.Alpha0, &p.S0}
}

func (p *Problem) pushSegment(r, at int, k []float32) {
	i := p.idx[r]
	end := at + len(k)
	if a := p.Alpha[i]; a != 0 {
		vec.AxpyMixed(a, k, p.S[at:end])
	}
	if a := p.Alpha0[i]; a != 0 {
		vec.AxpyMixed(a, k, p.S0[at:end])
	}
	if d := p.D[i]; d != 0 {
		vec.AxpyMixed(d, k, p.P[at:end])
	}
	if p.Active[i] {
		vec.AxpyMixed(p.V.At(int(i))*p.W[i], k, p.Q[at:end])
	}
}

func (p *Problem) keep(idx []int32) {
	for _, v := range p.vectors() {
		for r, i := range idx {
			(*v)[r] = (*v)[i]
		}
		*v = (*v)[:len(idx)]
	}
	for r, i := range idx {
		p.W[r], p.Active[r] = p.W[i], p.Active[i]
	}
	p.W, p.Active = p.W[:len(idx)], p.Active[:len(idx)]
	p.V.Keep(idx)
	p.mass = p.V.Sum(len(idx))
}

// Mark makes the present point the incumbent.
func (p *Problem) Mark() {
	copy(p.Alpha0, p.Alpha)
	copy(p.S0, p.S)
}

// Revert returns to the incumbent. Refresh must follow.
func (p *Problem) Revert() {
	copy(p.Alpha, p.Alpha0)
	copy(p.S, p.S0)
}

// Refresh recomputes Active and Q from S. It returns the number of points whose
// hinge turned on or off.
func (p *Problem) Refresh() int {
	p.flip = p.flip[:0]
	for i, s := range p.S {
		if on := p.W[i]*s < 1; on != p.Active[i] {
			p.Active[i] = on
			p.flip = append(p.flip, int32(i))
		}
	}
	if len(p.flip) > 0 {
		p.Rows.Each(p.flip, 0, p.Len(), true, p.add)
	}
	return len(p.flip)
}

func (p *Problem) addFlipped(r, at int, k []float32) {
	i := p.flip[r]
	w := p.V.At(int(i)) * p.W[i]
	if !p.Active[i] {
		w = -w
	}
	vec.AxpyMixed(w, k, p.Q[at:at+len(k)])
}

// Move sets α to α + t·d and updates everything. It returns the number of hinges
// that turned on or off.
func (p *Problem) Move(t float64) int {
	for i, d := range p.D {
		p.Alpha[i] += float64(t * d)
		p.S[i] += float64(t * p.P[i])
	}
	return p.Refresh()
}

// Advance adds Q·d to s at the points rest, which are in ascending order, and clears d.
// d are changes already made to α. Advance does not update Active and Q.
func (p *Problem) Advance(rest []int32) {
	p.idx = p.idx[:0]
	for i, d := range p.D {
		if d != 0 {
			p.idx = append(p.idx, int32(i))
		}
	}
	// Update only the points of rest: the scores of the near points are known from
	// solving their subproblem, and computing rows over the whole sample would be the
	// largest cost of a step.
	if len(rest) > 0 && len(p.idx) > 0 {
		p.advance(p.Basis.Subset(rest), rest)
	}
	clear(p.D)
}

func (p *Problem) advance(others *kernel.Basis, rest []int32) {
	p.part = extend(p.part[:0], len(rest))
	xs := make([]stream.Vec, 0, rowsAtOnce)
	for idx := p.idx; len(idx) > 0; {
		n := min(len(idx), rowsAtOnce)
		xs = xs[:0]
		for _, i := range idx[:n] {
			xs = append(xs, p.Basis.Row(int(i)))
		}
		eachBlock(others, xs, func(r, lo, hi int, k []float32) {
			vec.AxpyMixed(p.D[idx[r]], k, p.part[lo:hi])
		})
		p.Rows.Evals += int64(n * len(rest))
		idx = idx[n:]
	}
	for r, i := range rest {
		p.S[i] += p.part[r]
	}
}

const rowsAtOnce, colsAtOnce = 64, 2048 // as in rows.Each

// advance is scratch memory for kernel values.
type advance struct{ block, x []float32 }

var advancing = sync.Pool{New: func() any { return &advance{block: make([]float32, rowsAtOnce*colsAtOnce)} }}

// eachBlock calls visit with the kernel values k of vector xs[r] and the points
// lo ≤ j < hi of b, in pieces that cover all points. There are at most rowsAtOnce
// vectors. For any one point the calls come in order of r; calls for different points
// may be concurrent.
func eachBlock(b *kernel.Basis, xs []stream.Vec, visit func(r, lo, hi int, k []float32)) {
	par.Split(b.Len(), vec.Width, b.Work(len(xs)*b.Len()), func(from, to int) {
		s := advancing.Get().(*advance)
		defer advancing.Put(s)
		for lo := from; lo < to; lo += colsAtOnce {
			hi := min(to, lo+colsAtOnce)
			s.x = b.Values(s.x, s.block, hi-lo, xs, lo, hi)
			for r := range xs {
				visit(r, lo, hi, s.block[r*(hi-lo):(r+1)*(hi-lo)])
			}
		}
	})
}

// Ridge returns α'Qα.
func (p *Problem) Ridge() float64 {
	var a float64
	for i, v := range p.Alpha {
		a += float64(v * p.S[i])
	}
	return a
}

// Objective returns f(α).
func (p *Problem) Objective() float64 {
	return float64(p.Lambda/2*p.Ridge()) + p.Loss(p.S, 0, p.Len())/p.Count()
}

// Loss returns Σ v_i max(0, 1 − w_i s_i) over lo ≤ i < hi.
func (p *Problem) Loss(s []float64, lo, hi int) float64 {
	var h float64
	for i := lo; i < hi; i++ {
		h += float64(p.V.At(i) * max(0, 1-float64(p.W[i]*s[i])))
	}
	return h
}

// CoefGrad returns the coefficient c_i = λα_i − u_i of the functional subgradient,
// and (Qc)_i = λs_i − q_i/m, the subgradient with respect to α.
func (p *Problem) CoefGrad(i int) (c, qc float64) {
	m := p.Count()
	c = float64(p.Lambda * p.Alpha[i])
	if p.Active[i] {
		c -= float64(p.V.At(i)*p.W[i]) / m
	}
	return c, float64(p.Lambda*p.S[i]) - p.Q[i]/m
}

// Certificate returns ‖c‖²_H/(2λ), an upper bound on f(α) minus its minimum: f is
// λ-strongly convex in H.
func (p *Problem) Certificate() float64 {
	var n float64
	for i := range p.W {
		c, qc := p.CoefGrad(i)
		n += float64(c * qc)
	}
	return max(n, 0) / (2 * p.Lambda)
}

// Multiply sets dst = Q·x.
func (p *Problem) Multiply(dst, x []float64) {
	clear(dst)
	p.idx = p.idx[:0]
	for i, v := range x {
		if v != 0 {
			p.idx = append(p.idx, int32(i))
		}
	}
	p.Rows.Each(p.idx, 0, p.Len(), true, func(r, at int, k []float32) {
		vec.AxpyMixed(x[p.idx[r]], k, dst[at:at+len(k)])
	})
}

// Norm returns the square root of max(x, 0).
func Norm(x float64) float64 { return math.Sqrt(max(x, 0)) }

func extend(v []float64, n int) []float64 {
	for len(v) < n {
		v = append(v, 0)
	}
	return v
}
