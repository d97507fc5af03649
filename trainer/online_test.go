package trainer_test

import (
	"errors"
	"math"
	"testing"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/trainer"
)

// TestOnline: examples handed over in parts, with a restart in between and one that is
// refused, give the state of Fit.
func TestOnline(t *testing.T) {
	o := trainer.Options{Learner: "online", Warmup: 300, Seed: 1}
	all := moons(1200)
	fit, err := trainer.Fit(t.Context(), all, o)
	if err != nil {
		t.Fatal(err)
	}
	want, err := fit.Hash()
	if err != nil {
		t.Fatal(err)
	}
	l, err := trainer.Start(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(all); i += 100 {
		if n, err := l.Learn(t.Context(), all[i:i+100]); n != 100 || err != nil {
			t.Fatal(n, err)
		}
		snap, err := l.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		data, err := snap.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if snap, err = checkpoint.Decode("state", data); err != nil {
			t.Fatal(err)
		}
		if l, err = trainer.Resume(o, nil, snap); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := l.Hash(); err != nil || got != want {
		t.Errorf("state hash %016x, Fit has %016x: %v", got, want, err)
	}
	inf, ok := float32(math.Inf(1)), stream.Vec{Val: []float32{1, 2}}
	var refused *stream.RecordError
	for i, bad := range []stream.Example{
		{X: stream.Vec{Val: []float32{1, inf}}},
		{X: ok, Represents: -1},
		{X: ok, Represents: inf},
		{X: ok, Represents: inf - inf},
		{X: stream.Vec{Idx: []int32{1, 0}, Val: ok.Val}},
		{X: stream.Vec{Idx: []int32{1, 1}, Val: ok.Val}},
		{X: stream.Vec{Idx: []int32{-1, 0}, Val: ok.Val}},
		{X: stream.Vec{Idx: []int32{0}, Val: ok.Val}},
		{X: stream.Vec{Idx: []int32{0, 1, 2}, Val: ok.Val}},
	} {
		bad.Y, bad.Labelled = 1, true
		if n, err := l.Learn(t.Context(), []stream.Example{all[0], bad, all[1]}); n != 1 || !errors.As(err, &refused) || refused.Offset != int64(1201+2*i) {
			t.Errorf("%+v: %d learned: %v", bad, n, err)
		}
	}
	if n, err := l.Learn(t.Context(), all[1:2]); n != 1 || err != nil {
		t.Error(n, err)
	}
	var state *trainer.StateError
	snap, err := l.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := trainer.Resume(o, nil, nil); !errors.As(err, &state) {
		t.Errorf("no snapshot: %v", err)
	}
	if err := new(trainer.Online).Finish(t.Context()); err == nil {
		t.Error("an Online that was not started is finished")
	}
	o.Seed = 2
	if _, err := trainer.Resume(o, nil, snap); !errors.As(err, &state) {
		t.Errorf("another seed: %v", err)
	}
}
