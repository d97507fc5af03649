//go:build cref && linux

package vec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/testkit/cref"
	"golang.org/x/sys/unix"
)

// cpuTime is what the calling thread has used: a busy machine does not count.
func cpuTime(b *testing.B) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return time.Duration(t.Nano())
}

// race times the entrants in turn and returns the median seconds of one call
// of each.
func race(b *testing.B, entrants []func()) []float64 {
	const rounds, least = 15, 5 * time.Millisecond
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	times := make([][]float64, len(entrants))
	calls := make([]int, len(entrants))
	for round := range rounds + 1 {
		for i, f := range entrants {
			n := max(calls[i], 1)
			start := cpuTime(b)
			for range n {
				f()
			}
			took := cpuTime(b) - start
			if round > 0 {
				times[i] = append(times[i], took.Seconds()/float64(n))
			}
			calls[i] = max(calls[i], int(math.Ceil(float64(n)*float64(least)/float64(max(took, 1)))))
		}
	}
	var median []float64
	for _, t := range times {
		slices.Sort(t)
		median = append(median, t[len(t)/2])
	}
	return median
}

// report gives rates in units of 1e9 and their ratios to the last but one, the
// C reference; the last is the naive loop in Go.
//
// bound is the least number of seconds that the machine could take.
func report(b *testing.B, work float64, seconds []float64, bound float64) {
	c := seconds[len(seconds)-2]
	naive := seconds[len(seconds)-1]
	for i := generic; i <= active; i++ {
		b.ReportMetric(work/seconds[i]/1e9, i.String()+"-G/s")
		b.ReportMetric(c/seconds[i], i.String()+"/C")
	}
	b.ReportMetric(work/c/1e9, "C-G/s")
	b.ReportMetric(work/bound/1e9, "bound-G/s")
	b.ReportMetric(100*bound/seconds[active], "%-of-bound")
	b.ReportMetric(naive/seconds[generic], "generic/naive")
	b.ReportMetric(0, "ns/op")
}

// leastOf returns the least processor seconds of a call of f.
func leastOf(b *testing.B, f func()) float64 {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f()
	least, calls := math.Inf(1), 1
	for round := 0; round < 15; {
		start := cpuTime(b)
		for range calls {
			f()
		}
		took := (cpuTime(b) - start).Seconds()
		if took < 2e-3 {
			calls *= 2
			continue
		}
		least = min(least, took/float64(calls))
		round++
	}
	return least
}

// fmaTime and readTime are the seconds that the machine, one core of it, takes
// for a fused multiply-add, and to read a byte of so many that are read again and
// again.
var fmaTime, readTimes = 0.0, map[int]float64{}

func multiplyAdd(b *testing.B) float64 {
	if fmaTime == 0 {
		const n = 960 << 10
		fmaTime = leastOf(b, func() { cref.FMAs(n) }) / n
	}
	return fmaTime
}

func readTime(b *testing.B, bytes int) float64 {
	if readTimes[bytes] == 0 {
		x := make([]float32, (bytes/4+127)/128*128)
		for i := range x {
			x[i] = 1 // pages of zeros are all the same one
		}
		times := max(1, 1<<22/bytes)
		readTimes[bytes] = leastOf(b, func() { cref.Read(x, times) }) / float64(4*len(x)*times)
	}
	return readTimes[bytes]
}

// BenchmarkMachine measures the bounds.
func BenchmarkMachine(b *testing.B) {
	for b.Loop() {
		b.ReportMetric(1e-9/multiplyAdd(b), "G-FMA/s")
		for _, m := range []struct {
			name  string
			bytes int
		}{{"L1", 16 << 10}, {"L2", 256 << 10}, {"memory", 256 << 20}} {
			b.ReportMetric(1e-9/readTime(b, m.bytes), m.name+"-GB/s")
		}
		const n, times = 4096, 256
		x, y := make([]float32, n), make([]float32, n)
		for i := range x {
			x[i] = -8 * float32(i) / n
		}
		b.ReportMetric(n*times*1e-9/leastOf(b, func() { cref.Exps(x, y, times) }), "G-exp/s")
		b.ReportMetric(n*times*1e-9/leastOf(b, func() { cref.Coses(x, y, times) }), "G-cos/s")
		b.ReportMetric(0, "ns/op")
	}
}

// productBound is the bound of n rows against m points of d features: a
// multiply-add for each feature, or reading all points once, whichever is longer.
// What follows, an exponential or a cosine, is not counted.
func productBound(b *testing.B, n, m, d int) float64 {
	return max(multiplyAdd(b)*float64(n*m*d), readTime(b, 4*m*d)*float64(4*m*d))
}

// BenchmarkC sets every code up to the one in use against the C reference.
func BenchmarkC(b *testing.B) {
	for _, shape := range []struct{ n, m int }{{240, 2048}, {1, 1024}, {1, 16384}} {
		for _, d := range dims {
			b.Run(fmt.Sprintf("rbf/n=%d/m=%d/d=%d", shape.n, shape.m, d), func(b *testing.B) {
				n, m := shape.n, shape.m
				p := benchPanels(d, m)
				x, dst, want := make([]float32, n*d), make([]float32, n*m), make([]float32, n*m)
				mix{0, 0.1}.fill(rand.New(rand.NewPCG(2, 0)), x)
				k := Kernel{Kind: RBF, Gamma: 0.5}
				var fs []func()
				for c := generic; c <= active; c++ {
					rows := n
					if c == generic { // it is slow: some rows will do
						rows = min(n, 12)
					}
					fs = append(fs, func() { k.blockOn(c, dst, m, x, rows, p, 0, m) })
				}
				fs = append(fs, func() { cref.RBF(want, x, n, p.data, m, d, k.Gamma) })
				z := make([]float32, m*d)
				for j := range m {
					p.Row(z[j*d:], j)
				}
				fs = append(fs, func() { naiveRBF(dst[:m], x[:d], z, float64(k.Gamma)) })
				fs[0]()
				fs[len(fs)-2]()
				for i, v := range dst[:m] {
					if math.Abs(float64(v-want[i])) > 1e-5 {
						b.Fatalf("value %d is %g, C has %g", i, v, want[i])
					}
				}
				var seconds []float64
				for b.Loop() {
					seconds = race(b, fs)
				}
				seconds[generic] *= float64(n) / float64(min(n, 12))
				seconds[len(seconds)-1] *= float64(n)
				report(b, float64(n*m), seconds, productBound(b, n, m, d))
			})
		}
	}
}

// BenchmarkCFourier does the same for a batch of random Fourier features.
func BenchmarkCFourier(b *testing.B) {
	for _, m := range []int{256, 1024, 4096} {
		for _, d := range dims {
			b.Run(fmt.Sprintf("fourier/n=256/m=%d/d=%d", m, d), func(b *testing.B) {
				const n, few = 256, 12
				turns, radians := benchPanels(d, m), benchPanels(d, m)
				for i := range radians.data {
					radians.data[i] *= 2 * math.Pi
				}
				rng := rand.New(rand.NewPCG(2, 0))
				x, phase, phase2 := make([]float32, n*d), make([]float32, m), make([]float32, m)
				mix{0, 1}.fill(rng, x)
				for i := range phase {
					phase[i] = rng.Float32()
					phase2[i] = 2 * math.Pi * phase[i]
				}
				dst, want := make([]float32, n*m), make([]float32, n*m)
				var fs []func()
				for c := generic; c <= active; c++ {
					rows := n
					if c == generic {
						rows = few
					}
					fs = append(fs, func() { cosOn(c, dst, m, x, rows, turns, phase, 0, m) })
				}
				fs = append(fs, func() { cref.Fourier(want, x, n, radians.data, phase2, m, d) })
				w := make([]float32, m*d)
				for j := range m {
					radians.Row(w[j*d:], j)
				}
				fs = append(fs, func() { naiveFourier(dst[:m], x[:d], w, phase2) })
				fs[0]()
				fs[len(fs)-2]()
				for i, v := range dst[:m] {
					if math.Abs(float64(v-want[i])) > 1e-4 {
						b.Fatalf("value %d is %g, C has %g", i, v, want[i])
					}
				}
				var seconds []float64
				for b.Loop() {
					seconds = race(b, fs)
				}
				seconds[generic] *= float64(n) / few
				seconds[len(seconds)-1] *= n
				report(b, float64(n*m), seconds, productBound(b, n, m, d))
			})
		}
	}
}

// BenchmarkCMixed does the same for sums over kernel values.
func BenchmarkCMixed(b *testing.B) {
	for _, n := range []int{300, 4096} {
		k, a := make([]float32, n), make([]float64, n)
		rng := rand.New(rand.NewPCG(2, 0))
		mix{0, 1}.fill(rng, k)
		for i := range a {
			a[i] = rng.NormFloat64()
		}
		sum := 0.0
		for _, op := range []struct {
			name     string
			ours     func(c code)
			c, naive func()
		}{
			{"dot", func(c code) { sum = dotMixedOn(c, k, a) }, func() { sum = cref.DotMixed(k, a) }, func() {
				sum = 0
				for i, v := range k {
					sum += float64(v) * a[i]
				}
			}},
			{"axpy", func(c code) { axpyMixedOn(c, 1e-9, k, a) }, func() { cref.AxpyMixed(1e-9, k, a) }, func() {
				for i, v := range k {
					a[i] += 1e-9 * float64(v)
				}
			}},
		} {
			b.Run(fmt.Sprintf("%s/n=%d", op.name, n), func(b *testing.B) {
				var fs []func()
				for c := generic; c <= active; c++ {
					fs = append(fs, func() { op.ours(c) })
				}
				fs = append(fs, op.c, op.naive)
				var seconds []float64
				for b.Loop() {
					seconds = race(b, fs)
				}
				report(b, float64(n), seconds, readTime(b, 12*n)*float64(12*n))
			})
		}
	}
}

// naiveFourier is what anybody would write first.
func naiveFourier(dst, x, w, phase []float32) {
	d := len(x)
	for j := range dst {
		var s float32
		for f, v := range w[j*d : (j+1)*d] {
			s += x[f] * v
		}
		dst[j] = float32(math.Cos(float64(s + phase[j])))
	}
}

var dims = []int{3, 18, 28, 54, 300, 784}

func benchPanels(dim, rows int) *Panels {
	return randomPanels(rand.New(rand.NewPCG(1, 0)), mix{0, float32(1 / math.Sqrt(float64(dim)))}, dim, rows)
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
