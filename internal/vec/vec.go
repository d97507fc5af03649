// Package vec holds the numeric kernels: blocks of kernel values between rows
// and packed rows, and the few vector operations that learners need, with
// results that do not depend on how a caller cuts its work into calls.
package vec

import "math"

// Width is the number of rows in a panel.
const Width = 64

// Panels keeps float32 rows packed Width rows wide, feature by feature, so
// that a kernel streams them without reductions: feature k of row i is
// data[(i/Width)*Width*dim + k*Width + i%Width]. Rows beyond Len in the last
// panel are 0.
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

// Widen raises the number of features to dim; the new features are 0 in every
// row. It changes no kernel value.
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

// KernelKind names a kernel function.
type KernelKind uint8

const (
	RBF        KernelKind = iota // exp(−γ‖x−z‖²)
	Linear                       // ⟨x,z⟩
	Polynomial                   // (γ⟨x,z⟩ + c)^d
	Laplacian                    // exp(−γ‖x−z‖₁)
)

// Kernel is a kernel function with its parameters.
type Kernel struct {
	Kind   KernelKind
	Gamma  float32 // > 0
	Coef0  float32 // Polynomial's c
	Degree int     // Polynomial's d ≥ 1
}

// Block sets dst[r*ld+(j-from)] = K(x_r, p_j) for the n rows of Dim features
// that x holds one after the other and for from ≤ j < to. ld ≥ to-from is the
// distance between the rows of dst. Each value depends on x_r, p_j and the
// kernel only.
func (k Kernel) Block(dst []float32, ld int, x []float32, n int, p *Panels, from, to int) {
	for r := range n {
		row := x[r*p.dim : (r+1)*p.dim]
		for j := from; j < to; j++ {
			panel := p.data[j/Width*Width*p.dim:]
			var s float32
			for f, v := range row {
				z := panel[f*Width+j%Width]
				switch k.Kind {
				case RBF:
					s += (v - z) * (v - z)
				case Laplacian:
					s += max(v-z, z-v)
				default:
					s += v * z
				}
			}
			switch k.Kind {
			case RBF, Laplacian:
				s = float32(math.Exp(-float64(k.Gamma) * float64(s)))
			case Polynomial:
				t := k.Gamma*s + k.Coef0
				s = 1
				for range k.Degree {
					s *= t
				}
			}
			dst[r*ld+j-from] = s
		}
	}
}

// DotMixed returns Σ k[i]·a[i] in float64, in a fixed order.
func DotMixed(k []float32, a []float64) float64 {
	var s float64
	for i, v := range k {
		s += float64(float64(v) * a[i])
	}
	return s
}

// AxpyMixed sets y[i] += c·k[i].
func AxpyMixed(c float64, k []float32, y []float64) {
	for i, v := range k {
		y[i] += float64(c * float64(v))
	}
}

// Apply turns sums over features into kernel values, in place: squared
// distances for RBF, l1 distances for Laplacian, inner products for the
// others.
func (k Kernel) Apply(s []float32) {
	for i, v := range s {
		switch k.Kind {
		case RBF, Laplacian:
			s[i] = float32(math.Exp(-float64(k.Gamma) * float64(v)))
		case Polynomial:
			t := k.Gamma*v + k.Coef0
			s[i] = 1
			for range k.Degree {
				s[i] *= t
			}
		}
	}
}
