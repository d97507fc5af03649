package hinge

import (
	"fmt"
	"math"
	"testing"

	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// moons returns n points of the two moons with noise, and their labels.
func moons(r *rng.Source, n int) (xs []stream.Vec, w []float64) {
	for range n {
		a := math.Pi * r.Float64()
		x, y, label := math.Cos(a), math.Sin(a), 1.0
		if r.IntN(2) == 0 {
			x, y, label = 1-x, 0.5-y, -1
		}
		xs = append(xs, stream.Vec{Val: []float32{float32(x + .3*r.NormFloat64()), float32(y + .3*r.NormFloat64())}})
		w = append(w, label)
	}
	return xs, w
}

func newProblem(seed uint64, n int, lambda float64, cache int) *Problem {
	r := rng.New(seed, "hinge.test")
	xs, w := moons(r, n)
	p := New(kernel.New(kernel.Func{Kernel: vec.Kernel{Kind: vec.RBF, Gamma: 2}}), cache)
	p.Lambda = lambda
	for _, x := range xs {
		p.Basis.Append(x)
	}
	p.Extend(w, nil)
	p.Refresh()
	return p
}

// gram returns the kernel matrix.
func (p *Problem) gram() [][]float32 {
	n := p.Len()
	g := make([][]float32, n)
	for i := range g {
		g[i] = make([]float32, n)
		p.Basis.Between(g[i], n, []int32{int32(i)}, 0, n)
	}
	return g
}

// check compares the maintained products with plain sums.
func (p *Problem) check(t *testing.T, where string) {
	t.Helper()
	g := p.gram()
	worst := func(name string, got []float64, coef func(i int) float64) {
		t.Helper()
		var scale float64
		want := make([]float64, len(got))
		for i := range g {
			c := coef(i)
			for j, k := range g[i] {
				want[j] += c * float64(k)
				scale = max(scale, math.Abs(c*float64(k)))
			}
		}
		for j := range got {
			if d := math.Abs(got[j] - want[j]); d > 1e-9*max(1, scale) {
				t.Fatalf("%s: %s[%d] = %g, want %g", where, name, j, got[j], want[j])
			}
		}
	}
	worst("s", p.S, func(i int) float64 { return p.Alpha[i] })
	worst("p", p.P, func(i int) float64 { return p.D[i] })
	worst("s0", p.S0, func(i int) float64 { return p.Alpha0[i] })
	worst("q", p.Q, func(i int) float64 {
		if p.W[i]*p.S[i] < 1 {
			return p.W[i]
		}
		return 0
	})
}

func TestProductsStayRight(t *testing.T) {
	for seed := range uint64(6) {
		for _, cache := range []int{0, 1 << 16, 1 << 26} {
			p := newProblem(seed, 50, 1e-3, cache)
			r := rng.New(seed, "grow")
			var scratch []Break
			for k := range 30 {
				if k%7 == 3 {
					xs, w := moons(r, 1+r.IntN(100))
					for _, x := range xs {
						p.Basis.Append(x)
					}
					p.Extend(w, nil)
					if k%2 == 0 {
						TruncateAll([]*Problem{p}, p.Len()-len(w)/2)
					}
					p.Refresh()
				}
				if k%5 == 2 {
					p.Mark()
				}
				p.TurnRKHS(k == 0)
				line := p.Line()
				var step float64
				step, scratch = line.Exact(scratch)
				p.Move(step)
				p.check(t, fmt.Sprintf("seed %d, cache %d, iteration %d", seed, cache, k))
			}
			p.Revert()
			p.Refresh()
			p.check(t, fmt.Sprintf("seed %d, cache %d, reverted", seed, cache))
			t.Logf("seed %d cache %d: f=%g", seed, cache, p.Objective())
		}
	}
}
