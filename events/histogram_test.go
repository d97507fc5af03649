package events

import (
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/stream"
)

// Changes of a number, of a category and of what is missing are found, each with
// the name of its field; what stays as it was is no change.
func TestPartsChanged(t *testing.T) {
	s := &Schema{Label: "y", Fields: []Field{
		{Name: "amount", Type: Numeric, Means: []float64{0}, MissingIndicator: []bool{true}, Quantiles: []float64{-1, 0, 1}},
		{Name: "country", Type: Categorical, Categories: []string{"de", "fr"}, MissingIndicator: []bool{true}},
		{Name: "vip", Type: Boolean, Means: []float64{0}, MissingIndicator: []bool{false}},
	}}
	if err := s.place(); err != nil {
		t.Fatal(err)
	}
	// amount, amount missing, de, fr, other, country missing, vip
	fill := func(seed uint64, shift float32, missing, other float64) *Histogram {
		p, r := NewHistogram(s), rng.New(seed, "parts")
		for i := range 2000 {
			v := make([]float32, 7)
			if v[0] = float32(r.NormFloat64()) + shift; r.Float64() < missing {
				v[0], v[1] = 0, half
			}
			switch {
			case r.Float64() < other:
				v[4] = half
			default:
				v[2+r.IntN(2)] = half
			}
			x := stream.Vec{Val: v}
			if i%2 == 1 { // a sparse one is the same
				x = stream.Vec{}
				for j, f := range v {
					if f != 0 {
						x.Idx, x.Val = append(x.Idx, int32(j)), append(x.Val, f)
					}
				}
				if x.Idx == nil {
					x.Idx = []int32{}
				}
			}
			p.Add(x)
		}
		return p
	}
	before := fill(1, 0, 0.01, 0.01)
	for _, tt := range []struct {
		now  *Histogram
		want string
	}{
		{fill(2, 0, 0.01, 0.01), ""},
		{fill(3, 1.5, 0.01, 0.01), "stability index of amount"},
		{fill(4, 0, 0.1, 0.01), "of the values of amount are missing"},
		{fill(5, 0, 0.01, 0.1), "of the values of country are unknown"},
		{NewHistogram(s), ""},
	} {
		if got := tt.now.Drift(before); !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
	data, err := state.Append(nil, before.State)
	if err != nil {
		t.Fatal(err)
	}
	again := NewHistogram(s)
	if err := state.Decode(data, again.State); err != nil || again.N() != before.N() || fill(3, 1.5, 0.01, 0.01).Drift(again) == "" {
		t.Errorf("read again: %v", err)
	}
}
