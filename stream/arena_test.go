package stream_test

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
)

// take hands out a vector of n elements v and, if sparse, as many indices,
// after asking for room for more.
func take(a *stream.Arena, n, more int, sparse bool, v int) stream.Vec {
	var x stream.Vec
	if sparse {
		x.Idx = a.Idx(n + more)
		for range n {
			x.Idx = append(x.Idx, int32(v))
		}
	}
	x.Val = a.Val(n + more)
	for range n {
		x.Val = append(x.Val, float32(v))
	}
	return a.Take(x)
}

// TestArenaVectorsAreApart hands out vectors of random sizes, some refused
// after they were written, and checks that each keeps its content and cannot
// grow into its neighbour.
func TestArenaVectorsAreApart(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		var a stream.Arena
		for range 3 {
			var vs []stream.Vec
			for len(vs) < 2000 {
				n := r.IntN(40)
				if r.IntN(50) == 0 {
					n = r.IntN(2000)
				}
				if r.IntN(10) == 0 { // decoding fails halfway
					val := a.Val(n)[:n]
					for i := range val {
						val[i] = -1
					}
					continue
				}
				vs = append(vs, take(&a, n, r.IntN(3), r.IntN(2) == 0, len(vs)))
			}
			for i, x := range vs {
				if cap(x.Val) != len(x.Val) || cap(x.Idx) != len(x.Idx) {
					t.Fatalf("seed %d: vector %d has room for more elements", seed, i)
				}
				for _, v := range x.Val {
					if v != float32(i) {
						t.Fatalf("seed %d: vector %d holds %v", seed, i, v)
					}
				}
				for _, v := range x.Idx {
					if v != int32(i) {
						t.Fatalf("seed %d: vector %d has index %v", seed, i, v)
					}
				}
			}
			a.Reset()
		}
	}
}

// TestArenaEmpty: a vector without features stays sparse or dense, as it is.
func TestArenaEmpty(t *testing.T) {
	for _, a := range []*stream.Arena{nil, new(stream.Arena)} {
		if x := take(a, 0, 0, true, 1); x.Idx == nil || x.Val == nil {
			t.Errorf("sparse: %#v", x)
		}
		if x := take(a, 0, 0, false, 1); x.Idx != nil || x.Val == nil {
			t.Errorf("dense: %#v", x)
		}
	}
}

func TestArenaReset(t *testing.T) {
	var a stream.Arena
	batch := func() {
		for i := range 300 {
			take(&a, 28, 0, true, i)
		}
		take(&a, 5000, 0, true, 0)
		a.Reset()
	}
	batch() // finds out how much a batch needs
	batch()
	if n := testing.AllocsPerRun(20, batch); n != 0 {
		t.Errorf("%v allocations in a batch", n)
	}
}

// TestArenaRetention keeps one vector of many and looks at what that keeps
// alive.
func TestArenaRetention(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const keep = 2000
	before := heap()
	var a stream.Arena
	kept := make([]stream.Vec, 0, keep)
	for i := range keep * 500 {
		if x := take(&a, 3, 0, true, i); i%500 == 0 {
			kept = append(kept, x)
		}
	}
	got := heap() - before
	// 4 KiB for each vector, and 1 MiB for what else the process does.
	if limit := int64(keep*4096 + 1<<20); got > limit {
		t.Errorf("%d vectors keep %d bytes alive, the limit is %d", keep, got, limit)
	}
	runtime.KeepAlive(kept)
}
