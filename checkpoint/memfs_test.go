package checkpoint

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/streamsvm/streamsvm/internal/rng"
)

// memFS is a file system in memory that knows what would survive a power cut:
// of a file's bytes those that were synced, of a directory's changes those
// before its last SyncDir. It counts the operations that change something and
// calls hook before each, and can fail at any of them.
type memFS struct {
	dirs    map[string]bool   // directory → whether its name is durable; "." is always there
	now     map[string]*inode // path → file, as running programs see it
	durable map[string]*inode // as of the last SyncDir of each directory
	locks   map[string]bool

	ops  int
	hook func(op string, n int) error // n counts from 1; an error fails the operation
}

type inode struct {
	data   []byte
	synced []byte
}

func newMemFS() *memFS {
	return &memFS{dirs: map[string]bool{}, now: map[string]*inode{}, durable: map[string]*inode{}, locks: map[string]bool{}}
}

// The ways in which a crash may treat what was not synced.
const (
	loseAll    = "nothing that was not synced survives"
	keepAll    = "everything survives"
	keepNames  = "names survive, unsynced bytes do not"
	zeroBytes  = "names survive, unsynced bytes are zeros"
	keepRandom = "some names survive, some bytes do"
)

var crashes = []string{loseAll, keepAll, keepNames, zeroBytes, keepRandom}

// crash returns the file system that a machine finds after a power cut.
func (m *memFS) crash(how string, r *rng.Source) *memFS {
	c := newMemFS()
	for _, dir := range sortedKeys(m.dirs) { // those above come first
		durable := m.dirs[dir] || how != loseAll && (how != keepRandom || r.IntN(2) == 0)
		if durable && c.exists(filepath.Dir(dir)) {
			c.dirs[dir] = true
		}
	}
	names := map[string]*inode{}
	switch how {
	case loseAll:
		names = m.durable
	case keepRandom:
		for _, set := range []map[string]*inode{m.durable, m.now} {
			for _, p := range sortedKeys(set) {
				if m.durable[p] == m.now[p] || r.IntN(2) == 0 {
					names[p] = set[p]
				}
			}
		}
	default:
		names = m.now
	}
	for _, p := range sortedKeys(names) {
		f := names[p]
		if !c.exists(filepath.Dir(p)) {
			continue
		}
		data := bytes.Clone(f.synced)
		switch {
		case how == keepAll:
			data = bytes.Clone(f.data)
		case how == zeroBytes && len(f.data) > len(data):
			data = append(data, make([]byte, len(f.data)-len(data))...)
		case how == keepRandom && len(f.data) > len(data):
			data = append(data, f.data[len(data):len(data)+r.IntN(len(f.data)-len(data)+1)]...)
		}
		c.now[p] = &inode{data: data, synced: bytes.Clone(data)}
		c.durable[p] = c.now[p]
	}
	return c
}

func (m *memFS) op(name string) error {
	m.ops++
	if m.hook == nil {
		return nil
	}
	return m.hook(name, m.ops)
}

func (m *memFS) exists(dir string) bool {
	_, ok := m.dirs[dir]
	return ok || dir == "."
}

func (m *memFS) Mkdir(dir string) error {
	if err := m.op("mkdir"); err != nil {
		return err
	}
	if m.exists(dir) {
		return fs.ErrExist
	}
	if !m.exists(filepath.Dir(dir)) {
		return fs.ErrNotExist
	}
	m.dirs[dir] = false
	return nil
}

func (m *memFS) List(dir string) ([]string, error) {
	if !m.exists(dir) {
		return nil, fs.ErrNotExist
	}
	var names []string
	for _, p := range sortedKeys(m.now) {
		if filepath.Dir(p) == dir {
			names = append(names, filepath.Base(p))
		}
	}
	return names, nil
}

func (m *memFS) Open(name string) (file, int64, error) {
	f := m.now[name]
	if f == nil {
		return nil, 0, fs.ErrNotExist
	}
	return &memFile{m: m, f: f, r: bytes.NewReader(f.data)}, int64(len(f.data)), nil
}

func (m *memFS) Create(name string) (file, error) {
	if err := m.op("create"); err != nil {
		return nil, err
	}
	if m.now[name] != nil {
		return nil, fs.ErrExist
	}
	f := &inode{}
	m.now[name] = f
	return &memFile{m: m, f: f}, nil
}

func (m *memFS) Rename(from, to string) error {
	if err := m.op("rename"); err != nil {
		return err
	}
	f := m.now[from]
	if f == nil {
		return fs.ErrNotExist
	}
	delete(m.now, from)
	m.now[to] = f
	return nil
}

func (m *memFS) Remove(name string) error {
	if m.now[name] == nil {
		return fs.ErrNotExist
	}
	if err := m.op("remove"); err != nil {
		return err
	}
	delete(m.now, name)
	return nil
}

func (m *memFS) SyncDir(dir string) error {
	if err := m.op("syncdir"); err != nil {
		return err
	}
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

func (m *memFS) TryLock(name string) (func() error, bool, error) {
	if m.locks[name] {
		return nil, false, nil
	}
	m.locks[name] = true
	return func() error { m.locks[name] = false; return nil }, true, nil
}

type memFile struct {
	m *memFS
	f *inode
	r *bytes.Reader // nil where opened for writing
}

func (f *memFile) Read(b []byte) (int, error) { return f.r.Read(b) }

// Write takes half of b when it fails, as a full disk does.
func (f *memFile) Write(b []byte) (int, error) {
	if err := f.m.op("write"); err != nil {
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
	f.f.synced = bytes.Clone(f.f.data)
	return nil
}

func (f *memFile) Close() error {
	if f.r != nil {
		return nil
	}
	return f.m.op("close")
}

var _ io.Reader = (*memFile)(nil)
