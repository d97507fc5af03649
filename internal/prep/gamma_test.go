package prep

import (
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats/scalar"

	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/stream"
)

func TestMedianGamma(t *testing.T) {
	const seed = 4
	r := rng.New(seed, "gamma")
	xs := append(random(r, 40, 30, 0.4, false), random(r, 21, 30, 0.4, true)...)
	var d []float64
	for i := range xs {
		for j := range i {
			s := 0.0
			for f := range 30 {
				e := column(xs[i:i+1], f)[0] - column(xs[j:j+1], f)[0]
				s += e * e
			}
			if got := Distance2(xs[i], xs[j]); !scalar.EqualWithinRel(got, s, 1e-12) {
				t.Fatalf("seed %d: distance² %v, want %v", seed, got, s)
			}
			d = append(d, s)
		}
	}
	slices.Sort(d)
	want := 1 / d[(len(d)-1)/2]
	if got := MedianGamma(examples(xs...), len(d), 1); !scalar.EqualWithinRel(got, want, 1e-12) {
		t.Errorf("gamma %v, want %v", got, want)
	}
	a, b, c := MedianGamma(examples(xs...), 500, 1), MedianGamma(examples(xs...), 500, 1), MedianGamma(examples(xs...), 500, 2)
	if a != b || a == c || a < want/2 || a > want*2 {
		t.Errorf("sampled: %v, %v again, %v with another seed; all pairs %v", a, b, c, want)
	}
	same := dense(1, 2)
	for _, tt := range []struct {
		xs   []stream.Vec
		want float64
	}{
		{nil, 1}, {[]stream.Vec{same}, 1}, {[]stream.Vec{same, same, same}, 1},
		{[]stream.Vec{same, same, same, same, dense(1, 4)}, 0.25}, // 6 of 10 distances are 0
		{[]stream.Vec{dense(0), dense(4)}, 1. / 16},
	} {
		for _, pairs := range []int{1000, 5} {
			if got := MedianGamma(examples(tt.xs...), pairs, 1); got != tt.want && (pairs > len(tt.xs) || got != 1) {
				t.Errorf("%v, %d pairs: %v, want %v", tt.xs, pairs, got, tt.want)
			}
		}
	}
}
