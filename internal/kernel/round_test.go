package kernel

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/internal/testkit/pointtest"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// wild makes n points of dim features, of which the first is a flag, with large
// coefficients.
func wild(r *rand.Rand, k vec.Kernel, n, dim int) (*Basis, []float64) {
	b := New(Func{Kernel: k, Bias: 1})
	coef := make([]float64, n)
	for i := range coef {
		x := pointtest.Random(r, dim, false)
		x.Val[0] = float32(r.IntN(2))
		if i > 0 && r.IntN(8) == 0 { // two that may fall together
			x = b.Row(i - 1)
			x.Val[dim-1] += 1e-4
		}
		b.Append(x)
		coef[i] = 100 * r.NormFloat64()
	}
	return b, coef
}

func value(b *Basis, coef []float64, x stream.Vec) float64 {
	s := 0.0
	for i, c := range coef {
		s += c * pointtest.Kernel(b.Func.Kernel, x, b.Row(i))
	}
	return s
}

// Nowhere is the change of f larger than the bound, which is the norm of the change
// and not much more; what is rounded takes fewer bytes, and flags are as they were.
func TestRound(t *testing.T) {
	step := uint64(4) // each width and each dimension once; the long variant has them with each other
	if os.Getenv("STREAMSVM_LONG") != "" {
		step = 1
	}
	for seed := uint64(0); seed < 9; seed += step {
		r := rand.New(rand.NewPCG(seed, 7))
		k := vec.Kernel{Kind: vec.RBF, Gamma: []float32{0.02, 0.3, 2}[seed%3]}
		dim := []int{2, 5, 12}[seed/3%3]
		b, coef := wild(r, k, 300+r.IntN(80), dim)
		const most = 0.5
		p, c, bound, ok := Round(b, coef, most)
		if !ok || !(bound <= most) {
			t.Fatalf("seed %d: %v, bound %g", seed, ok, bound)
		}
		if size := len(packedBytes(t, p)); size > len(packedBytes(t, b))*3/4 {
			t.Errorf("seed %d: %d bytes, %d before", seed, size, len(packedBytes(t, b)))
		}
		norm := 0.0
		for i := range coef {
			if p.Row(i).Val[0] != b.Row(i).Val[0] {
				t.Fatalf("seed %d: the flag of point %d has changed", seed, i)
			}
			norm += coef[i] * (value(b, coef, b.Row(i)) - value(p, c, b.Row(i)))
			norm -= c[i] * (value(b, coef, p.Row(i)) - value(p, c, p.Row(i)))
		}
		if norm = math.Sqrt(norm); bound < norm-0.005 || bound > 1.3*norm+0.005 {
			t.Errorf("seed %d: the bound is %g, the norm %g", seed, bound, norm)
		}
		for i := range 400 {
			x := pointtest.Random(r, dim+i%2, false)
			switch j := r.IntN(len(coef)); i % 4 {
			case 0:
				x = p.Row(j)
			case 1: // on the way on which a point went, and further
				x = b.Row(j)
				y, s := p.Row(j), float32(r.NormFloat64())*20
				for g := range x.Val {
					x.Val[g] += (y.Val[g] - x.Val[g]) * s
				}
			}
			if d := math.Abs(value(b, coef, x) - value(p, c, x)); d > bound {
				t.Fatalf("seed %d: f changes by %g, which is to be %g at most", seed, d, bound)
			}
		}
	}
}

// Without a projection the change would be many times as large: with it a grid of as
// many bits does.
func TestRoundProjects(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 7))
	b, coef := wild(r, vec.Kernel{Kind: vec.RBF, Gamma: 0.05}, 500, 4)
	x := newRounding(b, coef)
	p, c, bound := x.try(10)
	both := New(Func{Kernel: b.Func.Kernel})
	for i := range coef {
		both.Append(b.Row(i))
	}
	for i := range coef {
		both.Append(p.Row(i))
	}
	if plain := x.norm(both, coef); bound > plain/3 || len(c) != len(coef) {
		t.Errorf("bound %g, with the coefficients as they were %g", bound, plain)
	}
}

// What cannot be rounded is refused.
func TestRoundRefuses(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 7))
	good, coef := wild(r, vec.Kernel{Kind: vec.RBF, Gamma: 0.5}, 300, 3)
	laplacian, pc := wild(r, vec.Kernel{Kind: vec.Laplacian, Gamma: 0.5}, 300, 3)
	linear, lc := wild(r, vec.Kernel{Kind: vec.Linear}, 300, 3)
	flags := New(good.Func)
	for i := range coef {
		flags.Append(stream.Vec{Val: []float32{float32(i % 2), 1}})
	}
	sparse := NewSparse(good.Func)
	sparse.Append(stream.Vec{Val: []float32{1}})
	for i, c := range []struct {
		b    *Basis
		coef []float64
		most float64
	}{
		{good, coef, 0}, {good, coef, math.NaN()}, {good, coef, 1e-9}, {linear, lc, 1}, {laplacian, pc, 1}, {flags, coef, 1}, {sparse, []float64{1}, 1}, {New(good.Func), nil, 1},
	} {
		if _, _, bound, ok := Round(c.b, c.coef, c.most); ok {
			t.Errorf("case %d is rounded, bound %g", i, bound)
		}
	}
}

// The same bits with any code of package vec.
func TestRoundGolden(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 7))
	b, coef := wild(r, vec.Kernel{Kind: vec.RBF, Gamma: 0.2}, 333, 5)
	p, c, bound, ok := Round(b, coef, 0.25)
	if !ok {
		t.Fatal("not rounded")
	}
	var buf bytes.Buffer
	fmt.Fprint(&buf, c, bound)
	buf.Write(packedBytes(t, p))
	if got := xxhash.Sum64(buf.Bytes()); got != 0xe7071f67c2b8dce5 {
		t.Errorf("hash %#x", got)
	}
}
