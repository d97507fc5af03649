package kernel

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
)

// An offset is added to every decision, alone and in company, and survives
// encoding; without one the encoding is that of models that know of none.
func TestOffset(t *testing.T) {
	for _, dim := range []int{2, 1500} {
		r := rand.New(rand.NewPCG(uint64(dim), 3))
		b := New(funcs[0])
		var coef []float64
		for range 130 {
			b.Append(random(r, dim, dim > 10))
			coef = append(coef, r.NormFloat64())
		}
		xs := []stream.Vec{{}, random(r, dim, true), random(r, dim, false), random(r, dim+9, true)}
		plain := NewExpansion(b, coef)
		base, err := plain.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, offset := range []float64{0, -2.5, 1e-9} {
			e := NewOffset(b, coef, offset)
			data, err := e.AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			if offset == 0 != bytes.Equal(data, base) || !bytes.HasPrefix(data, base) {
				t.Fatalf("offset %g: %d bytes, %d without", offset, len(data), len(base))
			}
			m, err := DecodeExpansion(data)
			if err != nil {
				t.Fatal(err)
			}
			if got := m.(*Expansion).Offset(); got != offset {
				t.Fatalf("offset %g, decoded %g", offset, got)
			}
			want, got := make([]float64, len(xs)), make([]float64, len(xs))
			plain.Decisions(want, xs)
			m.Decisions(got, xs)
			for i, x := range xs {
				if got[i] != want[i]+offset || e.Decision(x) != got[i] {
					t.Errorf("dim %d, offset %g: f(x_%d) = %g in company, %g alone, want %g", dim, offset, i, got[i], e.Decision(x), want[i]+offset)
				}
			}
			if offset == 0 {
				continue
			}
			for n := len(base) + 1; n < len(data); n++ {
				if _, err := DecodeExpansion(data[:n]); err == nil {
					t.Errorf("%d of %d bytes decode", n, len(data))
				}
			}
		}
		for _, offset := range []float64{math.NaN(), math.Inf(-1)} {
			data, err := NewOffset(b, coef, offset).AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := DecodeExpansion(data); err == nil {
				t.Errorf("an offset of %g is accepted", offset)
			}
		}
	}
}

// A degree that no kernel has is refused with any kernel: package vec panics at
// negative ones.
func TestDecodeDegree(t *testing.T) {
	for kind, f := range funcs {
		f.Degree = -3
		b := New(f)
		b.Append(stream.Vec{Val: []float32{1}})
		data, err := View(b, []float64{1}).AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeExpansion(data); err == nil {
			t.Errorf("kernel %d of degree %d is accepted", kind, f.Degree)
		}
	}
}
