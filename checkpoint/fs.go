package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/gofrs/flock"
)

// FS is the part of a file system that a Store needs. A simulation substitutes one
// that loses whatever was not synced.
type FS interface {
	Mkdir(dir string) error
	// List returns the names of the files in dir, in no particular order.
	List(dir string) ([]string, error)
	// Open opens a file for reading and returns its size.
	Open(name string) (File, int64, error)
	// Create creates an empty file for writing. The file must not exist yet.
	Create(name string) (File, error)
	Rename(from, to string) error
	Remove(name string) error
	// SyncDir makes file creations, renames and removals in dir durable.
	SyncDir(dir string) error
	// TryLock acquires the exclusive advisory lock of the file called name, which
	// it creates if necessary. ok is false if somebody else holds it.
	TryLock(name string) (unlock func() error, ok bool, err error)
}

// File is an open file of an FS.
type File = interface {
	io.ReadWriteCloser
	Sync() error
}

type osFS struct{}

// mkdirAll creates dir and its missing parents, and makes that durable. It also
// syncs the parents of a directory that exists: the run that created it may have
// failed or been killed before it synced them.
func mkdirAll(f FS, dir string) error {
	if _, err := f.List(dir); !errors.Is(err, fs.ErrNotExist) {
		if err != nil {
			return err
		}
		err := f.SyncDir(filepath.Dir(dir))
		// A directory that was created where this run must not or cannot sync is the
		// responsibility of its creator.
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EINVAL) {
			return nil
		}
		return err
	}
	parent := filepath.Dir(dir)
	if parent == dir {
		return &fs.PathError{Op: "mkdir", Path: dir, Err: fs.ErrNotExist}
	}
	if err := mkdirAll(f, parent); err != nil {
		return err
	}
	if err := f.Mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return f.SyncDir(parent)
}

func (osFS) Mkdir(dir string) error { return os.Mkdir(dir, 0o777) }

func (osFS) List(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

func (osFS) Open(name string) (File, int64, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &os.PathError{Op: "read", Path: name, Err: os.ErrInvalid}
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

func (osFS) Create(name string) (File, error) {
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
}

func (osFS) Rename(from, to string) error { return os.Rename(from, to) }

func (osFS) Remove(name string) error { return os.Remove(name) }

func (osFS) SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // directories cannot be synced on Windows; NTFS journals its metadata
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (osFS) TryLock(name string) (func() error, bool, error) {
	l := flock.New(name, flock.SetFlag(os.O_RDWR|os.O_CREATE), flock.SetPermissions(0o666))
	ok, err := l.TryLock()
	if err != nil {
		return nil, false, fmt.Errorf("lock %s: %w", name, err)
	}
	return l.Unlock, ok, nil
}
