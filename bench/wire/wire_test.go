// Package wire measures the decoding of Avro and Protobuf events, from bytes to
// the vector that a learner takes, against what others decode them to: goavro to
// a map, dynamicpb to a message, encoding/json to a map.
//
//	go -C bench test ./wire -run xxx -bench . -cpu 1 -benchtime 5s
package wire

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/linkedin/goavro/v2"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	_ "github.com/streamsvm/streamsvm/contrib/registry" // the codecs
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

// values returns the same events in each form.
func values(tb testing.TB, goav *goavro.Codec, m protoreflect.MessageDescriptor) (texts, avros, protos [][]byte) {
	tb.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	for i := range records {
		e := map[string]any{"id": fmt.Sprintf("tx-%08d", i), "amount": float64(r.IntN(100000)) / 100, "country": []string{"AT", "CH", "DE", "FR", "IT"}[r.IntN(5)],
			"hour": r.IntN(24), "age": 18 + r.IntN(60), "vip": r.IntN(2) == 0, "merchant": fmt.Sprintf("m%d", r.IntN(500)), "score": r.NormFloat64(),
			"count": r.IntN(1 << 20), "ratio": float64(float32(r.Float64())), "channel": []string{"web", "app", "shop"}[r.IntN(3)], "label": r.IntN(2) == 0}
		b, err := json.Marshal(e)
		if err != nil {
			tb.Fatal(err)
		}
		texts = append(texts, b)
		d := dynamicpb.NewMessage(m)
		if err := protojson.Unmarshal(b, d); err != nil {
			tb.Fatal(err)
		}
		if b, err = proto.Marshal(d); err != nil {
			tb.Fatal(err)
		}
		protos = append(protos, append([]byte{0, 0, 0, 0, 1, 0}, b...))
		e["age"] = goavro.Union("int", e["age"])
		if b, err = goav.BinaryFromNative(binary.BigEndian.AppendUint32([]byte{0}, 1), e); err != nil {
			tb.Fatal(err)
		}
		avros = append(avros, b)
	}
	return texts, avros, protos
}

func BenchmarkRatios(b *testing.B) {
	goav, err := goavro.NewCodec(avroText)
	if err != nil {
		b.Fatal(err)
	}
	file, m := descriptor(b)
	set, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{file}})
	if err != nil {
		b.Fatal(err)
	}
	texts, avros, protos := values(b, goav, m)
	for _, c := range []struct {
		codec  string
		schema *codec.WrittenSchema
		values [][]byte
		other  string
		decode func(value []byte) error
	}{
		{"json", nil, texts, "encoding/json", func(value []byte) error {
			var v map[string]any
			return json.Unmarshal(value, &v)
		}},
		{"avro", &codec.WrittenSchema{Type: codec.AvroSchema, Text: avroText}, avros, "goavro", func(value []byte) error {
			_, _, err := goav.NativeFromBinary(value[5:])
			return err
		}},
		{"protobuf", &codec.WrittenSchema{Type: codec.ProtobufSchema, Descriptors: set}, protos, "dynamicpb", func(value []byte) error {
			return proto.Unmarshal(value[6:], dynamicpb.NewMessage(m))
		}},
	} {
		b.Run(c.codec, func(b *testing.B) {
			dec, err := codec.New(c.codec, codec.Options{Schema: schema, Labels: "false,true", Schemas: fixed{c.schema}})
			if err != nil {
				b.Fatal(err)
			}
			var a stream.Arena
			var ex stream.Example
			// Many at a time: what one leaves to the garbage collector is not to be
			// paid by the other.
			const turns = 10
			each := func(f func(value []byte) error) func() {
				return func() {
					for i := range turns * records {
						if i%500 == 0 { // as many as a batch
							a.Reset()
						}
						if err := f(c.values[i%records]); err != nil {
							b.Fatal(err)
						}
					}
				}
			}
			ours := each(func(value []byte) error { return dec.DecodeIn(&a, value, &ex) })
			theirs := each(c.decode)
			if n := testing.AllocsPerRun(2, ours); n > 0 {
				b.Errorf("%v allocations for %d events", n, turns*records)
			}
			// In turn, and the least of each: what else the machine does only adds.
			of, than := took(ours), took(theirs)
			for b.Loop() {
				of, than = min(of, took(ours)), min(than, took(theirs))
			}
			const n = turns * records
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(of)/n, "ns/event")
			b.ReportMetric(float64(than)/n, c.other+"-ns/event")
			b.ReportMetric(float64(than)/float64(of), "times")
		})
	}
}

// took returns the time of the processor that f takes.
func took(f func()) time.Duration {
	now := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			panic(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	start := now()
	f()
	return now() - start
}

type fixed struct{ s *codec.WrittenSchema }

func (f fixed) Schema(context.Context, codec.SchemaID) (*codec.WrittenSchema, error) {
	return f.s, nil
}
