package model_test

import (
	"math"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/model"
	"github.com/streamsvm/streamsvm/stream"
)

func TestExpansion(t *testing.T) {
	points := []stream.Vec{{Val: []float32{1, 2}}, {Idx: []int32{1}, Val: []float32{3}}, {Val: []float32{5, 5}}}
	coef := []float64{2, -1, 0}
	x, y := 0.5, -1.0
	d1, d2 := math.Pow(x-1, 2)+math.Pow(y-2, 2), x*x+math.Pow(y-3, 2)
	p1, p2 := x+2*y, 3*y
	for _, c := range []struct {
		k    model.Kernel
		want float64
	}{
		{model.Kernel{Name: "rbf", Gamma: 0.1}, 2*math.Exp(-0.1*d1) - math.Exp(-0.1*d2)},
		{model.Kernel{Name: "rbf", Gamma: 0.1, Bias: 1}, 2*math.Exp(-0.1*d1) - math.Exp(-0.1*d2) + 1},
		{model.Kernel{Name: "laplacian", Gamma: 0.1}, 2*math.Exp(-0.35) - math.Exp(-0.45)},
		{model.Kernel{Name: "poly", Gamma: 0.5, Coef0: 1, Degree: 2}, 2*math.Pow(p1/2+1, 2) - math.Pow(p2/2+1, 2)},
		{model.Kernel{Name: "linear"}, 2*p1 - p2},
	} {
		m, err := model.NewExpansion(c.k, points, coef, -0.25)
		if err != nil {
			t.Fatal(err)
		}
		v := stream.Vec{Val: []float32{float32(x), float32(y)}}
		if got := m.Decision(v); math.Abs(got-c.want+0.25) > 1e-5 {
			t.Errorf("%+v: %g, want %g", c.k, got, c.want-0.25)
		}
		if i := m.Info(); i.Kind != algos.Kernel || i.Support != 2 {
			t.Errorf("%+v", i)
		}
		data, err := m.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := model.DecodeExpansion(data); err != nil || d.Decision(v) != m.Decision(v) {
			t.Errorf("%+v: %v", c.k, err)
		}
	}
}

func TestExpansionRefuses(t *testing.T) {
	nan, rbf := math.NaN(), model.Kernel{Name: "rbf", Gamma: 1}
	for _, c := range []struct {
		k      model.Kernel
		x      stream.Vec
		coef   []float64
		offset float64
	}{
		{model.Kernel{}, stream.Vec{}, []float64{1}, 0},
		{model.Kernel{Name: "rbf"}, stream.Vec{}, []float64{1}, 0},
		{model.Kernel{Name: "rbf", Gamma: nan}, stream.Vec{}, []float64{1}, 0},
		{model.Kernel{Name: "rbf", Gamma: 1, Bias: math.Inf(1)}, stream.Vec{}, []float64{1}, 0},
		{model.Kernel{Name: "poly", Gamma: 1}, stream.Vec{}, []float64{1}, 0},
		{rbf, stream.Vec{}, nil, 0},
		{rbf, stream.Vec{}, []float64{nan}, 0},
		{rbf, stream.Vec{}, []float64{1}, nan},
		{rbf, stream.Vec{Val: []float32{2e18}}, []float64{1}, 0},
		{rbf, stream.Vec{Idx: []int32{0}}, []float64{1}, 0},
		{rbf, stream.Vec{Idx: []int32{0}, Val: []float32{1, 2}}, []float64{1}, 0},
		{rbf, stream.Vec{Idx: []int32{1, 1}, Val: []float32{1, 1}}, []float64{1}, 0},
		{rbf, stream.Vec{Idx: []int32{-1}, Val: []float32{1}}, []float64{1}, 0},
	} {
		if _, err := model.NewExpansion(c.k, []stream.Vec{c.x}, c.coef, c.offset); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}
