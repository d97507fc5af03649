// Package finitesum minimises regularised finite sums over linear models with
// variance-reduced stochastic gradients:
//
//	F(x) = 1/n Σ w_i loss(a_iᵀx, b_i) + λ1/2 ‖x‖² + λ2 ‖x‖₁
//
// with the squared loss (ridge, Lasso, elastic net), a smoothed hinge or the
// logistic loss. The weights w_i are usually 1; otherwise n is their sum. The
// methods, SVRGSD and SAGASD, come from Shang, Liu, Zhou, Cheng, Ng, Yoshida,
// "Guaranteed Sufficient Decrease for Stochastic Variance Reduced Gradient
// Optimization" (AISTATS 2018, arXiv 1802.09933). methods.go has the epoch, walk.go
// its step (lazy.go for sparse rows), decrease.go the sufficient decrease, solver.go
// the work between epochs. Gram solves ridge problems directly.
//
// Everything is deterministic: an epoch is a function of the solver's state, the
// rows and the seed. The package does not depend on how rows arrive.
package finitesum

import (
	"iter"
	"math"

	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/internal/weight"
	"github.com/streamsvm/streamsvm/stream"
)

// Problem is a finite sum with its regularisation. Rows are not copied.
type Problem struct {
	Loss  Loss
	Ridge float64 // λ1 ≥ 0, part of every summand
	Lasso float64 // λ2 ≥ 0
	// Bias is the value of a constant feature, which is coordinate 0 and exempt
	// from λ2; feature j is then coordinate j+1. If Bias is 0 there is no such
	// feature, and feature j is coordinate j.
	Bias float64

	weights weight.List
	unit    float64 // number of rows divided by their weight; see balance

	rows  []stream.Vec
	b     []float64
	norm2 []float64 // ‖a_i‖², including the constant feature
	nnz   int
	dim   int // number of coordinates
}

// Len returns the number of rows n.
func (p *Problem) Len() int { return len(p.rows) }

// Dim returns the number of coordinates d: the features seen so far, and the bias.
// It never decreases.
func (p *Problem) Dim() int { return max(p.dim, p.first()) }

// first returns the coordinate of feature 0.
func (p *Problem) first() int {
	if p.Bias != 0 {
		return 1
	}
	return 0
}

// Widen makes room for at least dim coordinates.
func (p *Problem) Widen(dim int) { p.dim = max(p.dim, dim) }

// Append adds a row with the target b.
func (p *Problem) Append(a stream.Vec, b float64) {
	p.rows = append(p.rows, stream.Vec{})
	p.b, p.norm2 = append(p.b, 0), append(p.norm2, 0)
	p.Set(len(p.rows)-1, a, b)
}

// Weigh sets the weight of row i. It takes effect after Solver.Changed, once the
// rows are complete.
func (p *Problem) Weigh(i int, w float64) { p.weights.Set(i, p.Len(), w) }

// Mass returns the sum of the weights.
func (p *Problem) Mass() float64 { return p.weights.Sum(p.Len()) }

// balance computes the factor that gives the weights a mean of 1.
func (p *Problem) balance() { p.unit = float64(p.Len()) / p.Mass() }

// share returns the weight of row i, scaled to a mean of 1.
func (p *Problem) share(i int) float64 {
	if p.weights == nil {
		return 1
	}
	return p.weights.At(i) * p.unit
}

// size returns ‖a_i‖², weighted.
func (p *Problem) size(i int) float64 { return p.share(i) * p.norm2[i] }

// deriv returns the derivative of the loss of row i, weighted.
func (p *Problem) deriv(z float64, i int) float64 {
	return p.share(i) * p.Loss.deriv(z, p.b[i])
}

// Set replaces row i. Its weight stays.
func (p *Problem) Set(i int, a stream.Vec, b float64) {
	p.nnz += len(a.Val) - len(p.rows[i].Val)
	p.rows[i], p.b[i] = a, b
	p.norm2[i] = float64(p.Bias * p.Bias)
	for _, v := range a.Val {
		p.norm2[i] += float64(float64(v) * float64(v))
	}
	p.dim = max(p.dim, a.Dim()+p.first())
}

// sparse reports whether lazy updates pay off.
func (p *Problem) sparse() bool { return 8*p.nnz < p.Len()*p.Dim() }

// coordinates yields the coordinates that row i has, except the bias.
func (p *Problem) coordinates(i int) iter.Seq[int] {
	return func(yield func(int) bool) {
		r, first := &p.rows[i], p.first()
		for k := range r.Val {
			j := k
			if r.Idx != nil {
				j = int(r.Idx[k])
			}
			if !yield(j + first) {
				return
			}
		}
	}
}

// dot returns a_iᵀx. Its bits depend only on the row and on x.
func (p *Problem) dot(x []float64, i int) float64 {
	r, s := &p.rows[i], 0.0
	if p.Bias != 0 {
		s = float64(p.Bias * x[0])
		x = x[1:]
	}
	if r.Idx != nil {
		val := r.Val[:len(r.Idx)]
		for k, j := range r.Idx {
			s += float64(float64(val[k]) * x[j])
		}
		return s
	}
	val := r.Val
	x = x[:len(val)]
	var s1, s2, s3 float64
	k := 0
	for ; k+4 <= len(val); k += 4 {
		v, w := val[k:k+4:k+4], x[k:k+4:k+4]
		s += float64(float64(v[0]) * w[0])
		s1 += float64(float64(v[1]) * w[1])
		s2 += float64(float64(v[2]) * w[2])
		s3 += float64(float64(v[3]) * w[3])
	}
	for ; k < len(val); k++ {
		s += float64(float64(val[k]) * x[k])
	}
	return (s + s1) + (s2 + s3)
}

// longRow is the length from which a call of vector code pays off.
const longRow = 32

// axpy sets y += c·a_i.
func (p *Problem) axpy(c float64, i int, y []float64) {
	r := &p.rows[i]
	if p.Bias != 0 {
		y[0] += float64(c * p.Bias)
		y = y[1:]
	}
	if r.Idx != nil {
		val := r.Val[:len(r.Idx)]
		for k, j := range r.Idx {
			y[j] += float64(c * float64(val[k]))
		}
		return
	}
	if len(r.Val) >= longRow {
		vec.AxpyMixed(c, r.Val, y)
		return
	}
	y = y[:len(r.Val)]
	for k, v := range r.Val {
		y[k] += float64(c * float64(v))
	}
}

// smoothness bounds the curvature of the smooth part of F: the largest eigenvalue
// of AᵀA/n is at most its trace.
func (p *Problem) smoothness() float64 {
	return float64(p.Loss.Curvature()*p.trace())/float64(max(p.Len(), 1)) + p.Ridge
}

// trace returns Σ w_i ‖a_i‖² for weights with a mean of 1.
func (p *Problem) trace() (s float64) {
	for i := range p.norm2 {
		s += p.size(i)
	}
	return s
}

// lasso returns λ2 for coordinate j.
func (p *Problem) lasso(j int) float64 {
	if j < p.first() {
		return 0
	}
	return p.Lasso
}

// Margins sets z[i] = a_iᵀx.
func (p *Problem) Margins(z, x []float64) {
	for i := range z {
		z[i] = p.dot(x, i)
	}
}

// penalty returns λ1/2 ‖x‖² + λ2 ‖x‖₁.
func (p *Problem) penalty(x []float64) float64 {
	two, one := p.norms(x)
	return float64(p.Ridge/2*two) + float64(p.Lasso*one)
}

// norms returns ‖x‖², and ‖x‖₁ without the bias.
func (p *Problem) norms(x []float64) (two, one float64) {
	for j, v := range x {
		two += float64(v * v)
		if j >= p.first() {
			one += math.Abs(v)
		}
	}
	return two, one
}

// meanLoss returns the mean loss at the margins z.
func (p *Problem) meanLoss(z []float64) float64 {
	s := 0.0
	for i, v := range z {
		s += float64(p.share(i) * p.Loss.value(v, p.b[i]))
	}
	return s / float64(max(len(z), 1))
}

// Objective returns F(x); 0 without rows.
func (p *Problem) Objective(x []float64) float64 {
	z := make([]float64, p.Len())
	p.Margins(z, x)
	return p.meanLoss(z) + p.penalty(x)
}

// AtZero returns F(0).
func (p *Problem) AtZero() float64 { return p.meanLoss(make([]float64, p.Len())) }

// gradient sets g to 1/n Σ d_i a_i: the gradient of the mean loss, given the
// derivatives d of the losses.
func (p *Problem) gradient(g, d []float64) {
	clear(g)
	for i, v := range d {
		if v != 0 {
			p.axpy(v, i, g)
		}
	}
	for j := range g {
		g[j] /= float64(max(len(d), 1))
	}
}

// subgradient returns the norm of the smallest subgradient of F at x, which is 0 at a
// minimum. grad is the gradient of the mean loss at x. For λ1 > 0, F(x) − F* ≤
// norm²/(2 λ1).
func (p *Problem) subgradient(x, grad []float64) float64 {
	s := 0.0
	for j, v := range x {
		g := grad[j] + float64(p.Ridge*v)
		if j >= p.first() {
			switch {
			case v > 0:
				g += p.Lasso
			case v < 0:
				g -= p.Lasso
			default:
				g = soft(g, p.Lasso)
			}
		}
		s += float64(g * g)
	}
	return math.Sqrt(s)
}

// Gradient returns the gradient of the mean loss at x.
func (p *Problem) Gradient(x []float64) []float64 {
	z, g := make([]float64, p.Len()), make([]float64, len(x))
	p.Margins(z, x)
	for i := range z {
		z[i] = p.deriv(z[i], i)
	}
	p.gradient(g, z)
	return g
}

// soft returns sign(v) max(|v|−t, 0), the prox of t|·|; NaN stays NaN.
func soft(v, t float64) float64 {
	if v > t {
		return v - t
	}
	if v < -t {
		return v + t
	}
	if v != v {
		return v
	}
	return 0
}
