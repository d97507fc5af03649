package checkpoint

import (
	"path/filepath"
	"strings"
)

// WithSync returns options for a store that calls sync before each fsync of a
// snapshot.
func WithSync(o Options, sync func()) Options {
	o.FS = syncedFS{sync: sync}
	return o
}

type syncedFS struct {
	osFS
	sync func()
}

func (s syncedFS) Create(name string) (File, error) {
	f, err := s.osFS.Create(name)
	if !strings.HasPrefix(filepath.Base(name), tempPrefix+"checkpoint-") {
		return f, err
	}
	return syncedFile{f, s.sync}, err
}

type syncedFile struct {
	File
	sync func()
}

func (f syncedFile) Sync() error {
	f.sync()
	return f.File.Sync()
}

// readFile reads the snapshot at path.
func readFile(path string) (*Snapshot, error) {
	s := Store{fs: osFS{}}
	return s.read(path)
}
