package kernel

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/testkit/pointtest"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// columns of values of each kind that is written in another way.
var kinds = []func(r *rand.Rand) float32{
	func(*rand.Rand) float32 { return 0 },
	func(*rand.Rand) float32 { return 1.5 },
	func(r *rand.Rand) float32 { return float32(r.IntN(2)) },
	func(r *rand.Rand) float32 { return float32(r.IntN(256)) },
	func(r *rand.Rand) float32 { return float32(r.IntN(7)) / 3 },
	func(r *rand.Rand) float32 { return float32(r.IntN(4000)-1000) / 1024 },
	func(r *rand.Rand) float32 { return float32(r.NormFloat64()) },
	func(r *rand.Rand) float32 { return []float32{0, float32(math.Copysign(0, -1)), 3}[r.IntN(3)] },
	func(r *rand.Rand) float32 { return math.Float32frombits(1 + r.Uint32N(9)) }, // subnormal
	func(r *rand.Rand) float32 { return float32(r.NormFloat64()) * 1e30 },
}

func packedBytes(t *testing.T, b *Basis) []byte {
	t.Helper()
	data, err := state.Append(nil, func(f *state.Fields) { b.PackedFields(f, b.Len()) })
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func unpacked(data []byte, n int) (*Basis, error) {
	b := New(Func{})
	return b, state.Decode(data, func(f *state.Fields) { b.PackedFields(f, n) })
}

// Points come back to the bit, in their layout, whatever the values are and
// wherever they are 0, and their bytes are the same again.
func TestPackedFields(t *testing.T) {
	for seed := range uint64(36) {
		r := rand.New(rand.NewPCG(seed, 1))
		dim := []int{1, 3, 22, 130, 1024, 3000}[seed%6]
		share := []float64{1, 0.5, 0.05}[seed/6%3]
		b := New(Func{Kernel: vec.Kernel{Kind: vec.RBF, Gamma: 0.5}, Bias: 1})
		if seed%5 == 0 {
			b = NewSparse(b.Func)
		}
		kind := make([]int, dim)
		for j := range kind {
			kind[j] = r.IntN(len(kinds))
			if seed%4 == 1 {
				kind[j] = 3
			}
		}
		for range 1 + r.IntN(300) {
			x := stream.Vec{Idx: []int32{}}
			for j := range dim {
				if r.Float64() < share {
					x.Idx, x.Val = append(x.Idx, int32(j)), append(x.Val, kinds[kind[j]](r))
				}
			}
			b.Append(x)
		}
		if !b.Packable() {
			continue // no feature at all
		}
		data := packedBytes(t, b)
		got, err := unpacked(data, b.Len())
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got.Func != b.Func || got.Dim() != b.Dim() || got.Len() != b.Len() || got.Sparse() != b.Sparse() {
			t.Fatalf("seed %d: %v, %d points of %d features", seed, got.Func, got.Len(), got.Dim())
		}
		for i := range b.Len() {
			x, y := b.Row(i), got.Row(i)
			same := func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }
			if !slices.Equal(x.Idx, y.Idx) || !slices.EqualFunc(x.Val, y.Val, same) {
				t.Fatalf("seed %d, point %d:\n%v\n%v", seed, i, x, y)
			}
		}
		if !bytes.Equal(packedBytes(t, got), data) {
			t.Errorf("seed %d: the bytes are others", seed)
		}
		for range 8 { // whatever is read, nothing but an error may come of it
			bad := bytes.Clone(data)
			for range 1 + r.IntN(3) {
				bad[r.IntN(len(bad))] = byte(r.Uint32())
			}
			if _, err := unpacked(bad[:len(bad)-r.IntN(2)], b.Len()); err != nil {
				continue
			}
		}
		if _, err := unpacked(data, b.Len()+1); err == nil {
			t.Errorf("seed %d: a point that is not there", seed)
		}
	}
}

// A reader allocates all features of dense points, so few bytes may not stand for many points.
func TestPackedNeedBytes(t *testing.T) {
	for _, dim := range []int{1024, 3000, 16384, 16385} {
		b := New(Func{})
		b.Append(pointtest.Random(rand.New(rand.NewPCG(1, 1)), dim, false))
		for range 2000 {
			b.Append(stream.Vec{})
		}
		if b.Sparse() != (dim > mostDense) || b.Packable() != (dim == 1024 || dim > mostDense) {
			t.Errorf("%d features: sparse %v, packable %v", dim, b.Sparse(), b.Packable())
		}
	}
}

// Of flags and of bytes a point takes the bits.
func TestPackedSize(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		dim, kind int
		share     float64
		most      int // bytes a point
	}{
		{128, 2, 1, 17}, {100, 3, 1, 101}, {120, 1, 0.1, 17}, {1000, 1, 0.01, 12}, {3000, 4, 0.01, 44}, {20, 5, 1, 31}, {20, 6, 1, 81},
	} {
		b := New(Func{})
		const n = 3000
		for range n {
			x := stream.Vec{Idx: []int32{}}
			for j := range c.dim {
				if r.Float64() < c.share {
					x.Idx, x.Val = append(x.Idx, int32(j)), append(x.Val, kinds[c.kind](r))
				}
			}
			b.Append(x)
		}
		if size := len(packedBytes(t, b)) - 7*c.dim - 300; size > n*c.most {
			t.Errorf("%+v: %.1f bytes a point", c, float64(size)/n)
		}
	}
}
