package codec

import (
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
)

// TestLabelNames reads labels that have names in every codec, and writes them.
func TestLabelNames(t *testing.T) {
	for _, c := range []struct {
		codec, labels, value string
		y                    float64
		err                  string // part of the error; empty: accepted
		back                 string // what the encoder makes of it; empty: value
	}{
		{codec: "json", labels: "no,yes", value: `{"x":[1],"y":"yes"}`, y: 1},
		{codec: "json", labels: "no,yes", value: `{"x":[1],"y":" NO "}`, y: -1, back: `{"x":[1],"y":"no"}`},
		{codec: "json", labels: "no,yes", value: `{"x":[1],"y":"maybe"}`, err: `the label is "maybe", want no or yes`},
		{codec: "json", labels: "no,yes", value: `{"x":[1],"y":1}`, err: "the label is 1, want no or yes"},
		{codec: "json", labels: "no,yes", value: `{"x":[1],"y":true}`, err: `the label is "true"`},
		{codec: "json", labels: "false,true", value: `{"x":[1],"y":true}`, y: 1},
		{codec: "json", labels: "false,true", value: `{"x":[1],"y":false}`, y: -1},
		{codec: "json", labels: "false,true", value: `{"x":[1],"y":"True"}`, y: 1, back: `{"x":[1],"y":true}`},
		{codec: "json", labels: "3,5", value: `{"x":[1],"y":5}`, y: 1},
		{codec: "json", labels: "3,5", value: `{"x":[1],"y":"3"}`, y: -1, back: `{"x":[1],"y":3}`},
		{codec: "json", labels: "0,1", value: `{"x":[1],"y":"1.0"}`, y: 1, back: `{"x":[1],"y":1}`},
		{codec: "json", labels: "01", value: `{"x":[1],"y":"1"}`, err: "want a number"},
		{codec: "json", labels: `a\b,c`, value: `{"x":[1],"y":"a\\b"}`, y: -1},
		{codec: "csv", labels: "ham,spam", value: "1,spam", y: 1},
		{codec: "csv", labels: "ham,spam", value: `1,"Ham"`, y: -1, back: "1,ham"},
		{codec: "csv", labels: "ham,spam", value: "1,eggs", err: `column 2: the label is "eggs"`},
		{codec: "csv", labels: "0,2", value: "1,2", y: 1},
		{codec: "libsvm", labels: "ham,spam", value: "spam 1:2", y: 1},
		{codec: "libsvm", labels: "ham,spam", value: "eggs 1:2", err: `the label is "eggs"`},
		{codec: "libsvm", labels: "-2,2", value: "-2 1:2", y: -1},
		{codec: "msgpack", labels: "false,true", value: "\x82\xa1x\xc4\x04\x00\x00\x80\x3f\xa1y\xc3", y: 1},
		{codec: "msgpack", labels: "false,true", value: "\x82\xa1x\xc4\x04\x00\x00\x80\x3f\xa1y\xc2", y: -1},
		{codec: "msgpack", labels: "no,yes", value: "\x82\xa1x\xc4\x04\x00\x00\x80\x3f\xa1y\xd9\x03yes", y: 1},
		{codec: "msgpack", labels: "0,1000", value: "\x82\xa1x\xc4\x04\x00\x00\x80\x3f\xa1y\xcb\x40\x8f\x40\x00\x00\x00\x00\x00", y: 1},
		{codec: "msgpack", labels: "no,yes", value: "\x82\xa1x\xc4\x04\x00\x00\x80\x3f\xa1y\xa3ye", err: "y: unexpected EOF"},
	} {
		e, err := New(c.codec, Options{Labels: c.labels, CSV: CSVOptions{LabelColumn: "last"}})
		if err != nil {
			t.Fatal(err)
		}
		var ex stream.Example
		err = e.Decode([]byte(c.value), &ex)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) || ex.Labelled {
				t.Errorf("%s, %s, %q: %v, %+v; want %s", c.codec, c.labels, c.value, err, ex, c.err)
			}
			continue
		}
		if err != nil || ex.Y != c.y || !ex.Labelled {
			t.Errorf("%s, %s, %q: %v, %+v", c.codec, c.labels, c.value, err, ex)
			continue
		}
		want := c.value
		if c.back != "" {
			want = c.back
		}
		if got, err := e.Append(nil, &ex); err != nil || string(got) != want {
			t.Errorf("%s, %s: %q comes back as %q, %v", c.codec, c.labels, c.value, got, err)
		}
	}
	l, err := NewLabels(Options{Labels: "no,yes"})
	if err != nil {
		t.Fatal(err)
	}
	for value, y := range map[string]float64{"yes": 1, " no\n": -1, `{"id":"a","y":"yes"}`: 1} {
		var ex stream.Example
		if err := l.Decode([]byte(value), &ex); err != nil || ex.Y != y || !ex.Labelled {
			t.Errorf("label %q: %+v, %v", value, ex, err)
		}
	}
	for labels, want := range map[string]string{
		"no": "want pm1", "a,b,c": "want pm1", ",a": "empty", "a,?": "?", "a,A": "case", "1,1.0": "same number", "a,\"b": "name of a label", "a,\xff": "name of a label",
		"a," + strings.Repeat("b", 101): "name of a label",
	} {
		if _, err := New("json", Options{Labels: labels}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("labels %q: %v, want %s", labels, err, want)
		}
	}
	if _, err := New("libsvm", Options{Labels: "not spam,spam"}); err == nil {
		t.Error("libsvm takes a label with a blank")
	}
	if _, err := New("csv", Options{Labels: "a;b,c", CSV: CSVOptions{Comma: ';'}}); err == nil {
		t.Error("csv takes a label with its separator")
	}
	// A regression has no names.
	r, err := New("json", Options{Labels: "no,yes", Task: "regress"})
	if err != nil {
		t.Fatal(err)
	}
	var ex stream.Example
	if err := r.Decode([]byte(`{"x":[1],"y":2.5}`), &ex); err != nil || ex.Y != 2.5 {
		t.Errorf("regression: %+v, %v", ex, err)
	}
}
