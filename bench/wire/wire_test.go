// Package wire measures the decoding of Avro and Protobuf events, from bytes to
// the vector that a learner takes, against what others decode them to: goavro to
// a map, dynamicpb to a message, encoding/json to a map.
//
//	go -C bench test ./wire -run Ratios -v
package wire

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/linkedin/goavro/v2"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

const (
	records = 2000
	// The same 12 fields in both forms.
	avroText = `{"type":"record","name":"E","fields":[
	 {"name":"id","type":"string"},{"name":"amount","type":"double"},{"name":"country","type":"string"},{"name":"hour","type":"int"},
	 {"name":"age","type":["null","int"]},{"name":"vip","type":"boolean"},{"name":"merchant","type":"string"},{"name":"score","type":"double"},
	 {"name":"count","type":"long"},{"name":"ratio","type":"float"},{"name":"channel","type":{"type":"enum","name":"C","symbols":["web","app","shop"]}},
	 {"name":"label","type":"boolean"}]}`
	schema = `{"label":"label","id":"","fields":[
	 {"name":"age","type":"numeric","means":[40],"gaps":[true]},{"name":"amount","type":"numeric","means":[0],"gaps":[false]},
	 {"name":"channel","type":"categorical","categories":["app","shop","web"],"gaps":[false]},{"name":"count","type":"numeric","means":[0],"gaps":[false]},
	 {"name":"country","type":"categorical","categories":["AT","CH","DE","FR","IT"],"gaps":[false]},{"name":"hour","type":"numeric","means":[0],"gaps":[false]},
	 {"name":"id","type":"ignore"},{"name":"merchant","type":"categorical","hash":64,"gaps":[false]},{"name":"ratio","type":"numeric","means":[0],"gaps":[false]},
	 {"name":"score","type":"numeric","means":[0],"gaps":[false]},{"name":"vip","type":"boolean","means":[0],"gaps":[false]}]}`
)

func descriptor(tb testing.TB) (*descriptorpb.FileDescriptorProto, protoreflect.MessageDescriptor) {
	tb.Helper()
	type f struct {
		name string
		typ  descriptorpb.FieldDescriptorProto_Type
	}
	const (
		text, double, i32, i64, float, truth = descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_TYPE_DOUBLE,
			descriptorpb.FieldDescriptorProto_TYPE_INT32, descriptorpb.FieldDescriptorProto_TYPE_INT64, descriptorpb.FieldDescriptorProto_TYPE_FLOAT, descriptorpb.FieldDescriptorProto_TYPE_BOOL
	)
	m := &descriptorpb.DescriptorProto{Name: proto.String("E")}
	for i, f := range []f{{"id", text}, {"amount", double}, {"country", text}, {"hour", i32}, {"age", i32}, {"vip", truth},
		{"merchant", text}, {"score", double}, {"count", i64}, {"ratio", float}, {"channel", text}, {"label", truth}} {
		m.Field = append(m.Field, &descriptorpb.FieldDescriptorProto{Name: proto.String(f.name), Number: proto.Int32(int32(i + 1)), Type: f.typ.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()})
	}
	file := &descriptorpb.FileDescriptorProto{Name: proto.String("e.proto"), Syntax: proto.String("proto3"), MessageType: []*descriptorpb.DescriptorProto{m}}
	d, err := protodesc.NewFile(file, new(protoregistry.Files))
	if err != nil {
		tb.Fatal(err)
	}
	return file, d.Messages().Get(0)
}

// TestRatios has all in one run, on one core.
func TestRatios(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	goav, err := goavro.NewCodec(avroText)
	if err != nil {
		t.Fatal(err)
	}
	file, m := descriptor(t)
	var texts, avros, protos [][]byte
	for i := range records {
		e := map[string]any{"id": fmt.Sprintf("tx-%08d", i), "amount": float64(r.IntN(100000)) / 100, "country": []string{"AT", "CH", "DE", "FR", "IT"}[r.IntN(5)],
			"hour": r.IntN(24), "age": 18 + r.IntN(60), "vip": r.IntN(2) == 0, "merchant": fmt.Sprintf("m%d", r.IntN(500)), "score": r.NormFloat64(),
			"count": r.IntN(1 << 20), "ratio": float64(float32(r.Float64())), "channel": []string{"web", "app", "shop"}[r.IntN(3)], "label": r.IntN(2) == 0}
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, b)
		d := dynamicpb.NewMessage(m)
		if err := protojson.Unmarshal(b, d); err != nil {
			t.Fatal(err)
		}
		if b, err = proto.Marshal(d); err != nil {
			t.Fatal(err)
		}
		protos = append(protos, append([]byte{0, 0, 0, 0, 1, 0}, b...))
		e["age"] = goavro.Union("int", e["age"])
		if b, err = goav.BinaryFromNative(binary.BigEndian.AppendUint32([]byte{0}, 1), e); err != nil {
			t.Fatal(err)
		}
		avros = append(avros, b)
	}
	set, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{file}})
	if err != nil {
		t.Fatal(err)
	}
	ours := func(name string, s *codec.WrittenSchema, values [][]byte) func(b *testing.B) {
		c, err := codec.New(name, codec.Options{Schema: schema, Labels: "false,true", Schemas: fixed{s}})
		if err != nil {
			t.Fatal(err)
		}
		return func(b *testing.B) {
			var a stream.Arena
			var ex stream.Example
			for i := range b.N {
				if i%512 == 0 {
					a.Reset()
				}
				if err := c.DecodeIn(&a, values[i%records], &ex); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	runs := []struct {
		name string
		f    func(b *testing.B)
	}{
		{"Avro: streamsvm, to the vector", ours("avro", &codec.WrittenSchema{Type: codec.AvroSchema, Text: avroText}, avros)},
		{"Avro: goavro, to a map", func(b *testing.B) {
			for i := range b.N {
				if _, _, err := goav.NativeFromBinary(avros[i%records][5:]); err != nil {
					b.Fatal(err)
				}
			}
		}},
		{"Protobuf: streamsvm, to the vector", ours("protobuf", &codec.WrittenSchema{Type: codec.ProtobufSchema, Descriptors: set}, protos)},
		{"Protobuf: dynamicpb, to a message", func(b *testing.B) {
			for i := range b.N {
				if err := proto.Unmarshal(protos[i%records][6:], dynamicpb.NewMessage(m)); err != nil {
					b.Fatal(err)
				}
			}
		}},
		{"JSON: streamsvm, to the vector", ours("json", nil, texts)},
		{"JSON: encoding/json, to a map", func(b *testing.B) {
			for i := range b.N {
				var v map[string]any
				if err := json.Unmarshal(texts[i%records], &v); err != nil {
					b.Fatal(err)
				}
			}
		}},
	}
	// The time of the processor, whatever else the machine does.
	took := func() float64 {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return float64(u.Utime.Nano() + u.Stime.Nano())
	}
	best := make([]float64, len(runs))
	allocs := make([]int64, len(runs))
	for range 3 {
		for i, run := range runs {
			b := &testing.B{N: 200_000}
			allocs[i] = int64(testing.AllocsPerRun(1, func() { run.f(&testing.B{N: records}) })) / records
			start := took()
			run.f(b)
			if ns := (took() - start) / float64(b.N); best[i] == 0 || ns < best[i] {
				best[i] = ns
			}
		}
	}
	for i, run := range runs {
		t.Logf("%-36s %7.0f ns  %3d allocations", run.name, best[i], allocs[i])
	}
	for i := 0; i < len(runs); i += 2 {
		t.Logf("%s: %.1f times as fast", runs[i].name, best[i+1]/best[i])
		if allocs[i] != 0 {
			t.Errorf("%s: %d allocations for each event", runs[i].name, allocs[i])
		}
	}
}

type fixed struct{ s *codec.WrittenSchema }

func (f fixed) Schema(context.Context, codec.SchemaID) (*codec.WrittenSchema, error) {
	return f.s, nil
}
