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
	bad := stream.Example{X: stream.Vec{Val: []float32{1, float32(math.Inf(1))}}, Y: 1, Labelled: true}
	var refused *stream.RecordError
	if n, err := l.Learn(t.Context(), []stream.Example{all[0], bad, all[1]}); n != 1 || !errors.As(err, &refused) || refused.Offset != 1201 {
		t.Errorf("%d learned: %v", n, err)
	}
	if n, err := l.Learn(t.Context(), all[1:2]); n != 1 || err != nil {
		t.Error(n, err)
	}
	var state *trainer.StateError
	snap, err := l.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o.Seed = 2
	if _, err := trainer.Resume(o, nil, snap); !errors.As(err, &state) {
		t.Errorf("another seed: %v", err)
	}
}
