package registry

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bufbuild/protocompile"
	"github.com/twmb/avro"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// memorySchemas are schemas by their numbers.
type memorySchemas map[uint32]*codec.WrittenSchema

func (m memorySchemas) Schema(_ context.Context, id codec.SchemaID) (*codec.WrittenSchema, error) {
	if id.GUID != [16]byte{} {
		id.Number = uint32(id.GUID[15])
	}
	if s := m[id.Number]; s != nil {
		return s, nil
	}
	return nil, &codec.SchemaError{ID: id, Err: errors.New("there is none")}
}

func must(tb testing.TB, name string, o codec.Options) codec.Codec {
	tb.Helper()
	c, err := codec.New(name, o)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// sameBits reports whether two examples are equal to the bit.
func sameBits(a, b *stream.Example) bool {
	return a.ID == b.ID && a.Labelled == b.Labelled &&
		math.Float64bits(a.Y) == math.Float64bits(b.Y) &&
		(a.X.Idx == nil) == (b.X.Idx == nil) && slices.Equal(a.X.Idx, b.X.Idx) &&
		slices.EqualFunc(a.X.Val, b.X.Val, func(v, w float32) bool {
			return math.Float32bits(v) == math.Float32bits(w)
		})
}

// framed returns data behind a frame.
func framed(id uint32, data []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, id), data...)
}

func avroSchema(text string) *codec.WrittenSchema {
	return &codec.WrittenSchema{Type: codec.AvroSchema, Text: text}
}

// avroValue writes v, as JSON has it, with an Avro schema.
func avroValue(tb testing.TB, schema, v string) []byte {
	tb.Helper()
	s, err := avro.Parse(schema)
	if err != nil {
		tb.Fatal(err)
	}
	var m any
	if err := s.DecodeJSON([]byte(v), &m); err != nil {
		tb.Fatal(err)
	}
	b, err := s.Encode(m)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// protoFile compiles a Protobuf file.
func protoFile(tb testing.TB, text string) (*codec.WrittenSchema, protoreflect.FileDescriptor) {
	tb.Helper()
	c := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
		Accessor: protocompile.SourceAccessorFromMap(map[string]string{"a.proto": text}),
	})}
	files, err := c.Compile(context.Background(), "a.proto")
	if err != nil {
		tb.Fatal(err)
	}
	b, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(files[0])}})
	if err != nil {
		tb.Fatal(err)
	}
	return &codec.WrittenSchema{Type: codec.ProtobufSchema, Descriptors: b}, files[0]
}

// protoValue writes v, as JSON has it, as a message.
func protoValue(tb testing.TB, m protoreflect.MessageDescriptor, v string) []byte {
	tb.Helper()
	d := dynamicpb.NewMessage(m)
	if err := protojson.Unmarshal([]byte(v), d); err != nil {
		tb.Fatal(err)
	}
	b, err := proto.Marshal(d)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// learned returns the codec that a Discovery finds for records.
func learned(t *testing.T, name string, o codec.Options, recs []stream.Record) (codec.Codec, codec.Options) {
	t.Helper()
	o.Labels, o.Events = codec.Auto, codec.Auto
	d, err := codec.NewDiscovery(name, o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range recs {
		if enough, err := d.LookRecord(context.Background(), &recs[i]); err != nil || enough {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	found, err := d.Decide()
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.Codec(found)
	if err != nil {
		t.Fatal(err)
	}
	return c, found
}

const eventAvro = `{"type":"record","name":"Event","namespace":"shop","fields":[
 {"name":"id","type":"long"},
 {"name":"amount","type":["null","double"],"default":null},
 {"name":"country","type":{"type":"enum","name":"Country","symbols":["DE","FR","IT"]}},
 {"name":"customer","type":{"type":"record","name":"Customer","fields":[{"name":"vip","type":"boolean"},{"name":"age","type":["null","int"]}]}},
 {"name":"tags","type":{"type":"array","items":"string"}},
 {"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}},
 {"name":"cart","type":{"type":"array","items":{"type":"record","name":"Item","fields":[{"name":"price","type":"double"},
  {"name":"of","type":{"type":"record","name":"Product","fields":[{"name":"kind","type":["null","string"]},{"name":"codes","type":{"type":"array","items":"int"}}]}}]}}},
 {"name":"raw","type":"bytes"},
 {"name":"props","type":["null",{"type":"map","values":["string","double"]}]},
 {"name":"levels","type":{"type":"map","values":["null","double"]}},
 {"name":"label","type":"string"}]}`

const eventProto = `syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";
message Other { int32 a = 1; }
message Event {
  int64 id = 1;
  optional double amount = 2;
  Country country = 3;
  Customer customer = 4;
  repeated string tags = 5;
  google.protobuf.Timestamp at = 6;
  bytes raw = 7;
  map<string, string> props = 8;
  map<int32, double> levels = 11;
  string label = 9;
  repeated Item cart = 10;
  message Item { double price = 1; Product of = 2; }
  message Product { optional string kind = 1; repeated int32 codes = 2; }
  message Customer { bool vip = 1; optional int32 age = 2; }
}
enum Country { DE = 0; FR = 1; IT = 2; }`

// TestWireForms has the same events in JSON, Avro and Protobuf: what is inferred
// from them and the vectors are the same.
func TestWireForms(t *testing.T) {
	const n = 400
	schema, file := protoFile(t, eventProto)
	message := file.Messages().ByName("Event")
	sources := memorySchemas{7: avroSchema(eventAvro), 8: schema}
	countries := []string{"DE", "FR", "IT"}
	forms := map[string][]stream.Record{}
	for i := range n {
		amount, avroAmount, age, avroAge := "null", "null", "null", "null"
		if i%7 != 0 {
			amount = fmt.Sprintf("%d.5", i%90)
			avroAmount = `{"double":` + amount + `}`
		}
		if i%5 != 0 {
			age = fmt.Sprint(18 + i%60)
			avroAge = `{"int":` + age + `}`
		}
		vip, label := i%3 == 0, []string{"ham", "spam"}[i%2]
		id := int64(1)<<60 + int64(i)
		tags := fmt.Sprintf(`["t%d","t%d"]`, i%4, 4+i%3)
		ms := int64(1_700_000_000_000) + int64(i)*3_600_000
		when := time.UnixMilli(ms).UTC().Format(time.RFC3339Nano)
		var items, avroItems []string
		for k := range 1 + i%4 {
			kind, avroKind := "null", "null"
			if k != 1 {
				kind = fmt.Sprintf(`"k%d"`, i%3)
				avroKind = `{"string":` + kind + `}`
			}
			item := `{"price":%d.5,"of":{"kind":%s,"codes":[1,2]}}`
			items, avroItems = append(items, fmt.Sprintf(item, i%7+k, kind)), append(avroItems, fmt.Sprintf(item, i%7+k, avroKind))
		}
		// The keys of a map are fields; not every event has each.
		props, avroProps := fmt.Sprintf(`{"color":"c%d"}`, i%4), fmt.Sprintf(`{"map":{"color":{"string":"c%d"}}}`, i%4)
		levels, avroLevels := `{}`, `{}`
		if i%6 > 0 {
			levels, avroLevels = fmt.Sprintf(`{"7":%d.5,"10":%d.25}`, i%5, i%11), fmt.Sprintf(`{"7":{"double":%d.5},"10":{"double":%d.25}}`, i%5, i%11)
		}
		cart, avroCart := strings.Join(items, ","), strings.Join(avroItems, ",")
		jsonText := fmt.Sprintf(`{"id":"%d","amount":%s,"country":"%s","customer":{"vip":%v,"age":%s},"tags":%s,"cart":[%s],"at":"%s","props":%s,"levels":%s,"label":"%s"}`,
			id, amount, countries[i%3], vip, age, tags, cart, when, props, levels, label)
		avroText := fmt.Sprintf(`{"id":%d,"amount":%s,"country":"%s","customer":{"vip":%v,"age":%s},"tags":%s,"cart":[%s],"at":%d,"raw":"x","props":%s,"levels":%s,"label":"%s"}`,
			id, avroAmount, countries[i%3], vip, avroAge, tags, avroCart, ms, avroProps, avroLevels, label)
		protoText := strings.TrimSuffix(jsonText, "}") + `,"raw":"eA=="}`
		forms["json"] = append(forms["json"], stream.Record{Value: []byte(jsonText)})
		forms["avro"] = append(forms["avro"], stream.Record{Value: framed(7, avroValue(t, eventAvro, avroText))})
		forms["protobuf"] = append(forms["protobuf"], stream.Record{Value: framed(8, append([]byte{2, 2}, protoValue(t, message, protoText)...))})
	}
	var want []stream.Example
	var schemaText string
	for _, name := range []string{"json", "avro", "protobuf"} {
		c, o := learned(t, name, codec.Options{Schemas: sources}, forms[name])
		var got []stream.Example
		for i := range forms[name] {
			var ex stream.Example
			if err := stream.DecodeRecord(context.Background(), c, nil, &forms[name][i], &ex); err != nil {
				t.Fatalf("%s, record %d: %v", name, i, err)
			}
			got = append(got, ex)
		}
		if name == "json" {
			want, schemaText = got, o.Schema
			if len(want[1].X.Val) < 12 || want[1].ID == "" || !want[1].Labelled {
				t.Fatalf("%+v", want[1])
			}
			continue
		}
		// Bytes are listed as ignored, and are the only difference.
		if short := withoutFields(t, o.Schema, "raw"); short != withoutFields(t, schemaText) {
			t.Errorf("%s: schema\n%s\nwant\n%s", name, short, schemaText)
		}
		for i := range got {
			if !sameBits(&got[i], &want[i]) {
				t.Fatalf("%s, record %d: %+v, want %+v", name, i, got[i], want[i])
			}
		}
		// A key that the first records did not have is an unknown field.
		_, _, before := codec.FieldCounts(c)
		more := bytes.ReplaceAll(forms[name][1].Value, []byte("color"), []byte("taste"))
		var ex stream.Example
		if err := stream.DecodeRecord(t.Context(), c, nil, &stream.Record{Value: more}, &ex); err != nil {
			t.Fatal(err)
		}
		if _, _, after := codec.FieldCounts(c); after != before+1 {
			t.Errorf("%s: %d unknown fields, before %d", name, after, before)
		}
		if sig := codec.SignatureOf(c); sig.Codec != name || sig.Labels != `"ham","spam"` || sig.Schema != o.Schema {
			t.Errorf("%s: signature %+v", name, sig)
		}
	}
}

// withoutFields returns a schema without some of its fields, nor notes of units.
func withoutFields(t *testing.T, schema string, names ...string) string {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(schema), &m); err != nil {
		t.Fatal(err)
	}
	var left []any
	for _, f := range m["fields"].([]any) {
		keep := true
		for _, n := range names {
			keep = keep && f.(map[string]any)["name"] != n
		}
		if keep {
			left = append(left, f)
		}
	}
	m["fields"] = left
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// eventsOf is a schema of the features a, b.c and d, of the label y.
const eventsOf = `{"label":"y","id":"id","weight":"w","fields":[
 {"name":"a","type":"numeric","means":[0],"gaps":[true]},
 {"name":"b.c","type":"numeric","means":[0],"gaps":[true]},
 {"name":"d","type":"categorical","categories":["p","q"],"gaps":[true]}]}`

// TestAvroEvolution has a topic whose records have several schemas.
func TestAvroEvolution(t *testing.T) {
	record := func(fields string) string { return `{"type":"record","name":"R","fields":[` + fields + `]}` }
	const half = 0.70710677
	for _, tt := range []struct {
		name, schema, value string
		want                []float32 // a, missing, b.c, missing, p, q, other, missing
		id                  string
		err                 string
	}{
		{"plain", record(`{"name":"a","type":"int"},{"name":"b","type":{"type":"record","name":"B","fields":[{"name":"c","type":"float"}]}},{"name":"d","type":"string"},{"name":"y","type":"int"}`),
			`{"a":3,"b":{"c":0.5},"d":"q","y":1}`, []float32{3, 0, 0.5, 0, 0, half, 0, 0}, "", ""},
		{"fields in another order, more of them, without a", record(`{"name":"y","type":"long"},{"name":"new","type":{"type":"array","items":"long"}},{"name":"d","type":["null","string"]},{"name":"b","type":["null",{"type":"record","name":"B","fields":[{"name":"x","type":"string"},{"name":"c","type":"double"}]}]}`),
			`{"y":-1,"new":[1,2,3],"d":null,"b":{"B":{"x":"z","c":2}}}`, []float32{0, half, 2, 0, 0, 0, 0, half}, "", ""},
		{"an object that is null", record(`{"name":"a","type":["null","int","string"]},{"name":"b","type":["null",{"type":"record","name":"B","fields":[{"name":"c","type":"double"}]}]},{"name":"id","type":"string"}`),
			`{"a":{"string":"4.5"},"b":null,"id":"i7"}`, []float32{4.5, 0, 0, half, 0, 0, 0, half}, "i7", ""},
		{"decimals, and a whole id", record(`{"name":"a","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}},{"name":"b","type":{"type":"record","name":"B","fields":[{"name":"c","type":{"type":"fixed","name":"F","size":4,"logicalType":"decimal","precision":5,"scale":1}}]}},{"name":"id","type":"long"}`),
			`{"a":"\u00ff\u0038","b":{"c":"\u0000\u0000\u0000\u0019"},"id":1152921504606846977}`, []float32{-2, 0, 2.5, 0, 0, 0, 0, half}, "1152921504606846977", ""},
		{"a text for a number", record(`{"name":"a","type":"string"}`), `{"a":"many"}`, nil, "", `feature, a: the text "many", where the schema has numeric`},
		{"not a number", record(`{"name":"a","type":"double"}`), `{"a":"NaN"}`, nil, "", "feature, a: NaN is not a finite float32"},
		{"another label", record(`{"name":"y","type":"int"}`), `{"y":5}`, nil, "", "label, y: the label is 5, want -1 or 1"},
		{"a label of another type", record(`{"name":"y","type":"boolean"}`), `{"y":true}`, nil, "", "label, y: the label is a boolean, want a number: -1,1"},
		{"a weight of 0", record(`{"name":"w","type":"double"}`), `{"w":0}`, nil, "", "feature, w: the weight is 0, want a finite number above 0"},
		{"no record", `"string"`, `"x"`, nil, "", "decode: schema 1: its values are not records"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := must(t, "avro", codec.Options{Schema: eventsOf, Schemas: memorySchemas{1: avroSchema(tt.schema)}})
			var ex stream.Example
			err := c.Decode(framed(1, avroValue(t, tt.schema, tt.value)), &ex)
			if fmt.Sprint(err) != tt.err && (err != nil || tt.err != "") {
				t.Fatalf("error %v, want %s", err, tt.err)
			}
			if tt.err != "" {
				return
			}
			if fmt.Sprint(ex.X.Val) != fmt.Sprint(tt.want) || ex.ID != tt.id {
				t.Errorf("%v, id %q, want %v, id %q", ex.X.Val, ex.ID, tt.want, tt.id)
			}
		})
	}
}

// TestProtobufEvolution has messages that have been written with other schemas
// than the one at hand, and in ways that no writer has to choose.
func TestProtobufEvolution(t *testing.T) {
	s3, _ := protoFile(t, `syntax = "proto3"; message R { double a = 1; B b = 2; D d = 3; sint64 y = 4; uint64 id = 5; float w = 6; message B { fixed32 c = 1; } enum D { q = 0; p = 5; } }`)
	s2, _ := protoFile(t, `syntax = "proto2"; message R { optional double a = 1; optional group B = 2 { optional int32 c = 1; } optional string d = 3; repeated int32 list = 4; repeated string other = 6; extensions 100 to max; }`)
	wrapped, _ := protoFile(t, `syntax = "proto3"; import "google/protobuf/wrappers.proto"; message R { google.protobuf.DoubleValue a = 1; google.protobuf.StringValue d = 3; google.protobuf.BoolValue z = 4; }`)
	tag := func(n protowire.Number, w protowire.Type) []byte { return protowire.AppendTag(nil, n, w) }
	cat := func(parts ...[]byte) (b []byte) {
		for _, p := range parts {
			b = append(b, p...)
		}
		return b
	}
	double := func(v float64) []byte { return protowire.AppendFixed64(nil, math.Float64bits(v)) }
	const half = 0.70710677
	for _, tt := range []struct {
		name  string
		s     *codec.WrittenSchema
		value []byte
		want  []float32
		err   string
	}{
		{"nothing written is zero, but in messages that are not there", s3, nil, []float32{0, 0, 0, half, 0, half, 0, 0}, "label"},
		{"the last one counts, and messages are merged", s3, cat(tag(1, 1), double(1), tag(1, 1), double(2), tag(2, 2), []byte{0}, tag(2, 2), []byte{5}, tag(1, 5), []byte{9, 0, 0, 0}, tag(2, 2), []byte{0}, tag(3, 0), []byte{5}, tag(4, 0), []byte{2}, tag(6, 5), []byte{0, 0, 0, 0x40}),
			[]float32{2, 0, 9, 0, half, 0, 0, 0}, ""},
		{"a value of an enum without a name", s3, cat(tag(3, 0), []byte{7}, tag(4, 0), []byte{1}, tag(6, 5), []byte{0, 0, 0, 0x40}), []float32{0, 0, 0, half, 0, 0, half, 0}, ""},
		{"groups, unknown fields, and absent ones that are missing", s2, cat(tag(2, 3), tag(1, 0), []byte{3}, tag(2, 4), tag(77, 2), []byte{2, 1, 1}), []float32{0, half, 3, 0, 0, 0, 0, half}, ""},
		{"wrappers", wrapped, cat(tag(1, 2), []byte{0}, tag(3, 2), []byte{3}, tag(1, 2), []byte{1, 'p'}), []float32{0, 0, 0, half, half, 0, 0, 0}, ""},
		{"a wrapper that is not there", wrapped, nil, []float32{0, half, 0, half, 0, 0, 0, half}, ""},
		{"another wire type", s3, cat(tag(1, 0), []byte{1}), nil, "decode, a: wire type 0, where the schema has double"},
		{"cut off", s3, cat(tag(1, 1), []byte{1}), nil, "decode: the record is cut off"},
		{"a text that is not UTF-8", s2, cat(tag(3, 2), []byte{1, 0xff}), nil, `decode, d: "\xff" is not UTF-8`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := must(t, "protobuf", codec.Options{Schema: eventsOf, Schemas: memorySchemas{1: tt.s}})
			var ex stream.Example
			err := c.Decode(framed(1, append([]byte{0}, tt.value...)), &ex)
			switch {
			case tt.err != "" && err != nil && strings.HasPrefix(err.Error(), tt.err):
			case tt.err != "" || err != nil:
				t.Fatalf("error %v, want %q", err, tt.err)
			case fmt.Sprint(ex.X.Val) != fmt.Sprint(tt.want):
				t.Errorf("%v, want %v", ex.X.Val, tt.want)
			}
		})
	}
}

// TestScatteredLists has lists whose items come in turn.
func TestScatteredLists(t *testing.T) {
	s, file := protoFile(t, `syntax = "proto3"; message R { repeated double a = 1; repeated string b = 2; repeated int32 c = 3; string y = 4; }`)
	m := file.Messages().Get(0)
	const schema = `{"label":"y","fields":[{"name":"a","type":"array","means":[0,0,0],"gaps":[false,false,false]},
		{"name":"b","type":"tags","categories":["p","q"],"gaps":[false]},{"name":"c","type":"array","means":[0,0],"gaps":[false,false]}]}`
	c := must(t, "protobuf", codec.Options{Schema: schema, Labels: "n,p", Written: s2message(s, "R")})
	whole := protoValue(t, m, `{"a":[1,2,3],"b":["p"],"c":[4,5],"y":"p"}`)
	var parts []byte
	one := func(v string) { parts = append(parts, protoValue(t, m, v)...) }
	one(`{"a":[1]}`)
	one(`{"b":["p"]}`)
	one(`{"a":[2],"c":[4]}`)
	one(`{"c":[5]}`)
	one(`{"a":[3],"y":"p"}`)
	var want, got stream.Example
	if err := errors.Join(c.Decode(whole, &want), c.Decode(parts, &got)); err != nil {
		t.Fatal(err)
	}
	if !sameBits(&want, &got) || len(want.X.Val) != 8 || want.X.Val[7] != 5 {
		t.Errorf("%v in turn, %v as a whole", got.X.Val, want.X.Val)
	}
}

func s2message(s *codec.WrittenSchema, name string) *codec.WrittenSchema {
	out := *s
	out.Message = name
	return &out
}

// TestFrames has every form of a frame, and what is none.
func TestFrames(t *testing.T) {
	const r = `{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"y","type":"int"}]}`
	data := []byte{6, 2}
	guid := append([]byte{1}, append(make([]byte, 15), 9)...)
	avros := must(t, "avro", codec.Options{Schema: eventsOf, Schemas: memorySchemas{9: avroSchema(r)}})
	s, _ := protoFile(t, `syntax = "proto3"; message M { int32 z = 1; message N { int32 z = 1; message R { int32 a = 1; int32 y = 2; } } }`)
	protos := must(t, "protobuf", codec.Options{Schema: eventsOf, Schemas: memorySchemas{9: s}})
	body := []byte{8, 3, 16, 1}
	for _, tt := range []struct {
		name        string
		c           codec.Codec
		head, value []byte
		err         string
	}{
		{"Avro by id", avros, nil, framed(9, data), ""},
		{"Avro by GUID", avros, guid, data, ""},
		{"Avro by GUID in the value", avros, nil, append(guid[:17:17], data...), ""},
		{"no frame", avros, nil, data, "decode: want 0 and the id of a schema"},
		{"JSON", avros, nil, []byte(`{"a":3,"y":1}`), "decode: want 0 and the id of a schema"},
		{"empty", avros, nil, nil, "decode: the value is empty"},
		{"unknown", avros, nil, framed(10, data), "decode: schema 10: there is none"},
		{"cut off", avros, nil, framed(9, data[:1]), "decode, y: the record is cut off"},
		{"too long", avros, nil, framed(9, append(data[:2:2], 0)), "decode: 1 bytes follow the record"},
		{"Protobuf by id", protos, nil, framed(9, append([]byte{6, 0, 0, 0}, body...)), ""},
		{"Protobuf by GUID", protos, append(guid[:17:17], 6, 0, 0, 0), body, ""},
		{"no such message", protos, nil, framed(9, append([]byte{2, 4}, body...)), "decode: schema 9: there is no message at [2]"},
		{"a path without an end", protos, nil, framed(9, []byte{6, 0}), "decode: the path of the message is cut off"},
		{"a path that is too long", protos, nil, framed(9, []byte{0xfe, 0xff, 3}), "decode: the path of the message is cut off, or too long"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rec := stream.Record{Value: tt.value}
			if tt.head != nil {
				rec.Headers = []stream.Header{{Key: "other"}, {Key: "__value_schema_id", Value: tt.head}}
			}
			var ex stream.Example
			err := stream.DecodeRecord(context.Background(), tt.c, nil, &rec, &ex)
			switch {
			case tt.err != "" && err != nil && strings.HasPrefix(err.Error(), tt.err):
			case tt.err != "" || err != nil:
				t.Fatalf("error %v, want %q", err, tt.err)
			case ex.X.Val[0] != 3 || ex.Y != 1:
				t.Errorf("%+v", ex)
			}
		})
	}
}

// TestNestedSchemas has types that hold themselves, and schemas that are not the
// codec's.
func TestNestedSchemas(t *testing.T) {
	const list = `{"type":"record","name":"L","fields":[{"name":"a","type":"int"},{"name":"next","type":["null","L"]}]}`
	c := must(t, "avro", codec.Options{Schema: eventsOf, Schemas: memorySchemas{1: avroSchema(list), 2: {Type: "JSON"}, 3: avroSchema(`{`),
		4: {Type: codec.AvroSchema, Text: `{"type":"record","name":"R","fields":[{"name":"b","type":"ns.B"}]}`, References: []string{`{"type":"record","name":"B","namespace":"ns","fields":[{"name":"c","type":"int"}]}`}}}})
	deep := func(n int) []byte {
		v := []byte{}
		for range n {
			v = append(v, 6, 2)
		}
		return framed(1, append(v, 6, 0))
	}
	var ex stream.Example
	if err := c.Decode(deep(20), &ex); err != nil || ex.X.Val[0] != 3 {
		t.Errorf("%v, %v", ex.X.Val, err)
	}
	if err := c.Decode(deep(100_000), &ex); err == nil {
		t.Error("a record is nested without bound")
	}
	if err := c.Decode(framed(4, []byte{8}), &ex); err != nil || ex.X.Val[2] != 4 {
		t.Errorf("with a reference: %v, %v", ex.X.Val, err)
	}
	for id, want := range map[uint32]string{2: "type JSON, the codec is avro", 3: "schema 3: "} {
		var fe *stream.FieldError
		if err := c.Decode(framed(id, []byte{6}), &ex); !errors.As(err, &fe) || fe.Reason != stream.ReasonSchema || !strings.Contains(err.Error(), want) {
			t.Errorf("schema %d: %v", id, err)
		}
	}
	if _, err := codec.NewDiscovery("avro", codec.Options{Labels: codec.Auto}); err == nil {
		t.Error("Avro is taken for vectors")
	}
}
