package codec

import (
	"errors"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
)

func TestWeight(t *testing.T) {
	json := must(t, "json", Options{})
	ex := stream.Example{Weight: 7}
	for value, want := range map[string]float32{
		`{"x":[1],"weight":2.5}`: 2.5, `{"x":[1],"weight":1}`: 0, `{"weight":null,"x":[1]}`: 0, `{"x":[1]}`: 0,
	} {
		if err := json.Decode([]byte(value), &ex); err != nil || ex.Weight != want {
			t.Errorf("%s: weight %g, %v", value, ex.Weight, err)
		}
	}
	for value, reason := range map[string]stream.Reason{
		`{"x":[1],"weight":0}`: stream.ReasonLimit, `{"x":[1],"weight":-2}`: stream.ReasonLimit, `{"x":[1],"weight":1e99}`: stream.ReasonNotFinite,
		`{"x":[1],"weight":NaN}`: stream.ReasonNotFinite, `{"x":[1],"weight":"2"}`: stream.ReasonSyntax, `{"x":[1],"weight":2,"weight":2}`: stream.ReasonDuplicate,
	} {
		var why *stream.FieldError
		if err := json.Decode([]byte(value), &ex); !errors.As(err, &why) || why.Field != "weight" || why.Reason != reason {
			t.Errorf("%s: %v", value, err)
		}
	}
	for _, name := range []string{"json", "msgpack"} {
		c := must(t, name, Options{})
		for _, w := range []float32{0, 0.1, 1, 3} {
			in := stream.Example{X: stream.Vec{Val: []float32{1}}, Y: 1, Labelled: true, ID: "a", Weight: w}
			b, err := c.Append(nil, &in)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Decode(b, &ex); err != nil || ex.Importance() != in.Importance() || ex.ID != "a" {
				t.Errorf("%s, weight %g: %+v, %v", name, w, ex, err)
			}
		}
		if _, err := c.Append(nil, &stream.Example{X: stream.Vec{Val: []float32{1}}, Weight: -1}); err == nil {
			t.Errorf("%s: a weight of -1 is written", name)
		}
	}
}
