//go:build unix

package doctor

import "golang.org/x/sys/unix"

// writable returns an error if this process may not create files in dir. It
// does not try.
func writable(dir string) error { return unix.Access(dir, unix.W_OK|unix.X_OK) }
