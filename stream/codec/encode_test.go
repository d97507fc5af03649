package codec

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
)

// TestGolden fixes the bytes of each form: what was written once must stay
// readable, and scripts compare them.
func TestGolden(t *testing.T) {
	d := stream.Example{ID: "a7", X: dense(0.5, 0, -1.25), Y: 1, Labelled: true}
	s := stream.Example{X: sparse([]int32{2, 299}, 0.1, 1e10), Y: -1, Labelled: true}
	u := stream.Example{X: sparse([]int32{0}, -2)}
	csvO := Options{Labels: "01", CSV: CSVOptions{LabelColumn: "2", DropColumns: []string{"1"}}}
	tests := []struct {
		codec string
		o     Options
		ex    *stream.Example
		want  string
	}{
		{"libsvm", Options{}, &d, "+1 1:0.5 3:-1.25"},
		{"libsvm", Options{}, &s, "-1 3:0.1 300:1e+10"},
		{"libsvm", Options{}, &u, "? 1:-2"},
		{"libsvm", Options{Labels: "01"}, &d, "1 1:0.5 3:-1.25"},
		{"json", Options{}, &d, `{"x":[0.5,0,-1.25],"y":1,"id":"a7"}`},
		{"json", Options{Labels: "12"}, &s, `{"x":{"3":0.1,"300":1e+10},"y":1}`},
		{"json", Options{}, &u, `{"x":{"1":-2}}`},
		{"csv", csvO, &d, ",1,0.5,0,-1.25"},
		{"csv", csvO, &u, ",,-2"},
		{"msgpack", Options{}, &d, "83a178c40c0000003f000000000000a0bfa17901a26964a26137"},
		{"msgpack", Options{}, &s, "82a17882a169c408020000002b010000a176c408cdcccc3df9021550a179ff"},
		{"msgpack", Options{Task: "regress"}, &s, "82a17882a169c408020000002b010000a176c408cdcccc3df9021550a179cbbff0000000000000"},
		{"msgpack", Options{}, &u, "81a17882a169c40400000000a176c404000000c0"},
	}
	for _, tt := range tests {
		got, err := must(t, tt.codec, tt.o).Append([]byte("kept"), tt.ex)
		if err != nil {
			t.Errorf("%s: %v", tt.codec, err)
			continue
		}
		text := string(got[4:])
		if tt.codec == "msgpack" {
			text = hex.EncodeToString(got[4:])
		}
		if string(got[:4]) != "kept" || text != tt.want {
			t.Errorf("%s: got %s, want %s", tt.codec, text, tt.want)
		}
	}
}

// randomFloat returns any finite float32, each class of them often.
func randomFloat(r *rand.Rand) float32 {
	switch r.IntN(6) {
	case 0:
		return float32(r.IntN(5) - 2)
	case 1:
		return float32(r.NormFloat64())
	case 2:
		return math.Float32frombits(r.Uint32() & 0x807fffff) // subnormal or zero
	case 3:
		return float32(math.Copysign(0, float64(r.IntN(2))-0.5))
	}
	for {
		if v := math.Float32frombits(r.Uint32()); v-v == 0 {
			return v
		}
	}
}

// randomExample returns an example, for the regression task if regress is set.
func randomExample(r *rand.Rand, regress bool) stream.Example {
	var ex stream.Example
	n := r.IntN(20)
	if r.IntN(20) == 0 {
		n = r.IntN(2000)
	}
	ex.X.Val = make([]float32, n)
	for k := range ex.X.Val {
		ex.X.Val[k] = randomFloat(r)
	}
	if r.IntN(2) == 0 {
		ex.X.Idx = make([]int32, n)
		j := int32(-1)
		for k := range ex.X.Idx {
			j += 1 + int32(r.IntN(1+r.IntN(500)))
			ex.X.Idx[k] = j
		}
	}
	if r.IntN(4) > 0 {
		ex.Labelled = true
		ex.Y = float64(2*r.IntN(2) - 1)
		if regress {
			ex.Y = math.Float64frombits(r.Uint64())
			if ex.Y-ex.Y != 0 {
				ex.Y = r.NormFloat64()
			}
		}
	}
	if r.IntN(2) == 0 {
		id := make([]rune, r.IntN(300))
		for k := range id {
			id[k] = rune(r.IntN(0xd000))
		}
		ex.ID = string(id)
	}
	return ex
}

// TestRoundTrip encodes and decodes random examples: they come back equal to
// the bit, as far as the form can hold them.
func TestRoundTrip(t *testing.T) {
	const seed = 1
	r := rand.New(rand.NewPCG(seed, 0))
	for k := range 3000 {
		o := Options{Labels: []string{"pm1", "01", "12"}[r.IntN(3)], MaxFeatures: math.MaxInt32}
		if r.IntN(3) == 0 {
			o.Task = "regress"
		}
		o.CSV = CSVOptions{
			LabelColumn: []string{"first", "last", "1"}[r.IntN(3)],
			DropColumns: [][]string{nil, {"2"}, {"3", "4"}}[r.IntN(3)],
			Comma:       []byte{0, ';', '\t'}[r.IntN(3)],
		}
		for _, name := range Names() {
			ex := randomExample(r, o.Task == "regress")
			want := ex
			switch name {
			case "libsvm":
				want.ID = ""
				if !ex.X.Sparse() {
					want.X = stream.Vec{Idx: []int32{}, Val: []float32{}}
					for j, v := range ex.X.Val {
						if math.Float32bits(v) != 0 {
							want.X.Idx = append(want.X.Idx, int32(j))
							want.X.Val = append(want.X.Val, v)
						}
					}
				}
			case "csv":
				if ex.X.Dim() == 0 {
					continue // an unlabelled one would be an empty record
				}
				want.ID = ""
				want.X = stream.Vec{Val: make([]float32, ex.X.Dim())}
				ex.X.Dense(want.X.Val)
			}
			c := must(t, name, o)
			value, err := c.Append(nil, &ex)
			if err != nil {
				t.Fatalf("seed %d, %s, example %d: %v", seed, name, k, err)
			}
			var got stream.Example
			if err := c.Decode(value, &got); err != nil {
				t.Fatalf("seed %d, %s, example %d: %v\n%q", seed, name, k, err, value)
			}
			for i := range value {
				value[i] = 0xff // the example must not hold on to it
			}
			if !sameBits(&got, &want) {
				t.Fatalf("seed %d, %s %+v, example %d: it came back different from\n%.2000q", seed, name, o, k, fmt.Sprint(ex))
			}
		}
	}
}

func TestAppendRefuses(t *testing.T) {
	nan := float32(math.NaN())
	named := Options{CSV: CSVOptions{Columns: []string{"a", "b", "y"}, LabelColumn: "y"}}
	tests := []struct {
		codec string
		o     Options
		ex    stream.Example
	}{
		{"all", Options{}, stream.Example{X: dense(1, nan)}},
		{"all", Options{}, stream.Example{X: sparse([]int32{1, 1}, 1, 1)}},
		{"all", Options{}, stream.Example{X: sparse([]int32{-1}, 1)}},
		{"all", Options{}, stream.Example{X: sparse([]int32{1, 2}, 1)}},
		{"all", Options{MaxFeatures: 3}, stream.Example{X: sparse([]int32{3}, 1)}},
		{"all", Options{CSV: CSVOptions{LabelColumn: "1"}}, stream.Example{X: dense(1), Y: 0.5, Labelled: true}},
		{"all", Options{Task: "regress", CSV: CSVOptions{LabelColumn: "1"}}, stream.Example{X: dense(1), Y: math.Inf(1), Labelled: true}},
		{"json", Options{}, stream.Example{X: dense(1), ID: "\xff"}},
		{"csv", Options{}, stream.Example{X: dense(1), Y: 1, Labelled: true}},
		{"csv", Options{}, stream.Example{}},
		{"csv", Options{CSV: CSVOptions{LabelColumn: "5"}}, stream.Example{X: dense(1, 2)}},
		{"csv", named, stream.Example{X: dense(1)}},
		{"csv", named, stream.Example{X: dense(1, 2, 3)}},
		{"csv", named, stream.Example{X: sparse([]int32{2}, 1)}},
	}
	for _, tt := range tests {
		names := []string{tt.codec}
		if tt.codec == "all" {
			names = Names()
		}
		for _, name := range names {
			got, err := must(t, name, tt.o).Append([]byte("kept"), &tt.ex)
			var fe *stream.FieldError
			if !errors.As(err, &fe) || string(got) != "kept" {
				t.Errorf("%s %+v: %q, %v", name, tt.ex, got, err)
			}
		}
	}
}

func TestNewRefuses(t *testing.T) {
	tooMany := math.MaxInt32
	tooMany++ // negative where an int has 32 bits, and refused as well
	tests := []struct {
		name string
		o    Options
	}{
		{"xml", Options{}},
		{"json", Options{Labels: "auto"}},
		{"json", Options{Task: "rank"}},
		{"json", Options{MaxFeatures: -1}},
		{"json", Options{MaxFeatures: tooMany}},
		{"csv", Options{CSV: CSVOptions{Comma: '.'}}},
		{"csv", Options{CSV: CSVOptions{LabelColumn: "y"}}},
		{"csv", Options{CSV: CSVOptions{LabelColumn: "0"}}},
		{"csv", Options{CSV: CSVOptions{LabelColumn: "3", Columns: []string{"a", "b"}}}},
		{"csv", Options{CSV: CSVOptions{LabelColumn: "1", DropColumns: []string{"1"}}}},
		{"csv", Options{CSV: CSVOptions{DropColumns: []string{"last"}}}},
		{"csv", Options{CSV: CSVOptions{DropColumns: []string{"999999999999"}}}},
		{"csv", Options{CSV: CSVOptions{DropColumns: []string{"99999999"}}}},
	}
	for _, tt := range tests {
		if _, err := New(tt.name, tt.o); err == nil {
			t.Errorf("%s %+v: no error", tt.name, tt.o)
		}
	}
}

func TestByFileName(t *testing.T) {
	tests := []struct {
		file, codec string
		ok          bool
	}{
		{"a9a.train.libsvm.gz", "libsvm", true},
		{"dir.csv/A.SVM", "libsvm", true},
		{"x.jsonl.zst", "json", true},
		{"x.msgpack", "msgpack", true},
		{"x.CSV.GZ", "csv", true},
		{"x.txt", "", false},
		{"x.gz", "", false},
		{"", "", false},
		{".gz", "", false},
	}
	for _, tt := range tests {
		if name, ok := ByFileName(tt.file); name != tt.codec || ok != tt.ok {
			t.Errorf("%q: %q, %v", tt.file, name, ok)
		}
	}
}

func TestHeader(t *testing.T) {
	names, err := ParseHeader([]byte("\xef\xbb\xbf a ,\"b, c\",y"), 0)
	if err != nil || !slices.Equal(names, []string{"a", "b, c", "y"}) {
		t.Fatalf("%q, %v", names, err)
	}
	c := must(t, "csv", Options{CSV: CSVOptions{Header: true, Columns: names, LabelColumn: "y"}})
	if h := string(c.Header()); h != `a,"b, c",y` {
		t.Errorf("header %q", h)
	}
	if h := must(t, "json", Options{}).Header(); h != nil {
		t.Errorf("json has the header %q", h)
	}
	for _, bad := range []string{"", "a,a", `a,"b`} {
		if _, err := ParseHeader([]byte(bad), 0); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var a, b runtime.MemStats
	runtime.ReadMemStats(&a)
	f()
	runtime.ReadMemStats(&b)
	return b.TotalAlloc - a.TotalAlloc
}

// TestAllocationBound feeds each decoder values that claim much more than they
// hold, or hold as much as fits into the fewest bytes.
func TestAllocationBound(t *testing.T) {
	const n = 1 << 20
	unhex := func(s string) string {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	tests := []struct{ codec, name, value string }{
		{"libsvm", "colons", "1 " + strings.Repeat(":", n)},
		{"libsvm", "dense", "1 1:1 2:1 3:1 4:1 5:1 6:1 7:1 8:1 9:1"},
		{"json", "commas", `{"x":[` + strings.Repeat(",", n) + `]}`},
		{"json", "digits", `{"x":[0` + strings.Repeat(",0", n) + `]}`},
		{"json", "colons", `{"x":{` + strings.Repeat(":", n) + `}}`},
		{"json", "brackets", `{"z":` + strings.Repeat("[", n)},
		{"csv", "commas", strings.Repeat(",", n)},
		{"csv", "digits", "0" + strings.Repeat(",0", n)},
		{"msgpack", "array claims a gigabyte", unhex("81a178dd3fffffff")},
		{"msgpack", "bin claims a gigabyte", unhex("81a178c63fffffff")},
		{"msgpack", "string claims a gigabyte", unhex("81a26964db3fffffff")},
		{"msgpack", "map claims a gigabyte", unhex("df3fffffff")},
		{"msgpack", "key claims a gigabyte", unhex("81db3fffffff")},
		{"msgpack", "index claims a gigabyte", unhex("81a17881a169dd3fffffff")},
		{"msgpack", "fixints", unhex("81a178dd00100000") + strings.Repeat("\x01", n)},
		{"msgpack", "nested", unhex("81a17a") + strings.Repeat("\x91", n)},
	}
	for _, tt := range tests {
		c := must(t, tt.codec, Options{})
		value := []byte(tt.value)
		got := allocated(func() {
			var ex stream.Example
			_ = c.Decode(value, &ex)
		})
		if limit := uint64(4*len(value) + 64<<10); got > limit {
			t.Errorf("%s, %s: %d bytes allocated for %d, the limit is %d", tt.codec, tt.name, got, len(value), limit)
		}
	}
}

// TestAllocations checks that a decoder allocates the example's vectors and
// nothing else, and nothing at all in an arena.
func TestAllocations(t *testing.T) {
	s := stream.Example{X: sparse([]int32{2, 5, 9}, 0.125, 3, -1.5e-3), Y: 1, Labelled: true}
	d := stream.Example{X: dense(0.125, 3, -1.5e-3), Y: 1, Labelled: true}
	tests := []struct {
		codec string
		ex    *stream.Example
		want  float64
	}{
		{"libsvm", &s, 2}, {"json", &s, 2}, {"msgpack", &s, 2},
		{"json", &d, 1}, {"msgpack", &d, 1}, {"csv", &d, 1},
	}
	for _, tt := range tests {
		c := must(t, tt.codec, Options{CSV: CSVOptions{LabelColumn: "last"}})
		value, err := c.Append(nil, tt.ex)
		if err != nil {
			t.Fatal(err)
		}
		var ex stream.Example
		got := testing.AllocsPerRun(100, func() {
			if err := c.Decode(value, &ex); err != nil {
				t.Fatal(err)
			}
		})
		if got != tt.want {
			t.Errorf("%s: %v allocations, want %v", tt.codec, got, tt.want)
		}
		var arena stream.Arena
		got = testing.AllocsPerRun(100, func() {
			if err := c.DecodeIn(&arena, value, &ex); err != nil {
				t.Fatal(err)
			}
			arena.Reset()
		})
		if got != 0 {
			t.Errorf("%s: %v allocations in an arena", tt.codec, got)
		}
		buf := make([]byte, 0, 1024)
		if got := testing.AllocsPerRun(100, func() { buf, _ = c.Append(buf[:0], tt.ex) }); got != 0 {
			t.Errorf("%s: Append makes %v allocations", tt.codec, got)
		}
	}
}

// TestMsgpackSplitter cuts a stream of values into pieces of every length.
func TestMsgpackSplitter(t *testing.T) {
	values := []string{"81a17893010203", "c0", "83a26964a2c3a9a17891d0ffa179cb3ff8000000000000", "dc0002c403aabbcc92c3d6ff00000000", "80"}
	var all []byte
	var ends []int
	for _, v := range values {
		b, err := hex.DecodeString(v)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
		ends = append(ends, len(all))
	}
	for step := 1; step <= len(all); step++ {
		var s MsgpackSplitter
		var got []int
		start := 0
		for have := step; ; have = min(have+step, len(all)) {
			for start < have {
				n, err := s.Next(all[start:have])
				if err != nil {
					if have == len(all) || err.Error() != "unexpected EOF" {
						t.Fatalf("step %d: %v at %d", step, err, start)
					}
					break
				}
				start += n
				got = append(got, start)
			}
			if have == len(all) {
				break
			}
		}
		if !slices.Equal(got, ends) {
			t.Errorf("step %d: values end at %v, want %v", step, got, ends)
		}
	}
}
