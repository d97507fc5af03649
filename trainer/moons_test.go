package trainer_test

import (
	"context"
	"errors"
	"log"
	"os"
	"path/filepath"

	"github.com/streamsvm/streamsvm/contrib/broker"
	"github.com/streamsvm/streamsvm/contrib/synth"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// moons returns n examples of two half moons.
func moons(n int) []stream.Example {
	gen, err := synth.New("moons", 1, nil)
	if err != nil {
		log.Fatal(err)
	}
	out := make([]stream.Example, n)
	for i := range out {
		gen.Next(&out[i])
	}
	return out
}

// moonsTopic starts a broker with a topic of 2000 of them, and makes a
// directory.
func moonsTopic() (brokers []string, dir string, stop func()) {
	dir, err := os.MkdirTemp("", "trainer-example-")
	if err != nil {
		log.Fatal(err)
	}
	b, err := broker.Start(broker.Options{DataDir: filepath.Join(dir, "broker")})
	if err != nil {
		log.Fatal(err)
	}
	cfg := kafkaio.Config{Brokers: []string{b.Addr()}}
	ctx := context.Background()
	_, err = kafkaio.CreateTopic(ctx, cfg, kafkaio.TopicSpec{Name: "moons", Partitions: 1})
	p, err1 := kafkaio.NewProducer(ctx, kafkaio.ProducerOptions{Config: cfg})
	enc, err2 := codec.New("json", codec.Options{})
	if err := errors.Join(err, err1, err2); err != nil {
		log.Fatal(err)
	}
	for _, x := range moons(2000) {
		value, err := enc.Append(nil, &x)
		if err == nil {
			err = p.Produce(ctx, stream.Record{Topic: "moons", Value: value})
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	if err := errors.Join(p.Flush(ctx), p.Close()); err != nil {
		log.Fatal(err)
	}
	return []string{b.Addr()}, dir, func() { b.Close(); _ = os.RemoveAll(dir) }
}
