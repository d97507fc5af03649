package sbp

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/stream"
)

// TestMemoryOfSparseData: what a learner of wide sparse data holds, with a full
// buffer, is within what its documentation says, and does not grow with the
// stream from there on.
func TestMemoryOfSparseData(t *testing.T) {
	const (
		buffer, frozen = 1000, 250
		words, nonzero = 30_000, 60
	)
	r := rng.New(1, "sbp.memory")
	next := func(seq int) *stream.Example {
		x := &stream.Example{Seq: uint64(seq), Labelled: true, Y: float64(2*r.IntN(2) - 1)}
		x.X.Idx = make([]int32, nonzero)
		x.X.Val = make([]float32, nonzero)
		for k := range x.X.Idx {
			x.X.Idx[k], x.X.Val[k] = int32(k*words/nonzero+r.IntN(words/nonzero)), 1
		}
		return x
	}
	before := heap()
	l := learner(t, map[string]string{
		"buffer": fmt.Sprint(buffer), "frozen": fmt.Sprint(frozen), "gamma": "0.01", "cache": "1",
	})
	bound := func() uint64 {
		examples := uint64(buffer + frozen)
		return examples*(28*nonzero+300) + words*200 + 1<<20 + 3*24*4*buffer
	}
	var held []uint64
	for i := range 4 * buffer {
		if _, err := l.Add(next(i)); err != nil {
			t.Fatal(err)
		}
		if l.Need().Fresh == 0 {
			if _, err := l.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
			l.Model()
		}
		if (i+1)%buffer == 0 {
			held = append(held, heap()-before)
		}
	}
	t.Logf("bytes in use after each full buffer: %d; bound %d", held, bound())
	for _, n := range held {
		if n > bound() {
			t.Errorf("%d bytes in use, the bound is %d", n, bound())
		}
	}
	if first, last := held[1], held[len(held)-1]; last > first+first/5 {
		t.Errorf("%d bytes in use after two buffers, %d at the end", first, last)
	}
	runtime.KeepAlive(l)
}

// heap returns the bytes in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
