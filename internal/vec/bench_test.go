package vec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

var dims = []int{3, 18, 28, 54, 300, 784}

func benchPanels(dim, rows int) *Panels {
	return randomPanels(rand.New(rand.NewPCG(1, 0)), mix{0, float32(1 / math.Sqrt(float64(dim)))}, dim, rows)
}

// BenchmarkBlock reports kernel values per second for a Gram block of 240 by
// 2048 and for one kernel row.
func BenchmarkBlock(b *testing.B) {
	for c := generic; c <= best(); c++ {
		for _, d := range dims {
			for _, n := range []int{240, 1} {
				b.Run(fmt.Sprintf("%s/rbf/d=%d/n=%d", c, d, n), func(b *testing.B) {
					const m = 2048
					p := benchPanels(d, m)
					x := make([]float32, n*d)
					mix{0, 0.1}.fill(rand.New(rand.NewPCG(2, 0)), x)
					dst := make([]float32, n*m)
					k := Kernel{Kind: RBF, Gamma: 0.5}
					for b.Loop() {
						k.blockOn(c, dst, m, x, n, p, 0, m)
					}
					b.ReportMetric(float64(n*m)*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gvalues/s")
				})
			}
		}
	}
}

// naiveRBF is what anybody would write first.
func naiveRBF(dst, x, z []float32, gamma float64) {
	d := len(x)
	for j := range dst {
		var s float32
		for f, v := range z[j*d : (j+1)*d] {
			t := x[f] - v
			s += t * t
		}
		dst[j] = float32(math.Exp(-gamma * float64(s)))
	}
}

func BenchmarkNaive(b *testing.B) {
	for _, d := range dims {
		b.Run(fmt.Sprintf("rbf/d=%d", d), func(b *testing.B) {
			const m = 2048
			z, x, dst := make([]float32, m*d), make([]float32, d), make([]float32, m)
			mix{0, 0.1}.fill(rand.New(rand.NewPCG(2, 0)), z)
			for b.Loop() {
				naiveRBF(dst, x, z, 0.5)
			}
			b.ReportMetric(float64(m)*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gvalues/s")
		})
	}
}

func BenchmarkMixed(b *testing.B) {
	for c := generic; c <= best(); c++ {
		for _, n := range []int{28, 300, 2048} {
			k, a := make([]float32, n), make([]float64, n)
			for i := range k {
				k[i], a[i] = float32(i), 1/float64(i+1)
			}
			b.Run(fmt.Sprintf("%s/dot/n=%d", c, n), func(b *testing.B) {
				for b.Loop() {
					dotMixedOn(c, k, a)
				}
			})
			b.Run(fmt.Sprintf("%s/axpy/n=%d", c, n), func(b *testing.B) {
				for b.Loop() {
					axpyMixedOn(c, 1e-9, k, a)
				}
			})
		}
	}
}

func BenchmarkDraws(b *testing.B) {
	x := make([]float32, 4096)
	for c := generic; c <= best(); c++ {
		for name, draw := range draws {
			b.Run(fmt.Sprintf("%s/%s", c, name), func(b *testing.B) {
				for b.Loop() {
					draw(c, x, 1, 0)
				}
				b.ReportMetric(float64(len(x))*float64(b.N)/b.Elapsed().Seconds()/1e9, "G/s")
			})
		}
	}
}
