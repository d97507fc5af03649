package codec

import (
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
)

// must returns a codec.
func must(tb testing.TB, name string, o Options) Codec {
	tb.Helper()
	c, err := New(name, o)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// sameBits reports whether two examples are equal to the bit.
func sameBits(a, b *stream.Example) bool {
	return a.ID == b.ID && a.Labelled == b.Labelled &&
		math.Float64bits(a.Y) == math.Float64bits(b.Y) &&
		(a.X.Idx == nil) == (b.X.Idx == nil) && slices.Equal(a.X.Idx, b.X.Idx) &&
		slices.EqualFunc(a.X.Val, b.X.Val, func(v, w float32) bool {
			return math.Float32bits(v) == math.Float32bits(w)
		})
}

func sparse(idx []int32, val ...float32) stream.Vec { return stream.Vec{Idx: idx, Val: val} }
func dense(val ...float32) stream.Vec               { return stream.Vec{Val: val} }

func TestDecode(t *testing.T) {
	regress := Options{Task: "regress"}
	csvLabel := Options{CSV: CSVOptions{LabelColumn: "last"}}
	named := Options{CSV: CSVOptions{
		Columns: []string{"id", "a", "b", "y"}, LabelColumn: "y", DropColumns: []string{"id"}}}
	tests := []struct {
		codec, value string
		o            Options
		want         stream.Example
	}{
		{"libsvm", "+1 3:0.5 7:1.25", Options{}, stream.Example{X: sparse([]int32{2, 6}, 0.5, 1.25), Y: 1, Labelled: true}},
		{"libsvm", "1 1:2\r\n", Options{}, stream.Example{X: sparse([]int32{0}, 2), Y: 1, Labelled: true}},
		{"libsvm", "-1.0\t1:-2e-1 \n", Options{}, stream.Example{X: sparse([]int32{0}, -0.2), Y: -1, Labelled: true}},
		{"libsvm", "? 1:2", Options{}, stream.Example{X: sparse([]int32{0}, 2)}},
		{"libsvm", "1:2 4:0", Options{}, stream.Example{X: sparse([]int32{0, 3}, 2, 0)}},
		{"libsvm", "?", Options{}, stream.Example{X: sparse([]int32{})}},
		{"libsvm", "-1", Options{}, stream.Example{X: sparse([]int32{}), Y: -1, Labelled: true}},
		{"libsvm", "+1 qid:12 2:.5 # doc 1:2", Options{}, stream.Example{X: sparse([]int32{1}, 0.5), Y: 1, Labelled: true}},
		{"libsvm", "0 1:1", Options{Labels: "01"}, stream.Example{X: sparse([]int32{0}, 1), Y: -1, Labelled: true}},
		{"libsvm", "2 1:1", Options{Labels: "12"}, stream.Example{X: sparse([]int32{0}, 1), Y: 1, Labelled: true}},
		{"libsvm", "-17.25 1:1", regress, stream.Example{X: sparse([]int32{0}, 1), Y: -17.25, Labelled: true}},
		{"libsvm", "1 16777216:1e-45", Options{}, stream.Example{X: sparse([]int32{1<<24 - 1}, math.SmallestNonzeroFloat32), Y: 1, Labelled: true}},
		{"libsvm", "1 2147483647:-0", Options{MaxFeatures: math.MaxInt32}, stream.Example{X: sparse([]int32{math.MaxInt32 - 1}, float32(math.Copysign(0, -1))), Y: 1, Labelled: true}},

		{"json", `{"x":[0.5,1.25],"y":1}`, Options{}, stream.Example{X: dense(0.5, 1.25), Y: 1, Labelled: true}},
		{"json", ` { "y" : -1 , "x" : { "3" : 0.5 } } ` + "\n", Options{}, stream.Example{X: sparse([]int32{2}, 0.5), Y: -1, Labelled: true}},
		{"json", `{"x":{"7":7,"1":1,"3":-3}}`, Options{}, stream.Example{X: sparse([]int32{0, 2, 6}, 1, -3, 7)}},
		{"json", `{"x":[],"y":null}`, Options{}, stream.Example{X: stream.Vec{Val: []float32{}}}},
		{"json", `{"x":{}}`, Options{}, stream.Example{X: sparse([]int32{})}},
		{"json", `{"id":"a\u00e9\"","ts":"2026-01-01","x":[1],"z":[{"a":[true,false,null]},"]}",-1.5e3]}`, Options{}, stream.Example{ID: "aé\"", X: dense(1)}},
		{"json", `{"id":-12e3,"\u0078":[1]}`, Options{}, stream.Example{ID: "-12e3", X: dense(1)}},
		{"json", `{"a":{},"b":[ ],"c":{"d" : 1 , "e":"\u00e9\\"},"x":{"\u0031":1}}`, Options{}, stream.Example{X: sparse([]int32{0}, 1)}},
		{"json", `{"id":null,"x":[1],"y":0}`, Options{Labels: "01"}, stream.Example{X: dense(1), Y: -1, Labelled: true}},
		{"json", `{"x":[1],"y":1e-3}`, regress, stream.Example{X: dense(1), Y: 1e-3, Labelled: true}},

		{"csv", "0.5,1.25,1", csvLabel, stream.Example{X: dense(0.5, 1.25), Y: 1, Labelled: true}},
		{"csv", "0.5,1.25,", csvLabel, stream.Example{X: dense(0.5, 1.25)}},
		{"csv", "0.5,1.25,?\n", csvLabel, stream.Example{X: dense(0.5, 1.25)}},
		{"csv", "0.5,1.25", Options{}, stream.Example{X: dense(0.5, 1.25)}},
		{"csv", "-1, \"2\" ,3", Options{CSV: CSVOptions{LabelColumn: "1"}}, stream.Example{X: dense(2, 3), Y: -1, Labelled: true}},
		{"csv", "1\t2\t\t3", Options{CSV: CSVOptions{Comma: '\t', EmptyAsZero: true}}, stream.Example{X: dense(1, 2, 0, 3)}},
		{"csv", "\"one, \"\"two\"\"\nthree\",1,2,-1\r\n", named, stream.Example{X: dense(1, 2), Y: -1, Labelled: true}},

		{"msgpack", "81a17893010203", Options{}, stream.Example{X: dense(1, 2, 3)}},
		{"msgpack", "82a178c4080000003f0000a03fa17901", Options{}, stream.Example{X: dense(0.5, 1.25), Y: 1, Labelled: true}},
		{"msgpack", "82a179ffa17882a169c40402000000a176c4040000003f", Options{}, stream.Example{X: sparse([]int32{2}, 0.5), Y: -1, Labelled: true}},
		{"msgpack", "81a17882a16992010aa17692ca3f000000cbbff0000000000000", Options{}, stream.Example{X: sparse([]int32{1, 10}, 0.5, -1)}},
		{"msgpack", "84a27473d6ff00000000a179c005c3a17890", Options{}, stream.Example{X: stream.Vec{Val: []float32{}}}},
		{"msgpack", "86a26964c40161a17894cc02cdff00ce00010000d1ff00a179c0a17ad9027778c70101ffc90000000000fac80001000a", Options{}, stream.Example{ID: "a", X: dense(2, 65280, 65536, -256)}},
		{"msgpack", "84a26964d3ffffffffffffff85a17891d2fffffffea17ade00010102a162d40100", Options{}, stream.Example{ID: "-123", X: dense(-2)}},
		{"msgpack", "82a26964c0a178dc000101", Options{}, stream.Example{X: dense(1)}},
		{"msgpack", "83a26964a2c3a9a17891d0ffa179cb3ff8000000000000", regress, stream.Example{ID: "é", X: dense(-1), Y: 1.5, Labelled: true}},
		{"msgpack", "82a26964cfffffffffffffffffa17891cf8000000000000000", Options{}, stream.Example{ID: "18446744073709551615", X: dense(1 << 63)}},
	}
	for _, tt := range tests {
		value := []byte(tt.value)
		if tt.codec == "msgpack" {
			var err error
			if value, err = hex.DecodeString(tt.value); err != nil {
				t.Fatal(err)
			}
		}
		got := stream.Example{Seq: 7}
		if err := must(t, tt.codec, tt.o).Decode(value, &got); err != nil {
			t.Errorf("%s %q: %v", tt.codec, tt.value, err)
			continue
		}
		if got.Seq != 7 || !sameBits(&got, &tt.want) {
			t.Errorf("%s %q:\n got %+v\nwant %+v", tt.codec, tt.value, got, tt.want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	label := Options{CSV: CSVOptions{LabelColumn: "last"}}
	names := Options{CSV: CSVOptions{Columns: []string{"a", "b"}}}
	small := Options{MaxFeatures: 2}
	deep := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	tests := []struct {
		codec, value string
		o            Options
		stage        stream.Stage
		field        string
		reason       string
	}{
		{"libsvm", "", Options{}, stream.StageDecode, "", "empty"},
		{"libsvm", " \n", Options{}, stream.StageDecode, "", "empty"},
		{"libsvm", "# nothing", Options{}, stream.StageDecode, "", "empty"},
		{"libsvm", "0 1:1", Options{}, stream.StageLabel, "y", "want -1 or 1"},
		{"libsvm", "nan 1:1", Options{}, stream.StageLabel, "y", "want a number"},
		{"libsvm", "1e999 1:1", Options{Task: "regress"}, stream.StageLabel, "y", "finite"},
		{"libsvm", "one 1:1", Options{}, stream.StageLabel, "y", `"one"`},
		{"libsvm", "1 0:1", Options{}, stream.StageDecode, "feature 0", "start at 1"},
		{"libsvm", "1 3:1 3:1", Options{}, stream.StageDecode, "feature 3", "increase"},
		{"libsvm", "1 3:1 2:1", Options{}, stream.StageDecode, "feature 2", "increase"},
		{"libsvm", "1 17:nan", Options{}, stream.StageFeature, "feature 17", "nan"},
		{"libsvm", "1 17:-Infinity", Options{}, stream.StageFeature, "feature 17", "Infinity"},
		{"libsvm", "1 17:1e39", Options{}, stream.StageFeature, "feature 17", "overflows"},
		{"libsvm", "1 17:", Options{}, stream.StageDecode, "feature 17", "not a number"},
		{"libsvm", "1 17:0x1", Options{}, stream.StageDecode, "feature 17", "not a number"},
		{"libsvm", "1 17:1_0", Options{}, stream.StageDecode, "feature 17", "not a number"},
		{"libsvm", "1 17:1e", Options{}, stream.StageDecode, "feature 17", "not a number"},
		{"libsvm", "1 :1", Options{}, stream.StageDecode, "", "index:value"},
		{"libsvm", "1 1:1 2", Options{}, stream.StageDecode, "", "index:value"},
		{"libsvm", "1 1:1 qid:3", Options{}, stream.StageDecode, "", "index:value"},
		{"libsvm", "1 -1:1", Options{}, stream.StageDecode, "", "index:value"},
		{"libsvm", "1 1:1\n2:1", Options{}, stream.StageDecode, "feature 1", "not a number"},
		{"libsvm", "1 16777217:1", Options{}, stream.StageFeature, `"16777217:1"`, "limit of 16777216"},
		{"libsvm", "1 99999999999999999999999:1", Options{}, stream.StageFeature, `"99999999999999999999999:1"`, "limit"},
		{"libsvm", "1 3:1", small, stream.StageFeature, `"3:1"`, "limit of 2"},
		{"libsvm", strings.Repeat(" ", MaxValueBytes+1), small, stream.StageDecode, "", "limit is 67108864"},

		{"json", "", Options{}, stream.StageDecode, "", "empty"},
		{"json", " ", Options{}, stream.StageDecode, "", "empty"},
		{"json", "[1]", Options{}, stream.StageDecode, "", "object"},
		{"json", "{}", Options{}, stream.StageDecode, "x", "missing"},
		{"json", `{"x":[1]} x`, Options{}, stream.StageDecode, "", "after the object"},
		{"json", `{"x":[1],}`, Options{}, stream.StageDecode, "", "string"},
		{"json", `{"x":[1] "y":1}`, Options{}, stream.StageDecode, "", "want , or }"},
		{"json", `{"x" [1]}`, Options{}, stream.StageDecode, "", "want :"},
		{"json", `{"x":1}`, Options{}, stream.StageDecode, "x", "array or an object"},
		{"json", `{"x":[1,]}`, Options{}, stream.StageDecode, "x[1]", "want a number"},
		{"json", `{"x":[1 2]}`, Options{}, stream.StageDecode, "x[1]", "want , or ]"},
		{"json", `{"x":[1,2`, Options{}, stream.StageDecode, "x", "does not end"},
		{"json", `{"x":[1,NaN]}`, Options{}, stream.StageFeature, "x[1]", "NaN"},
		{"json", `{"x":[1,-Infinity]}`, Options{}, stream.StageFeature, "x[1]", "-Infinity"},
		{"json", `{"x":[1,null]}`, Options{}, stream.StageDecode, "x[1]", "want a number"},
		{"json", `{"x":[1,4e38]}`, Options{}, stream.StageFeature, "x[1]", "overflows"},
		{"json", `{"x":[01]}`, Options{}, stream.StageDecode, "x[0]", "want a number"},
		{"json", `{"x":[+1]}`, Options{}, stream.StageDecode, "x[0]", "want a number"},
		{"json", `{"x":[.5]}`, Options{}, stream.StageDecode, "x[0]", "want a number"},
		{"json", `{"x":[5.]}`, Options{}, stream.StageDecode, "x[0]", "want a number"},
		{"json", `{"x":{"17":Infinity}}`, Options{}, stream.StageFeature, "feature 17", "Infinity"},
		{"json", `{"x":{"0":1}}`, Options{}, stream.StageDecode, "x", "start at 1"},
		{"json", `{"x":{"":1}}`, Options{}, stream.StageDecode, "x", "start at 1"},
		{"json", `{"x":{"a":1}}`, Options{}, stream.StageDecode, "x", `"a"`},
		{"json", `{"x":{"3":1,"1":2,"3":3}}`, Options{}, stream.StageDecode, "feature 3", "twice"},
		{"json", `{"x":{"3":1}}`, small, stream.StageFeature, `x["3"]`, "limit of 2"},
		{"json", `{"x":[1,2,3]}`, small, stream.StageFeature, "x", "limit is 2"},
		{"json", `{"x":[1],"x":[1]}`, Options{}, stream.StageDecode, "x", "twice"},
		{"json", `{"x":[1],"y":2}`, Options{}, stream.StageLabel, "y", "want -1 or 1"},
		{"json", `{"x":[1],"y":NaN}`, Options{}, stream.StageLabel, "y", "NaN"},
		{"json", `{"x":[1],"y":"1"}`, Options{}, stream.StageDecode, "y", "number"},
		{"json", `{"x":[1],"id":[]}`, Options{}, stream.StageDecode, "id", "number"},
		{"json", "{\"x\":[1],\"id\":\"\xff\"}", Options{}, stream.StageDecode, "id", "UTF-8"},
		{"json", `{"x":[1],"z":"\q"}`, Options{}, stream.StageDecode, "", "escape"},
		{"json", `{"x":[1],"z":"\u12g4"}`, Options{}, stream.StageDecode, "", "escape"},
		{"json", "{\"x\":[1],\"z\":\"\x01\"}", Options{}, stream.StageDecode, "", "control"},
		{"json", `{"x":[1],"z":[1 2]}`, Options{}, stream.StageDecode, "", "want , or ]"},
		{"json", `{"x":[1],"z":{"a" 2}}`, Options{}, stream.StageDecode, "", "want :"},
		{"json", `{"x":[1],"z":{"a":2 "b"}}`, Options{}, stream.StageDecode, "", "want , or }"},
		{"json", `{"x":[1],"z":{1:2}}`, Options{}, stream.StageDecode, "", "want a string"},
		{"json", `{"x":[1],"z":{"a":[}}`, Options{}, stream.StageDecode, "", "want a number"},
		{"json", `{"x":[1],"z":"abc`, Options{}, stream.StageDecode, "", "want the end of a string, but the value ends"},
		{"json", `{"x":[1],"z":"abc\`, Options{}, stream.StageDecode, "", "escape, but the value ends"},
		{"json", `{"x":{"1" 2}}`, Options{}, stream.StageDecode, "feature 1", "want :"},
		{"json", `{"x":{"1":2 "2"}}`, Options{}, stream.StageDecode, "feature 1", "want , or }"},
		{"json", `{"x":{"1":2`, Options{}, stream.StageDecode, "x", "does not end"},
		{"json", `{"x":[1],"z":tru}`, Options{}, stream.StageDecode, "", "number"},
		{"json", `{"x":[1],"z":` + deep + `}`, Options{}, stream.StageDecode, "", "too deep"},

		{"csv", "", Options{}, stream.StageDecode, "", "empty"},
		{"csv", " \r\n", Options{}, stream.StageDecode, "", "empty"},
		{"csv", "1,,1", label, stream.StageDecode, "column 2", "empty"},
		{"csv", "1,a,1", label, stream.StageDecode, "column 2", `"a"`},
		{"csv", "1,nan,1", label, stream.StageFeature, "column 2", "nan"},
		{"csv", "1,1e50,1", label, stream.StageFeature, "column 2", "overflows"},
		{"csv", "1,2,3", label, stream.StageLabel, "y", "want -1 or 1"},
		{"csv", "1,2,yes", label, stream.StageLabel, "column 3", `"yes"`},
		{"csv", "1,2,3", names, stream.StageDecode, "", "3 fields, want 2"},
		{"csv", "1,b", names, stream.StageDecode, `column 2 ("b")`, "not a number"},
		{"csv", "1,2,3", small, stream.StageFeature, "column 3", "more than 2"},
		{"csv", "1,2", Options{CSV: CSVOptions{LabelColumn: "3"}}, stream.StageLabel, "column 3", "there are 2 fields"},
		{"csv", `1,"2`, Options{}, stream.StageDecode, "column 2", "proper end"},
		{"csv", `1,"2"3`, Options{}, stream.StageDecode, "column 2", "proper end"},
		{"csv", "1,2\n3,4", Options{CSV: CSVOptions{DropColumns: []string{"2"}}}, stream.StageDecode, "column 2", "proper end"},

		{"msgpack", "", Options{}, stream.StageDecode, "", "empty"},
		{"msgpack", "90", Options{}, stream.StageDecode, "", "array, want a map"},
		{"msgpack", "c1", Options{}, stream.StageDecode, "", "0xc1"},
		{"msgpack", "80", Options{}, stream.StageDecode, "x", "missing"},
		{"msgpack", "8000", Options{}, stream.StageDecode, "", "1 bytes follow"},
		{"msgpack", "82a17890a17890", Options{}, stream.StageDecode, "x", "twice"},
		{"msgpack", "81a178ddffffffff", Options{}, stream.StageDecode, "x", "too large"},
		{"msgpack", "81a178dd3fffffff", Options{}, stream.StageDecode, "x", "EOF"},
		{"msgpack", "81a178c63fffffff", Options{}, stream.StageDecode, "x", "EOF"},
		{"msgpack", "81a178c403000000", Options{}, stream.StageDecode, "x", "4-byte"},
		{"msgpack", "81a17891a161", Options{}, stream.StageDecode, "x[0]", "str, want a number"},
		{"msgpack", "81a17893010203", small, stream.StageFeature, "x", "limit is 2"},
		{"msgpack", "81a17892017f91", Options{}, stream.StageDecode, "", "follow"},
		{"msgpack", "81a178c4080000003f0000c07f", Options{}, stream.StageFeature, "x[1]", "NaN"},
		{"msgpack", "81a17892cb7fefffffffffffff01", Options{}, stream.StageFeature, "x[0]", "Inf"},
		{"msgpack", "81a17882a16991ffa1769101", Options{}, stream.StageDecode, "x.i[0]", "increase from 0"},
		{"msgpack", "81a17882a169920505a176920101", Options{}, stream.StageDecode, "x.i[1]", "increase"},
		{"msgpack", "81a17882a16991ca00000000a1769101", Options{}, stream.StageDecode, "x.i[0]", "float, want an int"},
		{"msgpack", "81a17882a16991ce01000000a1769101", Options{}, stream.StageFeature, "x.i[0]", "limit"},
		{"msgpack", "81a17882a169c404ffffff7fa1769101", Options{}, stream.StageFeature, "x.i[0]", "limit"},
		{"msgpack", "81a17882a16991cd0010a17691ca7f800000", Options{}, stream.StageFeature, "feature 17", "Inf"},
		{"msgpack", "81a17882a1699101a17690", Options{}, stream.StageDecode, "x", "1 indices, 0 values"},
		{"msgpack", "81a17881a1699101", Options{}, stream.StageDecode, "x", "1 indices, 0 values"},
		{"msgpack", "82a17890a179a131", Options{}, stream.StageLabel, "y", "str"},
		{"msgpack", "82a17890a17902", Options{}, stream.StageLabel, "y", "want -1 or 1"},
		{"msgpack", "82a17890a179cb7ff8000000000000", Options{}, stream.StageLabel, "y", "NaN"},
		{"msgpack", "82a17890a26964a561", Options{}, stream.StageDecode, "id", "EOF"},
		{"msgpack", "82a17890a26964", Options{}, stream.StageDecode, "id", "EOF"},
		{"msgpack", "82a17890a179", Options{}, stream.StageDecode, "y", "EOF"},
		{"msgpack", "82a17890a179cb00", Options{}, stream.StageDecode, "y", "EOF"},
		{"msgpack", "81a178", Options{}, stream.StageDecode, "x", "EOF"},
		{"msgpack", "81a17892ca00", Options{}, stream.StageDecode, "x", "EOF"},
		{"msgpack", "81a17881a16992cd01", Options{}, stream.StageDecode, "x.i", "EOF"},
		{"msgpack", "81a178a161", Options{}, stream.StageDecode, "x", "str, want an array or bin"},
		{"msgpack", "81a17882a16990a16990", Options{}, stream.StageDecode, "x.i", "twice"},
		{"msgpack", "81a17882a16ec0a17690", Options{}, stream.StageDecode, "x", "0 indices, 0 values"},
		{"msgpack", "82a17890a2696490", Options{}, stream.StageDecode, "id", "array"},
		{"msgpack", "82a17890a17a" + strings.Repeat("91", 100) + "00", Options{}, stream.StageDecode, "", "too deep"},
		{"msgpack", "82a17890" + strings.Repeat("91", 100) + "0000", Options{}, stream.StageDecode, "", "too deep"},
	}
	for _, tt := range tests {
		value := []byte(tt.value)
		if tt.codec == "msgpack" {
			var err error
			if value, err = hex.DecodeString(tt.value); err != nil {
				t.Fatal(err)
			}
		}
		before := stream.Example{Seq: 1, ID: "before", X: dense(4), Y: 1, Labelled: true}
		got := before
		err := must(t, tt.codec, tt.o).Decode(value, &got)
		var fe *stream.FieldError
		if !errors.As(err, &fe) {
			t.Errorf("%s %q: error %v", tt.codec, tt.value, err)
			continue
		}
		if fe.Stage != tt.stage || fe.Field != tt.field || !strings.Contains(fe.Err.Error(), tt.reason) {
			t.Errorf("%s %q: stage %q, field %q: %v; want stage %q, field %q, %q",
				tt.codec, tt.value, fe.Stage, fe.Field, fe.Err, tt.stage, tt.field, tt.reason)
		}
		if got.Seq != 1 || !sameBits(&got, &before) {
			t.Errorf("%s %q: a refused value changed the example", tt.codec, tt.value)
		}
	}
}
