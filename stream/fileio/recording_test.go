package fileio

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
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

// randomRecord returns a record that uses all that the format can hold.
func randomRecord(r *rand.Rand, offset int64) stream.Record {
	some := func(n int) []byte {
		switch r.IntN(6) {
		case 0:
			return nil
		case 1:
			return []byte{}
		}
		b := make([]byte, r.IntN(n))
		for k := range b {
			b[k] = byte(r.IntN(256))
		}
		return b
	}
	rec := stream.Record{
		Topic:     fmt.Sprintf("topic-%d", r.IntN(3)),
		Partition: int32(r.IntN(5)),
		Offset:    offset,
		Key:       some(10),
		Value:     some(100),
	}
	if r.IntN(3) > 0 {
		rec.Time = time.UnixMilli(r.Int64N(1<<42) - 1<<40).UTC()
	}
	for range r.IntN(3) {
		rec.Headers = append(rec.Headers, stream.Header{Key: string(some(5)), Value: some(5)})
	}
	return rec
}

// record writes recs into a new recording and returns its path.
func record(tb testing.TB, recs []stream.Record, finished bool) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "x.ssr")
	w, err := CreateRecording(path)
	if err != nil {
		tb.Fatal(err)
	}
	for k := range recs {
		if err := w.Write(&recs[k]); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(finished); err != nil {
		tb.Fatal(err)
	}
	return path
}

// readRecording reads a recording from memory to its end or an error.
func readRecording(content []byte) (recs []stream.Record, r *RecordReader, err error) {
	r, err = newRecordReader("x.ssr", bytes.NewReader(content))
	for err == nil {
		recs, err = r.Next(recs)
	}
	if r != nil {
		r.Close()
	}
	if err == io.EOF {
		err = nil
	}
	return recs, r, err
}

func TestRecording(t *testing.T) {
	const seed = 1
	r := rand.New(rand.NewPCG(seed, 0))
	for _, n := range []int{0, 1, 10, 20000} {
		for _, finished := range []bool{false, true} {
			var want []stream.Record
			for k := range n {
				want = append(want, randomRecord(r, int64(k)))
			}
			if n == 10 {
				want[0].Offset, want[1].Offset = math.MaxInt64, math.MinInt64
				want[2].Partition, want[3].Partition = math.MaxInt32, math.MinInt32
				want[4].Value = bytes.Repeat([]byte("large"), 1<<18)
				want[5].Topic = ""
			}
			path := record(t, want, finished)
			rr, err := OpenRecording(path)
			if err != nil {
				t.Fatal(err)
			}
			var got []stream.Record
			for err == nil {
				got, err = rr.Next(got)
			}
			if err != io.EOF {
				t.Fatal(err)
			}
			if len(got) != len(want) {
				t.Fatalf("seed %d: %d records, want %d", seed, len(got), len(want))
			}
			for k := range got {
				if !reflect.DeepEqual(got[k], want[k]) {
					t.Fatalf("seed %d: record %d is %+v, want %+v", seed, k, got[k], want[k])
				}
			}
			if rr.Finished() != finished || rr.Torn() {
				t.Errorf("finished %v, torn %v, want %v, false", rr.Finished(), rr.Torn(), finished)
			}
			if err := rr.Close(); err != nil {
				t.Error(err)
			}
			if _, err := CreateRecording(path); len(want) > 0 && !errors.Is(err, os.ErrExist) {
				t.Errorf("an existing recording was overwritten: %v", err)
			}
		}
	}
}

// Lent records are the same, from a data file with records longer than a block and from
// a recording of several blocks, and those fetched before Lend do not change.
func TestLend(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 0))
	var text strings.Builder
	var recs []stream.Record
	for k := range 4000 {
		n := r.IntN(300)
		if k%700 == 699 {
			n = 3 * blockSize
		}
		line := strings.Repeat(string(rune('a'+k%26)), 1+n)
		text.WriteString(line + "\n")
		recs = append(recs, stream.Record{Topic: "t", Offset: int64(k), Value: []byte(line)})
	}
	for _, path := range []string{save(t, "x.libsvm", text.String()), record(t, recs, true)} {
		for from := range 3 {
			src := open(t, Options{}, path)
			var got [][]byte
			var before []stream.Record
			for k := 0; ; k++ {
				if k == from {
					src.Lend()
				}
				page, err := src.Fetch(t.Context(), nil)
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if k < from {
					before = append(before, page...)
				}
				for _, x := range page {
					got = append(got, bytes.Clone(x.Value))
				}
			}
			if len(got) != len(recs) {
				t.Fatalf("%s: %d records, want %d", path, len(got), len(recs))
			}
			for k := range recs {
				if !bytes.Equal(got[k], recs[k].Value) || k < len(before) && !bytes.Equal(before[k].Value, recs[k].Value) {
					t.Fatalf("%s, lent from call %d on: record %d differs", path, from, k)
				}
			}
		}
	}
}

// smallRecording returns a recording of a few blocks, the records, and how
// many of them are whole at each length of the file.
func smallRecording(t *testing.T) (content []byte, recs []stream.Record, whole []int) {
	t.Helper()
	const seed = 2
	r := rand.New(rand.NewPCG(seed, 0))
	path := filepath.Join(t.TempDir(), "x.ssr")
	w, err := CreateRecording(path)
	if err != nil {
		t.Fatal(err)
	}
	ends := map[int64]int{}
	for range 4 {
		for range 1 + r.IntN(4) {
			rec := randomRecord(r, int64(len(recs)))
			recs = append(recs, rec)
			if err := w.Write(&rec); err != nil {
				t.Fatal(err)
			}
		}
		pos, err := w.Sync()
		if err != nil {
			t.Fatal(err)
		}
		ends[pos] = len(recs)
	}
	if err := w.Close(true); err != nil {
		t.Fatal(err)
	}
	if content, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	n := 0
	for length := range len(content) + 1 {
		if k, ok := ends[int64(length)]; ok {
			n = k
		}
		whole = append(whole, n)
	}
	if whole[len(content)] != len(recs) || len(ends) != 4 {
		t.Fatalf("whole frames at %v", ends)
	}
	return content, recs, whole
}

// TestTruncated cuts a recording at every byte: all whole frames are read, and
// the end is found torn. So it is if zeros follow.
func TestTruncated(t *testing.T) {
	content, recs, whole := smallRecording(t)
	for length := range content {
		got, r, err := readRecording(content[:length])
		if err != nil {
			t.Fatalf("%d bytes: %v", length, err)
		}
		if !reflect.DeepEqual(got, recs[:whole[length]]) && len(got)+whole[length] > 0 {
			t.Fatalf("%d bytes: %d records, want %d", length, len(got), whole[length])
		}
		if !r.Torn() || r.Finished() {
			t.Fatalf("%d bytes: torn %v, finished %v", length, r.Torn(), r.Finished())
		}
		if r.Position() > int64(length) {
			t.Fatalf("%d bytes: the last whole block ends at %d", length, r.Position())
		}
	}
	torn := 0
	for length := headerSize; length < len(content); length++ {
		boundary := length == headerSize || whole[length] > whole[length-1]
		for _, zeros := range []int{1, frameSize, 100000} {
			got, r, err := readRecording(append(bytes.Clone(content[:length]), make([]byte, zeros)...))
			// Less than a checksum's worth of zeros in a frame that was begun
			// cannot be told from damage.
			var ce *CorruptError
			if boundary && err != nil || err != nil && !errors.As(err, &ce) {
				t.Errorf("%d bytes and %d zeros: %v", length, zeros, err)
			}
			if err == nil && !r.Torn() || len(got) != whole[length] {
				t.Errorf("%d bytes and %d zeros: %d records, torn %v", length, zeros, len(got), r.Torn())
			}
			if err == nil && zeros == 100000 {
				torn++
			}
		}
		_, _, err := readRecording(append(append(bytes.Clone(content[:length]), make([]byte, 100000)...), 1))
		var ce *CorruptError
		if !errors.As(err, &ce) || ce.Pos > int64(length) {
			t.Errorf("%d bytes, zeros and a one: %v", length, err)
		}
	}
	// All but the last seven bytes of four blocks' heads, sums and the trailer.
	if missed := len(content) - headerSize - torn; missed > 9*7 {
		t.Errorf("%d of %d torn ends filled up with zeros were taken for damage", missed, len(content)-headerSize)
	}
}

// TestFlipped changes each byte of a recording in turn: the damage is found,
// and no record is read that was not written.
func TestFlipped(t *testing.T) {
	content, recs, whole := smallRecording(t)
	for at := range content {
		for _, bits := range []byte{0x01, 0x80, 0xff, content[at]} {
			if bits == 0 {
				continue
			}
			bad := bytes.Clone(content)
			bad[at] ^= bits
			got, _, err := readRecording(bad)
			var ce *CorruptError
			if !errors.As(err, &ce) {
				t.Fatalf("byte %d, bits %#x: error %v", at, bits, err)
			}
			if ce.Pos > int64(at) || !strings.Contains(err.Error(), "x.ssr is corrupt at byte "+fmt.Sprint(ce.Pos)) {
				t.Fatalf("byte %d, bits %#x: found at %d: %v", at, bits, ce.Pos, err)
			}
			if len(got) != whole[at] || len(got) > 0 && !reflect.DeepEqual(got, recs[:whole[at]]) {
				t.Fatalf("byte %d, bits %#x: %d records, want %d", at, bits, len(got), whole[at])
			}
		}
	}
}

// TestFramesMoved loses, repeats and swaps whole frames, which no checksum of a
// frame alone would notice.
func TestFramesMoved(t *testing.T) {
	content, _, whole := smallRecording(t)
	var cuts []int
	for length := 1; length < len(whole); length++ {
		if whole[length] != whole[length-1] {
			cuts = append(cuts, length)
		}
	}
	part := func(a, b int) []byte { return content[a:b] }
	head, a, b, c := part(0, cuts[0]), part(cuts[0], cuts[1]), part(cuts[1], cuts[2]), part(cuts[2], len(content))
	for name, parts := range map[string][][]byte{
		"lost":     {head, b, c},
		"repeated": {head, a, a, b, c},
		"swapped":  {head, b, a, c},
		"appended": {content, a},
	} {
		_, _, err := readRecording(bytes.Join(parts, nil))
		if _, ok := errors.AsType[*CorruptError](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// forge returns a recording with one block whose checksums are right, whatever
// else it says.
func forge(t *testing.T, raw []byte, f frame, compress bool) []byte {
	t.Helper()
	payload := raw
	if compress {
		w, err := newRecordWriter("x.ssr", nil)
		if err != nil {
			t.Fatal(err)
		}
		payload = w.enc.EncodeAll(raw, nil)
	}
	f.kind = kindBlock
	if f.size == 0 {
		f.size = uint32(len(payload))
	}
	if f.raw == 0 {
		f.raw = uint32(len(raw))
	}
	out := appendHeader(nil, 0)
	out = f.append(out, binary.LittleEndian.Uint64(out[16:]))
	out = append(out, payload...)
	return binary.LittleEndian.AppendUint64(out, payloadSum(f.chain, payload))
}

// TestForged reads recordings that are consistent in their checksums and wrong
// in what they say.
func TestForged(t *testing.T) {
	good := appendRecord(nil, &stream.Record{Topic: "t", Offset: 3, Value: []byte("v")})
	newer := appendHeader(nil, 0)
	newer[8] = 2
	binary.LittleEndian.PutUint64(newer[16:], xxhash.Sum64(newer[:16]))
	bomb := make([]byte, 8<<20)
	tests := []struct {
		name    string
		content []byte
		reason  string
	}{
		{"newer version", newer, "format version 2"},
		{"more records than said", forge(t, append(bytes.Clone(good), good...), frame{count: 1}, true), "follow the records"},
		{"fewer records than said", forge(t, good, frame{count: 2}, true), "malformed"},
		{"a billion records", forge(t, good, frame{count: math.MaxUint32}, true), "malformed"},
		{"wrong size", forge(t, good, frame{count: 1, raw: 100}, true), "want 100"},
		{"huge size", forge(t, good, frame{count: 1, raw: math.MaxUint32}, true), "too large"},
		{"huge payload", forge(t, good, frame{count: 1, size: math.MaxUint32}, true), "too large"},
		{"not compressed", forge(t, good, frame{count: 1}, false), "decompressed"},
		{"bomb", forge(t, bomb, frame{count: 1, raw: 10}, true), "decompressed"},
		{"unknown flags", forge(t, append([]byte{0x10}, good[1:]...), frame{count: 1}, true), "malformed"},
		{"large partition", forge(t, append([]byte{0, 1, 't'}, binary.AppendVarint(binary.AppendVarint(nil, 1<<40), 0)...), frame{count: 1}, true), "malformed"},
		{"long topic", forge(t, []byte{0, 0xff, 0xff, 0xff, 0xff, 0x7f, 't'}, frame{count: 1}, true), "malformed"},
		{"many headers", forge(t, []byte{hasHeaders, 1, 't', 0, 0, 0xff, 0xff, 0xff, 0x7f, 0}, frame{count: 1}, true), "malformed"},
		{"no headers", forge(t, []byte{hasHeaders, 1, 't', 0, 0, 0}, frame{count: 1}, true), "malformed"},
	}
	for _, tt := range tests {
		r, err := newRecordReader("x.ssr", bytes.NewReader(tt.content))
		if err == nil {
			r.bound(1 << 20)
			_, err = r.Next(nil)
		}
		var ce *CorruptError
		if !errors.As(err, &ce) || !strings.Contains(err.Error(), tt.reason) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.reason)
		}
		if r != nil {
			r.Close()
		}
	}
	if recs, _, err := readRecording(forge(t, good, frame{count: 1}, true)); err != nil || len(recs) != 1 {
		t.Errorf("the forger's tools are broken: %v", err)
	}
}

// goldenRecording was written by version 1 of the format; it must stay
// readable.
const goldenRecording = "935353520d0a1a0a0100000000000000bbd8414776503b5d42000000370000002e0000000300000059eb346813d57e32" +
	"28b52ffd00007101000f0274741ae8078080eee0f767016b017602016800016903aabb040274741aea0700020274741a" +
	"ec0704676f6e65a41cacc1eae7518d45010000000000000000000000000000347f242f87c8104f"

func TestGoldenRecording(t *testing.T) {
	content, err := hex.DecodeString(goldenRecording)
	if err != nil {
		t.Fatal(err)
	}
	got, r, err := readRecording(content)
	if err != nil || !r.Finished() {
		t.Fatal(err)
	}
	if want := goldenRecords(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if h := hex.EncodeToString(appendHeader(nil, 0)); h != goldenRecording[:2*headerSize] {
		t.Errorf("the header is %s", h)
	}
	const golden = "0f0274741ae8078080eee0f767016b017602016800016903aabb"
	if b := hex.EncodeToString(appendRecord(nil, &goldenRecords()[0])); b != golden {
		t.Errorf("a record is %s", b)
	}
}

func goldenRecords() []stream.Record {
	return []stream.Record{
		{
			Topic: "tt", Partition: 13, Offset: 500, Time: time.UnixMilli(1785600000000).UTC(),
			Key: []byte("k"), Value: []byte("v"),
			Headers: []stream.Header{{Key: "h"}, {Key: "i", Value: []byte{0xaa, 0xbb}}},
		},
		{Topic: "tt", Partition: 13, Offset: 501, Value: []byte{}},
		{Topic: "tt", Partition: 13, Offset: 502, Key: []byte("gone")},
	}
}

func TestWriteErrors(t *testing.T) {
	path := record(t, nil, true)
	w, err := Reopen(path, headerSize)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.f.Close(); err != nil {
		t.Fatal(err)
	}
	rec := stream.Record{Topic: "t"}
	if err := w.Write(&rec); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Sync(); err == nil {
		t.Fatal("no error from a closed file")
	}
	if err := w.Write(&rec); err == nil {
		t.Error("a record was taken after a failed write")
	}
	if _, err := w.Sync(); err == nil {
		t.Error("the error was forgotten")
	}
	if err := w.Close(true); err == nil {
		t.Error("Close hides the error")
	}
}

func FuzzRecording(f *testing.F) {
	golden, err := hex.DecodeString(goldenRecording)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden, []byte{})
	f.Add(golden, []byte{hasHeaders, 1, 't', 0, 0, 1, 1, 'k', 0})
	f.Fuzz(func(t *testing.T, content, raw []byte) {
		_, _, _ = readRecording(content)
		// Behind checksums that are right.
		in := fields{b: raw}
		for len(in.b) > 0 {
			before := in.b
			var rec stream.Record
			var err error
			// A header of a record takes 40 bytes where there are two of input: 20
			// bytes a byte on top of the bound.
			alloctest.Check(t, len(before)+20/alloctest.Factor*len(before), func() { rec, err = in.record(func(b []byte) string { return string(b) }) })
			if err != nil {
				return
			}
			again := appendRecord(nil, &rec)
			back := fields{b: again}
			rec2, err := back.record(func(b []byte) string { return string(b) })
			if err != nil || len(back.b) > 0 || !reflect.DeepEqual(rec, rec2) {
				t.Fatalf("%x: %+v came back as %+v, %v", before, rec, rec2, err)
			}
		}
	})
}
