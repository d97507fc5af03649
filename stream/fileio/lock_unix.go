//go:build unix

package fileio

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock makes f the only open file that writes a recording there.
func lock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}
