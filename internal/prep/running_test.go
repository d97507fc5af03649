package prep_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	. "github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/stream"
)

// The slow reference keeps all examples and computes every mean again.
func TestRunning(t *testing.T) {
	const span = 20
	tr, err := Fit(nil, Options{Scale: Running, Span: span})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	var seen [][]float64 // all features, absent ones 0
	const dim = 5
	means := func(n int) []float64 { // after n examples
		m := make([]float64, dim)
		for i := range n {
			rate := max(1/float64(i+1), 2./(span+1))
			for j := range m {
				m[j] += rate * (seen[i][j] - m[j])
			}
		}
		return m
	}
	for i := range 200 {
		x := stream.Vec{Idx: []int32{}}
		full := make([]float64, dim)
		for j := range min(dim, 2+i/30) {
			if j > 0 && r.IntN(3) == 0 {
				continue
			}
			v := float32(r.NormFloat64() + float64(j*i)/10)
			if j == 1 {
				v = 7 // in some, so it has a scale; in the first ones constant
			}
			x.Idx, x.Val = append(x.Idx, int32(j)), append(x.Val, v)
			full[j] = float64(v)
		}
		before := tr.Apply(x)
		got := tr.Next(x)
		if !equalVec(before, got) {
			t.Fatalf("example %d: Apply says %v, Next %v", i, before.Val, got.Val)
		}
		m := means(i)
		for j := range got.Val {
			d := full[j] - m[j]
			sq := 0.0
			for k := 1; k < i; k++ {
				e := seen[k][j] - means(k)[j]
				sq += e * e
			}
			want := math.Max(-1, math.Min(1, d))
			if sq > 0 {
				want = math.Max(-6, math.Min(6, d/math.Sqrt(sq/float64(i-1))))
			}
			if math.Abs(float64(got.Val[j])-want) > 1e-5*(1+math.Abs(want)) {
				t.Fatalf("example %d, feature %d: %g, want %g", i, j, got.Val[j], want)
			}
		}
		seen = append(seen, full)

		if i%50 == 49 { // a restart changes nothing
			data, err := state.Append(nil, tr.Fields)
			if err != nil {
				t.Fatal(err)
			}
			back := new(Transform)
			if err := state.Decode(data, back.Fields); err != nil {
				t.Fatal(err)
			}
			again, _ := state.Append(nil, back.Fields)
			if !bytes.Equal(again, data) {
				t.Fatal("another encoding")
			}
			if err := state.Decode(data[:len(data)-1], new(Transform).Fields); err == nil {
				t.Error("a torn encoding is accepted")
			}
			tr = back
		}
	}
}

func equalVec(a, b stream.Vec) bool {
	if len(a.Val) != len(b.Val) || (a.Idx == nil) != (b.Idx == nil) {
		return false
	}
	for k := range a.Val {
		if a.Val[k] != b.Val[k] || a.Idx != nil && a.Idx[k] != b.Idx[k] {
			return false
		}
	}
	return true
}

// Levels that drift do not matter, and features far out do not cost memory.
func TestRunningDrift(t *testing.T) {
	tr, err := Fit(nil, Options{Scale: Running, Span: 50, HashDim: 0})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	sum := 0.0
	for i := range 5000 {
		y := tr.Next(stream.Vec{Val: []float32{float32(float64(i)*10 + r.NormFloat64())}})
		if i > 500 {
			sum += float64(y.Val[0])
			if math.Abs(float64(y.Val[0])-1) > 0.5 {
				t.Fatalf("example %d: %g", i, y.Val[0])
			}
		}
	}
	if y := tr.Next(stream.Vec{Idx: []int32{0, 1 << 30}, Val: []float32{0, 5}}); y.Val[len(y.Val)-1] != 1 || len(y.Val) > DenseLimit+1 {
		t.Errorf("%d features, the last one %g", len(y.Val), y.Val[len(y.Val)-1])
	}
	if _, err := Fit(nil, Options{Scale: Running, Span: -1}); err == nil {
		t.Error("a negative span is accepted")
	}
}
