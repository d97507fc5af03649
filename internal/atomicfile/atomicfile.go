// Package atomicfile writes files whose names never refer to half of them.
package atomicfile

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/streamsvm/streamsvm/internal/crash"
)

// Write puts data into the file at path, in one step.
func Write(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it has been renamed
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	crash.Hold()
	return os.Rename(f.Name(), path)
}
