package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/internal/testkit/alloctest"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/twmb/avro"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/dynamicpb"
)

// wireSchema has a field of each type, as the schemas below have.
const wireSchema = `{"label":"label","id":"id","fields":[
 {"name":"amount","type":"numeric","means":[0],"gaps":[true]},
 {"name":"at","type":"time","parts":["hour","weekday"],"gaps":[true]},
 {"name":"cart","type":"length","means":[1],"gaps":[true]},
 {"name":"cart.of.kind","type":"tags","hash":8,"gaps":[false]},
 {"name":"cart.price","type":"summary","means":[1,1,1,1],"gaps":[true]},
 {"name":"country","type":"categorical","categories":["DE","FR"],"gaps":[true]},
 {"name":"customer.age","type":"numeric","means":[0],"gaps":[true]},
 {"name":"customer.vip","type":"boolean","means":[0],"gaps":[true]},
 {"name":"levels.7","type":"numeric","means":[0],"gaps":[true]},
 {"name":"props.a","type":"categorical","categories":["b"],"gaps":[true]},
 {"name":"raw","type":"ignore"},
 {"name":"tags","type":"tags","hash":64,"gaps":[true]}]}`

// decodeChecked decodes a value within the bound on memory, and with an arena to
// the same; errors must be those of decoders.
func decodeChecked(t *testing.T, c codec.Codec, value []byte) (ex stream.Example, ok bool) {
	t.Helper()
	var err error
	alloctest.Check(t, len(value), func() { err = c.Decode(value, &ex) })
	var in stream.Example
	if err2 := c.DecodeIn(new(stream.Arena), value, &in); fmt.Sprint(err2) != fmt.Sprint(err) || err == nil && !sameBits(&in, &ex) {
		t.Fatalf("Decode: %+v, %v, DecodeIn: %+v, %v", ex, err, in, err2)
	}
	var field *stream.FieldError
	if err != nil && (!errors.As(err, &field) || field.Err == nil || field.Stage == "" || field.Reason.Known() != field.Reason || field.Reason == stream.ReasonOther) {
		t.Fatalf("error %#v", err)
	}
	if err == nil && (ex.X.CheckFinite() >= 0 || math.IsNaN(ex.Y)) {
		t.Fatalf("%+v", ex)
	}
	return ex, err == nil
}

// discovery reads all fields of records.
func discovery(tb testing.TB, s *codec.WrittenSchema) *codec.Discovery {
	tb.Helper()
	d, err := codec.NewDiscovery("avro", codec.Options{Labels: codec.Auto, Events: codec.Auto, Written: s})
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// FuzzAvro reads any bytes as a record: no panic, bounded memory, and what
// twmb/avro does not read is refused too.
func FuzzAvro(f *testing.F) {
	s, err := avro.Parse(eventAvro)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(avroValue(f, eventAvro, `{"id":7,"amount":{"double":1.5},"country":"DE","customer":{"vip":true,"age":null},"tags":["a","b"],"at":1700000000000,"cart":[{"price":1,"of":{"kind":{"string":"k"},"codes":[1]}}],"raw":"x","props":{"map":{"a":{"string":"b"},"c":{"double":1}}},"levels":{"7":{"double":1}},"label":"spam"}`))
	f.Add(avroValue(f, eventAvro, `{"id":-7,"amount":null,"country":"IT","customer":{"vip":false,"age":{"int":3}},"tags":[],"at":0,"cart":[],"raw":"","props":null,"levels":{},"label":"ham"}`))
	f.Add([]byte{14, 0, 0, 1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	c := must(f, "avro", codec.Options{Schema: wireSchema, Labels: "ham,spam", Written: avroSchema(eventAvro)})
	f.Fuzz(func(t *testing.T, data []byte) {
		ex, ok := decodeChecked(t, c, data)
		var theirs any
		rest, err := s.Decode(data, &theirs)
		if ok && (err != nil || len(rest) > 0) {
			t.Fatalf("%+v, and twmb/avro says %v, %d bytes left", ex, err, len(rest))
		}
		d := discovery(t, avroSchema(eventAvro))
		alloctest.Check(t, 64*len(data), func() {
			_, _ = d.LookRecord(context.Background(), &stream.Record{Value: data})
		})
	})
}

// FuzzProtobuf is the same for a message, where dynamicpb is the measure.
func FuzzProtobuf(f *testing.F) {
	s, file := protoFile(f, eventProto)
	m := file.Messages().ByName("Event")
	c := must(f, "protobuf", codec.Options{Schema: wireSchema, Labels: "ham,spam", Written: s2message(s, "shop.Event")})
	f.Add(protoValue(f, m, `{"id":"7","amount":1.5,"country":"FR","customer":{"vip":true,"age":3},"tags":["a","b"],"at":"2026-01-01T00:00:00Z","cart":[{"price":1,"of":{"kind":"k"}},{}],"raw":"eA==","props":{"a":"b"},"levels":{"7":1},"label":"spam"}`))
	f.Add([]byte{0x2a, 1, 'a', 0x4a, 1, 'b', 0x2a, 1, 'c'})
	f.Add([]byte{0x1a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, data []byte) {
		_, ok := decodeChecked(t, c, data)
		if err := unmarshal(data, dynamicpb.NewMessage(m)); ok && err != nil && !strings.Contains(err.Error(), "depth") {
			// What is not wanted is passed over, and may hold anything.
			if unmarshal(wanted(data), dynamicpb.NewMessage(m)) != nil {
				t.Fatalf("accepted, and dynamicpb says %v", err)
			}
		}
	})
}

// wanted returns the fields of data of which a feature is made.
func wanted(data []byte) (out []byte) {
	for len(data) > 0 {
		n, _, k := protowire.ConsumeField(data)
		if k < 0 {
			return data
		}
		if n != 7 && n != 8 {
			out = append(out, data[:k]...)
		}
		data = data[k:]
	}
	return out
}

// FuzzFrames reads any bytes as the frame of a record, in the value and in a
// header.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 1}, []byte{2, 2, 8, 1}, false)
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 4, 0, 0}, []byte{8, 1}, true)
	s, _ := protoFile(f, eventProto)
	c := must(f, "protobuf", codec.Options{Schema: wireSchema, Labels: "ham,spam", Schemas: memorySchemas{1: s}})
	f.Fuzz(func(t *testing.T, head, value []byte, header bool) {
		rec := stream.Record{Value: append(slices.Clip(head), value...)}
		if header {
			rec = stream.Record{Value: value, Headers: []stream.Header{{Key: "__value_schema_id", Value: head}}}
		}
		var ex stream.Example
		err := stream.DecodeRecord(context.Background(), c, nil, &rec, &ex)
		if _, ok := err.(*stream.FieldError); err != nil && !ok {
			t.Fatal(err)
		}
	})
}

// FuzzAvroSchemas makes plans for any schema, and reads with them.
func FuzzAvroSchemas(f *testing.F) {
	for _, s := range []string{eventAvro, `{"type":"record","name":"L","fields":[{"name":"amount","type":"int"},{"name":"customer","type":["null","L"]}]}`,
		`{"type":"record","name":"R","fields":[{"name":"tags","type":{"type":"array","items":"null"}},{"name":"amount","type":{"type":"fixed","name":"F","size":0}}]}`,
		`{"type":"record","name":"R","fields":[{"name":"amount","type":{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}}]}`,
		`{"type":"record","name":"A","fields":[{"name":"a","type":"A"}]}`} {
		f.Add(s, []byte{2, 2, 2, 2, 0, 0, 0, 0, 0, 0})
	}
	f.Fuzz(func(t *testing.T, text string, data []byte) {
		if len(text) > 4096 || len(data) > 1024 || !json.Valid([]byte(text)) {
			return
		}
		for _, all := range []bool{false, true} {
			c, err := codec.New("avro", codec.Options{Schema: wireSchema, Labels: "ham,spam", Written: avroSchema(text)})
			if err != nil {
				return
			}
			if all {
				_, _ = discovery(t, avroSchema(text)).LookRecord(context.Background(), &stream.Record{Value: data})
				continue
			}
			var ex stream.Example
			if err := c.Decode(data, &ex); err == nil && (ex.X.CheckFinite() >= 0 || math.IsNaN(ex.Y)) {
				t.Fatalf("%+v", ex)
			}
		}
	})
}

// A list of items without bytes, or of as many as the record claims, costs no more memory
// than its length allows.
func TestClaimedItems(t *testing.T) {
	for name, items := range map[string]string{"null": `"null"`, "empty": `{"type":"fixed","name":"F","size":0}`, "string": `"string"`} {
		c := must(t, "avro", codec.Options{Schema: eventsOf, Schemas: memorySchemas{1: avroSchema(
			`{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"array","items":` + items + `}}]}`)}})
		value := framed(1, []byte{0x80, 0x80, 0x80, 0x80, 0x08, 0}) // 2³⁰ items
		var ex stream.Example
		var err error
		if n := alloctest.Bytes(func() { err = c.Decode(value, &ex) }); n > 1<<20 && alloctest.Exact {
			t.Errorf("%s: %d bytes allocated, error %v", name, n, err)
		}
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
