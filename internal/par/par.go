// Package par runs loops on several processors. It is for loops whose results
// depend neither on how the range is split nor on the order of the pieces.
package par

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/streamsvm/streamsvm/internal/crash"
)

// Each calls f for 0 ≤ i < n, several at a time. A panic in f is passed on to the
// calling goroutine, which knows the context, once the running calls have ended.
func Each(n int, f func(i int)) { AtMost(runtime.GOMAXPROCS(0), n, f) }

// AtMost is Each with a limit on the number of concurrent calls, in addition to the
// number of processors.
func AtMost(limit, n int, f func(i int)) {
	workers := min(n, limit, runtime.GOMAXPROCS(0))
	if workers <= 1 {
		for i := range n {
			f(i)
		}
		return
	}
	var next atomic.Int64
	var others sync.WaitGroup
	var panicked atomic.Pointer[crash.Panic]
	work := func() {
		defer func() {
			if v := recover(); v != nil {
				panicked.CompareAndSwap(nil, crash.Caught(v))
				next.Store(int64(n)) // start no more calls
			}
		}()
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			f(i)
		}
	}
	for range workers - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
	if p := panicked.Load(); p != nil {
		panic(p)
	}
}

// Start calls f, in the background if its work, in nanoseconds, is large enough. It
// returns a function that waits for its end. A panic in f is passed on to the waiter.
func Start(work float64, f func()) (wait func()) {
	if !Pays(work) {
		f()
		return func() {}
	}
	var p *crash.Panic
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				p = crash.Caught(v)
			}
		}()
		f()
	}()
	return func() {
		if <-done; p != nil {
			panic(p)
		}
	}
}

// perWorker is the number of pieces per processor. It is above 1, so that a processor
// that is busy with other work does not hold up the rest.
const perWorker = 4

// Split calls f for pieces that make up [0,n), several at a time. Pieces start at
// multiples of unit. There is only one piece if there is one processor or the work
// is too small.
func Split(n, unit int, work float64, f func(from, to int)) {
	if !Pays(work) {
		f(0, n)
		return
	}
	units := (n + unit - 1) / unit
	pieces := min(units, perWorker*runtime.GOMAXPROCS(0), int(work/least)+1)
	Each(pieces, func(i int) {
		f(min(i*units/pieces*unit, n), min((i+1)*units/pieces*unit, n))
	})
}

// least is the smallest amount of work in a piece, in nanoseconds. Waking another
// processor and waiting for it takes some thousand nanoseconds, and the data must get
// into its caches.
const least = 50_000

// Pays reports whether Split would split work, in nanoseconds. For many short calls,
// checking first saves allocating a closure.
func Pays(work float64) bool { return work >= 2*least && runtime.GOMAXPROCS(0) > 1 }
