package rffmodel_test

import (
	"math"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/rff"
	"github.com/streamsvm/streamsvm/internal/rffmodel"
	"github.com/streamsvm/streamsvm/stream"
)

// A packed model says nearly the same in half the bytes, and the same once it is decoded. One
// with coefficients that float32 does not have stays as it is.
func TestPack(t *testing.T) {
	feats, err := rff.New(rff.Gaussian, 0.5, 64, 3, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	m := &rffmodel.Model{Feats: feats, Dim: 2, Coef: make([]float64, 512), Scale: 0.1, Offset: 0.3}
	for i := range m.Coef {
		m.Coef[i] = math.Sin(float64(i))
	}
	plain, _ := m.AppendBinary(nil)
	packed := m.Pack()
	data, err := packed.AppendBinary(nil)
	if err != nil || len(data) > len(plain)*6/10 {
		t.Fatalf("%d bytes, packed %d, %v", len(plain), len(data), err)
	}
	again, err := rffmodel.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	x := stream.Vec{Val: []float32{0.4, -1.5}}
	if f, g, h := m.Decision(x), packed.Decision(x), again.Decision(x); g != h || math.Abs(f-g) > 1e-6 {
		t.Errorf("%v, packed %v, decoded %v", f, g, h)
	}
	for _, v := range []float64{1e39, -1e-40, math.Inf(1)} {
		m.Coef[7] = v
		if m.Pack() != algos.Model(m) {
			t.Errorf("a coefficient of %g was rounded", v)
		}
	}
}
