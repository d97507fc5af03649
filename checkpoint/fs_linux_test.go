package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
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

func TestNoFileStaysOpen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s := open(t, dir, Options{Retain: 1})
	claim(t, s)
	path := save(t, s, 1)
	load(t, s)
	s.Files()
	if _, err := Inspect(path); err != nil {
		t.Error(err)
	}
	claim(t, open(t, dir, Options{}))
	if _, err := s.Save(t.Context(), numbered(2)); !errors.Is(err, ErrFenced) {
		t.Error(err)
	}
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(links) == 0 {
		t.Fatal(links, err)
	}
	for _, link := range links {
		if name, _ := os.Readlink(link); strings.HasPrefix(name, filepath.Dir(filepath.Dir(dir))) {
			t.Errorf("%s is open", name)
		}
	}
}
