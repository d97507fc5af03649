package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/streamsvm/streamsvm/internal/crash"
)

// Options are the settings of a Store.
type Options struct {
	// Retain is the number of snapshots to keep; 0 means 3.
	Retain int
	// LockTimeout bounds the wait for the directory's lock, which is held only
	// briefly; 0 means 30 s.
	LockTimeout time.Duration
	// Log reports what was skipped, repaired or could not be removed; nil means
	// slog.Default().
	Log *slog.Logger
	// Now is the clock for Header.Created; nil means time.Now.
	Now func() time.Time

	// FS is the file system that contains the directory; nil is the operating
	// system's.
	FS FS
}

// Store is a directory of snapshots. Its methods are safe for concurrent use.
type Store struct {
	dir  string
	opts Options
	fs   FS

	current atomic.Pointer[epoch] // the claim; nil before Claim

	// When the Store was opened there was no directory, or nothing in it.
	absent, empty bool

	mu      sync.Mutex
	next    uint64
	bad     map[string]bool // names of files that Load could not read
	skipped []*Error
}

// Open returns the Store in dir, which need not exist yet. It creates and changes
// nothing.
func Open(dir string, opts Options) (*Store, error) {
	opts.Retain = cmp.Or(opts.Retain, 3)
	if opts.Retain < 1 {
		return nil, fmt.Errorf("checkpoint: cannot retain %d snapshots, at least 1 is needed", opts.Retain)
	}
	opts.LockTimeout = cmp.Or(opts.LockTimeout, 30*time.Second)
	opts.Log = cmp.Or(opts.Log, slog.Default())
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.FS == nil {
		opts.FS = osFS{}
	}
	s := &Store{dir: dir, opts: opts, fs: opts.FS, bad: map[string]bool{}}
	files, err := s.fs.List(dir)
	s.absent = errors.Is(err, fs.ErrNotExist)
	s.empty = len(files) == 0
	if err != nil && !s.absent {
		return s, fmt.Errorf("checkpoint: cannot list the directory: %w", err)
	}
	return s, nil
}

// Discard removes everything that this Store has written, for a run without a result. It
// does nothing if there were files in the directory when it was opened, and fails
// with ErrFenced if another process has claimed it. Other files stay, and with them the
// directory.
func (s *Store) Discard(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	claim := s.current.Load()
	if claim == nil || !s.empty {
		return nil
	}
	err := s.locked(ctx, func() error {
		names, err := s.names()
		if err = cmp.Or(s.check(*claim), err); err != nil {
			return err
		}
		for _, n := range names {
			s.remove(n.String())
		}
		s.remove(epochFile)
		return nil
	})
	if err != nil {
		return err
	}
	s.remove("LOCK")
	if s.absent {
		_ = s.fs.Remove(s.dir) // unless somebody has put something there
	}
	return nil
}

// name is the parsed name of a snapshot file.
type name struct{ epoch, seq uint64 }

func (n name) String() string { return fmt.Sprintf("checkpoint-%010d-%012d.ssc", n.epoch, n.seq) }

// temp is the name of the file of n until it is complete.
func (n name) temp() string { return tempPrefix + n.String() }

const tempPrefix = ".tmp-"

func parseName(s string) (n name, ok bool) {
	_, err := fmt.Sscanf(s, "checkpoint-%d-%d.ssc", &n.epoch, &n.seq)
	return n, err == nil && n.String() == s
}

// names returns the snapshots in the directory, newest first.
func (s *Store) names() ([]name, error) {
	files, err := s.fs.List(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint: cannot list the directory: %w", err)
	}
	var names []name
	for _, f := range files {
		if n, ok := parseName(f); ok {
			names = append(names, n)
		}
	}
	sort.Slice(names, func(i, j int) bool {
		a, b := names[i], names[j]
		return a.seq > b.seq || a.seq == b.seq && a.epoch > b.epoch
	})
	return names, nil
}

// Files returns the paths of the snapshots, newest first, valid or not.
func (s *Store) Files() ([]string, error) {
	names, err := s.names()
	paths := make([]string, len(names))
	for i, n := range names {
		paths[i] = s.path(n.String())
	}
	return paths, err
}

func (s *Store) path(name string) string { return filepath.Join(s.dir, name) }

// Load returns the newest valid snapshot. Files that are damaged or in a newer
// format are logged and skipped. It returns nil if the
// directory has no snapshot, and an error wrapping ErrNoValid if it has some but
// none is valid. It also logs older snapshots that are damaged, so that this is known
// before they are needed. It changes nothing on disk.
func (s *Store) Load() (*Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Another process may remove old files during the read: list them again.
	for try := 0; ; try++ {
		snap, vanished, err := s.load()
		if snap != nil {
			s.verifyOlder(name{snap.Header.Epoch, snap.Header.Seq})
		}
		if snap != nil || err != nil && !errors.Is(err, ErrNoValid) {
			return snap, err
		}
		if vanished {
			if try < 100 {
				continue
			}
			return nil, fmt.Errorf("checkpoint: the snapshots in %s keep disappearing while they are being read", s.dir)
		}
		return nil, err
	}
}

func (s *Store) load() (snap *Snapshot, vanished bool, err error) {
	s.skipped = nil
	names, err := s.names()
	if err != nil {
		return nil, false, err
	}
	for _, n := range names {
		snap, err := s.read(s.path(n.String()))
		var bad *Error
		switch {
		case err == nil:
			return snap, vanished, nil
		case errors.Is(err, fs.ErrNotExist):
			vanished = true
		case errors.As(err, &bad):
			s.opts.Log.Warn("snapshot skipped", "path", bad.Path, "part", bad.Part, "reason", bad.Err.Error())
			s.skipped = append(s.skipped, bad)
			s.bad[n.String()] = true
		default:
			// Failing to open a file says nothing about its content.
			return nil, vanished, fmt.Errorf("checkpoint: %w", err)
		}
	}
	if len(s.skipped) > 0 {
		return nil, vanished, fmt.Errorf("%w among %d files in %s; the newest: %w", ErrNoValid, len(s.skipped), s.dir, s.skipped[0])
	}
	return nil, vanished, nil
}

// verifyOlder checks the snapshots older than the loaded one.
func (s *Store) verifyOlder(loaded name) {
	names, _ := s.names() // if listing fails now, the next Save will report it
	behind := false
	for _, n := range names {
		if n == loaded {
			behind = true
			continue
		}
		if !behind {
			continue
		}
		_, err := inspect(s.fs, s.path(n.String()))
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if bad, ok := errors.AsType[*Error](err); ok {
			s.bad[n.String()] = true // it does not count towards Retain
			err = bad.Err
		}
		s.opts.Log.Warn("an older snapshot cannot be used; the newest one is whole", "path", s.path(n.String()), "reason", err)
	}
}

func (s *Store) read(path string) (*Snapshot, error) {
	f, size, err := s.fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return read(path, f, size)
}

// Save adds a snapshot and returns its path once it is durable. It sets Epoch, Seq,
// Format and, if zero, Created in snap.Header, and snap.Bytes. Then it removes
// snapshots beyond Options.Retain.
//
// It returns an error wrapping ErrFenced, and leaves the directory unchanged, if
// another process has claimed the directory in the meantime. After any other error
// the older snapshots are intact and Save may be retried. If ctx ends before the
// snapshot is complete, Save returns ctx.Err().
func (s *Store) Save(ctx context.Context, snap *Snapshot) (path string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	claim := s.current.Load()
	if claim == nil {
		return "", ErrNotClaimed
	}
	h := &snap.Header
	if h.Created.IsZero() {
		h.Created = s.opts.Now()
	}
	h.Created = h.Created.Truncate(time.Millisecond).UTC()
	h.Format, h.Epoch, h.Seq = Format, claim.number, s.next
	// A number is used only once, even if it is unknown whether its file exists.
	s.next++
	n := name{h.Epoch, h.Seq}

	// Write and sync the file under a temporary name, without the lock: a large
	// snapshot takes seconds, and a process that wants to take over must not wait
	// for it.
	temp := s.path(n.temp())
	if snap.Bytes, err = s.writeTemp(ctx, temp, snap); err != nil {
		return "", err
	}
	// Under the lock only the claim is checked and the file renamed. Whoever claims
	// the directory afterwards sees the snapshot; whoever did before is found by
	// the check.
	err = s.locked(ctx, func() error {
		if err := s.check(*claim); err != nil {
			return err
		}
		crash.Hold()
		if err := s.fs.Rename(temp, s.path(n.String())); err != nil {
			return fmt.Errorf("checkpoint: cannot put the snapshot in its place: %w", err)
		}
		// From here on the file has its final name, and the error path must not
		// remove it, whatever the following sync returns.
		temp = ""
		if err := s.fs.SyncDir(s.dir); err != nil {
			return fmt.Errorf("checkpoint: cannot make the snapshot durable: %w", err)
		}
		// Older snapshots go last, when the new one can no longer be lost.
		s.reap(n)
		return nil
	})
	if err != nil {
		if temp != "" {
			s.remove(n.temp())
		}
		return "", err
	}
	return s.path(n.String()), nil
}

// writeTemp writes snap to a new file and syncs it. If it fails, it removes the file.
func (s *Store) writeTemp(ctx context.Context, path string, snap *Snapshot) (int64, error) {
	f, err := s.fs.Create(path)
	if err != nil {
		return 0, fmt.Errorf("checkpoint: cannot create the snapshot: %w", err)
	}
	size, err := write(ctx, f, snap)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		s.remove(filepath.Base(path))
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return 0, err
		}
		return 0, fmt.Errorf("checkpoint: cannot write the snapshot (%d bytes so far): %w", size, err)
	}
	return size, nil
}

// reap removes the snapshots older than the Retain newest ones. Files known to be
// invalid do not count, and go together with the valid ones around them. The caller
// holds the lock and has just written saved.
func (s *Store) reap(saved name) {
	names, err := s.names()
	if err != nil {
		s.opts.Log.Warn("old snapshots not removed", "error", err)
		return
	}
	good := 0
	for _, n := range names {
		if good >= s.opts.Retain && n != saved {
			s.remove(n.String())
			delete(s.bad, n.String())
		} else if !s.bad[n.String()] {
			good++
		}
	}
}

// remove removes a file that is no longer needed. A failure is only logged.
func (s *Store) remove(name string) {
	if err := s.fs.Remove(s.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.opts.Log.Warn("file not removed", "path", s.path(name), "error", err)
	}
}

// removeTemps removes the files left by interrupted writers. The caller holds the lock
// and a new epoch, so nobody can complete these files any more.
func (s *Store) removeTemps() {
	files, err := s.fs.List(s.dir)
	if err != nil {
		s.opts.Log.Warn("unfinished files not removed", "error", err)
		return
	}
	for _, f := range files {
		if strings.HasPrefix(f, tempPrefix) {
			s.remove(f)
		}
	}
}

// locked calls do while it holds the directory's lock.
func (s *Store) locked(ctx context.Context, do func() error) error {
	deadline := time.NewTimer(s.opts.LockTimeout)
	defer deadline.Stop()
	for {
		unlock, ok, err := s.fs.TryLock(s.path("LOCK"))
		if err != nil {
			return fmt.Errorf("checkpoint: cannot lock the directory: %w", err)
		}
		if ok {
			err := do()
			if uerr := unlock(); err == nil && uerr != nil && !errors.Is(uerr, os.ErrClosed) {
				s.opts.Log.Warn("lock not released cleanly", "error", uerr)
			}
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline.C:
			return fmt.Errorf("%w (waited %v for %s)", ErrLocked, s.opts.LockTimeout, s.path("LOCK"))
		case <-time.After(5 * time.Millisecond):
		}
	}
}
