package codec

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
)

const fuzzedEvents = `{"label":"y","fields":[{"name":"a","type":"numeric","means":[7],"gaps":[false]},
 {"name":"b","type":"categorical","categories":["DE","a rather long category"],"gaps":[false]},
 {"name":"c","type":"boolean","means":[0.5],"gaps":[false]},{"name":"d.e","type":"numeric","clip":[-9,9],"means":[0],"gaps":[false]},
 {"name":"l","type":"length","means":[3],"gaps":[false]},{"name":"l.o.p","type":"tags","categories":["x","y"],"gaps":[false]},
 {"name":"l.v","type":"summary","means":[1,2,3,4],"gaps":[false]}]}`

// referenceEvent makes the features of an event by encoding/json, where all are
// of the types that the schema has; ok is false where they are not. Once is
// feature 0 rounded to float32 at once, val[0] that from float64: both are right.
func referenceEvent(value []byte) (val []float32, once float32, ok bool) {
	var e map[string]any
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	if d.Decode(&e) != nil {
		return nil, 0, false
	}
	number := func(v any, missing float64) (float64, bool) {
		if v == nil {
			return missing, true
		}
		n, isNumber := v.(json.Number)
		if !isNumber {
			return 0, false
		}
		f, err := n.Float64()
		return f, err == nil
	}
	val = make([]float32, 14)
	a, fine := number(e["a"], 7)
	val[0], once = float32(a), float32(a)
	if n, isNumber := e["a"].(json.Number); isNumber {
		once = reference32(n.String())
	}
	if !fine || once-once != 0 {
		return nil, 0, false
	}
	h := float32(math.Sqrt(0.5))
	switch e["b"] {
	case "DE":
		val[1] = h
	case "a rather long category":
		val[2] = h
	default:
		if _, isText := e["b"].(string); !isText && e["b"] != nil {
			return nil, 0, false
		}
		val[3] = h
	}
	switch e["c"] {
	case nil:
		val[4] = 0.5
	case true:
		val[4] = 1
	case false:
	default:
		return nil, 0, false
	}
	if !listReference(val[6:], e) {
		return nil, 0, false
	}
	inner, has := e["d.e"]
	if text, isText := e["d"].(string); isText {
		var in map[string]any
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if !json.Valid([]byte(text)) || d.Decode(&in) != nil || repeated([]byte(text)) {
			return nil, 0, false
		}
		e["d"] = in
	}
	if in, isObject := e["d"].(map[string]any); isObject {
		if v, there := in["e"]; there {
			if has {
				return nil, 0, false // twice
			}
			inner = v
		}
	}
	de, fine := number(inner, 0)
	val[5] = float32(min(max(de, -9), 9))
	return val, once, fine
}

// listReference makes the features of the field l: its length, the categories of l.o.p and the
// summary of l.v. It leaves out keys with dots.
func listReference(val []float32, e map[string]any) bool {
	copy(val, []float32{3, 0, 0, 0, 1, 2, 3, 4})
	if _, ok := e["l.v"]; ok || e["l.o.p"] != nil || e["l.o"] != nil {
		return false
	}
	if e["l"] == nil {
		return true
	}
	list, ok := e["l"].([]any)
	if !ok || len(list) > 1000 {
		return false
	}
	val[0] = float32(len(list))
	var vs []float64
	for _, item := range list {
		o, ok := item.(map[string]any)
		if !ok {
			continue
		}
		if o["o.p"] != nil {
			return false
		}
		switch v := o["v"].(type) {
		case nil:
		case json.Number:
			f, err := v.Float64()
			if err != nil {
				return false
			}
			vs = append(vs, float64(float32(f)))
		default:
			return false
		}
		inner, _ := o["o"].(map[string]any)
		switch p := inner["p"].(type) {
		case nil:
		case string:
			val[1+max(0, slices.Index([]string{"x", "y", p}, p))] = float32(math.Sqrt(0.5))
		default:
			return false
		}
	}
	if len(vs) > 0 {
		sum := 0.0
		for _, v := range vs {
			sum += v
		}
		if s := float32(sum); s-s != 0 {
			return false
		}
		copy(val[4:], []float32{float32(sum), float32(sum / float64(len(vs))), float32(slices.Min(vs)), float32(slices.Max(vs))})
	}
	return true
}

// FuzzEvents reads an event behind another one: what has been read before must
// not matter, and encoding/json says what is in it.
func FuzzEvents(f *testing.F) {
	for _, s := range []string{
		`{"a":1.5,"b":"DE","c":true,"d":{"e":-3},"y":1}`, `{"a":1,"b":"FR","x":[{"a":2}],"y":-1}`, `{"d":{"e":3,"a":1},"a":2}`, `{"d":{"a":1},"d.e":1e3}`, `{"d":"{\"e\":1,\"f\":{}}"}`, `{"d":" {\"e\":1} x"}`, `{"d":"{\"e\":\"{}\"}","d.e":2}`, `{"l":"{\"v\":[1,2]}"}`,
		`{"l":[{"v":1,"o":{"p":"x"},"w":2},{"v":-2.5,"o":{"p":"z"}},3,{}]}`, `{"l":[]}`, `{"l":[{"v":1,"v":2}]}`, `{"l":[{"v":[1]}],"l.v":[2]}`, `{"l":[[{"v":1}]]}`, `{"l":7,"d":[{"e":1}]}`,
		`{ "a" : 1 , "b" : "a rather long category" }`, `{"a":1,,"b":"DE"}`, `{,"a":1}`, `{"a":1"b":"DE"}`, `{"\u0061":12345678.25,"a":2}`, `{"b":"\u0044E","c":null}`, `{}`, "\x00\x00\x00\x00\x01{\"a\":1}",
	} {
		f.Add([]byte(s), []byte(`{"a":1.5,"b":"DE","c":true,"d":{"e":-3},"y":1}`))
		f.Add([]byte(`{"a":1.5,"b":"DE","c":true,"d":{"e":-3},"y":1}`), []byte(s))
	}
	o := Options{Schema: fuzzedEvents, Task: "regress"}
	f.Fuzz(func(t *testing.T, before, value []byte) {
		c := must(t, "json", o)
		want, ok := decodeChecked(t, c, value)
		// decodeChecked decodes several times.
		_, read, unlisted := FieldCounts(c)
		if unknown, _ := CompareFields(c, value); ok && uint64(len(unknown)) != min(unlisted/read, MaxNames) {
			t.Fatalf("%q has the unknown fields %q, decoding counted %d in %d", value, unknown, unlisted, read)
		}
		var ex stream.Example
		again := must(t, "json", o)
		for range 2 {
			_ = again.Decode(before, &ex)
			err := again.Decode(value, &ex)
			if (err == nil) != ok || ok && !sameBits(&ex, &want) {
				t.Fatalf("behind %q it is %+v, %v, alone %+v, %v", before, ex, err, want, ok)
			}
			if first := c.Decode(value, &want); !ok && first.Error() != err.Error() {
				t.Fatalf("behind %q: %v, alone %v", before, err, first)
			}
		}
		if !ok || !json.Valid(unframed(value)) || repeated(unframed(value)) {
			if ok && !json.Valid(unframed(value)) {
				t.Fatalf("accepted %q", value)
			}
			return
		}
		if val, once, known := referenceEvent(unframed(value)); known {
			for i := range val {
				if got := math.Float32bits(want.X.Val[i]); got != math.Float32bits(val[i]) && (i > 0 || got != math.Float32bits(once)) {
					t.Fatalf("%v, want %v", want.X.Val, val)
				}
			}
		}
	})
}
