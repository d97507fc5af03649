package engine

import (
	"math"
	"testing"

	"github.com/streamsvm/streamsvm/internal/pipeline"
	"github.com/streamsvm/streamsvm/stream"
)

// TestAsPublished compares the measures with a subscriber that takes each version from
// an engine of its own and predicts the examples that follow. The state is the same with
// and without measuring.
func TestAsPublished(t *testing.T) {
	const every, n = 700, 5000
	cfg := config(t, "online")
	cfg.PublishEvery = every
	measured, err := NewEngine(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg.PublishEvery = 0
	plain, err := NewEngine(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var version *pipeline.Pipeline
	var right, scored, versions uint64
	for i := range n {
		y := float64(2*(i%2) - 1)
		x := stream.Vec{Val: []float32{float32(y)*.3 + float32(math.Sin(float64(i*i))), float32(math.Cos(float64(3 * i)))}}
		item := func() []Item {
			return []Item{{Partition: stream.Partition{Topic: "t"}, Offset: int64(i), Example: stream.Example{X: x, Y: y, Labelled: true}}}
		}
		if i > 0 && i%every == 0 {
			if err := plain.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
			if p := plain.Predictor(); p != nil {
				data, err := p.AppendBinary(nil)
				if err == nil {
					version, err = pipeline.Decode(data)
				}
				if err != nil {
					t.Fatal(err)
				}
				versions++
			}
		}
		if version != nil {
			var f [1]float64
			if version.Decisions(f[:], []stream.Vec{x}); (f[0] >= 0) == (y > 0) {
				right++
			}
			scored++
		}
		for _, e := range []*Engine{measured, plain} {
			if _, err := e.Consume(t.Context(), item()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, e := range []*Engine{measured, plain} {
		if err := e.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	a, b, err := measuredAndPlain(measured, plain)
	if err != nil || a != b {
		t.Errorf("state hash %x with measuring, %x without, %v", a, b, err)
	}
	r := measured.AsPublished()
	if plain.AsPublished() != nil || r == nil {
		t.Fatal("measured without being asked, or not")
	}
	if r.Versions != versions || r.Examples != scored || math.Abs(float64(r.Accuracy)-float64(right)/float64(scored)) > 1e-12 || scored < n/2 {
		t.Errorf("%d versions, accuracy %v on %d examples, want %d, %v on %d", r.Versions, r.Accuracy, r.Examples, versions, float64(right)/float64(scored), scored)
	}
	total := uint64(0)
	for _, g := range r.ByAge {
		total += g.Examples
	}
	if total != scored || r.ByAge[0].To != every/4 {
		t.Errorf("%d examples by age, the first band ends at %d", total, r.ByAge[0].To)
	}
}

func measuredAndPlain(a, b *Engine) (x, y uint64, err error) {
	if x, err = a.Hash(); err == nil {
		y, err = b.Hash()
	}
	return x, y, err
}
