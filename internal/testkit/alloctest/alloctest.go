// Package alloctest bounds what decoders of untrusted bytes allocate: whatever
// an input claims, memory stays in proportion to its length.
package alloctest

import (
	"runtime"
	"testing"
)

// The bound that every decoder keeps: Factor bytes for each byte of input, and
// Free bytes whatever the input.
const (
	Factor = 4
	Free   = 64 << 10
)

// Bytes returns how many bytes are allocated, on the heap, while f runs: all
// that was allocated, not what is still in use. What other goroutines allocate
// meanwhile counts too.
func Bytes(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Check runs f, which decodes an input of size bytes, and fails the test if it
// allocates more than the bound. Under the race detector it does not: what that
// allocates counts too.
func Check(tb testing.TB, size int, f func()) {
	tb.Helper()
	if got, limit := Bytes(f), uint64(Factor*size+Free); got > limit && Exact {
		tb.Fatalf("%d bytes allocated for %d, the limit is %d", got, size, limit)
	}
}
