package par_test

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/internal/par"
)

// Each does everything once, wherever pieces wait for each other too: two of them
// are under way at a time where there are two processors.
func TestEach(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, processors := range []int{1, 2, 4} {
		runtime.GOMAXPROCS(processors)
		for _, n := range []int{0, 1, 2, 3, 50} {
			done := make([]atomic.Int32, n)
			par.Each(n, func(i int) { done[i].Add(1) })
			for i := range done {
				if c := done[i].Load(); c != 1 {
					t.Errorf("%d processors: %d of %d is done %d times", processors, i, n, c)
				}
			}
		}
	}
	runtime.GOMAXPROCS(2)
	var both sync.WaitGroup
	both.Add(2)
	par.Each(2, func(int) {
		both.Done()
		both.Wait()
	})
}

// Split cuts between units only, covers everything once, and cuts where the work
// pays for it and there is another processor.
func TestSplit(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, processors := range []int{1, 2, 4} {
		runtime.GOMAXPROCS(processors)
		for _, n := range []int{0, 1, 63, 64, 65, 129, 1000} {
			for _, unit := range []int{1, 8, 64} {
				for _, work := range []float64{0, 5e4, 2e5, 1e9} {
					var one sync.Mutex
					covered, pieces := make([]int, n), 0
					par.Split(n, unit, work, func(from, to int) {
						one.Lock()
						defer one.Unlock()
						pieces++
						if from%unit != 0 || to%unit != 0 && to != n {
							t.Errorf("%d in units of %d: a piece from %d to %d", n, unit, from, to)
						}
						for i := from; i < to; i++ {
							covered[i]++
						}
					})
					for i, c := range covered {
						if c != 1 {
							t.Fatalf("%d in units of %d: %d is in %d pieces", n, unit, i, c)
						}
					}
					if cut := processors > 1 && work >= 2e5 && n > unit; cut != (pieces > 1) {
						t.Errorf("%d in units of %d, work %g, %d processors: %d pieces", n, unit, work, processors, pieces)
					}
				}
			}
		}
	}
}

// One processor, and little work, take no memory.
func TestNothing(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	runtime.GOMAXPROCS(1)
	sum := 0
	f := func(from, to int) { sum += to - from }
	if n := testing.AllocsPerRun(100, func() { par.Split(1000, 1, 1e9, f) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

// A panic of one piece comes up on the calling goroutine once the others have ended,
// and names the function that panicked.
func TestEachPassesPanicsOn(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	for bad := range 8 {
		var under, most atomic.Int32
		func() {
			defer func() {
				p, ok := recover().(*crash.Panic)
				if !ok || p.Value != bad || !strings.Contains(p.At, "TestEachPassesPanicsOn") {
					t.Errorf("piece %d: recovered %v", bad, p)
				}
				if n := under.Load(); n != 0 {
					t.Errorf("%d pieces are still under way", n)
				}
			}()
			par.Each(8, func(i int) {
				most.Add(1)
				under.Add(1)
				defer under.Add(-1)
				if i == bad {
					panic(i)
				}
				runtime.Gosched()
			})
		}()
		if n := int(most.Load()); n < bad+1 {
			t.Errorf("%d pieces were begun before piece %d panicked", n, bad)
		}
	}
}

// Start returns at once where there is another processor and the work pays for it; a
// panic reaches who waits.
func TestStart(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	begin, done := make(chan bool), false
	wait := par.Start(1e6, func() { done = <-begin })
	begin <- true
	if wait(); !done {
		t.Error("not done")
	}
	wait = par.Start(1, func() { done = false })
	if done {
		t.Error("so little work is not done at once")
	}
	wait()
	defer func() {
		if p, ok := recover().(*crash.Panic); !ok || p.Value != "no" {
			t.Errorf("panic %v", p)
		}
	}()
	par.Start(1e6, func() { panic("no") })()
}
