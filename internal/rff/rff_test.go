package rff_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/streamsvm/streamsvm/internal/rff"
	"github.com/streamsvm/streamsvm/stream"
)

func features(t testing.TB, kind rff.Spectrum, gamma float64, block int, seed uint64, budget int) *rff.Features {
	t.Helper()
	f, err := rff.New(kind, gamma, block, seed, budget)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func mapped(f *rff.Features, block uint64, xs ...stream.Vec) []float32 {
	var p rff.Points
	p.Pack(xs)
	z := make([]float32, len(xs)*f.Block())
	f.Map(z, f.Block(), &p, block)
	return z
}

// P-5: means of products of features are kernel values, to 4/√N, for points in
// either representation.
func TestFeatureLaw(t *testing.T) {
	const n = 1 << 18
	for _, c := range []struct {
		kind   rff.Spectrum
		kernel func(x, z []float32) float64
	}{
		{rff.Gaussian, func(x, z []float32) float64 {
			s := 0.0
			for i := range x {
				s += math.Pow(float64(x[i]-z[i]), 2)
			}
			return math.Exp(-0.7 * s)
		}},
		{rff.Laplacian, func(x, z []float32) float64 {
			s := 0.0
			for i := range x {
				s += math.Abs(float64(x[i] - z[i]))
			}
			return math.Exp(-0.7 * s)
		}},
	} {
		for _, shift := range []int32{0, 5000} {
			f := features(t, c.kind, 0.7, 1024, 9, 1<<28)
			r := rand.New(rand.NewPCG(3, 4))
			var xs []stream.Vec
			for range 6 {
				x := stream.Vec{Idx: []int32{shift, shift + 3, shift + 70}, Val: make([]float32, 3)}
				for j := range x.Val {
					x.Val[j] = float32(r.NormFloat64() * .6)
				}
				xs = append(xs, x)
			}
			var sums [6][6]float64
			for b := range uint64(n / 1024) {
				z := mapped(f, b, xs...)
				for i := range xs {
					for j := range xs {
						for k := range 1024 {
							sums[i][j] += 2 * float64(z[i*1024+k]) * float64(z[j*1024+k]) / n
						}
					}
				}
			}
			for i := range xs {
				for j := range xs {
					if want := c.kernel(xs[i].Val, xs[j].Val); math.Abs(sums[i][j]-want) > 4/math.Sqrt(n) {
						t.Errorf("%s, coordinates from %d: mean product %g, kernel %g", c.kind, shift, sums[i][j], want)
					}
				}
			}
		}
	}
}

// Company, order, budget, concurrency and what was asked before change no bit.
func TestFeaturesAreDraws(t *testing.T) {
	const seed = 5
	r := rand.New(rand.NewPCG(seed, 1))
	var xs []stream.Vec
	for i := range 40 {
		dim := []int{1, 7, 60, 1024, 1025, 3000}[i%6]
		x := stream.Vec{Idx: []int32{}}
		for j := range dim {
			if j == dim-1 || r.IntN(dim) < 9 || i > 30 { // the last ones have no zeros to skip
				x.Idx, x.Val = append(x.Idx, int32(j)), append(x.Val, float32(r.NormFloat64()))
			}
		}
		if i%4 == 0 { // the same point, dense
			v := make([]float32, dim)
			x.Dense(v)
			x = stream.Vec{Val: v}
		}
		xs = append(xs, x)
	}
	xs = append(xs, stream.Vec{}, stream.Vec{Idx: []int32{1 << 30}, Val: []float32{2}})
	const m = 70
	for _, kind := range []rff.Spectrum{rff.Gaussian, rff.Laplacian} {
		want := map[uint64][]float32{}
		ref := features(t, kind, .3, m, seed, 1<<30)
		for b := range uint64(4) {
			want[b] = mapped(ref, b, xs...)
		}
		if slices.Equal(want[0], want[1]) || slices.Equal(want[0], mapped(features(t, kind, .3, m, seed+1, 0), 0, xs...)) {
			t.Fatal("blocks or seeds share their features")
		}
		for _, budget := range []int{0, 30000, 300000, 1 << 30} {
			f := features(t, kind, .3, m, seed, budget)
			var wait sync.WaitGroup
			for range 4 {
				r := rand.New(rand.NewPCG(seed, r.Uint64()))
				wait.Go(func() {
					for range 60 {
						b := r.Uint64N(4)
						var some []stream.Vec
						var at []int
						for range 1 + r.IntN(9) {
							i := r.IntN(len(xs))
							some, at = append(some, xs[i]), append(at, i)
						}
						if r.IntN(20) == 0 {
							f.Release(b)
						}
						z := mapped(f, b, some...)
						for k, i := range at {
							if !slices.Equal(z[k*m:(k+1)*m], want[b][i*m:(i+1)*m]) {
								t.Errorf("%s, budget %d, block %d: point %d has other features in other company", kind, budget, b, i)
								return
							}
						}
					}
				})
			}
			wait.Wait()
			if f.Bytes() > budget {
				t.Errorf("%d bytes held, the budget is %d", f.Bytes(), budget)
			}
			for b := range uint64(4) {
				f.Release(b)
			}
			if f.Bytes() != 0 {
				t.Errorf("%d bytes held after the last release", f.Bytes())
			}
		}
	}
}

// The sums of the packed and of the sparse layout are those of the definition.
func TestFeaturesOfEitherLayout(t *testing.T) {
	f := features(t, rff.Gaussian, .5, 64, 3, 1<<20)
	near := stream.Vec{Val: []float32{.5, -1, 2}}
	far := stream.Vec{Val: make([]float32, 1030)}
	copy(far.Val, near.Val)
	far.Val[1029] = 1e-20 // takes it to the other layout, but no further
	a, b := mapped(f, 2, near), mapped(f, 2, far)
	for i := range a {
		if math.Abs(float64(a[i]-b[i])) > 1e-5 {
			t.Errorf("feature %d: %g packed, %g sparse", i, a[i], b[i])
		}
	}
}

func TestFeaturesRefuse(t *testing.T) {
	for _, c := range []struct {
		kind  rff.Spectrum
		gamma float64
		block int
	}{
		{"poly", 1, 8}, {rff.Gaussian, 0, 8}, {rff.Gaussian, -1, 8}, {rff.Gaussian, math.NaN(), 8},
		{rff.Laplacian, math.Inf(1), 8}, {rff.Gaussian, 1, 0}, {rff.Gaussian, 1, 1 << 30},
	} {
		if _, err := rff.New(c.kind, c.gamma, c.block, 1, 0); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}

// Wide points are summed up in groups of 128: a point has the features of the
// definition in any group, at any place in it, and nothing is kept but phases.
func TestWidePoints(t *testing.T) {
	const m, dim, block = 48, 40_000, 3
	r := rand.New(rand.NewPCG(2, 7))
	var xs []stream.Vec
	for range 300 {
		x := stream.Vec{Idx: []int32{}}
		for j := int32(0); j < dim; j += 1 + int32(r.ExpFloat64()*float64(j+5)) {
			x.Idx, x.Val = append(x.Idx, j), append(x.Val, float32(r.IntN(4))) // some spell a 0 out
		}
		x.Idx, x.Val = append(x.Idx, dim), append(x.Val, 1)
		xs = append(xs, x)
	}
	for _, kind := range []rff.Spectrum{rff.Gaussian, rff.Laplacian} {
		f := features(t, kind, .01, m, 5, 1<<30)
		phase, w := f.Phases(block), make([]float32, m)
		all := mapped(f, block, xs...)
		for i, x := range xs {
			if one := mapped(f, block, x); !slices.Equal(one, all[i*m:(i+1)*m]) {
				t.Fatalf("%s: point %d has other features alone", kind, i)
			}
			sum := make([]float64, m)
			for k, b := range phase {
				sum[k] = float64(b)
			}
			for k, j := range x.Idx {
				f.Frequencies(w, block, int(j))
				for q, v := range w {
					sum[q] += float64(x.Val[k]) * float64(v)
				}
			}
			for q, s := range sum {
				if want := math.Cos(2 * math.Pi * s); math.Abs(float64(all[i*m+q])-want) > 1e-5 {
					t.Fatalf("%s: point %d, feature %d: %g, want %g", kind, i, q, all[i*m+q], want)
				}
			}
		}
		if n := f.Bytes(); n > 4*m {
			t.Errorf("%s: %d bytes are held for features of %d coordinates", kind, n, dim)
		}
	}
}
