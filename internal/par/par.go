// Package par spreads work over processors where it can be cut into pieces that
// have nothing to do with each other: what is computed must not depend on where
// the cuts are, nor on the order of the pieces.
package par

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/streamsvm/streamsvm/internal/crash"
)

// Each calls f for 0 ≤ i < n, some at a time. A panic of f comes up on the calling
// goroutine, which knows what is being done, once the calls under way have ended.
func Each(n int, f func(i int)) { AtMost(runtime.GOMAXPROCS(0), n, f) }

// AtMost is Each with a bound on how many calls there are at a time, besides the
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
				next.Store(int64(n)) // nothing more is begun
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

// perWorker is into how many pieces the share of a processor is cut, so that one
// that has other work to do does not keep the others waiting.
const perWorker = 4

// Split calls f for pieces that make up [0,n), some at a time. The pieces begin at
// multiples of unit; there is only one where there is one processor, or where
// the work is too small to be worth another.
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

// least is how much work a piece has at least, in units of a nanosecond, about. To
// wake another processor and to wait for it takes some thousands of them, and what it
// works on has to come to its caches.
const least = 50_000

// Pays reports whether Split cuts so much work, in units of a nanosecond: where
// calls are many and short, it is cheaper to ask before there is a closure.
func Pays(work float64) bool { return work >= 2*least && runtime.GOMAXPROCS(0) > 1 }
