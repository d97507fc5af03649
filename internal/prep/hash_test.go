package prep

import (
	"math"
	"reflect"
	"testing"

	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/stream"
)

func TestHash(t *testing.T) {
	const seed, dim = 5, 64
	r := rng.New(seed, "hash")
	tr := &Transform{hashDim: dim}
	// The oracle: each feature alone, added up.
	for range 200 {
		x := sparse()
		want := make([]float64, dim)
		for j := range 300 {
			if r.IntN(3) > 0 {
				continue
			}
			v := float32(r.IntN(100)) // integers: sums are exact
			x.Idx, x.Val = append(x.Idx, int32(j)), append(x.Val, v)
			one := tr.Apply(sparse(float32(j), 1))
			if len(one.Idx) != 1 || math.Abs(float64(one.Val[0])) != 1 {
				t.Fatalf("feature %d becomes %v", j, one)
			}
			want[one.Idx[0]] += float64(one.Val[0] * v)
		}
		y := tr.Apply(x)
		got := make([]float32, dim)
		y.Dense(got)
		for j := range want {
			if float64(got[j]) != want[j] {
				t.Fatalf("seed %d: slot %d holds %v, want %v", seed, j, got[j], want[j])
			}
		}
		for k := 1; k < len(y.Idx); k++ {
			if y.Idx[k] <= y.Idx[k-1] {
				t.Fatalf("indices %v", y.Idx)
			}
		}
		dx := make([]float32, 300)
		x.Dense(dx)
		if z := tr.Apply(stream.Vec{Val: dx}); !reflect.DeepEqual(z, y) {
			t.Fatalf("dense gives %v, sparse %v", z, y)
		}
	}
	// Inner products are kept in expectation, and slots and signs are even.
	slots, signs := make([]float64, dim), 0.0
	const n = 64_000
	for j := range n {
		one := tr.Apply(stream.Vec{Idx: []int32{int32(j)}, Val: []float32{1}})
		slots[one.Idx[0]]++
		signs += float64(one.Val[0])
	}
	chi2 := 0.0
	for _, c := range slots {
		chi2 += (c - n/dim) * (c - n/dim) / (n / dim)
	}
	if chi2 > 110 || math.Abs(signs) > 4*math.Sqrt(n) { // p ≈ 2e-4 at 63 degrees of freedom
		t.Errorf("chi² %v over %d slots, signs add up to %v", chi2, dim, signs)
	}
	if got := tr.Apply(stream.Vec{Idx: []int32{math.MaxInt32}, Val: []float32{2}}); len(got.Idx) != 1 {
		t.Errorf("largest index becomes %v", got)
	}
	for _, o := range []Options{{Scale: Standard, HashDim: 16}, {Scale: Auto, HashDim: 1 << 20}, {Scale: Unit, HashDim: 1}} {
		if tr, err := Fit(examples(random(r, 50, 30, 0.5, false)...), o); err != nil {
			t.Error(err)
		} else if y := tr.Apply(sparse(1<<30, 1)); y.Dim() > o.HashDim {
			t.Errorf("%+v: %v has %d features", o, y, y.Dim())
		}
	}
}
