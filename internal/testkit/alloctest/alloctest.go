// Package alloctest checks that decoders of untrusted bytes do not allocate out of
// proportion to their input, whatever lengths the input claims.
package alloctest

import (
	"runtime"
	"testing"
)

// The bound for every decoder: Factor bytes per byte of input, plus Free bytes.
const (
	Factor = 4
	Free   = 64 << 10
)

// Bytes returns the number of heap bytes allocated while f runs, in total, not
// those still in use. Allocations by other goroutines count, too.
func Bytes(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Check runs f, which decodes an input of size bytes, and fails the test if it
// allocates more than the bound. It cannot check under the race detector, whose
// allocations count, too.
func Check(tb testing.TB, size int, f func()) {
	tb.Helper()
	if got, limit := Bytes(f), uint64(Factor*size+Free); got > limit && Exact {
		tb.Fatalf("%d bytes allocated for %d, the limit is %d", got, size, limit)
	}
}
