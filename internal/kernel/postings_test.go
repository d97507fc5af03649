package kernel

import (
	"fmt"
	"math"
	"testing"

	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// TestPostingsAgainstDefinition compares the sparse layout with plain sums while
// points come, go and are replaced.
func TestPostingsAgainstDefinition(t *testing.T) {
	for seed := range uint64(20) {
		r := rng.New(seed, "postings")
		random := func() stream.Vec {
			x := stream.Vec{Idx: []int32{}}
			for g := range int32(30) {
				if r.IntN(6) == 0 {
					x.Idx = append(x.Idx, g*50)
					x.Val = append(x.Val, float32(r.NormFloat64()))
				}
			}
			return x
		}
		for _, kind := range []vec.KernelKind{vec.RBF, vec.Linear, vec.Laplacian} {
			b := NewSparse(Func{Kernel: vec.Kernel{Kind: kind, Gamma: .3}, Bias: 1})
			var have []stream.Vec
			for op := range 60 {
				switch {
				case op%9 == 8:
					n := r.IntN(len(have) + 1)
					b.Truncate(n)
					have = have[:n]
				case op%5 == 4 && len(have) > 0:
					i := r.IntN(len(have))
					have[i] = random()
					b.Set(i, have[i])
				default:
					have = append(have, random())
					b.Append(have[len(have)-1])
				}
			}
			x := random()
			from := r.IntN(len(have) + 1)
			got := make([]float32, len(have)-from)
			b.Block(got, len(got), []stream.Vec{x}, from, len(have))
			for j, g := range got {
				if want := plainRows(kind, .3, x, have[from+j]) + 1; math.Abs(float64(g)-want) > 1e-5*max(1, math.Abs(want)) {
					t.Fatalf("seed %d, %v: K = %g, want %g", seed, kind, g, want)
				}
			}
		}
	}
}

func plainRows(kind vec.KernelKind, gamma float64, x, z stream.Vec) float64 {
	a, b := make([]float32, 1500), make([]float32, 1500)
	x.Dense(a)
	z.Dense(b)
	var dot, sq, l1 float64
	for i := range a {
		d := float64(a[i]) - float64(b[i])
		dot += float64(a[i]) * float64(b[i])
		sq += d * d
		l1 += math.Abs(d)
	}
	switch kind {
	case vec.RBF:
		return math.Exp(-gamma * sq)
	case vec.Laplacian:
		return math.Exp(-gamma * l1)
	}
	return dot
}

func TestSparsePays(t *testing.T) {
	f := Func{Kernel: vec.Kernel{Gamma: 1}}
	var thin, thick []stream.Vec
	r := rng.New(1, "layout")
	for range 100 {
		thin = append(thin, stream.Vec{Idx: []int32{int32(r.IntN(150)), 150 + int32(r.IntN(150))}, Val: []float32{1, 1}})
		v := make([]float32, 30)
		for i := range v {
			v[i] = float32(r.NormFloat64())
		}
		thick = append(thick, stream.Vec{Val: v})
	}
	if !SparsePays(f, thin) || SparsePays(f, thick) || SparsePays(f, nil) {
		t.Error(SparsePays(f, thin), SparsePays(f, thick), SparsePays(f, nil))
	}
}

func BenchmarkSparseRow(b *testing.B) {
	r := rng.New(1, "bench")
	for _, d := range []int{300, 8000} {
		k := NewSparse(Func{Kernel: vec.Kernel{Gamma: .1}})
		var x stream.Vec
		for range 4096 {
			x = stream.Vec{Idx: []int32{}}
			for g := range int32(d) {
				if r.IntN(d) < 12 {
					x.Idx = append(x.Idx, g)
					x.Val = append(x.Val, 1)
				}
			}
			k.Append(x)
		}
		dst := make([]float32, 4096)
		b.Run(fmt.Sprintf("d=%d", d), func(b *testing.B) {
			for b.Loop() {
				k.Block(dst, 4096, []stream.Vec{x}, 0, 4096)
			}
			b.ReportMetric(4096*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gelem/s")
		})
	}
}
