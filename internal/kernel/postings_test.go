package kernel

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/internal/testkit/pointtest"
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

// TestPostingsOfManyRows cuts a long list of rows at many places, lets it grow
// again and replaces rows anywhere: the values are those of a list that has had
// no other rows, to the bit.
func TestPostingsOfManyRows(t *testing.T) {
	r := rng.New(1, "postings.many")
	rarity := 2
	random := func() stream.Vec {
		x := stream.Vec{Idx: []int32{}}
		for g := range int32(8) {
			if g < 7 && r.IntN(rarity) == 0 || g == 7 && r.IntN(400) == 0 {
				x.Idx, x.Val = append(x.Idx, g*9), append(x.Val, float32(r.NormFloat64()))
				if r.IntN(50) == 0 {
					x.Val[len(x.Val)-1] = 0
				}
			}
		}
		return x
	}
	f := Func{Kernel: vec.Kernel{Kind: vec.RBF, Gamma: .3}, Bias: 1}
	b := NewSparse(f)
	var have []stream.Vec
	grow := func(n int) {
		for len(have) < n {
			have = append(have, random())
			b.Append(have[len(have)-1])
		}
	}
	columns := func() (n int) {
		for _, l := range b.rows.post {
			if l.column != nil {
				n++
			}
		}
		return n
	}
	for k, cut := range []int{3 * stride, 2*stride + 1, 2 * stride, 2*stride - 1, stride, 100, 0} {
		grow(3*stride + 700)
		// Most rows become short ones, or long ones again.
		if n := columns(); n != 7*(1-k%2) {
			t.Fatalf("cut at %d: %d columns", cut, n)
		}
		rarity = 50 - rarity
		for i := range 3*stride + 600 {
			have[i] = random()
			b.Set(i, have[i])
		}
		if n := columns(); n != 7*(k%2) {
			t.Fatalf("cut at %d: %d columns after a change", cut, n)
		}
		b.Truncate(cut)
		have = have[:cut]
		grow(3*stride + 10)
		for k := range 1500 {
			i := r.IntN(len(have))
			if k%3 == 0 { // a part of a window
				i = k
			}
			have[i] = random()
			b.Set(i, have[i])
		}
		fresh := NewSparse(f)
		for _, x := range have {
			fresh.Append(x)
		}
		xs := []stream.Vec{random(), have[5], have[2*stride]}
		for _, from := range []int{0, 1, stride - 1, stride, stride + 500, 3*stride + 9} {
			n := len(have) - from
			got, want := make([]float32, 3*n), make([]float32, 3*n)
			b.Block(got, n, xs, from, len(have))
			fresh.Block(want, n, xs, from, len(have))
			for i, g := range got {
				if g != want[i] {
					t.Fatalf("cut at %d, from %d: value %d is %g, want %g", cut, from, i, g, want[i])
				}
				if plain := plainRows(vec.RBF, .3, xs[i/n], have[from+i%n]) + 1; i%97 == 0 && math.Abs(float64(g)-plain) > 1e-5 {
					t.Fatalf("cut at %d, from %d: value %d is %g, want %g", cut, from, i, g, plain)
				}
			}
		}
	}
}

// TestSetKeepsWithinBounds replaces rows by longer and shorter ones: the gaps
// they leave are bounded, and the encoding is that of a list without any.
func TestSetKeepsWithinBounds(t *testing.T) {
	r := rng.New(1, "postings.gaps")
	random := func() stream.Vec {
		x := stream.Vec{Idx: []int32{}}
		for g := range int32(20 + r.IntN(60)) {
			x.Idx, x.Val = append(x.Idx, 20*g), append(x.Val, float32(r.NormFloat64()))
		}
		return x
	}
	f := Func{Kernel: vec.Kernel{Kind: vec.RBF, Gamma: .3}}
	b, have := NewSparse(f), make([]stream.Vec, 300)
	for i := range have {
		have[i] = random()
		b.Append(have[i])
	}
	for k := range 3000 {
		i := k * 7 % len(have)
		have[i] = random()
		b.Set(i, have[i])
		used := 0
		for _, x := range have {
			used += len(x.Val)
		}
		if n := len(b.rows.idx); b.Numbers() != 2*used || n > used+used/gapShare {
			t.Fatalf("after %d rows: %d elements for %d, of which %d are counted", k, n, used, b.Numbers()/2)
		}
	}
	fresh := NewSparse(f)
	for _, x := range have {
		fresh.Append(x)
	}
	got, _ := state.Append(nil, b.Fields)
	want, err := state.Append(nil, fresh.Fields)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the encoding has %d bytes, of fresh rows %d (%v)", len(got), len(want), err)
	}
}

// TestPick compares picked points with copies of them, in either layout.
func TestPick(t *testing.T) {
	for _, kind := range []vec.KernelKind{vec.RBF, vec.Linear, vec.Laplacian} {
		for _, dims := range [][2]int{{40, 40}, {3000, 3000}, {3000, 40}, {40, 3000}} {
			r := rand.New(rand.NewPCG(uint64(kind), uint64(dims[0])))
			f := Func{Kernel: vec.Kernel{Kind: kind, Gamma: .02}, Bias: .5}
			parts := make([]Part, 2)
			for k, dim := range dims {
				parts[k].Basis = New(f)
				if k == 0 && dim > denseLimit {
					parts[k].Basis = NewSparse(f)
				}
				for range 2*section + 500 {
					x := pointtest.Random(r, 30, true)
					for j := range x.Idx {
						x.Idx[j] *= int32(dim / 30)
					}
					parts[k].Basis.Append(x)
				}
			}
			picked := New(f)
			for _, share := range []int{0, 1, 3, 5000, 2} {
				copied := New(f)
				for k := range parts {
					parts[k].Idx = nil
					for i := range parts[k].Basis.Len() {
						if share > 0 && r.IntN(share) == 0 {
							parts[k].Idx = append(parts[k].Idx, int32(i))
						}
					}
					if k == 0 {
						copied = parts[0].Basis.Subset(parts[0].Idx)
						continue
					}
					for _, i := range parts[k].Idx {
						copied.Append(parts[k].Basis.Row(int(i)))
					}
				}
				picked.Pick(parts...) // in the memory of the one before
				n := copied.Len()
				if picked.Len() != n || picked.Sparse() != copied.Sparse() || picked.Numbers() != copied.Numbers() {
					t.Fatalf("%v %v: %d points, %d numbers; want %d, %d", kind, dims, picked.Len(), picked.Numbers(), n, copied.Numbers())
				}
				same := func(what string) {
					x := []stream.Vec{pointtest.Random(r, dims[0], true)}
					from := r.IntN(n + 1)
					got, want := make([]float32, n-from), make([]float32, n-from)
					picked.Block(got, n, x, from, n)
					copied.Block(want, n, x, from, n)
					if !slices.Equal(got, want) {
						t.Fatalf("%v %v, 1 in %d, %s: values from %d on differ", kind, dims, share, what, from)
					}
					coef, f, g := make([]float64, n), []float64{0}, []float64{0}
					for i := range coef {
						coef[i] = r.NormFloat64()
					}
					picked.Decide(f, x, coef, 2)
					copied.Decide(g, x, coef, 2)
					a, _ := state.Append(nil, picked.Fields)
					b, err := state.Append(nil, copied.Fields)
					if f[0] != g[0] || err != nil || !bytes.Equal(a, b) {
						t.Fatalf("%v %v, 1 in %d, %s: decision %g, want %g; encodings of %d and %d bytes (%v)", kind, dims, share, what, f[0], g[0], len(a), len(b), err)
					}
				}
				same("picked")
				if n > 0 { // from now on it has rows of its own
					before := parts[0].Basis.Len()
					x := pointtest.Random(r, 30, true)
					picked.Set(n/2, x)
					copied.Set(n/2, x)
					if parts[0].Basis.Len() != before {
						t.Fatal("the part has changed")
					}
					same("changed")
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
	if !SparsePays(thin) || SparsePays(thick) || SparsePays(nil) {
		t.Error(SparsePays(thin), SparsePays(thick), SparsePays(nil))
	}
}
