//go:build unix

package main

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// peakRSS returns the largest amount of memory that the process has had, in
// bytes, or 0 if that is not known.
func peakRSS() int64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	n := int64(u.Maxrss)
	if runtime.GOOS != "darwin" && runtime.GOOS != "ios" {
		n *= 1024
	}
	return n
}
