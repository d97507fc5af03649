package registry

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// TestLabels: records of a topic of labels may be Avro, Protobuf or JSON, one beside the
// other, framed in the value or in a header.
func TestLabels(t *testing.T) {
	protobuf, file := protoFile(t, `syntax = "proto3"; message L { string order = 1; bool fraud = 2; Ref ref = 3; message Ref { int64 order = 1; } }`)
	schemas := memorySchemas{
		1: avroSchema(`{"type":"record","name":"l","fields":[{"name":"fraud","type":"boolean"},{"name":"ref","type":{"type":"record","name":"r","fields":[{"name":"order","type":"long"}]}}]}`),
		2: protobuf, 3: {Type: "JSON"},
		4: avroSchema(`{"type":"record","name":"l","fields":[{"name":"order","type":"string"}]}`),
	}
	dec, err := codec.NewLabels(codec.Options{Labels: "false,true", LabelsField: "fraud", LabelsID: "ref.order", Schemas: schemas})
	if err != nil {
		t.Fatal(err)
	}
	message := protoValue(t, file.Messages().ByName("L"), `{"order":"x","fraud":true,"ref":{"order":"17"}}`)
	avro := []byte{1, 34} // true, 17
	for name, r := range map[string]stream.Record{
		"avro":           {Value: append([]byte{0, 0, 0, 0, 1}, avro...)},
		"avro, header":   {Value: avro, Headers: []stream.Header{{Key: "__value_schema_id", Value: []byte{0, 0, 0, 0, 1}}}},
		"protobuf":       {Value: append([]byte{0, 0, 0, 0, 2, 0}, message...)},
		"json":           {Value: []byte(`{"ref":{"order":17},"fraud":true}`)},
		"json, framed":   {Value: []byte("\x00\x00\x00\x00\x03" + `{"ref":{"order":17},"fraud":true}`)},
		"json, header":   {Value: []byte(`{"ref":{"order":17},"fraud":true}`), Headers: []stream.Header{{Key: "__value_schema_id", Value: []byte{0, 0, 0, 0, 3}}}},
		"no such schema": {Value: append([]byte{0, 0, 0, 0, 9}, avro...)},
		"no label":       {Value: append([]byte{0, 0, 0, 0, 4}, 2, 'a')},
		"cut off":        {Value: []byte{0, 0, 0, 0, 1, 1}},
	} {
		var x stream.Example
		err := stream.DecodeRecord(context.Background(), dec, nil, &r, &x)
		want := map[string]string{"no such schema": "schema 9", "no label": "fraud: missing", "cut off": "ref.order"}[name]
		var refused *stream.FieldError
		switch {
		case want != "" && (!errors.As(err, &refused) || !strings.Contains(err.Error(), want) || x.Labelled):
			t.Errorf("%s: %+v, %v, want an error with %q", name, x, err, want)
		case want == "" && (err != nil || x.ID != "17" || !x.Labelled || x.Y != 1):
			t.Errorf("%s: %+v, %v", name, x, err)
		}
	}
}
