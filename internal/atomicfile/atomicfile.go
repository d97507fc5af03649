// Package atomicfile writes files atomically: a file name never refers to a
// partially written file.
package atomicfile

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/streamsvm/streamsvm/internal/crash"
)

// Write replaces the file at path by data in one step. A path that is not a regular
// file, such as /dev/null or /dev/stdout, cannot be replaced: data is written to it.
func Write(path string, data []byte) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return os.WriteFile(path, data, 0o644)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if e := (*os.PathError)(nil); errors.As(err, &e) {
		e.Path = path // users do not know the temporary name
	}
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails harmlessly once it has been renamed
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	crash.Hold()
	return os.Rename(f.Name(), path)
}
