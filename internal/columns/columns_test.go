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

// Labels of examples that differ in nothing else are all that is encoded.
func TestLabels(t *testing.T) {
	of := func(y float64) []*stream.Example {
		return []*stream.Example{
			{Seq: 1, ID: "a", Labelled: true, Y: y, X: stream.Vec{Val: []float32{1, 2}}, Weight: 2},
			{Seq: 2, Labelled: true, Y: 1 - y, X: stream.Vec{Idx: []int32{3}, Val: []float32{1}}, Represents: 3},
		}
	}
	first, list := of(0), of(1)
	if !Alike(first, list) {
		t.Error("they are not alike")
	}
	data := encode(t, func(f *state.Fields) { Labels(f, "y", &list, first) })
	var got []*stream.Example
	if err := state.Decode(data, func(f *state.Fields) { Labels(f, "y", &got, first) }); err != nil {
		t.Fatal(err)
	}
	for i, x := range got {
		if !same(x, list[i]) || &x.X.Val[0] != &first[i].X.Val[0] {
			t.Errorf("%+v became %+v", list[i], x)
		}
	}
	if err := state.Decode(data, func(f *state.Fields) { Labels(f, "y", &got, first[:1]) }); err == nil {
		t.Error("two labels of one example are accepted")
	}
	for i, change := range []func(x *stream.Example){
		func(x *stream.Example) { x.Seq++ },
		func(x *stream.Example) { x.ID = "b" },
		func(x *stream.Example) { x.Labelled = false },
		func(x *stream.Example) { x.Weight = 0 },
		func(x *stream.Example) { x.Represents = 2 },
		func(x *stream.Example) { x.X.Val[1] = 0 },
		func(x *stream.Example) { x.X.Idx = []int32{0, 1} },
		func(x *stream.Example) { x.X.Idx = []int32{} },
	} {
		list := of(1)
		if change(list[0]); Alike(first, list) {
			t.Errorf("change %d: they are alike", i)
		}
	}
	if Alike(first, list[:1]) {
		t.Error("two are like one")
	}
}
