package serve

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/stream/codec"
)

// models are one of each kind of what models take.
func models(tb testing.TB) []*Model {
	tb.Helper()
	schema := `{"label":"y","id":"id","fields":[` +
		`{"name":"a","type":"numeric","means":[0],"gaps":[true]},{"name":"c","type":"categorical","categories":["u","v"],"gaps":[false]},` +
		`{"name":"l","type":"array","means":[0,0],"gaps":[false,false]},{"name":"t","type":"tags","categories":["u"],"gaps":[false]}]}`
	var list []*Model
	for _, sig := range []codec.Signature{
		{Codec: "json", Labels: "0,1", Schema: schema}, {Codec: "json", Labels: "0,1", Dim: 2},
		{Codec: "csv", Labels: "0,1", CSV: codec.CSVOptions{Columns: []string{"w", "h", "y"}, LabelColumn: "y"}, Dim: 2},
	} {
		in, err := NewInputs(sig)
		if err != nil {
			tb.Fatal(err)
		}
		list = append(list, &Model{Name: "m", Version: "3", Labels: []string{"0", "1"}, Inputs: in})
	}
	return append(list, &Model{Name: "k", Labels: []string{"a", "b", "c"}, Inputs: list[1].Inputs}, &Model{Name: "r", Inputs: list[1].Inputs})
}

func TestRows(t *testing.T) {
	ms := models(t)
	events, vectors, named := ms[0], ms[1], ms[2]
	type table struct {
		m    *Model
		body string
		want []string
	}
	for _, c := range []table{
		{events, `{"inputs":[{"name":"a","shape":[2],"datatype":"FP64","data":[1,null]},{"name":"l","shape":[2,2],"datatype":"FP64","data":[1,2, 3,null]},{"name":"t","shape":[2,2],"datatype":"BYTES","data":[["u",null],[null,null]]}]}`,
			[]string{`{"a":1,"l":[1,2],"t":["u"]}`, `{"a":null,"l":[3,null],"t":[]}`}},
		{events, `{"inputs":[{"name":"c","shape":[3],"datatype":"BYTES","data":["]","\"",",\\"]},{"name":"id","shape":[3],"datatype":"BYTES","data":["1","2","3"]}]}`,
			[]string{`{"c":"]","id":"1"}`, `{"c":"\"","id":"2"}`, `{"c":",\\","id":"3"}`}},
		{vectors, `{"inputs":[{"name":"x","shape":[2,2],"datatype":"FP64","data":[ 1, 2 ,3,4 ]}]}`, []string{`{"x":[1, 2]}`, `{"x":[3,4]}`}},
		{vectors, `{"inputs":[{"name":"x","shape":[0,2],"datatype":"FP64","data":[]}]}`, nil},
		{named, `{"inputs":[{"name":"h","shape":[2],"datatype":"FP64","data":[1,2]},{"name":"w","shape":[2,1],"datatype":"FP32","data":[3,4]}]}`, []string{`{"x":[3,1]}`, `{"x":[4,2]}`}},
		{named, `{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP64","data":[1,2]}]}`, []string{`{"x":[1,2]}`}},
	} {
		var q Infer
		if err := q.Read(c.m, []byte(c.body), -1, 10); err != nil {
			t.Errorf("%s: %v", c.body, err)
			continue
		}
		var got []string
		for _, v := range all(&q.Rows) {
			got = append(got, string(v))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.body, got, c.want)
		}
	}
	for _, c := range []table{
		{events, `{"dataframe_split":{"columns":["c","z","a"],"data":[["u",1,2],[null,[1],3]]}}`, []string{`{"a":2,"c":"u"}`, `{"a":3,"c":null}`}},
		{named, `{"dataframe_split":{"columns":["h","w"],"data":[[1,2]]}}`, []string{`{"x":[2,1]}`}},
		{named, `{"dataframe_records":[{"h":1,"w":2,"z":3}]}`, []string{`{"x":[2,1]}`}},
		{named, `{"inputs":{"h":[1],"w":[[2]]}}`, []string{`{"x":[2,1]}`}},
		{vectors, `{"dataframe_split":{"columns":["p","q"],"data":[[1,2]]}}`, []string{`{"x":[1,2]}`}},
		{vectors, `{"instances":[[1,2],{"x":[3,4]}]}`, []string{`{"x":[1,2]}`, `{"x":[3,4]}`}},
		{vectors, `{"inputs":{"x":[[1,2],[3,4]]}}`, []string{`{"x":[1,2]}`, `{"x":[3,4]}`}},
		{events, `{"inputs":{"a":[1,2],"t":[["u"],[]]}}`, []string{`{"a":1,"t":["u"]}`, `{"a":2,"t":[]}`}},
	} {
		var q Invocation
		if err := q.Read(c.m, []byte(c.body), 10); err != nil {
			t.Errorf("%s: %v", c.body, err)
			continue
		}
		var got []string
		for _, v := range all(&q.Rows) {
			got = append(got, string(v))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.body, got, c.want)
		}
	}
	for _, body := range []string{`{"inputs":{"x":[1],"w":[1]}}`, `{"inputs":{"w":[1]}}`, `{"instances":[1]}`, `{"dataframe_records":[{"w":1}]}`, `{"inputs":1}`, `[]`, ``} {
		var q Invocation
		if err := q.Read(named, []byte(body), 10); err == nil {
			t.Errorf("%s is understood as %q", body, all(&q.Rows))
		}
	}
}

// all returns the rows of all batches.
func all(r *Rows) (list [][]byte) {
	for batch := range r.Batches() {
		for _, row := range batch {
			list = append(list, slices.Clone(row))
		}
	}
	return list
}

// TestBinary: binary tensors of each datatype are what they are in JSON.
func TestBinary(t *testing.T) {
	le := binary.LittleEndian
	for datatype, c := range map[string]struct {
		data []byte
		want string
	}{
		"FP64":  {le.AppendUint64(le.AppendUint64(nil, math.Float64bits(0.1)), math.Float64bits(math.NaN())), `0.1|null`},
		"FP32":  {le.AppendUint32(le.AppendUint32(nil, math.Float32bits(0.1)), math.Float32bits(float32(math.Inf(-1)))), `0.1|-Infinity`},
		"INT64": {le.AppendUint64(le.AppendUint64(nil, 1<<63), 7), `-9223372036854775808|7`}, "UINT64": {le.AppendUint64(le.AppendUint64(nil, 1<<63), 7), `9223372036854775808|7`},
		"INT8": {[]byte{0xff, 1}, `-1|1`}, "UINT8": {[]byte{0xff, 1}, `255|1`}, "INT16": {[]byte{0xff, 0xff, 1, 0}, `-1|1`}, "BOOL": {[]byte{0, 1}, `false|true`},
		"BYTES": {[]byte("\x01\x00\x00\x00\"\x00\x00\x00\x00"), `"\""|""`},
	} {
		cells, err := unpack(datatype, c.data, 2, 1, true)
		if err != nil {
			t.Fatalf("%s: %v", datatype, err)
		}
		if got := string(cells.next(append(cells.next(nil), '|'))); got != c.want {
			t.Errorf("%s: %s, want %s", datatype, got, c.want)
		}
		for n := range c.data {
			if _, err := unpack(datatype, c.data[:n], 2, 1, true); err == nil {
				t.Errorf("%s: %d of %d bytes are enough", datatype, n, len(c.data))
			}
		}
		if _, err := unpack(datatype, append(c.data, 0), 2, 1, true); err == nil {
			t.Errorf("%s: a byte more is not noticed", datatype)
		}
	}
}

// FuzzInfer: no request makes reading panic or gives rows that are no JSON, but
// for NaN and Infinity of binary tensors; answers are JSON of the length that is
// said.
func FuzzInfer(f *testing.F) {
	for _, s := range []string{
		`{"id":"1","parameters":{"binary_data_output":true},"inputs":[{"name":"a","shape":[2],"datatype":"FP64","data":[1,null]}]}`,
		`{"inputs":[{"name":"x","shape":[2,2],"datatype":"FP64","data":[[1,2],[3,4]]}],"outputs":[{"name":"label","parameters":{"binary_data":false}}]}`,
		`{"inputs":[{"name":"t","shape":[1,2],"datatype":"BYTES","data":["a",null]},{"name":"l","shape":[1,2],"datatype":"INT8","parameters":{"binary_data_size":2}}]}` + "\x01\x02",
		`{"inputs":[{"name":"w","shape":[1],"datatype":"FP64","data":[1]},{"name":"h","shape":[1],"datatype":"BYTES","parameters":{"binary_data_size":5}}]}` + "\x01\x00\x00\x00a",
	} {
		f.Add([]byte(s), len(s)-2)
		f.Add([]byte(s), -1)
	}
	f.Add([]byte(`{"instances":[{"a":1},{"c":"\ud800"}]}`), 1)
	f.Add([]byte(`{"dataframe_split":{"columns":["w","h"],"data":[[1,[2,{"a":"]"}]]]}}`), 1)
	ms := models(f)
	var infer Infer // used again, as in the service
	var call Invocation
	f.Fuzz(func(t *testing.T, body []byte, header int) {
		for _, m := range ms {
			if err := infer.Read(m, body, header, 50); err == nil {
				rows := all(&infer.Rows)
				for _, v := range rows {
					if header < 0 && !json.Valid(v) {
						t.Fatalf("%q: the row %q is no JSON", body, v)
					}
				}
				infer.Add(m, predictions(m, len(rows)))
				out, n := infer.Append(nil, m)
				if n < 0 {
					n = len(out)
				}
				if !json.Valid(out[:n]) {
					t.Fatalf("%q: the answer %q is no JSON", body, out)
				}
			}
			if err := call.Read(m, body, 50); err == nil {
				rows := all(&call.Rows)
				for _, v := range rows {
					if !json.Valid(v) {
						t.Fatalf("%q: the row %q is no JSON", body, v)
					}
				}
				call.Add(m, predictions(m, len(rows)))
				if out := call.Append(nil); !json.Valid(out) {
					t.Fatalf("%q: the answer %q is no JSON", body, out)
				}
			}
		}
	})
}

// predictions makes up n of them.
func predictions(m *Model, n int) []Prediction {
	list := make([]Prediction, n)
	for i := range list {
		list[i] = Prediction{Label: "0", JSON: "0", Decision: float64(i), Probability: math.NaN()}
		if len(m.Labels) > 2 {
			list[i].Scores = []float64{1, 2, 3}
		}
		if i%3 == 1 {
			list[i] = Prediction{Err: errors.New("no \"such\" thing")}
		}
	}
	return list
}

func TestFind(t *testing.T) {
	const object = ` { "a" : 1, "b.c" : "x,\"}", "d" : {"e": [1, {"f":2}], "g.h": null}, "k\u0065y": true } `
	for name, want := range map[string]string{"a": "1", "b.c": `"x,\"}"`, "d.e": `[1, {"f":2}]`, "d.g.h": "null", "key": "true", "d": `{"e": [1, {"f":2}], "g.h": null}`, "z": "", "a.b": "", "d.e.f": ""} {
		if got := Find([]byte(object), name); string(got) != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}
