package engine

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/stream"
)

// TestLiveMemory: what an engine keeps alive does not grow with the stream once
// its buffers are full. The features of examples that come one after another
// share blocks of memory, so it would if a sample kept its neighbours alive.
func TestLiveMemory(t *testing.T) {
	const first, last, dim, slack = 8_000, 128_000, 28, 256 << 10
	for _, c := range []struct {
		learner string
		every   int // one in so many examples has a label
		options map[string]string
	}{
		{"online", 1, nil},
		{"sbp", 1, map[string]string{"every": "1000", "updates": "1", "keep": "reservoir", "buffer": "500", "gamma": "0.05"}},
		{"tsgs3vm", 500, map[string]string{"solver": "sgd", "draw": "fresh", "block": "16", "window": "8", "labels": "100", "gamma": "0.05", "serve": "semi"}},
	} {
		t.Run(c.learner, func(t *testing.T) {
			spec, err := registry.Lookup(c.learner)
			if err != nil {
				t.Fatal(err)
			}
			e := newEngine(t, Config{Spec: spec, Options: c.options, Scale: "none", Seed: 1})
			r := rand.New(rand.NewPCG(3, 1))
			var arena stream.Arena
			items := make([]Item, 500)
			feed := func(n int) uint64 {
				for at := 0; at < n; at += len(items) {
					for i := range items {
						v := arena.Val(dim)[:dim]
						for j := range v {
							v[j] = float32(r.NormFloat64())
						}
						x := stream.Example{X: arena.Take(stream.Vec{Val: v})}
						if i%c.every == 0 {
							x.Labelled, x.Y = true, 1
							if v[0] < 0 {
								x.Y = -1
							}
						}
						items[i] = Item{Partition: stream.Partition{Topic: "t"}, Offset: e.next, Example: x}
					}
					consume(t, e, items)
					clear(items)
				}
				runtime.GC()
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				return m.HeapAlloc
			}
			before := feed(first)
			after := feed(last - first)
			runtime.KeepAlive(e)
			t.Logf("%d KiB after %d examples, %d KiB after %d", before>>10, first, after>>10, last)
			if after > before+slack {
				t.Errorf("%d KiB more are alive after %d examples than after %d, want at most %d", (after-before)>>10, last, first, slack>>10)
			}
		})
	}
}
