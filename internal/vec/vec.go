// Package vec computes blocks of kernel values, and a few other vector operations
// that learners need, with SIMD code whose results have the same bits on every CPU.
//
// Results depend neither on how the caller splits the work into calls nor on the
// CPU: the AVX-512, AVX2 and pure Go code compute each value with the same
// roundings in the same order, and so agree in every bit, including special values.
// A NaN result is always the same NaN. The fastest code that the CPU can run is
// chosen at program start. The environment variable STREAMSVM_VEC (avx512, avx2 or
// generic) lowers the choice; the build tag purego leaves only Go.
package vec

import (
	"fmt"
	"slices"
)

//go:generate go -C asm run . -out ../vec_amd64.s -stubs ../stubs_amd64.go -pkg vec

// Width is the number of rows in a panel.
const Width = 64

// Panels stores float32 rows in panels of Width rows, feature by feature, so that a
// kernel processes Width rows per vector operation and needs no horizontal sums:
// feature k of row i is data[(i/Width)*Width*dim + k*Width + i%Width]. Rows beyond
// Len in the last panel are 0.
type Panels struct {
	dim, n int
	data   []float32
}

// NewPanels returns an empty set of rows of dim features.
func NewPanels(dim int) *Panels { return &Panels{dim: dim} }

// Len returns the number of rows.
func (p *Panels) Len() int { return p.n }

// Dim returns the number of features.
func (p *Panels) Dim() int { return p.dim }

// Reserve makes room for n more rows, so that appending them does not allocate.
func (p *Panels) Reserve(n int) {
	rows := (p.n + n + Width - 1) / Width * Width
	p.data = slices.Grow(p.data, rows*p.dim-len(p.data))
}

// Append adds a row of Dim features and returns its index.
func (p *Panels) Append(row []float32) int {
	if p.n%Width == 0 {
		p.data = append(p.data, make([]float32, Width*p.dim)...)
	}
	i := p.n
	p.n++
	p.Set(i, row)
	return i
}

// AppendFrom adds copies of the rows idx of from, in that order; from has the same
// number of features. It takes a fraction of the time of adding them one by one,
// because the features of a row are far apart in memory.
func (p *Panels) AppendFrom(from *Panels, idx []int32) {
	if p.dim != from.dim {
		panic(fmt.Sprintf("vec: rows of %d features for %d", from.dim, p.dim))
	}
	n := p.n
	p.n += len(idx)
	had := len(p.data)
	size := (p.n + Width - 1) / Width * Width * p.dim
	p.data = slices.Grow(p.data, size-had)[:size]
	clear(p.data[max(had, size-Width*p.dim):])
	for len(idx) > 0 {
		lane := n % Width
		part := idx[:min(Width-lane, len(idx))]
		panel := p.data[n/Width*Width*p.dim:]
		var at [Width]int // offsets of the first features
		for r, i := range part {
			at[r] = int(i)/Width*Width*from.dim + int(i)%Width
		}
		for k := range p.dim {
			dst, src := panel[k*Width+lane:][:len(part)], from.data[k*Width:]
			for r := range dst {
				dst[r] = src[at[r]]
			}
		}
		n += len(part)
		idx = idx[len(part):]
	}
}

// Set overwrites row i.
func (p *Panels) Set(i int, row []float32) {
	panel := p.data[i/Width*Width*p.dim:]
	for k, v := range row[:p.dim] {
		panel[k*Width+i%Width] = v
	}
}

// Row writes row i into dst[:Dim].
func (p *Panels) Row(dst []float32, i int) {
	panel := p.data[i/Width*Width*p.dim:]
	for k := range dst[:p.dim] {
		dst[k] = panel[k*Width+i%Width]
	}
}

// Truncate drops the rows from n on.
func (p *Panels) Truncate(n int) {
	zero := make([]float32, p.dim)
	for i := n; i < min(p.n, (n+Width-1)/Width*Width); i++ {
		p.Set(i, zero)
	}
	p.n = n
	p.data = p.data[:(n+Width-1)/Width*Width*p.dim]
}

// Widen raises the number of features to dim; the new features are 0 in every row.
// It changes no kernel value.
func (p *Panels) Widen(dim int) {
	if dim <= p.dim {
		return
	}
	panels := (p.n + Width - 1) / Width
	data := make([]float32, panels*Width*dim)
	for q := range panels {
		copy(data[q*Width*dim:], p.data[q*Width*p.dim:(q+1)*Width*p.dim])
	}
	p.dim, p.data = dim, data
}

// KernelKind selects a kernel function.
type KernelKind uint8

const (
	RBF        KernelKind = iota // exp(−γ‖x−z‖²), within 2 ulp of the exponential of the float32 sum; 0 below 2^-125.99
	Linear                       // ⟨x,z⟩
	Polynomial                   // (γ⟨x,z⟩ + c)^d
	Laplacian                    // exp(−γ‖x−z‖₁), with the same accuracy
)

// Kernel is a kernel function with its parameters.
type Kernel struct {
	Kind   KernelKind
	Gamma  float32 // ≥ 0, up to 2·10³⁸; a negative one gives NaN in RBF and Laplacian
	Coef0  float32 // Polynomial's c
	Degree int     // Polynomial's d ≥ 0
}

// Block sets dst[r*ld+(j-from)] = K(x_r, p_j) for the n consecutive rows of Dim
// features in x and for from ≤ j < to. ld ≥ to-from is the distance between the
// rows of dst. Each value depends only on x_r, p_j and the kernel: features are
// summed in order, each with one fused multiply-add (RBF: of the rounded difference
// with itself).
func (k Kernel) Block(dst []float32, ld int, x []float32, n int, p *Panels, from, to int) {
	k.blockOn(active, dst, ld, x, n, p, from, to)
}

func (k Kernel) blockOn(c code, dst []float32, ld int, x []float32, n int, p *Panels, from, to int) {
	if k.Kind > Laplacian || k.Degree < 0 {
		panic(fmt.Sprintf("vec: kernel %d of degree %d", k.Kind, k.Degree))
	}
	k.cut(c, dst, ld, x, n, p, nil, from, to)
}

// cut checks the arguments and calls the code.
func (k Kernel) cut(c code, dst []float32, ld int, x []float32, n int, p *Panels, phase []float32, from, to int) {
	if from < 0 || to > p.n || from > to || ld < to-from || n < 0 {
		panic(fmt.Sprintf("vec: block of %d rows, columns %d to %d of %d, row distance %d", n, from, to, p.n, ld))
	}
	if n == 0 || from == to {
		return
	}
	x, dst = x[:n*p.dim], dst[:(n-1)*ld+to-from]
	if c == generic || p.dim == 0 { // without features, no element has an address
		k.blockGeneric(dst, ld, x, n, p, phase, from, to)
		return
	}
	k.blockAsm(c, dst, ld, x, n, p, phase, from, to)
}
