package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func open(t testing.TB, dir string, opts Options) *Store {
	t.Helper()
	if opts.Log == nil {
		opts.Log = discard()
	}
	s, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func claim(t testing.TB, s *Store) uint64 {
	t.Helper()
	e, err := s.Claim(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func save(t testing.TB, s *Store, n int) string {
	t.Helper()
	path, err := s.Save(t.Context(), numbered(n))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t testing.TB, s *Store) int {
	t.Helper()
	snap, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	return number(t, snap)
}

func TestSaveAndLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	clock := time.Date(2030, 1, 2, 3, 4, 5, 678_912_345, time.FixedZone("", 3600))
	s := open(t, dir, Options{Now: func() time.Time { return clock }})
	if snap, err := s.Load(); snap != nil || err != nil {
		t.Fatalf("absent directory: %v, %v", snap, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Error("Load has created the directory")
	}
	if _, err := s.Save(t.Context(), numbered(1)); !errors.Is(err, ErrNotClaimed) {
		t.Errorf("save before claim: %v", err)
	}
	if e := claim(t, s); e != 1 || s.Epoch() != 1 {
		t.Errorf("epoch %d", e)
	}
	if snap, err := s.Load(); snap != nil || err != nil {
		t.Fatalf("empty directory: %v, %v", snap, err)
	}
	for n := 1; n <= 5; n++ {
		snap := numbered(n)
		snap.Header.Created = time.Time{}
		path, err := s.Save(t.Context(), snap)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Size() != snap.Bytes {
			t.Errorf("file of %v bytes, %d reported, %v", info, snap.Bytes, err)
		}
		if h := snap.Header; h.Epoch != 1 || h.Seq != uint64(n) || h.Format != Format || !h.Created.Equal(clock.Truncate(time.Millisecond)) {
			t.Errorf("header %+v", h)
		}
	}
	files, err := s.Files()
	if err != nil || len(files) != 3 || filepath.Base(files[0]) != "checkpoint-0000000001-000000000005.ssc" {
		t.Errorf("files %v, %v", files, err)
	}
	for i, f := range files {
		snap, err := readFile(f)
		if err != nil || number(t, snap) != 5-i {
			t.Errorf("%s: %v, %v", f, snap, err)
		}
	}
	// Another process starts: its numbers go on.
	s = open(t, dir, Options{Retain: 1})
	if e := claim(t, s); e != 2 || load(t, s) != 5 {
		t.Errorf("epoch %d", e)
	}
	path := save(t, s, 6)
	if want := filepath.Join(dir, "checkpoint-0000000002-000000000006.ssc"); path != want {
		t.Errorf("path %s, want %s", path, want)
	}
	if files, _ := s.Files(); !slices.Equal(files, []string{path}) {
		t.Errorf("files %v", files)
	}
}

func TestInvalidFilesAreSkipped(t *testing.T) {
	whole := encode(t, numbered(0))
	future := forge(whole, func(b []byte) { b[8] = Format + 1 })
	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 4
	for _, tt := range []struct {
		name string
		data []byte
		want error
	}{
		{"torn", whole[:len(whole)/2], ErrTruncated},
		{"empty", nil, ErrTruncated},
		{"future", future, ErrVersion},
		{"flipped", flipped, ErrChecksum},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			var log bytes.Buffer
			s := open(t, dir, Options{Retain: 2, Log: slog.New(slog.NewTextHandler(&log, nil))})
			claim(t, s)
			var paths []string
			for n := 1; n <= 2; n++ {
				paths = append(paths, save(t, s, n))
			}
			overwrite(t, paths[1], tt.data)
			if n := load(t, s); n != 1 {
				t.Errorf("found %d", n)
			}
			if sk := s.skipped; len(sk) != 1 || sk[0].Path != paths[1] || !errors.Is(sk[0], tt.want) {
				t.Errorf("skipped %v", sk)
			}
			if l := log.String(); !strings.Contains(l, paths[1]) || !strings.Contains(l, tt.want.Error()) {
				t.Errorf("log: %s", l)
			}
			// The invalid file takes no valid one's place, and ages out.
			save(t, s, 3)
			if files, _ := s.Files(); len(files) != 3 || files[2] != paths[0] {
				t.Errorf("files %v", files)
			}
			save(t, s, 4)
			if files, _ := s.Files(); len(files) != 2 || slices.Contains(files, paths[1]) {
				t.Errorf("files %v", files)
			}
			if n := load(t, s); n != 4 || len(s.skipped) != 0 {
				t.Errorf("found %d, skipped %v", n, s.skipped)
			}
		})
	}
}

func overwrite(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
}

// Without a log of its own a store writes to that of the program.
func TestDefaultLog(t *testing.T) {
	var text bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&text, nil)))
	defer slog.SetDefault(before)
	dir := t.TempDir()
	s := open(t, dir, Options{Log: slog.Default()})
	claim(t, s)
	path := save(t, s, 1)
	overwrite(t, path, nil)
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(); !errors.Is(err, ErrNoValid) || !strings.Contains(text.String(), path) {
		t.Errorf("%v; log: %s", err, &text)
	}
}

func TestNoneValid(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	claim(t, s)
	for n := 1; n <= 2; n++ {
		overwrite(t, save(t, s, n), []byte("gone"))
	}
	_, err := s.Load()
	if !errors.Is(err, ErrNoValid) || !errors.Is(err, ErrMagic) || !strings.Contains(err.Error(), "2 files") {
		t.Errorf("got %v", err)
	}
	if len(s.skipped) != 2 {
		t.Errorf("skipped %v", s.skipped)
	}
	if save(t, s, 3); load(t, s) != 3 {
		t.Error("a new snapshot does not win over the invalid files")
	}
}

func TestOtherNamesAreLeftAlone(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{Retain: 1})
	claim(t, s)
	others := []string{"notes.txt", "checkpoint-1-2.ssc", "checkpoint-0000000001-000000000001.ssc.bak", "checkpoint--000000001-000000000001.ssc"}
	for _, name := range others {
		overwrite(t, filepath.Join(dir, name), []byte("mine"))
	}
	save(t, s, 1)
	save(t, s, 2)
	if load(t, s) != 2 || len(s.skipped) != 0 {
		t.Errorf("skipped %v", s.skipped)
	}
	for _, name := range others {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestFencing(t *testing.T) {
	dir := t.TempDir()
	old := open(t, dir, Options{})
	claim(t, old)
	save(t, old, 1)
	young := open(t, dir, Options{})
	if e := claim(t, young); e != 2 || load(t, young) != 1 {
		t.Errorf("epoch %d", e)
	}
	before := list(t, dir)
	if _, err := old.Save(t.Context(), numbered(2)); !errors.Is(err, ErrFenced) || !strings.Contains(err.Error(), "epoch 1, now 2") {
		t.Errorf("old writer: %v", err)
	}
	if after := list(t, dir); !slices.Equal(before, after) {
		t.Errorf("a fenced save changes %v to %v", before, after)
	}
	if save(t, young, 3); load(t, old) != 3 {
		t.Error("old reader does not see the new snapshot")
	}
	// The old writer may come back by claiming anew.
	if e := claim(t, old); e != 3 {
		t.Errorf("epoch %d", e)
	}
	save(t, old, 4)
	if _, err := young.Save(t.Context(), numbered(5)); !errors.Is(err, ErrFenced) {
		t.Error(err)
	}
}

func list(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Two claims of the same number, as after a restored backup, stay apart.
func TestSameEpochTwice(t *testing.T) {
	dir := t.TempDir()
	old := open(t, dir, Options{})
	claim(t, old)
	os.Remove(filepath.Join(dir, epochFile))
	if e := claim(t, open(t, dir, Options{})); e != 1 {
		t.Fatalf("epoch %d", e)
	}
	if _, err := old.Save(t.Context(), numbered(1)); !errors.Is(err, ErrFenced) {
		t.Errorf("a claim of the same number: %v", err)
	}
}

func TestLocked(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{LockTimeout: 10 * time.Millisecond})
	claim(t, s)
	unlock, ok, err := osFS{}.TryLock(filepath.Join(dir, "LOCK"))
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, err := s.Save(t.Context(), numbered(1)); !errors.Is(err, ErrLocked) {
		t.Errorf("save while locked: %v", err)
	}
	if _, err := s.Claim(t.Context()); !errors.Is(err, ErrLocked) {
		t.Errorf("claim while locked: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := open(t, dir, Options{}).Claim(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("claim cancelled: %v", err)
	}
	if names := list(t, dir); slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, tempPrefix) }) {
		t.Errorf("left behind: %v", names)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	save(t, s, 2)
}

func TestCancelledSave(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	claim(t, s)
	save(t, s, 1)
	before := list(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Save(ctx, numbered(2)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if after := list(t, dir); !slices.Equal(before, after) || load(t, s) != 1 {
		t.Errorf("%v became %v", before, after)
	}
}

func TestLeftoversAreRemoved(t *testing.T) {
	dir := t.TempDir()
	overwrite(t, filepath.Join(dir, name{3, 9}.temp()), []byte("half"))
	overwrite(t, filepath.Join(dir, tempPrefix+epochFile), []byte("half"))
	claim(t, open(t, dir, Options{}))
	if names := list(t, dir); !slices.Equal(names, []string{"EPOCH", "LOCK"}) {
		t.Errorf("left: %v", names)
	}
}

func TestReadOnlyDirectory(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write anywhere")
	}
	dir := t.TempDir()
	s := open(t, dir, Options{})
	claim(t, s)
	path := save(t, s, 1)
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(dir, 0o755) })
	if _, err := s.Save(t.Context(), numbered(2)); !errors.Is(err, os.ErrPermission) {
		t.Errorf("save: %v", err)
	}
	if _, err := s.Claim(t.Context()); !errors.Is(err, os.ErrPermission) {
		t.Errorf("claim: %v", err)
	}
	if load(t, s) != 1 {
		t.Error("cannot load")
	}
	// What may not be read is no reason to go back to an older snapshot.
	os.Chmod(path, 0)
	if _, err := s.Load(); !errors.Is(err, os.ErrPermission) || errors.Is(err, ErrNoValid) {
		t.Errorf("load: %v", err)
	}
}

func TestOpenErrors(t *testing.T) {
	if _, err := Open(t.TempDir(), Options{Retain: -1}); err == nil {
		t.Error("Retain -1 is accepted")
	}
	f := filepath.Join(t.TempDir(), "file")
	overwrite(t, f, nil)
	if _, err := Open(f, Options{}); err == nil {
		t.Error("a file is accepted as a directory")
	}
	if _, err := open(t, filepath.Join(t.TempDir(), "x"), Options{}).Claim(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestNames(t *testing.T) {
	for _, n := range []name{{0, 0}, {1, 2}, {1<<64 - 1, 1<<64 - 1}, {12345678901, 1234567890123}} {
		if got, ok := parseName(n.String()); !ok || got != n {
			t.Errorf("%v becomes %v, %v", n, got, ok)
		}
		if _, ok := parseName(n.temp()); ok {
			t.Errorf("%s passes for a snapshot", n.temp())
		}
	}
}

// TestWriterVersusReader loads in one goroutine while another saves and
// removes: a reader never sees a gap, nor goes back.
func TestWriterVersusReader(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir, Options{Retain: 1})
	claim(t, w)
	save(t, w, 1)
	done := make(chan error, 1)
	go func() {
		defer close(done)
		for n := 2; n <= 100; n++ {
			if _, err := w.Save(context.Background(), numbered(n)); err != nil {
				done <- err
				return
			}
		}
	}()
	r := open(t, dir, Options{})
	for last := 0; last < 100; {
		snap, err := r.Load()
		if err != nil {
			t.Fatal(err)
		}
		n := number(t, snap)
		if n < last {
			t.Fatalf("found %d after %d", n, last)
		}
		last = n
		if last < 100 {
			select {
			case err, ok := <-done:
				if ok && err != nil {
					t.Fatal(err)
				}
			default:
			}
		}
	}
}
