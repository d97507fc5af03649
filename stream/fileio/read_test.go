package fileio

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// drain reads src to its end and checks that no record changes afterwards.
func drain(tb testing.TB, src stream.Source) []stream.Record {
	tb.Helper()
	var recs []stream.Record
	var copies [][]byte
	for {
		n := len(recs)
		var err error
		recs, err = src.Fetch(tb.Context(), recs)
		for _, r := range recs[n:] {
			copies = append(copies, bytes.Clone(r.Value))
		}
		if err != nil {
			if err != io.EOF {
				tb.Fatal(err)
			}
			break
		}
		if len(recs) == n {
			tb.Fatal("neither a record nor an error")
		}
	}
	for k := range recs {
		if !bytes.Equal(recs[k].Value, copies[k]) {
			tb.Fatalf("record %d changed after it was delivered", k)
		}
	}
	return recs
}

// open returns a source that is closed at the end of the test.
func open(tb testing.TB, o Options, paths ...string) *Source {
	tb.Helper()
	src, err := Open(paths, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := src.Close(); err != nil {
			tb.Error(err)
		}
	})
	return src
}

// save writes a file into the test's directory and returns its path.
func save(tb testing.TB, name, content string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
		tb.Fatal(err)
	}
	return path
}

// TestSplit splits random files, read in pieces of many sizes, and compares
// with the records they were made of.
func TestSplit(t *testing.T) {
	const seed = 1
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range 60 {
		name := codec.Names()[r.IntN(4)]
		var content []byte
		var want []string
		for range r.IntN(300) {
			size := r.IntN(100)
			if r.IntN(100) == 0 {
				size = r.IntN(3 * blockSize)
			}
			end := []string{"\n", "\r\n"}[r.IntN(2)]
			if name != "msgpack" && r.IntN(5) == 0 {
				content = append(content, []string{"", " ", "\t "}[r.IntN(3)]+end...)
			}
			if name == "libsvm" && r.IntN(5) == 0 {
				content = append(content, " # comment"+end...)
			}
			rec := strings.Repeat("7", size+1)
			switch {
			case name == "msgpack":
				n := len(rec)
				rec = string([]byte{0xdb, 0, byte(n >> 16), byte(n >> 8), byte(n)}) + rec
				end = ""
			case name == "csv" && r.IntN(3) == 0:
				rec = "1,\"" + rec + "\"\"\n" + rec + "\",2"
			}
			want = append(want, rec)
			content = append(content, rec+end...)
		}
		if name != "msgpack" && r.IntN(2) == 0 {
			content = bytes.TrimRight(content, "\r\n") // the last line needs no end
		}
		if name != "msgpack" && r.IntN(3) == 0 {
			content = append([]byte("\xef\xbb\xbf"), content...)
		}
		readers := map[string]io.Reader{
			"whole": bytes.NewReader(content),
			"half":  iotest.HalfReader(bytes.NewReader(content)),
			"late":  iotest.DataErrReader(bytes.NewReader(content)),
		}
		if len(content) < 4*blockSize {
			readers["bytes"] = iotest.OneByteReader(bytes.NewReader(content))
		}
		for how, in := range readers {
			sp, err := newSplitter(name)
			if err != nil {
				t.Fatal(err)
			}
			d := &dataFile{chunks: chunks{r: in}, splitter: sp, f: &file{}, path: "x", topic: "x", limit: 1 << 30}
			var got []stream.Record
			for err == nil {
				got, err = d.read(t.Context(), got)
			}
			if err != io.EOF {
				t.Fatalf("seed %d, round %d, %s, %s: %v", seed, round, name, how, err)
			}
			if len(got) != len(want) {
				t.Fatalf("seed %d, round %d, %s, %s: %d records, want %d", seed, round, name, how, len(got), len(want))
			}
			for k := range got {
				if string(got[k].Value) != want[k] || got[k].Offset != int64(k) {
					t.Fatalf("seed %d, round %d, %s, %s: record %d is %.80q at %d, want %.80q",
						seed, round, name, how, k, got[k].Value, got[k].Offset, want[k])
				}
				if v := got[k].Value; cap(v) != len(v) {
					t.Fatalf("appending to record %d would overwrite the next", k)
				}
			}
		}
	}
}

func TestReadErrors(t *testing.T) {
	long := strings.Repeat("1", 200)
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	fmt.Fprint(w, strings.Repeat("1,2\n", 1000))
	w.Close()
	var z bytes.Buffer
	zw, err := zstd.NewWriter(&z)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(zw, strings.Repeat("1,2\n", 1000))
	zw.Close()
	tests := []struct {
		name, file, content, reason string
		records                     int // delivered before the error
	}{
		{"long line", "x.csv", "1\n2\n" + long + "\n3\n", "record 2 at byte 4: longer than 100 bytes", 2},
		{"long last line", "x.csv", "1\n" + long, "record 1 at byte 2: longer than 100 bytes", 1},
		{"open quote", "x.csv", "1\n\"2\n" + strings.Repeat("3\n", 100), "record 1 at byte 2: longer", 1},
		{"truncated object", "x.msgpack", "\x01\x93\x01\x02", "record 1 at byte 1: unexpected EOF", 1},
		{"no MessagePack", "x.msgpack", "\x01\x02\xc1\x03", "record 2 at byte 2: the byte 0xc1", 2},
		{"truncated gzip", "x.csv.gz", zipped.String()[:zipped.Len()-3], "unexpected EOF", 1000},
		{"no gzip", "x.csv.gz", "1,2\n", "x.csv.gz", 0},
		{"truncated zstd", "x.csv.zst", z.String()[:z.Len()-3], "x.csv.zst", -1},
		{"no zstd", "x.csv.zst", "1,2\n", "x.csv.zst", 0},
		{"no recording", "x.ssr", "1,2\n", "x.ssr is corrupt at byte 0: not a recording", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			src := open(t, Options{limit: 100}, save(t, tt.file, tt.content))
			var recs []stream.Record
			var err error
			for err == nil {
				recs, err = src.Fetch(t.Context(), recs)
			}
			if err == io.EOF || !strings.Contains(err.Error(), tt.reason) {
				t.Errorf("error %v, want %q", err, tt.reason)
			}
			if tt.records >= 0 && len(recs) != tt.records {
				t.Errorf("%d records, want %d", len(recs), tt.records)
			}
			if _, again := src.Fetch(t.Context(), nil); again != err {
				t.Errorf("the error did not stay: %v", again)
			}
		})
	}
}

// TestConcatenated reads files made by appending one compressed file to
// another, as both formats allow.
func TestConcatenated(t *testing.T) {
	zip := func(text string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		fmt.Fprint(w, text)
		w.Close()
		return b.String()
	}
	zst := func(text string) string {
		var b bytes.Buffer
		w, err := zstd.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(w, text)
		w.Close()
		return b.String()
	}
	for name, content := range map[string]string{
		"x.json.gz":  zip("1\n2") + zip("3\n") + zip("") + zip("4\n"),
		"x.json.zst": zst("1\n2") + zst("3\n") + zst("") + zst("4\n"),
	} {
		recs := drain(t, open(t, Options{}, save(t, name, content)))
		if len(recs) != 3 || string(recs[1].Value) != "23" || string(recs[2].Value) != "4" {
			t.Errorf("%s: %+v", name, recs)
		}
	}
}

// TestPositions checks Start, Passes and Limit in all combinations against a
// list made by hand.
func TestPositions(t *testing.T) {
	a := save(t, "a.json", "a0\na1\n\na2\n")
	b := save(t, "b.json", "b0\nb1\n")
	rec := filepath.Join(t.TempDir(), "r.ssr")
	w, err := CreateRecording(rec)
	if err != nil {
		t.Fatal(err)
	}
	recorded := []stream.Record{
		{Topic: "t", Partition: 1, Offset: 10, Value: []byte("r0")},
		{Topic: "t", Partition: 0, Offset: 5, Value: []byte("r1")},
		{Topic: "t", Partition: 1, Offset: 12, Value: []byte("r2")},
	}
	for k := range recorded {
		if err := w.Write(&recorded[k]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(true); err != nil {
		t.Fatal(err)
	}
	// Offsets go on from pass to pass by the end of each partition.
	type rec3 struct {
		p      stream.Partition
		offset int64
		value  string
	}
	once := []rec3{
		{stream.Partition{Topic: "a.json"}, 0, "a0"}, {stream.Partition{Topic: "a.json"}, 1, "a1"}, {stream.Partition{Topic: "a.json"}, 2, "a2"},
		{stream.Partition{Topic: "t", ID: 1}, 10, "r0"}, {stream.Partition{Topic: "t"}, 5, "r1"}, {stream.Partition{Topic: "t", ID: 1}, 12, "r2"},
		{stream.Partition{Topic: "b.json"}, 0, "b0"}, {stream.Partition{Topic: "b.json"}, 1, "b1"},
	}
	for _, passes := range []int{1, 2, 4} {
		for limit := range len(once) + 2 {
			var all []rec3
			// With a limit the ends are those of the records within it.
			within := once
			if limit > 0 {
				within = once[:min(limit, len(once))]
			}
			end := map[stream.Partition]int64{}
			for _, x := range within {
				end[x.p] = max(end[x.p], x.offset+1)
			}
			for p := range passes {
				for _, x := range within {
					x.offset += int64(p) * end[x.p]
					all = append(all, x)
				}
			}
			// A resumed run starts with the offsets that stand after any number
			// of records, and delivers the rest.
			start := stream.Offsets{}
			for done := 0; ; done++ {
				src := open(t, Options{Start: start.Clone(), Passes: passes, Limit: uint64(limit)}, a, rec, b)
				var got []rec3
				for _, r := range drain(t, src) {
					got = append(got, rec3{stream.Partition{Topic: r.Topic, ID: r.Partition}, r.Offset, string(r.Value)})
				}
				if !slices.Equal(got, all[done:]) {
					t.Fatalf("passes %d, limit %d, after %d:\n got %v\nwant %v", passes, limit, done, got, all[done:])
				}
				if n := src.Skipped(); n != uint64(done) {
					t.Fatalf("passes %d, limit %d, after %d: %d skipped", passes, limit, done, n)
				}
				if done == len(all) {
					break
				}
				start[all[done].p] = all[done].offset + 1
			}
		}
	}
}

func TestFileChangesBetweenPasses(t *testing.T) {
	for _, change := range []string{"1\n", "1\n2\n3\n"} {
		path := save(t, "x.json", "1\n2\n")
		src := open(t, Options{Passes: 2}, path)
		if _, err := src.Fetch(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+".new", []byte(change), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		var err error
		for err == nil {
			_, err = src.Fetch(t.Context(), nil)
		}
		if err == io.EOF || !strings.Contains(err.Error(), "changed") {
			t.Errorf("%q: %v", change, err)
		}
	}
}

func TestHeaderOfFile(t *testing.T) {
	path := save(t, "x.csv", "\xef\xbb\xbf\n\"a\nb\",c\n1,2\n3,4\n")
	h, err := Header(path)
	if err != nil {
		t.Fatal(err)
	}
	names, err := codec.ParseHeader(h, 0)
	if err != nil || !slices.Equal(names, []string{"a\nb", "c"}) {
		t.Errorf("header %q, %v", names, err)
	}
	recs := drain(t, open(t, Options{Header: true, Passes: 2}, path))
	if len(recs) != 4 || string(recs[0].Value) != "1,2" || recs[3].Offset != 3 {
		t.Errorf("%+v", recs)
	}
	if _, err := Header(save(t, "x.csv", "\n")); err == nil {
		t.Error("an empty file has a header")
	}
	if _, err := Lines(path, -1); err == nil {
		t.Error("-1 lines are read")
	}
	if _, err := Header("-"); err == nil {
		t.Error("standard input has a header")
	}
}

// TestTotal: how many records there are is estimated while files are read, exact at the
// end, and not known of what has no size.
func TestTotal(t *testing.T) {
	dir := t.TempDir()
	var lines strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&lines, "+1 1:%d 2:0.5\n", 10000+i)
	}
	plain, packed := filepath.Join(dir, "a.libsvm"), filepath.Join(dir, "b.libsvm.gz")
	var gz bytes.Buffer
	z := gzip.NewWriter(&gz)
	_, err := io.WriteString(z, lines.String())
	if err := errors.Join(err, z.Close(), os.WriteFile(plain, []byte(lines.String()), 0o600), os.WriteFile(packed, gz.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		paths []string
		o     Options
		want  uint64
	}{
		{[]string{plain}, Options{}, 20000},
		{[]string{plain, packed}, Options{Passes: 3}, 120000},
		{[]string{plain}, Options{Limit: 5000, Passes: 2}, 10000},
		{[]string{record(t, []stream.Record{{Topic: "t", Value: []byte("v")}}, true), plain}, Options{}, 20001},
		{[]string{os.DevNull, plain}, Options{Codec: "libsvm"}, 0},
	} {
		s, err := Open(c.paths, c.o)
		if err != nil {
			t.Fatal(err)
		}
		recs, err := s.Fetch(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Total(); c.want > 0 && got < uint64(len(recs)) || c.want == 0 && got > 0 {
			t.Errorf("%v: %d after %d records", c.paths, got, len(recs))
		}
		for err == nil {
			recs, err = s.Fetch(t.Context(), recs[:0])
		}
		if err != io.EOF || s.Total() != c.want {
			t.Errorf("%v: %d at the end, want %d; %v", c.paths, s.Total(), c.want, err)
		}
		s.Close()
	}
}
