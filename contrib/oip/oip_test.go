package oip

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// models returns a model of each kind of input and of output.
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
		in, err := sig.Inputs()
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
	var q Infer // reused, as in the service
	for _, c := range []struct {
		m    *Model
		body string
		want []string
	}{
		{events, `{"inputs":[{"name":"a","shape":[2],"datatype":"FP64","data":[1,null]},{"name":"l","shape":[2,2],"datatype":"FP64","data":[1,2, 3,null]},{"name":"t","shape":[2,2],"datatype":"BYTES","data":[["u",null],[null,null]]}]}`,
			[]string{`{"a":1,"l":[1,2],"t":["u"]}`, `{"a":null,"l":[3,null],"t":[]}`}},
		{events, `{"inputs":[{"name":"t","shape":[2,3],"datatype":"BYTES","data":[null, "u" ,"v",null,"w" , null]}]}`, []string{`{"t":["u","v"]}`, `{"t":["w"]}`}},
		{events, `{"inputs":[{"name":"c","shape":[3],"datatype":"BYTES","data":["]","\"",",\\"]},{"name":"id","shape":[3],"datatype":"BYTES","data":["1","2","3"]}]}`,
			[]string{`{"c":"]","id":"1"}`, `{"c":"\"","id":"2"}`, `{"c":",\\","id":"3"}`}},
		{vectors, `{"inputs":[{"name":"x","shape":[2,2],"datatype":"FP64","data":[ 1, 2 ,3,4 ]}]}`, []string{`{"x":[1, 2]}`, `{"x":[3,4]}`}},
		{vectors, `{"inputs":[{"name":"x","shape":[0,2],"datatype":"FP64","data":[]}]}`, nil},
		{named, `{"inputs":[{"name":"h","shape":[2],"datatype":"FP64","data":[1,2]},{"name":"w","shape":[2,1],"datatype":"FP32","data":[[3],[4]]}]}`, []string{`{"x":[3,1]}`, `{"x":[4,2]}`}},
		{named, `{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP64","data":[1,2]}]}`, []string{`{"x":[1,2]}`}},
	} {
		if err := q.Read(c.m, []byte(c.body), 10); err != nil {
			t.Errorf("%s: %v", c.body, err)
			continue
		}
		if got := all(&q, c.m); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.body, got, c.want)
		}
	}
	for body, want := range map[string]string{
		`{"inputs":[{"name":"h","shape":[1],"datatype":"FP64","data":[1]}]}`:                                                                  `no "w", which the model needs`,
		`{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP64","data":[1,2]},{"name":"w","shape":[1],"datatype":"FP64","data":[1]}]}`:        "x comes with other inputs",
		`{"inputs":[{"name":"h","shape":[1],"datatype":"FP64","data":[1]},{"name":"w","shape":[2],"datatype":"FP64","data":[1,2]}]}`:          "it has 2 rows, the one before 1",
		`{"inputs":[{"name":"x","shape":[2,2],"datatype":"FP64","data":[[1,2],[3]]}]}`:                                                        "row 1 has 1 values, want 2",
		`{"inputs":[{"name":"x","shape":[2,2],"datatype":"FP64","data":[[1,2],3,4]}]}`:                                                        "in lists of their own",
		`{"inputs":[{"name":"x","shape":[2,2],"datatype":"FP64","data":[1,2,3]}]}`:                                                            "fewer values",
		`{"inputs":[{"name":"x","shape":[2,2],"datatype":"FP64","data":3}]}`:                                                                  "not a list",
		`{"inputs":[{"name":"x","shape":[1,1],"datatype":"FP64","data":[1]}],"outputs":[{"name":"label","parameters":{"classification":2}}]}`: "classification is not supported",
		" ":                            "the request is empty",
		"[]":                           "the request is not an object",
		`{"inputs":{}}`:                "inputs: want a list, not object",
		`{"inputs":[3]}`:               "inputs: want an object, not number",
		`{"id":3,"inputs":[]}`:         "id: want a string, not number",
		`{"inputs":[{"shape":[1.5]}]}`: "inputs.shape: want an integer, not number 1.5",
		"[" + strings.Repeat(" ", 3*maxTensors) + "]": "the request is not an object",
	} {
		if err := q.Read(named, []byte(body), 10); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

// all returns the rows of all batches.
func all(q *Infer, m *Model) (list []string) {
	for batch := range q.Batches(m) {
		for _, row := range batch {
			list = append(list, string(row))
		}
	}
	return list
}

// FuzzInfer: no request makes Read panic or yields a row or a response that is not
// JSON.
func FuzzInfer(f *testing.F) {
	for _, s := range []string{
		`{"id":"1","parameters":{"binary_data_output":true},"inputs":[{"name":"a","shape":[2],"datatype":"FP64","data":[1,null]}]}`,
		`{"inputs":[{"name":"x","shape":[2,2],"datatype":"FP64","data":[[1,2],[3,4]]}],"outputs":[{"name":"label","parameters":{"binary_data":false}}]}`,
		`{"inputs":[{"name":"t","shape":[1,2],"datatype":"BYTES","data":["a",null]},{"name":"l","shape":[1,2],"datatype":"INT8","data":[1,"\ud800"]}]}`,
		`{"inputs":[{"name":"w","shape":[1],"datatype":"FP64","data":[1]},{"name":"h","shape":[1],"datatype":"BYTES","data":[{"a":"]"}]}]}`,
	} {
		f.Add([]byte(s))
	}
	ms := models(f)
	var q Infer // reused, as in the service
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, m := range ms {
			if q.Read(m, body, 50) != nil {
				continue
			}
			rows := all(&q, m)
			for _, row := range rows {
				if !json.Valid([]byte(row)) {
					t.Fatalf("%q: the row %q is not JSON", body, row)
				}
			}
			if len(rows) != q.Len() {
				t.Fatalf("%q: %d rows, want %d", body, len(rows), q.Len())
			}
			q.Add(m, predictions(m, len(rows)))
			if out := q.Append(nil, m); !json.Valid(out) {
				t.Fatalf("%q: the response %q is not JSON", body, out)
			}
		}
	})
}

// predictions makes up n predictions.
func predictions(m *Model, n int) []predictor.Prediction {
	list := make([]predictor.Prediction, n)
	for i := range list {
		list[i] = predictor.Prediction{Score: float64(i), Probability: math.NaN()}
		if len(m.Labels) > 2 {
			list[i].Scores = []float64{1, 2, 3}
		}
		if i%3 == 1 {
			list[i] = predictor.Prediction{Err: errors.New("no \"such\" thing")}
		}
	}
	return list
}

// TestOpenAPI: the document has the fields and labels of the model.
func TestOpenAPI(t *testing.T) {
	ms := models(t)
	ms[0].LabelValues = []any{false, true}
	ms[3].LabelValues = []any{"a", "b", "c"}
	for i, want := range map[int][]string{
		0: {`"a":{"format":"double","type":["number","null"]}`, `"c":{"type":["string","null"]}`, `"l":{"items":{"format":"double","type":["number","null"]},"maxItems":2,"minItems":2,"type":["array","null"]}`, `"label":{"type":"boolean"}`, `"title":"streamsvm predict: m"`, `"version":"3"`},
		1: {`"maxItems":2,"minItems":2,"type":"array"},{"additionalProperties"`, `"required":["x"]`, `"label":{"format":"double","type":"number"}`},
		2: {`"description":"The features, in this order: w, h"`},
		3: {`"label":{"enum":["a","b","c"],"type":"string"}`, `"required":["a","b","c"],"type":"object"}`},
	} {
		text, err := OpenAPI(ms[i])
		var compact bytes.Buffer
		if err != nil || json.Compact(&compact, text) != nil {
			t.Fatalf("%v: %s", err, text)
		}
		for _, part := range want {
			if !strings.Contains(compact.String(), part) {
				t.Errorf("model %d: no %s in\n%s", i, part, text)
			}
		}
		for part, has := range map[string]bool{`"probability":{`: i < 3, `"scores":{`: i == 3} {
			if strings.Contains(compact.String(), part) != has {
				t.Errorf("model %d: %s is there: %v", i, part, !has)
			}
		}
	}
}
