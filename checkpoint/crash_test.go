package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/internal/testkit/simkit"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// numbered returns a small snapshot of which n can be read back.
func numbered(n int) *Snapshot {
	return &Snapshot{
		Header:   Header{Learner: "scs", Examples: uint64(n), Created: time.UnixMilli(int64(n))},
		Sections: []Section{{"trainer", []byte(fmt.Sprint("state ", n))}, {"model", make([]byte, 100)}},
	}
}

// number checks that s is numbered(n) for some n and returns it.
func number(t testing.TB, s *Snapshot) int {
	t.Helper()
	if s == nil {
		return 0
	}
	data, _ := s.Section("trainer")
	if want := fmt.Sprint("state ", s.Header.Examples); string(data) != want {
		t.Fatalf("section holds %q, header says %q", data, want)
	}
	return int(s.Header.Examples)
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func openMem(t testing.TB, m *simkit.Disk) *Store {
	t.Helper()
	s, err := Open("above/dir", Options{Retain: 2, FS: m, Log: discard(), LockTimeout: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var errPower = errors.New("power cut")

// TestCrashAnywhere runs a history of claims and saves, cuts the power at
// every operation, in every way in which unsynced data can be lost, and looks
// at what a restart finds.
func TestCrashAnywhere(t *testing.T) {
	const seed = 1
	r := rng.New(seed, "crash")
	// history returns the last snapshot and epoch that were reported durable.
	history := func(m *simkit.Disk) (saved, begun int, epoch uint64) {
		n := 0
		for range 3 {
			s := openMem(t, m)
			e, err := s.Claim(t.Context())
			if err != nil {
				return saved, n, epoch
			}
			epoch = e
			if _, err := s.Load(); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				n++
				if _, err := s.Save(t.Context(), numbered(n)); err != nil {
					return saved, n, epoch
				}
				saved = n
			}
		}
		return saved, n, epoch
	}
	m := simkit.NewDisk()
	history(m)
	total := m.Ops
	if total < 80 {
		t.Fatalf("only %d operations", total)
	}
	for at := 1; at <= total; at++ {
		for _, how := range simkit.Crashes {
			m := simkit.NewDisk()
			var lastOp string
			m.Hook = func(op string, n int) error {
				if n < at {
					return nil
				}
				if n == at {
					lastOp = op
				}
				return errPower
			}
			saved, begun, epoch := history(m)
			after := m.Crash(how, r)
			where := fmt.Sprintf("seed %d, operation %d (%s), %s", seed, at, lastOp, how)

			s := openMem(t, after)
			e, err := s.Claim(t.Context())
			if err != nil || e <= epoch {
				t.Fatalf("%s: claim gives epoch %d after %d, %v", where, e, epoch, err)
			}
			snap, err := s.Load()
			if err != nil {
				t.Fatalf("%s: %v", where, err)
			}
			if got := number(t, snap); got != saved && got != begun {
				t.Fatalf("%s: found snapshot %d, %d was durable and %d begun", where, got, saved, begun)
			}
			// Life goes on, and nothing is left behind.
			if _, err := s.Save(t.Context(), numbered(1000)); err != nil {
				t.Fatalf("%s: %v", where, err)
			}
			if snap, err = s.Load(); err != nil || number(t, snap) != 1000 {
				t.Fatalf("%s: found %v, %v", where, snap, err)
			}
			for _, p := range sortedKeys(after.Files()) {
				if strings.Contains(p, tempPrefix) {
					t.Fatalf("%s: %s is left", where, p)
				}
			}
		}
	}
}

// TestMemFSForgets makes sure that the crash test can fail: a writer that does
// not sync loses.
func TestMemFSForgets(t *testing.T) {
	m := simkit.NewDisk()
	m.Mkdir("dir")
	f, _ := m.Create("dir/a")
	io.WriteString(f, "hello")
	f.Close()
	m.Rename("dir/a", "dir/b")
	r := rng.New(1, "forget")
	if c := m.Crash(simkit.LoseAll, r); len(c.Files()) != 0 {
		t.Error("names survive")
	}
	if c := m.Crash(simkit.KeepNames, r); len(c.Files()["dir/b"]) != 0 {
		t.Error("bytes survive")
	}
	m.SyncDir("dir")
	if c := m.Crash(simkit.LoseAll, r); len(c.Dirs())+len(c.Files()) != 0 {
		t.Error("a directory survives that was not synced into the one above")
	}
	m.SyncDir(".")
	if c := m.Crash(simkit.LoseAll, r); len(c.Files()) != 1 || len(c.Files()["dir/b"]) != 0 {
		t.Error("SyncDir makes names durable, not bytes")
	}
}

// TestDirectoryOfAFailedRun: a run makes the directory, and fails before it is durable.
// What the next one stores is found after a power cut.
func TestDirectoryOfAFailedRun(t *testing.T) {
	m := simkit.NewDisk()
	syncs := 0
	m.Hook = func(op string, n int) error {
		if op == "syncdir" {
			if syncs++; syncs == 2 { // the first is that of the directory above
				return syscall.ENOSPC
			}
		}
		return nil
	}
	if _, err := openMem(t, m).Claim(t.Context()); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	s := openMem(t, m)
	if _, err := s.Claim(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Save(t.Context(), numbered(1)); err != nil {
		t.Fatal(err)
	}
	snap, err := openMem(t, m.Crash(simkit.LoseAll, rng.New(1, "cut"))).Load()
	if err != nil || number(t, snap) != 1 {
		t.Errorf("after a power cut: snapshot %d, %v", number(t, snap), err)
	}
}

// TestErrorAnywhere fails each operation of a Save once, without a crash.
func TestErrorAnywhere(t *testing.T) {
	for _, errno := range []error{syscall.ENOSPC, syscall.EIO, syscall.EROFS} {
		for at := 1; ; at++ {
			m := simkit.NewDisk()
			s := openMem(t, m)
			if _, err := s.Claim(t.Context()); err != nil {
				t.Fatal(err)
			}
			for n := 1; n <= 2; n++ {
				if _, err := s.Save(t.Context(), numbered(n)); err != nil {
					t.Fatal(err)
				}
			}
			first := m.Ops
			failed := ""
			m.Hook = func(op string, n int) error {
				if n == first+at {
					failed = op
					return errno
				}
				return nil
			}
			_, err := s.Save(t.Context(), numbered(3))
			if failed == "" {
				break // all operations were tried
			}
			if failed == "remove" {
				if err != nil {
					t.Errorf("%v at %s is reported as %v, though the snapshot is durable", errno, failed, err)
				}
			} else if !errors.Is(err, errno) {
				t.Errorf("%v at %s is reported as %v", errno, failed, err)
			}
			snap, lerr := s.Load()
			if got := number(t, snap); lerr != nil || got != 3 && (got != 2 || err == nil) {
				t.Errorf("%v at %s: found %d, %v", errno, failed, got, lerr)
			}
			for _, p := range sortedKeys(m.Files()) {
				if strings.Contains(p, tempPrefix) {
					t.Errorf("%v at %s: %s is left", errno, failed, p)
				}
			}
			if path, err := s.Save(t.Context(), numbered(4)); err != nil {
				t.Errorf("%v at %s: the next save gives %v", errno, failed, err)
			} else if snap, err := s.Load(); err != nil || number(t, snap) != 4 || m.Files()[path] == nil {
				t.Errorf("%v at %s: found %v, %v", errno, failed, snap, err)
			}
		}
	}
}

// TestFencedAnywhere lets a second writer claim the directory before each
// operation of a first one's Save. What the second loads stays the newest.
func TestFencedAnywhere(t *testing.T) {
	fenced, won, locked := 0, 0, 0
	for at := 1; ; at++ {
		m := simkit.NewDisk()
		first := openMem(t, m)
		if _, err := first.Claim(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := first.Save(t.Context(), numbered(1)); err != nil {
			t.Fatal(err)
		}
		second := openMem(t, m)
		start := m.Ops
		ran, claimed, found := false, false, 0
		m.Hook = func(op string, n int) error {
			if n != start+at {
				return nil
			}
			ran = true
			m.Hook = nil
			switch e, err := second.Claim(t.Context()); {
			case errors.Is(err, ErrLocked):
				locked++
			case err != nil || e != 2:
				t.Fatalf("before %s: epoch %d, %v", op, e, err)
			default:
				claimed = true
				snap, err := second.Load()
				if err != nil {
					t.Fatal(err)
				}
				found = number(t, snap)
			}
			return nil
		}
		_, err := first.Save(t.Context(), numbered(2))
		if !ran {
			break
		}
		newest, lerr := second.Load()
		if lerr != nil {
			t.Fatal(lerr)
		}
		switch {
		case !claimed && err == nil && number(t, newest) == 2:
			won++
		case claimed && err != nil && number(t, newest) == found:
			// Where the claim removed the temporary file, Create or Rename
			// cannot know why it is gone; nothing was added all the same.
			fenced++
		default:
			t.Errorf("operation %d: second claimed: %v and found %d; first's save: %v; now %d", at, claimed, found, err, number(t, newest))
		}
		if claimed {
			if _, err := first.Save(t.Context(), numbered(3)); !errors.Is(err, ErrFenced) {
				t.Errorf("operation %d: a fenced writer gets %v", at, err)
			}
			if _, err := second.Save(t.Context(), numbered(4)); err != nil {
				t.Errorf("operation %d: %v", at, err)
			}
		}
	}
	if fenced == 0 || won == 0 || locked != won {
		t.Errorf("fenced %d, won %d, locked %d", fenced, won, locked)
	}
}
