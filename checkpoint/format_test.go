package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/internal/testkit/alloctest"
	"github.com/streamsvm/streamsvm/stream"
)

// sample returns a snapshot with every field set.
func sample() *Snapshot {
	return &Snapshot{
		Header: Header{
			Format: Format, Epoch: 7, Seq: 42, Created: time.UnixMilli(1_700_000_000_123).UTC(),
			StreamSVM: "0.1.0", Learner: "scs", Examples: 1 << 40, StateHash: math.MaxUint64, ModelVersion: 9,
			Offsets: stream.Offsets{{Topic: "b", ID: 0}: 5, {Topic: "a", ID: 10}: 1 << 50, {Topic: "a", ID: 2}: 0},
			Meta:    [][2]string{{"cpu", "avx2 fma"}, {"", ""}},
		},
		Sections: []Section{
			{"trainer", []byte("queue and counters")},
			{"empty", []byte{}},
			{"model", bytes.Repeat([]byte{0, 1, 2, 255}, 10)},
		},
	}
}

func encode(t testing.TB, s *Snapshot) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := write(t.Context(), &b, s)
	if err != nil || n != int64(b.Len()) {
		t.Fatalf("write: %d bytes of %d, %v", n, b.Len(), err)
	}
	return b.Bytes()
}

func decode(b []byte) (*Snapshot, error) { return read("f", bytes.NewReader(b), int64(len(b))) }

func TestRoundTrip(t *testing.T) {
	for _, want := range []*Snapshot{sample(), {Header: Header{Format: Format, Created: time.UnixMilli(0).UTC()}}} {
		b := encode(t, want)
		got, err := decode(b)
		if err != nil {
			t.Fatal(err)
		}
		want.Bytes = int64(len(b))
		if len(want.Header.Meta) == 0 {
			want.Header.Meta = got.Header.Meta
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got\n%+v, want\n%+v", got, want)
		}
		if again := encode(t, got); !bytes.Equal(again, b) {
			t.Error("encoding what was decoded gives other bytes")
		}
	}
}

// TestGolden pins format 1: files written today stay readable.
func TestGolden(t *testing.T) {
	path := filepath.Join("testdata", "format1.ssc")
	b := encode(t, sample())
	if os.Getenv("STREAMSVM_UPDATE_GOLDEN") == "1" {
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, golden) {
		t.Errorf("format %d has changed without a new version number", Format)
	}
	got, err := readFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := sample()
	want.Bytes = int64(len(golden))
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
}

func TestTruncatedAtEveryByte(t *testing.T) {
	b := encode(t, sample())
	for n := range b {
		if s, err := decode(b[:n]); s != nil || !errors.Is(err, ErrTruncated) {
			t.Errorf("%d bytes of %d: %v", n, len(b), err)
		}
	}
}

func TestEveryByteFlipped(t *testing.T) {
	b := encode(t, sample())
	for i := range b {
		for _, mask := range []byte{1, 0x80, 0xff} {
			c := bytes.Clone(b)
			c[i] ^= mask
			want := ErrChecksum
			if i < len(magic) {
				want = ErrMagic
			}
			var e *Error
			if s, err := decode(c); s != nil || !errors.Is(err, want) || !errors.As(err, &e) || e.Part == "" {
				t.Errorf("byte %d ^ %#x: %+v, %v", i, mask, s, err)
			}
		}
	}
}

// forge rewrites the numbers in the prefix of a snapshot and makes its
// checksums right again.
func forge(b []byte, change func(b []byte)) []byte {
	c := bytes.Clone(b)
	change(c)
	le := binary.LittleEndian
	le.PutUint32(c[12:], uint32(xxhash.Sum64(c[:12])))
	le.PutUint64(c[24:], xxhash.Sum64(c[:24]))
	if end := 32 + int64(le.Uint32(c[16:])) + int64(le.Uint32(c[20:])); end+8 <= int64(len(c)) {
		le.PutUint64(c[end:], xxhash.Sum64(c[32:end]))
	}
	le.PutUint64(c[len(c)-8:], xxhash.Sum64(c[:len(c)-8]))
	return c
}

func TestCorruptions(t *testing.T) {
	le := binary.LittleEndian
	b := encode(t, sample())
	table := bytes.Index(b, []byte("\x07trainer"))
	tests := []struct {
		name   string
		data   []byte
		want   error
		reason string
	}{
		{"empty file", nil, ErrTruncated, ""},
		{"text", []byte("hello, this is no checkpoint at all"), ErrMagic, ""},
		{"future version", forge(b, func(b []byte) { le.PutUint32(b[8:], Format+1) }), ErrVersion, "reads up to 1"},
		{"future version, other layout", append(forge(b, func(b []byte) { le.PutUint32(b[8:], 99) })[:16], "anything"...), ErrVersion, "format 99"},
		{"version 0", forge(b, func(b []byte) { le.PutUint32(b[8:], 0) }), ErrCorrupt, ""},
		{"huge header", forge(b, func(b []byte) { le.PutUint32(b[16:], math.MaxUint32) }), ErrCorrupt, "exceeds"},
		{"huge table", forge(b, func(b []byte) { le.PutUint32(b[20:], math.MaxUint32) }), ErrCorrupt, "exceeds"},
		{"header longer than the file", forge(b, func(b []byte) { le.PutUint32(b[16:], 1<<20) }), ErrTruncated, "left"},
		{"header one longer", forge(b, func(b []byte) { le.PutUint32(b[16:], le.Uint32(b[16:])+1) }), ErrCorrupt, ""},
		{"table one shorter", forge(b, func(b []byte) { le.PutUint32(b[20:], le.Uint32(b[20:])-1) }), ErrCorrupt, "cut off"},
		{"huge section", forge(b, func(b []byte) { le.PutUint64(b[table+8:], math.MaxUint64) }), ErrCorrupt, "section \"trainer\""},
		{"large section", forge(b, func(b []byte) { le.PutUint64(b[table+8:], 1<<29) }), ErrTruncated, ""},
		{"section one shorter", forge(b, func(b []byte) { le.PutUint64(b[table+8:], le.Uint64(b[table+8:])-1) }), ErrCorrupt, "1 bytes after the end"},
		{"empty name", forge(b, func(b []byte) { b[table] = 0 }), ErrCorrupt, "cut off"},
		{"name used twice", forge(b, func(b []byte) { copy(b[bytes.Index(b, []byte("\x05empty"))+1:], "model") }), ErrCorrupt, "twice"},
		{"header is not one", forge(b, func(b []byte) { clear(b[32:40]) }), ErrCorrupt, ""},
		{"partition beyond 32 bits", forge(b, func(b []byte) {
			b[bytes.Index(b, []byte("partition"))+len("partition")+1] = 1 // the value's highest byte
		}), ErrCorrupt, "not a partition"},
		{"bytes after the end", append(bytes.Clone(b), 0), ErrCorrupt, "1 bytes after the end"},
		{"twice", append(bytes.Clone(b), b...), ErrCorrupt, "after the end"},
		{"zeros", make([]byte, len(b)), ErrMagic, ""},
		{"torn: a page of zeros at the end", append(bytes.Clone(b[:len(b)-60]), make([]byte, 60)...), ErrChecksum, ""},
	}
	for _, tt := range tests {
		s, err := decode(tt.data)
		if s != nil || !errors.Is(err, tt.want) || !strings.Contains(fmt.Sprint(err), tt.reason) {
			t.Errorf("%s: got %v, %v, want %v (%s)", tt.name, s, err, tt.want, tt.reason)
		}
	}
}

// Sizes of sections whose sum, which wraps around at 2⁶⁴, is that of the file.
func TestSizesWrapAround(t *testing.T) {
	le := binary.LittleEndian
	for _, sizes := range [][]uint64{{1 << 33, 1<<64 - 1<<33}, {1 << 63, 1 << 63}, {1<<62 - 1, 1<<62 - 1, 1<<62 - 1, 1<<62 - 1, 4}} {
		s := sample()
		s.Sections = nil
		for i := range sizes {
			s.Sections = append(s.Sections, Section{Name: fmt.Sprint("empty", i)})
		}
		b := forge(encode(t, s), func(b []byte) {
			for i, n := range sizes {
				name := fmt.Sprint("empty", i)
				le.PutUint64(b[bytes.Index(b, []byte(name))+len(name):], n)
			}
		})
		if s, err := decode(b); s != nil || !errors.Is(err, ErrCorrupt) {
			t.Errorf("sizes %d: %v, %v", sizes, s, err)
		}
	}
}

func TestShrinksWhileRead(t *testing.T) {
	b := encode(t, sample())
	for n := range b {
		if _, err := read("f", bytes.NewReader(b[:n]), int64(len(b))); !errors.Is(err, ErrTruncated) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	broken := io.MultiReader(bytes.NewReader(b[:100]), errReader{})
	if _, err := read("f", broken, int64(len(b))); !errors.Is(err, ErrRead) {
		t.Error(err)
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errors.New("bad sector") }

func TestInspect(t *testing.T) {
	dir := t.TempDir()
	put := func(b []byte) string {
		path := filepath.Join(dir, "x.ssc")
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	want := sample()
	b := encode(t, want)
	ok := func(info *Info) (names string) {
		for _, s := range info.Sections {
			names += fmt.Sprintf("%s:%d:%v ", s.Name, s.Size, s.OK)
		}
		return names
	}

	info, err := Inspect(put(b))
	if err != nil || ok(info) != "trainer:18:true empty:0:true model:40:true " {
		t.Errorf("whole: %v %s", err, ok(info))
	}
	if info.Size != int64(len(b)) || !reflect.DeepEqual(info.Header, want.Header) {
		t.Errorf("got %+v", info)
	}
	if data, _ := want.Section("model"); info.Sections[2].Hash != xxhash.Sum64(data) {
		t.Error("hash of section differs")
	}

	c := bytes.Clone(b)
	c[bytes.Index(c, []byte("queue"))] ^= 1
	info, err = Inspect(put(c))
	if !errors.Is(err, ErrChecksum) || ok(info) != "trainer:18:false empty:0:true model:40:true " {
		t.Errorf("flipped: %v %s", err, ok(info))
	}
	info, err = Inspect(put(b[:len(b)-30]))
	if !errors.Is(err, ErrTruncated) || ok(info) != "trainer:18:true empty:0:true model:40:false " || info.Header.Learner != "scs" {
		t.Errorf("truncated: %v %s", err, ok(info))
	}
	c = bytes.Clone(b)
	c[len(c)-1] ^= 1
	if info, err = Inspect(put(c)); !errors.Is(err, ErrChecksum) || len(info.Sections) != 3 {
		t.Errorf("trailer flipped: %v", err)
	}
	if info, err = Inspect(put([]byte("no"))); !errors.Is(err, ErrMagic) || info.Size != 2 {
		t.Errorf("text: %v", err)
	}
	if _, err = Inspect(filepath.Join(dir, "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
	if _, err = Inspect(dir); err == nil {
		t.Error("a directory was inspected")
	}
}

func TestSectionNames(t *testing.T) {
	for _, names := range [][]string{{""}, {strings.Repeat("x", 256)}, {"a", "a"}} {
		s := &Snapshot{}
		for _, n := range names {
			s.Sections = append(s.Sections, Section{Name: n})
		}
		if _, err := write(t.Context(), io.Discard, s); err == nil {
			t.Errorf("names %q were accepted", names)
		}
	}
	s := sample()
	if b, ok := s.Section("trainer"); !ok || string(b) != "queue and counters" {
		t.Error("section trainer not found")
	}
	if _, ok := s.Section("train"); ok {
		t.Error("section train found")
	}
}

func FuzzRead(f *testing.F) {
	b := encode(f, sample())
	f.Add(b)
	f.Add(b[:40])
	f.Add(forge(b, func(b []byte) { binary.LittleEndian.PutUint32(b[16:], 1<<20) }))
	f.Fuzz(func(t *testing.T, data []byte) {
		// Right checksums let the fuzzer reach what lies behind them.
		if len(data) >= 64 {
			data = forge(data, func([]byte) {})
		}
		var s *Snapshot
		var err error
		alloctest.Check(t, len(data), func() { s, err = decode(data) })
		if err != nil {
			var e *Error
			if s != nil || !errors.As(err, &e) {
				t.Fatalf("%v, %v", s, err)
			}
			return
		}
		again, err := decode(encode(t, s))
		if err != nil || !reflect.DeepEqual(again, s) && again.Bytes == s.Bytes {
			t.Fatalf("%+v, then %+v, %v", s, again, err)
		}
	})
}
