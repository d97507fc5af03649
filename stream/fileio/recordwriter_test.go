package fileio

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
)

// TestCreateAgain: what a writer leaves that was killed before its first record
// is no obstacle to the next one; any record is.
func TestCreateAgain(t *testing.T) {
	content, _, whole := smallRecording(t)
	path := filepath.Join(t.TempDir(), "x.ssr")
	for length, n := range whole {
		if err := os.WriteFile(path, content[:length], 0o666); err != nil {
			t.Fatal(err)
		}
		w, err := CreateRecording(path)
		if n > 0 {
			if !errors.Is(err, os.ErrExist) {
				t.Fatalf("%d bytes with %d records: %v", length, n, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%d bytes without a record: %v", length, err)
		}
		if err := w.Close(false); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if recs, rr, err := readRecording(b); err != nil || len(recs) > 0 || rr.Torn() {
			t.Fatalf("after %d bytes: %d records, %v", length, len(recs), err)
		}
		// Stopped in good order, without a record.
		if w, err = CreateRecording(path); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(false); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, []byte("something else"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := CreateRecording(path); !errors.Is(err, os.ErrExist) {
		t.Error(err)
	}
}

// TestSample: a recording keeps the size of the sample, also if it is reopened before its
// first record; later nothing changes it.
func TestSample(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.ssr")
	w, err := CreateRecording(path)
	if err != nil {
		t.Fatal(err)
	}
	pos, err := w.Sync()
	if err := errors.Join(err, w.SetSample(7), w.Close(false)); err != nil {
		t.Fatal(err)
	}
	if w, err = Reopen(path, pos); err != nil {
		t.Fatal(err)
	}
	rec := stream.Record{Topic: "t", Value: []byte("v")}
	if err := errors.Join(w.SetSample(37), w.Write(&rec), w.SetSample(5)); err != nil {
		t.Fatal(err)
	}
	if _, err = w.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.SetSample(6), w.Close(true)); err != nil {
		t.Fatal(err)
	}
	s, err := Open([]string{path}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if recs, err := s.Fetch(t.Context(), nil); err != nil || len(recs) != 1 || s.Sample() != 37 {
		t.Errorf("%d records, sample %d, %v", len(recs), s.Sample(), err)
	}
}

// TestOneWriter: while a recording has a writer it cannot have another.
func TestOneWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.ssr")
	w, err := CreateRecording(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Reopen(path, headerSize); !errors.Is(err, ErrLocked) {
		t.Error(err)
	}
	if _, err := CreateRecording(path); !errors.Is(err, ErrLocked) {
		t.Error(err)
	}
	if err := w.Close(false); err != nil {
		t.Fatal(err)
	}
	if w, err = Reopen(path, headerSize); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(false); err != nil {
		t.Fatal(err)
	}
}

// TestReopen goes on at every position that a Sync returned, whatever became
// of the file behind it.
func TestReopen(t *testing.T) {
	const seed = 3
	r := rand.New(rand.NewPCG(seed, 0))
	content, recs, whole := smallRecording(t)
	path := filepath.Join(t.TempDir(), "x.ssr")
	positions := []int{headerSize}
	for length := 1; length < len(whole); length++ {
		if whole[length] != whole[length-1] {
			positions = append(positions, length)
		}
	}
	for _, pos := range positions {
		for name, tail := range map[string][]byte{
			"as it was": content[pos:],
			"cut":       nil,
			"torn":      content[pos:min(pos+30, len(content))],
			"garbage":   bytes.Repeat([]byte{'B'}, 1000),
		} {
			if err := os.WriteFile(path, append(bytes.Clone(content[:pos]), tail...), 0o666); err != nil {
				t.Fatal(err)
			}
			w, err := Reopen(path, int64(pos))
			if err != nil {
				t.Fatalf("%s at %d: %v", name, pos, err)
			}
			want := append([]stream.Record(nil), recs[:whole[pos]]...)
			if p, err := w.Sync(); err != nil || p != int64(pos) {
				t.Fatalf("%s: position %d, want %d: %v", name, p, pos, err)
			}
			for range 3 {
				rec := randomRecord(r, int64(len(want)))
				want = append(want, rec)
				if err := w.Write(&rec); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(false); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got, rr, err := readRecording(b)
			if err != nil || rr.Torn() || rr.Finished() || !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d, %s at %d: %d records, want %d: %v", seed, name, pos, len(got), len(want), err)
			}
		}
	}
	// Every other position is refused, and the file left alone.
	for pos := -1; pos <= len(content)+1; pos++ {
		if pos == headerSize || pos > 0 && pos < len(whole) && whole[pos] != whole[pos-1] {
			continue
		}
		if err := os.WriteFile(path, content, 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := Reopen(path, int64(pos)); err == nil {
			t.Fatalf("position %d was taken", pos)
		}
		if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, content) {
			t.Fatalf("position %d: the file has changed", pos)
		}
	}
	last := positions[len(positions)-1]
	bad := bytes.Clone(content)
	bad[last-1] ^= 1
	if err := os.WriteFile(path, bad, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Reopen(path, int64(last)); err == nil {
		t.Error("a corrupt block was continued")
	}
	if _, err := Reopen(path+"no", headerSize); err == nil {
		t.Error("a missing recording was continued")
	}
}

// TestSourceTorn checks that a source says which recordings end torn.
func TestSourceTorn(t *testing.T) {
	whole := record(t, goldenRecords(), true)
	content, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	torn := filepath.Join(t.TempDir(), "torn.ssr")
	if err := os.WriteFile(torn, content[:len(content)-1], 0o666); err != nil {
		t.Fatal(err)
	}
	src := open(t, Options{}, torn, whole)
	recs := drain(t, src)
	if len(recs) != 2*len(goldenRecords()) {
		t.Errorf("%d records", len(recs))
	}
	if got := src.Torn(); len(got) != 1 || got[0] != torn {
		t.Errorf("torn: %q", got)
	}
	small := open(t, Options{limit: 1}, whole)
	if recs := drain(t, small); len(recs) != len(goldenRecords()) {
		t.Errorf("%d records", len(recs))
	}
}
