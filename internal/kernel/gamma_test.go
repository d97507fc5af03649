package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/internal/testkit/pointtest"
	"github.com/streamsvm/streamsvm/stream"
)

func TestGamma(t *testing.T) {
	const seed, dim = 4, 30
	r := rand.New(rand.NewPCG(seed, 0))
	var xs []stream.Vec
	for i := range 61 {
		xs = append(xs, pointtest.Random(r, dim, i%2 == 0))
	}
	xs = append(xs, xs[3])
	for _, l1 := range []bool{false, true} {
		var ds []float64
		for i := range xs {
			for j := range i {
				a, b, s := make([]float32, dim), make([]float32, dim), 0.0
				xs[i].Dense(a)
				xs[j].Dense(b)
				for k := range a {
					d := math.Abs(float64(a[k]) - float64(b[k]))
					if !l1 {
						d *= d
					}
					s += d
				}
				if got := distance(xs[i], xs[j], l1); math.Abs(got-s) > 1e-12*s {
					t.Fatalf("seed %d: distance %v, want %v", seed, got, s)
				}
				if s > 0 {
					ds = append(ds, s)
				}
			}
		}
		slices.Sort(ds)
		want := 1 / ds[len(ds)/2]
		if got := AutoGamma(xs, l1); math.Abs(got-want) > 1e-12*want {
			t.Errorf("gamma %v, want %v", got, want)
		}
		if all := SampledGamma(xs, 2000, 1, l1); all != AutoGamma(xs, l1) {
			t.Errorf("of all pairs: %v, want %v", all, want)
		}
		a, b, c := SampledGamma(xs, 500, 1, l1), SampledGamma(xs, 500, 1, l1), SampledGamma(xs, 500, 2, l1)
		if a != b || a == c || a < want/1.25 || a > want*1.25 {
			t.Errorf("sampled: %v, %v again, %v with another seed; all pairs %v", a, b, c, want)
		}
	}
	dense := func(v ...float32) stream.Vec { return stream.Vec{Val: v} }
	same := dense(1, 2)
	for _, tt := range []struct {
		xs   []stream.Vec
		want float64
	}{
		{nil, 1}, {[]stream.Vec{same}, 1}, {[]stream.Vec{same, same, same}, 1},
		{[]stream.Vec{same, same, same, same, dense(1, 4)}, 0.25}, // 6 of 10 distances are 0
		{[]stream.Vec{dense(0), dense(4)}, 1. / 16},
	} {
		if got := AutoGamma(tt.xs, false); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.xs, got, tt.want)
		}
		if got := SampledGamma(tt.xs, 5, 1, false); got != tt.want && got != 1 {
			t.Errorf("%v, 5 pairs: %v, want %v", tt.xs, got, tt.want)
		}
	}
}
