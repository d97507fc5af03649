package columns_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	. "github.com/streamsvm/streamsvm/internal/columns"
	"github.com/streamsvm/streamsvm/stream"
)

func TestExamples(t *testing.T) {
	list := []*stream.Example{
		{Seq: 1<<64 - 1, ID: "π", Y: math.Copysign(0, -1), X: stream.Vec{Val: []float32{float32(math.Inf(1)), -0.5}}},
		{},
		{Seq: 2, Labelled: true, Y: -1, X: stream.Vec{Idx: []int32{}}},
		{Seq: 3, Labelled: true, Y: 1e300, X: stream.Vec{Idx: []int32{0, 1<<31 - 1}, Val: []float32{1, 2}}},
		{Seq: 4, Weight: 2.5},
	}
	for n := range len(list) + 1 {
		want := list[:n]
		data := encode(t, func(f *state.Fields) { Examples(f, "x", &want) })
		got := []*stream.Example{{Seq: 99}} // what was there goes
		if err := state.Decode(data, func(f *state.Fields) { Examples(f, "x", &got) }); err != nil {
			t.Fatal(err)
		}
		if len(got) != n {
			t.Fatalf("%d examples became %d", n, len(got))
		}
		for i := range got {
			if !same(got[i], want[i]) || math.Signbit(got[i].Y) != math.Signbit(want[i].Y) {
				t.Errorf("%+v became %+v", want[i], got[i])
			}
		}
	}
}

// What no list of examples is encoded as is refused.
func TestExamplesRefuses(t *testing.T) {
	for name, x := range map[string]stream.Vec{
		"descending": {Idx: []int32{3, 1}, Val: []float32{1, 2}},
		"repeated":   {Idx: []int32{3, 3}, Val: []float32{1, 2}},
		"negative":   {Idx: []int32{-1, 3}, Val: []float32{1, 2}},
		"longer":     {Idx: []int32{1, 3, 4}, Val: []float32{1, 2}},
		"shorter":    {Idx: []int32{1}, Val: []float32{1, 2}},
	} {
		list := []*stream.Example{{Seq: 1, X: x}}
		data := encode(t, func(f *state.Fields) { Examples(f, "list", &list) })
		err := state.Decode(data, func(f *state.Fields) { Examples(f, "list", &list) })
		if err == nil || !strings.Contains(err.Error(), "list.val") {
			t.Errorf("%s: want an error that names the field, got %v", name, err)
		}
	}
}

func encode(t *testing.T, fields func(*state.Fields)) []byte {
	t.Helper()
	b, err := state.Append(nil, fields)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func same(a, b *stream.Example) bool {
	return a.Seq == b.Seq && a.ID == b.ID && a.Y == b.Y && a.Labelled == b.Labelled && a.Weight == b.Weight &&
		a.X.Sparse() == b.X.Sparse() && slices.Equal(a.X.Idx, b.X.Idx) && slices.Equal(a.X.Val, b.X.Val)
}
