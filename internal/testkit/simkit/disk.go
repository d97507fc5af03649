package simkit

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/streamsvm/streamsvm/internal/rng"
)

// Disk is a file system in memory, a checkpoint.FS, that knows what would survive a
// power cut: file contents that were synced, and directory changes before the last
// SyncDir. It counts the operations that change anything, calls Hook before each,
// and can fail at any of them.
type Disk struct {
	mu      sync.Mutex
	dirs    map[string]bool   // directory → whether its name is durable; "." is always there
	now     map[string]*inode // path → file, as running programs see it
	durable map[string]*inode // as of the last SyncDir of each directory
	locks   map[string]bool

	Ops  int
	Hook func(op string, n int) error // n counts from 1; an error fails the operation
}

type inode struct {
	data   []byte
	synced []byte
}

// NewDisk returns an empty disk.
func NewDisk() *Disk {
	return &Disk{dirs: map[string]bool{}, now: map[string]*inode{}, durable: map[string]*inode{}, locks: map[string]bool{}}
}

// How a crash treats what was not synced.
const (
	LoseAll    = "nothing that was not synced survives"
	KeepAll    = "everything survives"
	KeepNames  = "names survive, unsynced bytes do not"
	ZeroBytes  = "names survive, unsynced bytes are zeros"
	KeepRandom = "some names survive, some bytes do"
)

// Crashes lists them.
var Crashes = []string{LoseAll, KeepAll, KeepNames, ZeroBytes, KeepRandom}

// Crash returns the disk as found after a power cut.
func (m *Disk) Crash(how string, r *rng.Source) *Disk {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := NewDisk()
	for _, dir := range sorted(m.dirs) { // parents come first
		durable := m.dirs[dir] || how != LoseAll && (how != KeepRandom || r.IntN(2) == 0)
		if durable && c.exists(filepath.Dir(dir)) {
			c.dirs[dir] = true
		}
	}
	names := map[string]*inode{}
	switch how {
	case LoseAll:
		names = m.durable
	case KeepRandom:
		for _, set := range []map[string]*inode{m.durable, m.now} {
			for _, p := range sorted(set) {
				if m.durable[p] == m.now[p] || r.IntN(2) == 0 {
					names[p] = set[p]
				}
			}
		}
	default:
		names = m.now
	}
	for _, p := range sorted(names) {
		f := names[p]
		if !c.exists(filepath.Dir(p)) {
			continue
		}
		data := bytes.Clone(f.synced)
		switch {
		case how == KeepAll:
			data = bytes.Clone(f.data)
		case how == ZeroBytes && len(f.data) > len(data):
			data = append(data, make([]byte, len(f.data)-len(data))...)
		case how == KeepRandom && len(f.data) > len(data):
			data = append(data, f.data[len(data):len(data)+r.IntN(len(f.data)-len(data)+1)]...)
		}
		c.now[p] = &inode{data: data, synced: bytes.Clone(data)}
		c.durable[p] = c.now[p]
	}
	return c
}

// Files returns what running programs see, by path.
func (m *Disk) Files() map[string][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	files := map[string][]byte{}
	for p, f := range m.now {
		files[p] = bytes.Clone(f.data)
	}
	return files
}

// Dirs returns the directories except ".".
func (m *Disk) Dirs() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return sorted(m.dirs)
}

func (m *Disk) op(name string) error {
	m.mu.Lock()
	m.Ops++
	n, hook := m.Ops, m.Hook
	m.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(name, n) // the hook may use the disk
}

func (m *Disk) exists(dir string) bool {
	_, ok := m.dirs[dir]
	return ok || dir == "."
}

func (m *Disk) Mkdir(dir string) error {
	if err := m.op("mkdir"); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.exists(dir) {
		return fs.ErrExist
	}
	if !m.exists(filepath.Dir(dir)) {
		return fs.ErrNotExist
	}
	m.dirs[dir] = false
	return nil
}

func (m *Disk) List(dir string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.exists(dir) {
		return nil, fs.ErrNotExist
	}
	var names []string
	for _, p := range sorted(m.now) {
		if filepath.Dir(p) == dir {
			names = append(names, filepath.Base(p))
		}
	}
	return names, nil
}

func (m *Disk) Open(name string) (file, int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.now[name]
	if f == nil {
		return nil, 0, fs.ErrNotExist
	}
	return &memFile{m: m, f: f, r: bytes.NewReader(bytes.Clone(f.data))}, int64(len(f.data)), nil
}

func (m *Disk) Create(name string) (file, error) {
	if err := m.op("create"); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.now[name] != nil {
		return nil, fs.ErrExist
	}
	f := &inode{}
	m.now[name] = f
	return &memFile{m: m, f: f}, nil
}

func (m *Disk) Rename(from, to string) error {
	if err := m.op("rename"); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.now[from]
	if f == nil {
		return fs.ErrNotExist
	}
	delete(m.now, from)
	m.now[to] = f
	return nil
}

func (m *Disk) Remove(name string) error {
	m.mu.Lock()
	there := m.now[name] != nil
	m.mu.Unlock()
	if !there {
		return fs.ErrNotExist
	}
	if err := m.op("remove"); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.now, name)
	return nil
}

func (m *Disk) SyncDir(dir string) error {
	if err := m.op("syncdir"); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for d := range m.dirs {
		if filepath.Dir(d) == dir {
			m.dirs[d] = true
		}
	}
	for _, set := range []map[string]*inode{m.durable, m.now} {
		for p := range set {
			if filepath.Dir(p) != dir {
				continue
			}
			if f := m.now[p]; f != nil {
				m.durable[p] = f
			} else {
				delete(m.durable, p)
			}
		}
	}
	return nil
}

func (m *Disk) TryLock(name string) (func() error, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locks[name] {
		return nil, false, nil
	}
	m.locks[name] = true
	return func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.locks[name] = false
		return nil
	}, true, nil
}

type memFile struct {
	m *Disk
	f *inode
	r *bytes.Reader // nil if opened for writing
}

func (f *memFile) Read(b []byte) (int, error) { return f.r.Read(b) }

// Write writes half of b when it fails, as a full disk does.
func (f *memFile) Write(b []byte) (int, error) {
	err := f.m.op("write")
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err != nil {
		n := 0
		if !errors.Is(err, syscall.EROFS) {
			n = len(b) / 2
			f.f.data = append(f.f.data, b[:n]...)
		}
		return n, err
	}
	f.f.data = append(f.f.data, b...)
	return len(b), nil
}

func (f *memFile) Sync() error {
	if err := f.m.op("sync"); err != nil {
		return err
	}
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.f.synced = bytes.Clone(f.f.data)
	return nil
}

func (f *memFile) Close() error {
	if f.r != nil {
		return nil
	}
	return f.m.op("close")
}

// file is checkpoint.File, which would import this package's users.
type file = interface {
	io.ReadWriteCloser
	Sync() error
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
