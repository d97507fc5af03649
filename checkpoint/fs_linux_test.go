package checkpoint

import (
	"errors"
	"syscall"
	"testing"
)

// The kernel refuses to sync a directory of /proc: whoever is told of no error
// has not asked.
func TestSyncDirAsksTheKernel(t *testing.T) {
	if err := (osFS{}).SyncDir("/proc"); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("got %v", err)
	}
	if err := (osFS{}).SyncDir(t.TempDir()); err != nil {
		t.Error(err)
	}
}
