package codec

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
)

func TestLabels(t *testing.T) {
	for _, c := range []struct {
		opts  Options
		value string
		id    string
		y     float64
		err   string // part of the error; empty: accepted
	}{
		{value: "+1", y: 1},
		{value: " -1 \r\n", y: -1},
		{value: "1.0", y: 1},
		{value: `{"y":1}`, y: 1},
		{value: ` {"id":"a7","y":-1,"ts":[1,{"z":2}]}`, id: "a7", y: -1},
		{value: `{"id":17,"y":1}`, id: "17", y: 1},
		{value: `{"y":1,"x":[0.5,1]}`, y: 1},
		{opts: Options{Labels: "01"}, value: "0", y: -1},
		{opts: Options{Labels: "12"}, value: `{"y":2}`, y: 1},
		{opts: Options{Task: "regress"}, value: "2.75e-1", y: 0.275},
		{value: "", err: "empty"},
		{value: "  \n", err: "empty"},
		{value: "?", err: "label"},
		{value: "1 2:3", err: "label"},
		{value: "1x", err: "label"},
		{value: "nan", err: "label"},
		{value: "2", err: "want -1 or 1"},
		{value: `{"y":null}`, err: "missing"},
		{value: `{"id":"a"}`, err: "missing"},
		{value: `{"y":"1"}`, err: "number"},
		{value: `{"y":1,"y":1}`, err: "twice"},
		{value: `{"y":1}}`, err: "after the object"},
		{value: `{"y":1,"x":["?"}`, err: "want , or ]"},
		{value: `{"y":[1]}`, err: "list"},
		{value: `{"label":1,"id":"a7","y":null}`, id: "a7", y: 1},
		{value: `{"outcome":-1,"class":1}`, y: 1},
		{opts: Options{LabelsField: "fraud", Labels: "false,true"}, value: `{"id":"a7","fraud":true,"y":"?"}`, id: "a7", y: 1},
		{opts: Options{LabelsField: "fraud", Labels: "false,true"}, value: `{"id":"a7","y":true}`, err: "fraud"},
		{opts: Options{LabelsField: "after.fraud", LabelsID: "after.order.id", Labels: "no,yes"}, value: `{"id":"a7","after":{"order":{"id":12},"fraud":"no"}}`, id: "12", y: -1},
		{opts: Options{LabelsField: "fraud", LabelsID: "order_id"}, value: "\x00\x00\x00\x00\x07" + `{"order_id":"a7","fraud":-1}`, id: "a7", y: -1},
		{opts: Options{LabelsField: "loss", LabelsID: "order_id", Task: "regress"}, value: `{"order_id":"a7","loss":0.1}`, id: "a7", y: 0.1},
		{value: strings.Repeat("1", MaxValueBytes+1), err: "limit"},
		{opts: Options{LabelsID: "1"}, value: "a7,1\r\n", id: "a7", y: 1},
		{opts: Options{LabelsID: "2", LabelsField: "1", Labels: "no,yes", CSV: CSVOptions{Comma: ';'}}, value: `"no";"a;7";x`, id: "a;7", y: -1},
		{opts: Options{LabelsField: "2", Labels: "false,true"}, value: "a7,true", y: 1},
		{opts: Options{LabelsID: "1", LabelsField: "2"}, value: "-1", y: -1},
		{opts: Options{LabelsID: "1"}, value: `{"1":"a7","y":1}`, id: "a7", y: 1},
		{opts: Options{LabelsID: "1"}, value: "a7,", err: "missing"},
		{opts: Options{LabelsID: "1"}, value: "order_id,fraud", err: "number"},
		{opts: Options{LabelsID: "1"}, value: `"a7,1`, err: "no proper end"},
		{value: "a7,1", err: "number"},
		{value: "1e999", opts: Options{Task: "regress"}, err: "finite"},
	} {
		dec, err := NewLabels(c.opts)
		if err != nil {
			t.Fatal(err)
		}
		old := stream.Example{ID: "old", X: stream.Vec{Val: []float32{1}}, Y: 9}
		ex := old
		err = dec.Decode([]byte(c.value), &ex)
		if c.err != "" {
			var fe *stream.FieldError
			if !errors.As(err, &fe) || !strings.Contains(err.Error(), c.err) || ex.ID != "old" || ex.Y != 9 || ex.Labelled {
				t.Errorf("%q: error %v does not name %q, or the example was changed: %+v", c.value, err, c.err, ex)
			}
			continue
		}
		if err != nil || ex.ID != c.id || ex.Y != c.y || !ex.Labelled || ex.X.Val != nil || ex.X.Idx != nil {
			t.Errorf("%q: %+v, %v", c.value, ex, err)
		}
	}
	if _, err := NewLabels(Options{Labels: "abc"}); err == nil {
		t.Error("an unknown form of labels was accepted")
	}
	if _, err := NewLabels(Options{LabelsField: "a", LabelsID: "a"}); err == nil {
		t.Error("one field was accepted as label and identity")
	}
}

func FuzzLabels(f *testing.F) {
	for _, s := range []string{"+1", `{"y":-1,"id":"a"}`, `{"y":1,"x":{"3":1}}`, "-1e0 \r\n", "{"} {
		f.Add([]byte(s))
	}
	dec, err := NewLabels(Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		var ex stream.Example
		var err error
		if got, limit := allocated(func() { err = dec.Decode(value, &ex) }), uint64(4*len(value)+64<<10); got > limit {
			t.Fatalf("%d bytes allocated for %d, the limit is %d", got, len(value), limit)
		}
		var fe *stream.FieldError
		if err != nil && (!errors.As(err, &fe) || fe.Reason.Known() != fe.Reason || fe.Reason == stream.ReasonOther) || err == nil && (!ex.Labelled || ex.Y != 1 && ex.Y != -1 || ex.X.Dim() != 0) {
			t.Fatalf("%+v, %v", ex, err)
		}
	})
}

// TestDiscoveryAwaitsLabels: with labels in a topic of their own, the labels are known only
// when some have come, however many examples have. It says what is missing.
func TestDiscoveryAwaitsLabels(t *testing.T) {
	d, err := NewDiscovery("json", Options{Labels: Auto, Events: Auto, Unlabelled: true, Label: "fraud", ID: "order.id", LabelsID: "id"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 * SampleSize {
		if d.Look(fmt.Appendf(nil, `{"order":{"id":%d},"amount":%d}`, i, i%50)) {
			t.Fatalf("enough is known after %d examples and no label", i+1)
		}
	}
	if _, err := d.Decide(); err == nil || !strings.Contains(err.Error(), "no label has come with the first 2000 examples") {
		t.Errorf("without labels: %v", err)
	}
	for i := range vectorSample {
		rec := &stream.Record{Value: fmt.Appendf(nil, `{"id":"%d","fraud":%v}`, i, i == 100)}
		if enough, err := d.LookLabel(t.Context(), rec); err != nil || enough != (i == vectorSample-1) {
			t.Fatalf("enough is known after %d labels: %v, %v", i+1, enough, err)
		}
	}
	o, err := d.Decide()
	if err != nil || o.Labels != "false,true" {
		t.Fatalf("labels %s, %v", o.Labels, err)
	}
	c, err := d.Codec(o)
	if err != nil {
		t.Fatal(err)
	}
	var x stream.Example
	if err := c.Decode([]byte(`{"order":{"id":"a7"},"amount":3}`), &x); err != nil || x.ID != "a7" || x.Labelled || x.X.Dim() != 1 {
		t.Errorf("%+v, %v", x, err)
	}
}

// TestMissingLabelIsALabel: the label of examples without one is one of the labels.
func TestMissingLabelIsALabel(t *testing.T) {
	for missing, want := range map[string]string{"": "", "none": `"click","none"`, `"none"`: `"click","none"`} {
		d, err := NewDiscovery("json", Options{Labels: Auto, Events: Auto, Unlabelled: true, ID: "id", LabelsID: "id", MissingLabel: missing})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			d.Look(fmt.Appendf(nil, `{"id":%d,"amount":%d}`, i, i%50))
		}
		if _, err := d.Decide(); err == nil || !strings.Contains(err.Error(), "no label has come") {
			t.Errorf("%q: without labels: %v", missing, err)
		}
		if _, err := d.LookLabel(t.Context(), &stream.Record{Value: []byte(`{"id":"7","y":"click"}`)}); err != nil {
			t.Fatal(err)
		}
		if o, err := d.Decide(); o.Labels != want || (err == nil) != (missing != "") || err != nil && !strings.Contains(err.Error(), "--missing-label") {
			t.Errorf("%q: labels %s, %v", missing, o.Labels, err)
		}
	}
}

// TestFieldOfIdentity: vectors, too, may have their identity in any field.
func TestFieldOfIdentity(t *testing.T) {
	for value, want := range map[string]string{
		`{"x":[1],"id":"other","order":{"id":7}}`: "7",
		`{"x":[1],"id":"other"}`:                  "",
	} {
		c, err := New("json", Options{ID: "order.id"})
		if err != nil {
			t.Fatal(err)
		}
		var x stream.Example
		if err := c.Decode([]byte(value), &x); err != nil || x.ID != want {
			t.Errorf("%s: id %q, %v, want %q", value, x.ID, err, want)
		}
	}
	for _, name := range []string{"libsvm", "csv", "msgpack"} {
		if _, err := New(name, Options{ID: "order_id"}); err == nil || !strings.Contains(err.Error(), "no field order_id") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
