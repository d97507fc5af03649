package codec

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
)

// A key of a map has the same cell in all records.
func TestKeysOfMaps(t *testing.T) {
	var names []string
	in := (&level{leaves: &names, seen: map[string]int{}}).In("m")
	a, b := in.Cell("a"), in.Cell("b")
	if in.Cell("a") != a || in.Cell("b") != b || !slices.Equal(names, []string{"m.a", "m.b"}) {
		t.Errorf("%d, %d of %q", a, b, names)
	}
}

// TestCompareFields: fields are known by all the names that decoding accepts.
func TestCompareFields(t *testing.T) {
	const schema = `{"root":"payload.after","label":"y","id":"key","fields":[{"name":"a","type":"numeric","means":[0],"gaps":[true]},` +
		`{"name":"d.e","type":"numeric","means":[0],"gaps":[true]},{"name":"skipped","type":"ignore"}]}`
	events, vectors := must(t, "json", Options{Schema: schema, Task: "regress"}), must(t, "json", Options{Task: "regress"})
	for _, c := range []struct {
		of               Codec
		record           string
		unknown, missing []string
	}{
		{events, `{"a":1,"d":{"e":2},"y":1,"key":"k","skipped":[{"x":1}]}`, nil, nil},
		{events, `{"a":null,"d.e":null}`, nil, nil},
		{events, `{"payload":{"after":{"a":1,"d":{"e":1}}}}`, nil, nil},
		{events, `{"payload":{"before":null,"after":{"a":1,"D":1}},"op":"c"}`, []string{"payload.before", "payload.after.D", "op"}, []string{"d.e"}},
		{events, `{"A":{"b":[1,{}]},"d":{"f":1}}`, []string{"A", "d.f"}, []string{"a", "d.e"}},
		{events, `{}`, nil, []string{"a", "d.e"}},
		{events, `{"a":1,`, nil, nil},
		{vectors, `{"x":[1],"y":2,"id":"i","weight":1,"ts":3,"foo":4}`, []string{"foo"}, nil},
		{must(t, "csv", Options{Task: "regress"}), `{"foo":4}`, nil, nil},
	} {
		unknown, missing := CompareFields(c.of, []byte(c.record))
		if !slices.Equal(unknown, c.unknown) || !slices.Equal(missing, c.missing) {
			t.Errorf("%s: unknown %q, missing %q, want %q and %q", c.record, unknown, missing, c.unknown, c.missing)
		}
	}
	var b strings.Builder
	for i := range 2 * MaxNames {
		fmt.Fprintf(&b, `"k%d":1,`, i)
	}
	if unknown, _ := CompareFields(events, []byte("{"+b.String()+`"a":1}`)); len(unknown) != MaxNames {
		t.Errorf("%d names, want %d", len(unknown), MaxNames)
	}
}

// TestNotFiniteEvents: numbers that are not finite fall under the schema's policy whatever
// the type of the field is, and nothing is inferred from them.
func TestNotFiniteEvents(t *testing.T) {
	var sample []string
	for i := range SampleSize {
		n := []string{"NaN", "1e400", "2.5", "-7"}[i%4]
		sample = append(sample, fmt.Sprintf(`{"a":%s,"shop_id":%s,"hash":"x","tags":["p",%s],"list":[1,%s],"at":"2026-01-02","on":true,"b":%d,"y":%d}`,
			n, n, n, n, i%3, i%3))
	}
	sample[5] = `{"a":1,"b":1,"y":NaN}`
	for _, policy := range []string{"refuse", "missing"} {
		c, o := discovered(t, "json", Options{Events: `{"label":"y","others":"auto","invalid":"` + policy + `","features":{
			"hash":{"type":"categorical","hash":8}, "tags":{"type":"tags"}, "at":{"type":"time"}}}`}, sample)
		if o.Labels != "0,1,2" {
			t.Errorf("labels %s", o.Labels)
		}
		for _, field := range []string{"a", "shop_id", "hash", "tags", "list", "at", "on"} {
			var want stream.Example
			if err := c.Decode([]byte(`{"b":1,"y":1}`), &want); err != nil {
				t.Fatal(err)
			}
			for _, v := range []string{"NaN", "-Infinity", "1e400", "-1e400"} {
				name := field
				switch field {
				case "tags", "list":
					name, v = field+"[1]", "[1,"+v+"]"
				}
				var x stream.Example
				err := c.Decode([]byte(`{"`+field+`":`+v+`,"b":1,"y":1}`), &x)
				if policy == "refuse" {
					if fe, ok := err.(*stream.FieldError); !ok || fe.Reason != stream.ReasonNotFinite || fe.Field != name {
						t.Errorf("%s: %s: %v", field, v, err)
					}
				} else if err != nil || !reflect.DeepEqual(x, want) {
					t.Errorf("%s: %s: %v, %v, want %v", field, v, err, x, want)
				}
			}
		}
	}
}
