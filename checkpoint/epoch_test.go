package checkpoint

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file EPOCH that is missing or damaged is named as what it is, by who looks and by
// who wants to store. The next claim goes on from the snapshots, and says so.
func TestEpochMissingOrDamaged(t *testing.T) {
	for _, text := range []string{"", "epoch 7 token", "epoch 99 token ab xxh64 0\n", strings.Repeat("x", 10_000), "remove"} {
		dir := t.TempDir()
		s := open(t, dir, Options{})
		if id, epoch, err := s.Last(); id != "" || epoch != 0 || err != nil {
			t.Errorf("before the first claim: %q, %d, %v", id, epoch, err)
		}
		claim(t, s)
		claim(t, s)
		save(t, s, 1)
		path := filepath.Join(dir, epochFile)
		want := path + " is damaged"
		if text != "remove" {
			overwrite(t, path, []byte(text))
		} else if err := os.Remove(path); err != nil {
			t.Fatal(err)
		} else {
			want = path + " is missing"
		}
		_, _, err := s.Last()
		var lost *EpochError
		if !errors.As(err, &lost) || !strings.Contains(err.Error(), want) {
			t.Errorf("Last says %v, want %q", err, want)
		}
		if _, err := s.Save(t.Context(), numbered(2)); !errors.As(err, &lost) || !errors.Is(err, ErrFenced) || !strings.Contains(err.Error(), want) {
			t.Errorf("Save says %v, want %q", err, want)
		}
		if err := s.Check(); !errors.As(err, &lost) {
			t.Errorf("Check says %v", err)
		}
		var log bytes.Buffer
		again := open(t, dir, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		if e := claim(t, again); e != 3 || load(t, again) != 1 {
			t.Errorf("the next claim has epoch %d", e)
		}
		if strings.Count(log.String(), want) != 1 || strings.Count(log.String(), "level=WARN") != 1 {
			t.Errorf("the next claim logs %q, want one warning", log.String())
		}
		if _, err := s.Save(t.Context(), numbered(2)); !errors.Is(err, ErrFenced) || errors.As(err, &lost) {
			t.Errorf("the store before then says %v", err)
		}
		save(t, again, 2)
	}
}

// A damaged snapshot behind the newest one is named once, when that is loaded, and
// does not count as one of those to keep.
func TestOlderSnapshotDamaged(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	claim(t, s)
	paths := []string{save(t, s, 1), save(t, s, 2), save(t, s, 3)}
	data, err := os.ReadFile(paths[1])
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	overwrite(t, paths[1], data)

	var log bytes.Buffer
	s = open(t, dir, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	claim(t, s)
	if n := load(t, s); n != 3 {
		t.Fatalf("snapshot %d", n)
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "level=WARN") || !strings.Contains(text, filepath.Base(paths[1])) || !strings.Contains(text, "checksum") {
		t.Errorf("the log is %q, want a warning about %s", text, paths[1])
	}
	if bad := s.skipped; len(bad) > 0 {
		t.Errorf("skipped: %v", bad)
	}
	save(t, s, 4)
	if _, err := os.Stat(paths[0]); err != nil {
		t.Errorf("of three snapshots that are whole one is gone: %v", err)
	}
}
