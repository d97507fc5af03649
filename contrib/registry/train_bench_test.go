package registry

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/trainer"
)

const benchAvro = `{"type":"record","name":"Payment","fields":[
 {"name":"transaction_id","type":"string"},{"name":"amount","type":"double"},{"name":"country","type":"string"},
 {"name":"merchant","type":"string"},{"name":"hour","type":"int"},{"name":"card_present","type":"boolean"},
 {"name":"age","type":["null","int"]},{"name":"balance","type":"double"},{"name":"channel","type":"string"},
 {"name":"device","type":"string"},{"name":"attempts","type":"int"},{"name":"score","type":"float"},{"name":"fraud","type":"boolean"}]}`

const benchProto = `syntax = "proto3"; message Payment {
 string transaction_id = 1; double amount = 2; string country = 3; string merchant = 4; int32 hour = 5; bool card_present = 6;
 optional int32 age = 7; double balance = 8; string channel = 9; string device = 10; int32 attempts = 11; float score = 12; bool fraud = 13; }`

// benchEvents returns events of twelve fields and a label.
func benchEvents(b *testing.B, form string, n int) (recs []stream.Record, o codec.Options) {
	b.Helper()
	rng := rand.New(rand.NewPCG(1, 0))
	pick := func(list ...string) string { return list[rng.IntN(len(list))] }
	s, err := avro.Parse(benchAvro)
	if err != nil {
		b.Fatal(err)
	}
	schema, file := protoFile(b, benchProto)
	o = codec.Options{Label: "fraud", Written: avroSchema(benchAvro)}
	if form == "protobuf" {
		o.Written = s2message(schema, "Payment")
	}
	for i := range n {
		amount, score := rng.ExpFloat64()*50, rng.Float32()
		fraud := amount*float64(score) > 60
		m := map[string]any{
			"transaction_id": fmt.Sprintf("t-%08d", i), "amount": amount, "country": pick("DE", "FR", "US", "BR", "CN"),
			"merchant": fmt.Sprintf("m%d", rng.IntN(40)), "hour": rng.IntN(24), "card_present": rng.IntN(2) == 0, "age": 18 + rng.IntN(60),
			"balance": rng.NormFloat64() * 1000, "channel": pick("web", "app", "pos"), "device": pick("ios", "android", "other"),
			"attempts": rng.IntN(5), "score": score, "fraud": fraud,
		}
		var value []byte
		if form == "avro" {
			value, err = s.Encode(m)
		} else {
			d := dynamicpb.NewMessage(file.Messages().Get(0))
			text := fmt.Sprintf(`{"transaction_id":%q,"amount":%v,"country":%q,"merchant":%q,"hour":%d,"card_present":%v,"age":%d,"balance":%v,"channel":%q,"device":%q,"attempts":%d,"score":%v,"fraud":%v}`,
				m["transaction_id"], m["amount"], m["country"], m["merchant"], m["hour"], m["card_present"], m["age"], m["balance"], m["channel"], m["device"], m["attempts"], m["score"], m["fraud"])
			if err = protojson.Unmarshal([]byte(text), d); err == nil {
				value, err = proto.Marshal(d)
			}
		}
		if err != nil {
			b.Fatal(err)
		}
		recs = append(recs, stream.Record{Value: value})
	}
	return recs, o
}

// benchCodec returns the codec that a Discovery finds for the records.
func benchCodec(b *testing.B, form string, recs []stream.Record, o codec.Options) codec.Codec {
	b.Helper()
	o.Labels, o.Events = codec.Auto, codec.Auto
	d, err := codec.NewDiscovery(form, o)
	if err != nil {
		b.Fatal(err)
	}
	for i := range recs {
		if enough, err := d.LookRecord(context.Background(), &recs[i]); err != nil || enough {
			if err != nil {
				b.Fatal(err)
			}
			break
		}
	}
	found, err := d.Decide()
	if err != nil {
		b.Fatal(err)
	}
	c, err := d.Codec(found)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// BenchmarkDecode decodes events of twelve fields.
func BenchmarkDecode(b *testing.B) {
	for _, form := range []string{"avro", "protobuf"} {
		b.Run(form, func(b *testing.B) {
			recs, o := benchEvents(b, form, 4096)
			c := benchCodec(b, form, recs, o)
			b.ReportAllocs()
			var a stream.Arena
			var ex stream.Example
			for i := 0; b.Loop(); i++ {
				if i%512 == 0 {
					a.Reset()
				}
				if err := stream.DecodeRecord(context.Background(), c, &a, &recs[i%len(recs)], &ex); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkTraining trains on a topic of events of twelve fields, with the
// default learner and with the one that takes least time.
func BenchmarkTraining(b *testing.B) {
	for _, form := range []string{"avro", "protobuf"} {
		for _, learner := range []struct {
			name string
			n    int
		}{{"adaptive", 8_000}, {"online", 100_000}} {
			b.Run(form+"/"+learner.name, func(b *testing.B) {
				recs, o := benchEvents(b, form, learner.n)
				brokers := kafkatest.Brokers(b)
				topic := kafkatest.Name(b, brokers)
				config := kafkaio.Config{Brokers: brokers}
				if _, err := kafkaio.CreateTopic(context.Background(), config, kafkaio.TopicSpec{Name: topic, Partitions: 1}); err != nil {
					b.Fatal(err)
				}
				out := make([]*kgo.Record, len(recs))
				for i := range recs {
					out[i] = &kgo.Record{Topic: topic, Value: recs[i].Value}
				}
				if err := kafkatest.Client(b, brokers).ProduceSync(context.Background(), out...).FirstErr(); err != nil {
					b.Fatal(err)
				}
				var took time.Duration
				for b.Loop() {
					start := time.Now()
					res, err := trainer.Run(context.Background(), trainer.Job{
						Options: trainer.Options{Learner: learner.name, Seed: 1},
						Kafka:   kafkaio.SourceOptions{Config: config, Topics: []string{topic}, UntilEnd: true},
						Decoder: benchCodec(b, form, recs, o),
					})
					took += time.Since(start)
					if n := res.Counts(); err != nil || n.Learned != uint64(learner.n) {
						b.Fatal(err, n)
					}
				}
				b.ReportMetric(took.Seconds()*1e6/float64(b.N*learner.n), "µs/event")
			})
		}
	}
}
