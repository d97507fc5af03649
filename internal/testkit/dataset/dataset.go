// Package dataset locates the public benchmark data sets, which some tests use if
// present. They are not part of the module.
package dataset

import (
	"os"
	"path/filepath"
	"testing"
)

// Path returns the path of the data file called name: in the directory named by the
// environment variable STREAMSVM_DATA, or in ../shared/data relative to the
// module's root. It skips the test if the file is absent.
func Path(tb testing.TB, name string) string {
	tb.Helper()
	dir := os.Getenv("STREAMSVM_DATA")
	if dir == "" {
		root, err := moduleRoot()
		if err != nil {
			tb.Skipf("no data set %s: %v", name, err)
		}
		dir = filepath.Join(root, "..", "shared", "data")
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		tb.Skipf("no data set %s: set STREAMSVM_DATA to the directory that holds it (%v)", name, err)
	}
	return path
}

// moduleRoot returns the nearest parent directory with a go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", os.ErrNotExist
		}
		dir = parent
	}
}
