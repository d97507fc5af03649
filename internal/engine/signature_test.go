package engine

import (
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/internal/pipeline"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// TestDimensionOfTheStream: the first dense example sets the dimension, which
// others are refused by, before and after a restart, and which the model
// carries.
func TestDimensionOfTheStream(t *testing.T) {
	cfg := config(t, "sbp")
	cfg.Warmup = 20
	cfg.Signature = codec.Signature{Codec: "json", Labels: "0,1"}
	items := rings(60, 3, false) // of three features
	for _, i := range []int{5, 30, 50} {
		items[i].Example.X = stream.Vec{Val: []float32{1, 2}}
	}
	items[0].Example.X = stream.Vec{Idx: []int32{6}, Val: []float32{1}} // a sparse one says nothing
	e := newEngine(t, cfg)
	for from := range slices.Chunk(items, 20) {
		consume(t, e, from)
		snap := snapshot(t, e)
		e = newEngine(t, cfg)
		restore(t, e, snap)
	}
	for i, it := range items {
		if bad := len(it.Example.X.Val) == 2; bad != (it.Err != nil) || bad && it.Err.Reason != stream.ReasonDimension {
			t.Errorf("item %d of %d features: %v", i, len(it.Example.X.Val), it.Err)
		}
	}
	finish(t, e)
	data, err := e.Predictor().AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := pipeline.Decode(data)
	if err != nil || p.Signature.Dim != 3 || p.Signature.Index != 7 || p.Signature.Codec != "json" || p.Signature.Labels != "0,1" {
		t.Errorf("%+v, %v", p, err)
	}
	if n := e.Counts(); n.Dead != 3 {
		t.Errorf("%+v", n)
	}
}

// TestOtherData: a state does not go on with other labels or columns, but does
// with another codec.
func TestOtherData(t *testing.T) {
	cfg := config(t, "sbp")
	csv := func(labels string, columns ...string) codec.Signature {
		return codec.Signature{Codec: "csv", Labels: labels, CSV: codec.CSVOptions{Columns: columns, LabelColumn: "y"}}
	}
	cfg.Signature = csv("0,1", "a", "b", "y")
	e := newEngine(t, cfg)
	consume(t, e, rings(30, 3, false))
	snap := snapshot(t, e)
	for _, c := range []struct {
		now codec.Signature
		err string
	}{
		{csv("0,1", "y", "a", "b"), ""},
		{codec.Signature{Codec: "json", Labels: "0,1"}, ""},
		{codec.Signature{}, ""},
		{csv("0,1", "b", "a", "y"), "columns are a,b, but the stream now has b,a"},
		{codec.Signature{Codec: "json", Labels: "-1,1"}, "labels are 0,1, but the stream now has -1,1"},
	} {
		cfg.Signature = c.now
		err := newEngine(t, cfg).Restore(snap)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%+v: %v", c.now, err)
		}
	}
}
