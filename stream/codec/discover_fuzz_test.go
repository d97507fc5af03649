package codec

import (
	"bytes"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
)

// FuzzDiscovery takes lines for the records of a stream, finds out what they
// are, and reads them: whatever they are, what is found can be read again, and
// says the same of the same records in another order.
func FuzzDiscovery(f *testing.F) {
	for _, s := range []string{
		`{"a":1,"b":"x","y":1}` + "\n" + `{"b":null,"a":2.5,"y":0}`,
		`{"x":{"a":[1,null],"t":["u","v"]},"y":true}` + "\n" + `{"x":{"a":[1,2],"t":[]},"y":false}`,
		`{"schema":{},"payload":{"op":"c","after":{"n":1,"label":"a"}}}` + "\n" + `{"payload":{"after":{"n":2,"label":"b"},"op":"c"},"schema":{}}`,
		`{"x":[1,2],"y":-1}` + "\n" + `{"x":[1,2],"y":1}`, "1,red,yes\n2,blue,no", "a,b\n1,2\n3,?", `{"a.b":1,"a":{"b":2},"y":1}`,
		`{"p":"$1,234.50","d":"31/12/2025","c":[{"k":1},{"k":2.5,"m":{"n":"x"}}],"y":1}` + "\n" + `{"p":"5 €","d":"1:02:03","c":"{\"k\":1}","y":0}`,
		`{"at":"2026-01-01T00:00:00Z","m":"one two three four five","label":3}` + "\n" + `{"at":"2026-01-02","m":"six seven eight nine","label":4}`,
	} {
		f.Add(s, false)
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, text string, csv bool) {
		name, o := "json", Options{Labels: Auto, Events: Auto}
		if csv {
			name, o.CSV.LabelColumn = "csv", "last"
		}
		lines := bytes.Split([]byte(text), []byte("\n"))
		found := func(lines [][]byte) (*Discovery, Options, error) {
			d, err := NewDiscovery(name, o)
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range lines {
				d.Look(l)
			}
			o, err := d.Decide()
			return d, o, err
		}
		d, o1, err := found(lines)
		if err != nil {
			return
		}
		c, err := d.Codec(o1)
		if err != nil {
			t.Fatalf("%+v: %v", o1, err)
		}
		dim := -1
		for _, l := range lines {
			var ex stream.Example
			if c.Decode(l, &ex) != nil {
				continue
			}
			if k := ex.X.CheckFinite(); k >= 0 {
				t.Fatalf("%q: %v", l, ex.X)
			}
			if o1.Schema != "" && ex.X.Idx == nil {
				if dim < 0 {
					dim = len(ex.X.Val)
				}
				if len(ex.X.Val) != dim {
					t.Fatalf("%q has %d features, others %d", l, len(ex.X.Val), dim)
				}
			}
		}
		for i, j := 0, len(lines)-1; i < j; i, j = i+1, j-1 {
			lines[i], lines[j] = lines[j], lines[i]
		}
		if _, o2, err := found(lines); err != nil || o1.Labels != o2.Labels || o1.Schema != o2.Schema {
			t.Fatalf("%+v, in the other order %+v, %v", o1, o2, err)
		}
	})
}
